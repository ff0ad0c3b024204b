//! Typed services as a server declares them: clear errors, and calls that are checked.

#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

use std::path::Path;

use pliant_calls::{Array, Value, encode};
use pliant_config::{ContentError, Source};
use pliant_control::names::Key;
use pliant_model::{Procs, Span};
use pliant_site::services::{Catalogue, DEFAULT_IDLE, Prepared, Refusal};
use pliant_wire::{KeptParameter, StoredArgument, TypedCall};

const HEAD: &str = "[[service]]\nname = \"f\"\nspeedup = \"rigid:1\"\nruntime = \"10s\"\n";

fn read(rest: &str) -> Result<Catalogue, ContentError> {
    Catalogue::from_toml(&Source::new(Path::new("server.toml"), format!("{HEAD}{rest}")))
}

#[test]
fn declarations_say_where_they_are_wrong() {
    // Lines count from the last one of `HEAD`.
    let check = |rest: &str, (line, column): (isize, usize), expected: &str| {
        let error = read(rest).unwrap_err();
        assert_eq!(
            (error.line.cast_signed() - 4, error.column, error.message.as_str()),
            (line, column, expected),
            "{rest}"
        );
        assert!(!error.hint.is_empty(), "{rest}");
    };
    let command = "command = [\"f\", \"{n}\"]\n";
    check("", (-2, 8), "missing key `command`");
    check(
        "resident = true\ncommand = [\"f\"]\n",
        (1, 12),
        "`resident`: expected it with `signature` only, found it without",
    );
    check(
        &format!("{command}signature = [\"in int n\", \"out int\"]\n"),
        (2, 26),
        "`signature`: expected a direction, a type and a name, found `out int`",
    );
    check(
        &format!("{command}signature = [\"in int n\", \"in double v[m]\"]\n"),
        (2, 26),
        "`signature`: size of `v`: expected `m` to be an int or long that is in or inout, found no such parameter",
    );
    check(
        &format!("{command}signature = [\"in int n\", \"in int procs\"]\n"),
        (2, 26),
        "`signature`: expected another name than `procs`, found it",
    );
    check(
        "command = [\"f\"]\nsignature = [\"in int n\"]\n",
        (2, 13),
        "`signature`: expected each number and string that goes to the service to be used, found `in int n`",
    );
    check(
        "command = [\"f\", \"{m}\"]\nsignature = [\"in int n\"]\n",
        (1, 17),
        "`command`: expected a known placeholder, found `{m}`",
    );
    check(
        &format!("{command}signature = [\"in int n\"]\nresident = true\n"),
        (1, 17),
        "`command`: expected a known placeholder, found `{n}`",
    );
    check(
        &format!("{command}signature = [\"in int n\"]\nidle = \"1m\"\n"),
        (3, 8),
        "`idle`: expected it with `resident = true` only, found it without",
    );
    check(
        &format!("{command}signature = [\"in int n\"]\nlibrary = \"/opt/l.so\"\n"),
        (1, 11),
        "`command`: expected it or `library`, found both",
    );
    check(
        "signature = []\nlibrary = \"l.so\"\n",
        (2, 11),
        "`library`: expected an absolute path, found `l.so`",
    );
    check(
        "signature = []\nlibrary = \"/l.so\"\nfunction = \"a-b\"\n",
        (3, 12),
        "`function`: expected the name of a C function, found `a-b`",
    );
    check(
        "signature = []\nlibrary = \"/l.so\"\nresident = false\n",
        (3, 12),
        "`resident`: expected true, since a library is loaded once, found false",
    );
    check(
        "command = [\"/bin/sh\", \"-c\", \"echo {text}\"]\nsignature = [\"in string text\"]\n",
        (1, 29),
        "`command`: expected no string in the script of an interpreter, found `{text}`, which would be read as a part of it",
    );
    check(
        "command = [\"/usr/bin/env\", \"perl\", \"-e\", \"print {text}\"]\nsignature = [\"in string text\"]\n",
        (1, 42),
        "`command`: expected no string in the script of an interpreter, found `{text}`, which would be read as a part of it",
    );
    assert!(
        read(
            "command = [\"sh\", \"-c\", \"echo $1\", \"sh\", \"{text}\"]\nsignature = [\"in string text\"]\n"
        )
        .is_ok()
    );
    let many: String = (0..9).map(|number| format!("\"in double x{number}\", ")).collect();
    check(
        &format!("signature = [{many}]\nlibrary = \"/l.so\"\n"),
        (2, 11),
        "`signature`: expected at most 32 arguments of a function besides 8 floating-point numbers by value, found 0 and 9",
    );
    check(
        "idempotent = true\ncommand = [\"f\"]\n",
        (1, 14),
        "`idempotent`: expected it with `signature` only, found it without",
    );
    let with = |parameter: &str| {
        format!(
            "{command}signature = [\"in int n\", \"out int m\", \"out int k\", \"in double v[n]\"]\n[service.parameters.{parameter}\n"
        )
    };
    check(&with("q]\nmin = 1"), (3, 21), "`parameters`: expected a parameter of the signature, found `q`");
    check(
        &with("m]\nmin = 1"),
        (4, 7),
        "`min and max`: expected it of a number that goes to the service, found it of `out int m`",
    );
    check(
        &with("n]\nmin = 1.5"),
        (4, 7),
        "`min`: expected a whole number of -2147483648 to 2147483647, found 1.5",
    );
    check(&with("n]\nmin = 3\nmax = 2"), (4, 7), "`max`: expected at least `min`, found less");
    check(
        &with("n]\nformat = \"raw\""),
        (4, 10),
        "`format`: expected it of a vector or a matrix, found it of `in int n`",
    );
    check(&with("v]\nformat = \"hex\""), (4, 10), "`format`: expected raw or text, found `hex`");
    check(
        &with("v]\noutput = \"stdout\""),
        (4, 10),
        "`output`: expected it of a parameter that comes back, found it of `in double v[n]`",
    );
    check(
        &with("m]\noutput = \"k\""),
        (-2, 8),
        "`output`: expected another place for each parameter, found that of `k` twice",
    );
    check(
        &format!("{command}signature = [\"in int n\"]\n[service.arguments.n]\ntype = \"integer\"\n"),
        (3, 20),
        "`arguments`: expected none of a service with a `signature`, found some",
    );
}

