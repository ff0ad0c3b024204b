//! Signatures as text, values compared with them, and their bytes.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use pliant_calls::frame::{self, FrameKind, Header};
use pliant_calls::{
    Array, Direction, Parameter, ParameterType, ScalarType, Signature, Size, Value, ValueError, decode,
    encode,
};
use proptest::prelude::*;

fn signature(text: &str) -> Signature {
    text.parse().unwrap()
}

#[test]
fn signatures_are_written_as_they_are_read() {
    for text in [
        "",
        "in int n",
        "in int n, in double a[n][n], inout double b[n], out long count",
        "in long n, in int m, out float v[2*n*m+1]",
        "in string name, out string text[80], inout string line[n+1], in int n",
        "in file data, out file result, inout file log",
        "in char bytes[16]",
    ] {
        assert_eq!(signature(text).to_string(), text);
    }
    assert_eq!(signature(" in  int n ,out double v [ 2 * n ]").to_string(), "in int n, out double v[2*n]");
}

#[test]
fn a_wrong_signature_says_where_and_why() {
    let check = |text: &str, parameter: usize, expected: &str| {
        let error = text.parse::<Signature>().unwrap_err();
        assert_eq!((error.parameter(), error.to_string().as_str()), (parameter, expected), "{text}");
        assert!(!error.hint().is_empty(), "{text}");
    };
    check("in n", 0, "expected a direction, a type and a name, found `in n`");
    check("in int n,", 1, "expected a direction, a type and a name, found ``");
    check("to int n", 0, "expected in, inout or out, found `to`");
    check("in integer n", 0, "expected char, int, long, float, double, string or file, found `integer`");
    check("in int N", 0, "expected the name of a parameter, found `N`");
    check("in int int", 0, "expected the name of a parameter, found `int`");
    check("in int n, in int n", 1, "expected unique names, found `n` twice");
    check("in int n, in double a[n", 1, "`a`: expected at most two sizes in brackets, found `[n`");
    check("in int n, in double a[n]b", 1, "`a`: expected at most two sizes in brackets, found `b`");
    check("in int n, in double a[n][n][n]", 1, "`a`: expected at most two sizes in brackets, found `[n]`");
    check("in double a[]", 0, "expected a size, found ``");
    check("in double a[-1]", 0, "expected a size, found `-1`");
    check("in double a[n*]", 0, "expected a size, found `n*`");
    check("in double a[18446744073709551616]", 0, "expected a size, found `18446744073709551616`");
    check("in file f[2]", 0, "`f`: expected no size of a file, found 1");
    check(
        "in double a[m]",
        0,
        "size of `a`: expected `m` to be an int or long that is in or inout, found no such parameter",
    );
    check(
        "out int m, in double a[m]",
        1,
        "size of `a`: expected `m` to be an int or long that is in or inout, found `out int m`",
    );
    check("out string s", 0, "`s`: expected a capacity, since the string comes back, found none");
    let many = vec!["in int n"; 65].join(",");
    check(&many, 64, "expected at most 64 parameters, found 65");
    check(&vec!["in int n"; 100_000].join(","), 64, "expected at most 64 parameters, found 65");
}

fn int(number: i32) -> Option<Value> {
    Some(Value::Int(number))
}

fn doubles(count: usize) -> Option<Value> {
    Some(Value::Vector(Array::Double(vec![0.5; count])))
}

fn text(text: &str) -> Option<Value> {
    Some(Value::String(text.to_owned()))
}

#[test]
fn arguments_are_compared_with_the_signature() {
    let check = |declared: &str, values: &[Option<Value>], expected: &str| {
        let found = signature(declared).check_arguments(values);
        assert_eq!(found.map_or_else(|error| error.to_string(), |()| String::new()), expected, "{declared}");
    };
    let vector = "in int n, in double v[2*n+1], out double w[n]";
    check(vector, &[int(2), doubles(5), None], "");
    check(vector, &[int(0), doubles(1), None], "");
    check(vector, &[int(2), doubles(4), None], "`v`: expected double[5], found double[4]");
    check(
        vector,
        &[int(-1), doubles(4), None],
        "`v`: expected `n` to be 0 or more, since it is a size, found -1",
    );
    check(vector, &[int(2), None, None], "`v`: expected in double v[2*n+1], found no value");
    check(vector, &[int(2), doubles(5), doubles(2)], "`w`: expected no value, since it is `out`, found one");
    check(vector, &[Some(Value::Long(2)), doubles(5), None], "`n`: expected int, found long");
    check(vector, &[int(2)], &format!("expected 3 values ({vector}), found 1"));
    check(
        "in int n, out double w[n][n]",
        &[int(i32::MAX), None],
        "`w`: expected at most 268435456 bytes, found a size of 18446744073709551615",
    );
    check(
        "in long n, out char w[n*n*n]",
        &[Some(Value::Long(i64::MAX)), None],
        "`w`: expected the size `n*n*n` to be below 2^64, found more",
    );
    check("inout string s[4]", &[text("abc")], "");
    check(
        "inout string s[4]",
        &[text("abcd")],
        "`s`: expected a string of fewer than 4 bytes without NUL, found string of 4 bytes",
    );
    check("in string s", &[text("a\0b")], "`s`: expected a string without NUL, found a string with NUL");
    let matrix =
        |rows, columns, count| Some(Value::Matrix { rows, columns, elements: Array::Int(vec![1; count]) });
    check("in int a[2][3]", &[matrix(2, 3, 6)], "");
    check("in int a[2][3]", &[matrix(3, 2, 6)], "`a`: expected int[2][3], found int[3][2] of 6 elements");
    check("in int a[2][3]", &[matrix(2, 3, 5)], "`a`: expected int[2][3], found int[2][3] of 5 elements");
    check(
        "in file f",
        &[Some(Value::File(String::new()))],
        "`f`: expected a file, found a file without a name",
    );
}

