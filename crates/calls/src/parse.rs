//! Signatures as text: `in int n, in double a[n][n], out double b[n]`.

use std::str::FromStr;

use crate::signature::{Direction, PARAMETERS_MAX, Parameter, ParameterType, ScalarType, Signature};
use crate::size::{Factor, Size};

/// The most bytes of a parameter's name.
const NAME_BYTES_MAX: usize = 64;
/// The most terms of a size.
const FACTORS_MAX: usize = 16;

/// A text that is no signature.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct SignatureError {
    message: String,
    /// What to write.
    hint: &'static str,
    /// The parameter in which it is, counted from 0.
    parameter: usize,
}

const HINT: &str =
    "write a parameter as `in int n`, `in double a[n][n]`, `out string text[80]` or `in file data`";

impl SignatureError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        self.hint
    }

    /// The parameter in which it is, counted from 0.
    pub fn parameter(&self) -> usize {
        self.parameter
    }
}

fn error(message: String, hint: &'static str) -> SignatureError {
    SignatureError { message, hint, parameter: 0 }
}

fn shown(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}

impl Signature {
    /// A signature of these parameters.
    ///
    /// # Errors
    /// If there are too many, two have the same name, or a size depends on something else than a whole number that goes to
    /// the service.
    pub fn new(parameters: Vec<Parameter>) -> Result<Signature, SignatureError> {
        if parameters.len() > PARAMETERS_MAX {
            let message = format!("expected at most {PARAMETERS_MAX} parameters, found {}", parameters.len());
            let hint = "pass several numbers as one vector";
            return Err(SignatureError { parameter: PARAMETERS_MAX, ..error(message, hint) });
        }
        for (number, parameter) in parameters.iter().enumerate() {
            check(parameter, number, &parameters)
                .map_err(|error| SignatureError { parameter: number, ..error })?;
        }
        Ok(Signature { parameters })
    }
}

fn check(parameter: &Parameter, number: usize, all: &[Parameter]) -> Result<(), SignatureError> {
    let name = &parameter.name;
    check_name(name)?;
    if all[..number].iter().any(|other| other.name == *name) {
        let message = format!("expected unique names, found `{name}` twice");
        return Err(error(message, "rename one of the parameters"));
    }
    for size in parameter.kind.sizes() {
        for used in size.parameters() {
            let found = all.iter().find(|other| other.name == used);
            let is_size = found.is_some_and(|other| {
                other.direction.is_input()
                    && matches!(other.kind, ParameterType::Scalar(scalar) if scalar.is_whole())
            });
            if !is_size {
                let what = found.map_or_else(|| "no such parameter".to_owned(), |found| format!("`{found}`"));
                let message = format!(
                    "size of `{name}`: expected `{used}` to be an int or long that is in or inout, found {what}"
                );
                return Err(error(
                    message,
                    "a size is a number, a parameter, or a sum of products: `2*n*m+1`",
                ));
            }
        }
    }
    match (&parameter.kind, parameter.direction.is_output()) {
        (ParameterType::String { capacity: None }, true) => {
            let message = format!("`{name}`: expected a capacity, since the string comes back, found none");
            Err(error(message, "write the most bytes with the NUL at its end: `out string text[80]`"))
        }
        _ => Ok(()),
    }
}

fn check_name(name: &str) -> Result<(), SignatureError> {
    let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    let reserved = ["in", "inout", "out", "char", "int", "long", "float", "double", "string", "file"];
    if begins && name.bytes().all(letters) && name.len() <= NAME_BYTES_MAX && !reserved.contains(&name) {
        return Ok(());
    }
    let message = format!("expected the name of a parameter, found `{}`", shown(name));
    let hint =
        "lower-case letters, digits and `_`, beginning with a letter; no word of a signature, such as `int`";
    Err(error(message, hint))
}

impl FromStr for Signature {
    type Err = SignatureError;