fn prepared(catalogue: &Catalogue, values: &[Option<Value>]) -> Result<Prepared, Refusal> {
    let call = TypedCall {
        service: "f".into(),
        arguments: Default::default(),
        values: encode(values).unwrap().into(),
        stored: Vec::new(),
        kept: Vec::new(),
    };
    catalogue.find("f", &"alice".parse().unwrap()).unwrap().prepare_call(&call, "/opt/pliant", None)
}

#[test]
fn a_call_is_checked_and_planned_by_its_numbers() {
    let catalogue = read(
        "signature = [\"in int n\", \"in double v[n]\", \"out double w[n]\", \"in file data\", \"in double x\"]\n\
         runtime_per = { argument = \"n\", exponent = 1.0, at = 10 }\ncommand = [\"f\", \"{n}\", \"{x}\", \"{procs}\"]\n\
         [service.parameters.n]\nmin = 1\nmax = 100\n",
    )
    .unwrap();
    let values = |n: i32, x: f64| {
        let vector = Value::Vector(Array::Double(vec![0.5; usize::try_from(n).unwrap_or(0)]));
        let file = Value::File("data".to_owned());
        [Some(Value::Int(n)), Some(vector), None, Some(file), Some(Value::Double(x))]
    };
    let ready = prepared(&catalogue, &values(20, 1.0)).unwrap();
    // 10 s for 10, times 2, and half as long again.
    assert_eq!((ready.work.walltime, ready.scale), (Span(30), 2.0));
    assert_eq!(ready.inputs.iter().map(|name| name.as_str()).collect::<Vec<_>>(), ["data"]);
    assert_eq!(ready.argv(Procs(1), Span(30)), ["/opt/pliant", "run-tasks", "../tasks.json"]);
    // No text says what it is, and none is needed.
    assert!(prepared(&catalogue, &values(20, f64::NAN)).is_ok());
    let refused = |values: &[Option<Value>]| prepared(&catalogue, values).unwrap_err().to_string();
    assert_eq!(refused(&values(101, 1.0)), "`n`: expected a whole number of 1 to 100, found `101`");
    assert_eq!(
        refused(&values(2, 1.0)[..4]),
        "call of `f`: expected 5 values (in int n, in double v[n], out double w[n], in file data, in double x), found 4"
    );
    for (name, problem) in [
        ("../up", "without `.` and `..`"),
        ("/etc/passwd", "relative to the job's folder, without a leading `/`"),
    ] {
        let mut wrong = values(2, 1.0);
        wrong[3] = Some(Value::File(name.to_owned()));
        let expected = format!("call of `f`: `data`: expected a file name {problem}, found `{name}`");
        assert_eq!(refused(&wrong), expected);
    }
    // Values in a file are checked when the call is carried out; its numbers are stated besides.
    let call = |numbers: &[(&str, &str)]| TypedCall {
        service: "f".into(),
        arguments: numbers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        values: Default::default(),
        stored: Vec::new(),
        kept: Vec::new(),
    };
    let service = catalogue.find("f", &"alice".parse().unwrap()).unwrap();
    let ready = service.prepare_call(&call(&[("n", "50"), ("x", "1")]), "/opt/pliant", None).unwrap();
    assert_eq!((ready.work.walltime, ready.inputs[0].as_str()), (Span(75), "call.arguments"));
    assert!(service.prepare_call(&call(&[]), "/opt/pliant", None).is_err());
}