#[test]
fn results_are_compared_with_the_sizes_of_the_arguments() {
    let signature = signature("in int n, inout double v[n], out string s[8], out double w[2]");
    let arguments = [int(3), doubles(3), None, None];
    let check = |results: &[Option<Value>], expected: &str| {
        let found = signature.check_results(&arguments, results);
        assert_eq!(found.map_or_else(|error| error.to_string(), |()| String::new()), expected);
    };
    check(&[None, doubles(3), text("done"), doubles(2)], "");
    check(&[None, doubles(4), text("done"), doubles(2)], "`v`: expected double[3], found double[4]");
    check(
        &[int(4), doubles(3), text("done"), doubles(2)],
        "`n`: expected no value, since it is `in`, found one",
    );
    check(&[None, doubles(3), None, doubles(2)], "`s`: expected out string s[8], found no value");
}

fn scalar() -> impl Strategy<Value = ScalarType> {
    proptest::sample::select(ScalarType::ALL.to_vec())
}

fn array(scalar: ScalarType, count: usize) -> BoxedStrategy<Array> {
    use proptest::collection::vec;
    match scalar {
        ScalarType::Char => vec(any::<u8>(), count).prop_map(Array::Char).boxed(),
        ScalarType::Int => vec(any::<i32>(), count).prop_map(Array::Int).boxed(),
        ScalarType::Long => vec(any::<i64>(), count).prop_map(Array::Long).boxed(),
        ScalarType::Float => vec(any::<f32>(), count).prop_map(Array::Float).boxed(),
        ScalarType::Double => vec(any::<f64>(), count).prop_map(Array::Double).boxed(),
    }
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u8>().prop_map(Value::Char),
        any::<i32>().prop_map(Value::Int),
        any::<i64>().prop_map(Value::Long),
        any::<f32>().prop_map(Value::Float),
        any::<f64>().prop_map(Value::Double),
        "[^\0]{0,12}".prop_map(Value::String),
        "[a-z./]{0,12}".prop_map(Value::File),
        (scalar(), 0usize..9).prop_flat_map(|(of, count)| array(of, count)).prop_map(Value::Vector),
        (scalar(), 0usize..4, 0usize..4).prop_flat_map(|(of, rows, columns)| {
            let (r, c) = (rows as u64, columns as u64);
            array(of, rows * columns).prop_map(move |elements| Value::Matrix {
                rows: r,
                columns: c,
                elements,
            })
        }),
    ]
}

fn values() -> impl Strategy<Value = Vec<Option<Value>>> {
    proptest::collection::vec(proptest::option::of(value()), 0..8)
}

/// A signature of the types of these values, of constant sizes.
fn signature_of(values: &[Value]) -> Signature {
    let parameter = |(number, value): (usize, &Value)| {
        let kind = match value {
            Value::String(_) => ParameterType::String { capacity: None },
            Value::File(_) => ParameterType::File,
            Value::Vector(elements) => {
                ParameterType::Vector { of: elements.scalar(), length: Size::number(elements.len() as u64) }
            }
            Value::Matrix { rows, columns, elements } => ParameterType::Matrix {
                of: elements.scalar(),
                rows: Size::number(*rows),
                columns: Size::number(*columns),
            },
            number => ParameterType::Scalar(number.scalar().unwrap()),
        };
        Parameter { name: format!("p{number}"), direction: Direction::In, kind }
    };
    Signature::new(values.iter().enumerate().map(parameter).collect()).unwrap()
}

