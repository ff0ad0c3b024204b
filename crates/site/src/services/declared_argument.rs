//! `[service.arguments.NAME]` in a server's configuration.

use pliant_config::{ContentError, Source};
use serde::Deserialize;
use toml::{Spanned, Value};

use super::argument::{Argument, ArgumentKind};
use super::template::BUILT_IN;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeclaredArgument {
    #[serde(rename = "type")]
    kind: Spanned<String>,
    #[serde(default)]
    summary: String,
    min: Option<Spanned<Value>>,
    max: Option<Spanned<Value>>,
    choices: Option<Spanned<Vec<String>>>,
    max_length: Option<Spanned<i64>>,
    default: Option<Spanned<Value>>,
    required: Option<Spanned<bool>>,
    allow_dash: Option<Spanned<bool>>,
}

pub(crate) fn check_argument_name(name: &Spanned<String>, source: &Source) -> Result<(), ContentError> {
    let text = name.get_ref();
    let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    if begins && text.len() <= 32 && text.bytes().all(letters) && !BUILT_IN.contains(&text.as_str()) {
        return Ok(());
    }
    let message = format!("`arguments`: expected the name of an argument, found `{}`", text.escape_debug());
    let hint = format!(
        "1 to 32 lower-case letters, digits and `_`, beginning with a letter, and none of {}",
        BUILT_IN.join(", ")
    );
    Err(source.error(name.span(), message, hint))
}

pub(crate) fn read_argument(
    entry: &Spanned<DeclaredArgument>,
    source: &Source,
) -> Result<Argument, ContentError> {
    let declared = entry.get_ref();
    let kind = read_kind(declared, source)?;
    check_keys_fit(declared, &kind, source)?;
    let default = match &declared.default {
        None => None,
        Some(default) => {
            let text = text_of(default.get_ref());
            let value = text.as_deref().and_then(|text| kind.read(text)).ok_or_else(|| {
                let message = format!("`default`: expected {}, found {}", kind.expected(), default.get_ref());
                source.error(default.span(), message, "it must be a value that a user could give")
            })?;
            Some(value)
        }
    };
    if let Some(required) =
        declared.required.as_ref().filter(|required| *required.get_ref() && default.is_some())
    {
        let message = "`required`: expected false or no default, found both";
        return Err(source.error(required.span(), message, "remove one of them"));
    }
    let required = declared.required.as_ref().map_or(default.is_none(), |required| *required.get_ref());
    let dash = declared.allow_dash.as_ref().is_some_and(|dash| *dash.get_ref());
    Ok(Argument { summary: declared.summary.clone(), kind, default, required, dash })
}

/// A value as a user would write it; none of lists and tables.
pub(crate) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(truth) => Some(truth.to_string()),
        _ => None,
    }
}

fn read_kind(declared: &DeclaredArgument, source: &Source) -> Result<ArgumentKind, ContentError> {
    let kind = match declared.kind.get_ref().as_str() {
        "integer" => ArgumentKind::Integer {
            min: bound("min", &declared.min, Value::as_integer, source)?.unwrap_or(i64::MIN),
            max: bound("max", &declared.max, Value::as_integer, source)?.unwrap_or(i64::MAX),
        },
        "number" => ArgumentKind::Number {
            min: bound("min", &declared.min, float, source)?.unwrap_or(f64::MIN),
            max: bound("max", &declared.max, float, source)?.unwrap_or(f64::MAX),
        },
        "string" => match whole("max_length", &declared.max_length, 65_536, source)? {
            None => ArgumentKind::TEXT,
            Some(length) => ArgumentKind::Text { max_length: usize::try_from(length).unwrap_or(65_536) },
        },
        "choice" => read_choices(declared, source)?,
        "bool" => ArgumentKind::Bool,
        "file" => ArgumentKind::File,
        other => {
            let message = format!(
                "`type`: expected a type (integer, number, string, choice, bool, file), found `{}`",
                other.escape_debug()
            );
            return Err(source.error(declared.kind.span(), message, "it decides which values are refused"));
        }
    };
    let empty = match &kind {
        ArgumentKind::Integer { min, max } => min > max,
        ArgumentKind::Number { min, max } => min > max,
        _ => false,
    };
    match declared.max.as_ref().or(declared.min.as_ref()).filter(|_| empty) {
        None => Ok(kind),
        Some(value) => {
            let message = format!("`max`: expected at least `min`, found {}", kind.expected());
            Err(source.error(value.span(), message, "no value would be taken"))
        }
    }
}

fn float(value: &Value) -> Option<f64> {
    let number = value.as_float().or_else(|| value.as_integer().map(|number| number as f64));
    number.filter(|number| number.is_finite())
}

fn bound<T>(
    key: &str,
    value: &Option<Spanned<Value>>,
    read: impl Fn(&Value) -> Option<T>,
    source: &Source,
) -> Result<Option<T>, ContentError> {
    let Some(value) = value else { return Ok(None) };
    read(value.get_ref()).map(Some).ok_or_else(|| {
        let message = format!("`{key}`: expected a number of the argument's type, found {}", value.get_ref());
        source.error(value.span(), message, "an integer's bounds are whole")
    })
}

fn read_choices(declared: &DeclaredArgument, source: &Source) -> Result<ArgumentKind, ContentError> {
    let hint = "choices = [\"one\", \"other\"]";
    let Some(choices) = &declared.choices else {
        return Err(source.error(declared.kind.span(), "missing key `choices`", hint));
    };
    let printable = |choice: &String| ArgumentKind::TEXT.read(choice).is_some() && !choice.is_empty();
    if choices.get_ref().is_empty() || !choices.get_ref().iter().all(printable) {
        let message = "`choices`: expected printable words, found none, or something else";
        return Err(source.error(choices.span(), message, hint));
    }
    Ok(ArgumentKind::Choice(choices.get_ref().clone()))
}

/// A bound that its type does not know would look like a check and be none.
fn check_keys_fit(
    declared: &DeclaredArgument,
    kind: &ArgumentKind,
    source: &Source,
) -> Result<(), ContentError> {
    let numeric = matches!(kind, ArgumentKind::Integer { .. } | ArgumentKind::Number { .. });
    let text = matches!(kind, ArgumentKind::Text { .. });
    let keys = [
        ("min", declared.min.as_ref().map(Spanned::span), numeric),
        ("max", declared.max.as_ref().map(Spanned::span), numeric),
        ("choices", declared.choices.as_ref().map(Spanned::span), matches!(kind, ArgumentKind::Choice(_))),
        ("max_length", declared.max_length.as_ref().map(Spanned::span), text),
        ("allow_dash", declared.allow_dash.as_ref().map(Spanned::span), kind.is_free()),
    ];
    for (key, span, fits) in keys {
        if let Some(span) = span.filter(|_| !fits) {
            let message = format!("`{key}`: expected no such key on type {}, found it", kind.word());
            return Err(source.error(span, message, "remove it, or change the type"));
        }
    }
    Ok(())
}

/// A whole number of 1 to `most`, if there is one.
pub(crate) fn whole(
    key: &str,
    value: &Option<Spanned<i64>>,
    most: u64,
    source: &Source,
) -> Result<Option<u64>, ContentError> {
    let Some(value) = value else { return Ok(None) };
    let number = u64::try_from(*value.get_ref()).ok().filter(|number| (1..=most).contains(number));
    number.map(Some).ok_or_else(|| {
        let message = format!("`{key}`: expected a whole number of 1 to {most}, found {}", value.get_ref());
        source.error(value.span(), message, "leave it out for no limit of its own")
    })
}