    fn from_str(text: &str) -> Result<Signature, SignatureError> {
        if text.trim().is_empty() {
            return Ok(Signature::default());
        }
        let parameters = text.split(',').take(PARAMETERS_MAX + 1).enumerate().map(|(number, text)| {
            text.parse().map_err(|error| SignatureError { parameter: number, ..error })
        });
        Signature::new(parameters.collect::<Result<_, _>>()?)
    }
}

impl FromStr for Parameter {
    type Err = SignatureError;

    fn from_str(text: &str) -> Result<Parameter, SignatureError> {
        let text = text.trim();
        let (head, mut brackets) = text.split_at(text.find('[').unwrap_or(text.len()));
        let words: Vec<&str> = head.split_ascii_whitespace().take(4).collect();
        let [direction, kind, name] = words[..] else {
            let message = format!("expected a direction, a type and a name, found `{}`", shown(text));
            return Err(error(message, HINT));
        };
        let direction = Direction::ALL
            .into_iter()
            .find(|known| known.name() == direction)
            .ok_or_else(|| error(format!("expected in, inout or out, found `{}`", shown(direction)), HINT))?;
        let mut sizes = Vec::new();
        while !brackets.is_empty() {
            let inner = brackets.strip_prefix('[').and_then(|rest| rest.split_once(']'));
            let Some((inner, rest)) = inner.filter(|_| sizes.len() < 2) else {
                let message = format!(
                    "`{}`: expected at most two sizes in brackets, found `{}`",
                    shown(name),
                    shown(brackets)
                );
                return Err(error(message, HINT));
            };
            sizes.push(inner.parse()?);
            brackets = rest.trim_start();
        }
        Ok(Parameter { name: name.to_owned(), direction, kind: read_type(name, kind, sizes)? })
    }
}

fn read_type(name: &str, word: &str, sizes: Vec<Size>) -> Result<ParameterType, SignatureError> {
    let count = sizes.len();
    let mut sizes = sizes.into_iter();
    let too_many =
        |most: &str| error(format!("`{}`: expected {most} of a {word}, found {count}", shown(name)), HINT);
    match (word, count) {
        ("file", 0) => Ok(ParameterType::File),
        ("file", _) => Err(too_many("no size")),
        ("string", 0 | 1) => Ok(ParameterType::String { capacity: sizes.next() }),
        ("string", _) => Err(too_many("at most one size")),
        _ => {
            let of = ScalarType::ALL.into_iter().find(|known| known.name() == word).ok_or_else(|| {
                let expected = "char, int, long, float, double, string or file";
                error(format!("expected {expected}, found `{}`", shown(word)), HINT)
            })?;
            Ok(match (sizes.next(), sizes.next()) {
                (None, _) => ParameterType::Scalar(of),
                (Some(length), None) => ParameterType::Vector { of, length },
                (Some(rows), Some(columns)) => ParameterType::Matrix { of, rows, columns },
            })
        }
    }
}

impl FromStr for Size {
    type Err = SignatureError;

    fn from_str(text: &str) -> Result<Size, SignatureError> {
        let wrong = || {
            let message = format!("expected a size, found `{}`", shown(text));
            error(message, "a size is a number, a parameter, or a sum of products: `2*n*m+1`")
        };
        if text.split(['+', '*']).count() > FACTORS_MAX {
            return Err(wrong());
        }
        let factor = |text: &str| {
            let text = text.trim();
            match text.bytes().next() {
                Some(first) if first.is_ascii_digit() => {
                    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
                    text.parse().ok().filter(|_| plain).map(Factor::Number).ok_or_else(wrong)
                }
                _ => check_name(text).map(|()| Factor::Parameter(text.to_owned())).map_err(|_| wrong()),
            }
        };
        let product = |text: &str| text.split('*').map(factor).collect::<Result<Vec<_>, _>>();
        Ok(Size { products: text.split('+').map(product).collect::<Result<_, _>>()? })
    }
}