proptest! {
    #[test]
    fn what_was_encoded_is_decoded(values in values()) {
        let bytes = encode(&values).unwrap();
        let again = encode(&decode(&bytes).unwrap()).unwrap();
        // Bytes rather than values: NaN differs from itself.
        prop_assert_eq!(again, bytes);
    }

    #[test]
    fn no_shortened_or_lengthened_list_is_read(values in values(), cut in any::<prop::sample::Index>()) {
        let mut bytes = encode(&values).unwrap();
        prop_assert!(decode(&bytes[..cut.index(bytes.len())]).is_err());
        bytes.push(0);
        prop_assert!(decode(&bytes).is_err());
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = decode(&bytes);
        bytes.splice(0..0, *b"PLV\x01\x03\x00");
        if let Ok(values) = decode(&bytes) {
            prop_assert_eq!(encode(&values).unwrap(), bytes);
        }
    }

    #[test]
    fn damaged_lists_are_read_or_refused(values in values(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = encode(&values).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(values) = decode(&bytes) {
            prop_assert_eq!(encode(&values).unwrap(), bytes);
        }
    }

    #[test]
    fn values_fit_the_signature_of_their_types_and_no_other(
        values in proptest::collection::vec(value(), 1..6), other in value(), at in any::<prop::sample::Index>()
    ) {
        let named = |value: &Value| !matches!(value, Value::File(name) if name.is_empty());
        prop_assume!(values.iter().all(named) && named(&other));
        let signature = signature_of(&values);
        prop_assert_eq!(signature.to_string().parse::<Signature>().unwrap(), signature.clone());
        let mut given: Vec<_> = values.iter().cloned().map(Some).collect();
        prop_assert_eq!(signature.check_arguments(&given), Ok(()));
        let at = at.index(given.len());
        let is_same = signature_of(std::slice::from_ref(&other)).parameters()[0].kind
            == signature.parameters()[at].kind;
        given[at] = Some(other);
        prop_assert_eq!(signature.check_arguments(&given).is_ok(), is_same);
    }

    #[test]
    fn any_text_is_a_signature_or_an_error(text in "(in|out|inout|int|double|string|file|[a-z]|[0-9]|\\[|\\]|[*+, ]){0,24}") {
        if let Ok(signature) = text.parse::<Signature>() {
            prop_assert_eq!(signature.to_string().parse::<Signature>().unwrap(), signature);
        }
    }

    #[test]
    fn any_bytes_are_a_frame_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = frame::read(&mut &bytes[..]);
        let headed = [b"PLF1\x01\0\0\0".as_slice(), &bytes].concat();
        let _ = frame::read(&mut &headed[..]);
    }
}

#[test]
fn frames_are_read_as_they_were_written() {
    let mut bytes = Vec::new();
    let call = Header { kind: FrameKind::Call, length: 3, procs: 4, walltime_s: 60 };
    frame::write(&mut bytes, call, b"abc").unwrap();
    frame::write(&mut bytes, Header::answer(FrameKind::Failure, 2), b"no").unwrap();
    let mut from = &bytes[..];
    assert_eq!(frame::read(&mut from).unwrap(), Some((call, b"abc".to_vec())));
    let (header, payload) = frame::read(&mut from).unwrap().unwrap();
    assert_eq!((header.kind, payload.as_slice()), (FrameKind::Failure, b"no".as_slice()));
    assert!(frame::read(&mut from).unwrap().is_none());
    assert!(frame::read(&mut &bytes[..10]).is_err());
    assert!(frame::read(&mut &bytes[..26]).is_err());
}

#[test]
fn a_frame_that_is_too_long_is_refused_before_it_is_read() {
    let header = Header { kind: FrameKind::Result, length: u64::MAX, procs: 0, walltime_s: 0 };
    let error = frame::read(&mut &header.encode()[..]).unwrap_err().to_string();
    assert_eq!(error, "expected a frame of at most 268435456 bytes, found 18446744073709551615");
}

#[test]
fn what_comes_back_fits_into_one_list() {
    let signature: Signature = "in int n, out double v[n], out double w[n]".parse().unwrap();
    let check = |n: i32| signature.check_arguments(&[Some(Value::Int(n)), None, None]);
    assert_eq!(check(1 << 24), Ok(()));
    assert_eq!(
        check((1 << 24) + 1).unwrap_err().to_string(),
        "expected at most 268435456 bytes of all values that go one way, found 268435472"
    );
    assert!(matches!(check(1 << 25), Err(ValueError::AllTooLarge { .. })));
    assert!(matches!(check((1 << 25) + 1), Err(ValueError::TooLarge { .. })));
    assert!(matches!(check(-1), Err(ValueError::Size { .. })));
}

#[test]
fn values_that_are_elsewhere_are_not_looked_for() {
    let signature: Signature = "in int n, in double v[n]".parse().unwrap();
    let values = [Some(Value::Int(3)), None];
    assert!(matches!(signature.check_arguments(&values), Err(ValueError::Missing { .. })));
    assert_eq!(signature.check_arguments_but(&values, |parameter| parameter.name == "v"), Ok(()));
}