#[test]
fn a_library_is_called_by_a_resident_process_of_ours() {
    let catalogue = read("signature = [\"in int n\"]\nlibrary = \"/opt/l.so\"\n").unwrap();
    let described = &catalogue.describe(&"alice".parse().unwrap())[0];
    assert_eq!((described.signature.as_deref(), described.resident), (Some("in int n"), true));
    assert_eq!(catalogue.all().next().unwrap().call.as_ref().unwrap().resident, Some(DEFAULT_IDLE));
    let call = prepared(&catalogue, &[Some(Value::Int(1))]).unwrap().call.unwrap();
    assert_eq!(call.resident_command().0, ["/opt/pliant", "call-library", "/opt/l.so", "f", "in int n"]);
}

#[test]
fn an_idempotent_service_runs_again_if_its_host_fails() {
    for (keys, requeue) in [("", 0), ("idempotent = false\n", 0), ("idempotent = true\n", 3)] {
        let catalogue =
            read(&format!("{keys}signature = [\"in int n\"]\nresident = true\ncommand = [\"f\"]\n")).unwrap();
        assert_eq!(prepared(&catalogue, &[Some(Value::Int(1))]).unwrap().work.requeue, requeue, "{keys}");
    }
}

#[test]
fn data_at_the_server_are_of_vectors_matrices_and_bounded_strings() {
    let catalogue = read(
        "signature = [\"in int n\", \"in double v[n]\", \"out double w[n][n]\", \"in string free\", \"in file data\"]\n\
         resident = true\ncommand = [\"f\"]\n",
    )
    .unwrap();
    let key = Key([1; 16]);
    let call = |stored: &[&str], kept: &[&str]| {
        let values = [
            Some(Value::Int(10)),
            Some(Value::Vector(Array::Double(vec![0.5; 10]))).filter(|_| !stored.contains(&"v")),
            None,
            Some(Value::String("x".to_owned())),
            Some(Value::File("data".to_owned())),
        ];
        let call = TypedCall {
            service: "f".into(),
            arguments: Default::default(),
            values: encode(&values).unwrap().into(),
            stored: stored
                .iter()
                .map(|name| StoredArgument { parameter: (*name).to_owned(), data: key })
                .collect(),
            kept: kept
                .iter()
                .map(|name| KeptParameter { parameter: (*name).to_owned(), data: key, returned: false })
                .collect(),
        };
        catalogue.find("f", &"alice".parse().unwrap()).unwrap().prepare_call(&call, "/opt/pliant", None)
    };
    let ready = call(&["v"], &["w"]).unwrap().call.unwrap();
    assert_eq!((ready.stored["v"], ready.kept["w"].data, ready.has_data()), (key, key, true));
    // 100 numbers, and what is around them.
    assert_eq!(ready.kept["w"].bytes, 864);
    assert!(!call(&[], &[]).unwrap().call.unwrap().has_data());
    let refused = |stored: &[&str], kept: &[&str]| call(stored, kept).unwrap_err().to_string();
    let of_data = |found: &str| {
        format!("expected data of a vector, a matrix or a string with a capacity, found `{found}`")
    };
    assert_eq!(refused(&[], &["n"]), format!("call of `f`: `n`: {}", of_data("in int n")));
    assert_eq!(refused(&[], &["free"]), format!("call of `f`: `free`: {}", of_data("in string free")));
    assert_eq!(refused(&[], &["data"]), format!("call of `f`: `data`: {}", of_data("in file data")));
    assert_eq!(refused(&[], &["q"]), "call of `f`: expected a parameter of the signature, found `q`");
    assert_eq!(
        refused(&["v", "v"], &[]),
        "call of `f`: expected each parameter once among the data of a call, found `v` twice"
    );
    assert_eq!(
        refused(&["w"], &[]),
        "call of `f`: `w`: expected data for a parameter that goes to the service, found `out double w[n][n]`"
    );
}
