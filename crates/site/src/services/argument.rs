//! Arguments of services: what each takes, and whether a value is that.

use std::collections::BTreeMap;

use pliant_staging::FileName;

use super::refusal::Refusal;

/// The longest string that an argument takes if its service does not say, in bytes.
const STRING_MAX: usize = 256;

/// An argument as its service declares it.
#[derive(Clone, PartialEq, Debug)]
pub struct Argument {
    /// What it is for.
    pub summary: String,
    /// What it takes.
    pub kind: ArgumentKind,
    /// What stands for it when it is not given.
    pub default: Option<String>,
    /// True if it must be given. If it need not, and has no default, the words that hold it are left out.
    pub required: bool,
    /// True if its value may begin with `-` where the program reads a word of its own.
    pub dash: bool,
}

/// What an argument takes.
#[derive(Clone, PartialEq, Debug)]
pub enum ArgumentKind {
    /// A whole number.
    Integer {
        /// The smallest.
        min: i64,
        /// The largest.
        max: i64,
    },
    /// A finite number.
    Number {
        /// The smallest.
        min: f64,
        /// The largest.
        max: f64,
    },
    /// Printable text on one line.
    Text {
        /// How long it may be, in bytes.
        max_length: usize,
    },
    /// One of these.
    Choice(Vec<String>),
    /// `true` or `false`.
    Bool,
    /// The name of an uploaded input.
    File,
}

impl ArgumentKind {
    /// Text of the usual length.
    pub(crate) const TEXT: ArgumentKind = ArgumentKind::Text { max_length: STRING_MAX };

    /// Its name in a server's configuration.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Integer { .. } => "integer",
            Self::Number { .. } => "number",
            Self::Text { .. } => "string",
            Self::Choice(_) => "choice",
            Self::Bool => "bool",
            Self::File => "file",
        }
    }

    /// What it takes, in words: `a whole number of 1 to 9`.
    pub fn expected(&self) -> String {
        match self {
            Self::Integer { min: i64::MIN, max: i64::MAX } => "a whole number".to_owned(),
            Self::Integer { min, max: i64::MAX } => format!("a whole number of at least {min}"),
            Self::Integer { min: i64::MIN, max } => format!("a whole number of at most {max}"),
            Self::Integer { min, max } => format!("a whole number of {min} to {max}"),
            Self::Number { min, max } => match (*min == f64::MIN, *max == f64::MAX) {
                (true, true) => "a number".to_owned(),
                (false, true) => format!("a number of at least {min}"),
                (true, false) => format!("a number of at most {max}"),
                (false, false) => format!("a number of {min} to {max}"),
            },
            Self::Text { max_length } => format!("printable text of at most {max_length} bytes on one line"),
            Self::Choice(choices) => format!("one of {}", choices.join(", ")),
            Self::Bool => "true or false".to_owned(),
            Self::File => "the name of an input file".to_owned(),
        }
    }

    /// The value as the program gets it; none if it is not what the argument takes. A number is written as
    /// this program writes it, whatever the user wrote.
    pub fn read(&self, value: &str) -> Option<String> {
        match self {
            Self::Integer { min, max } => {
                let number: i64 = value.parse().ok()?;
                (*min..=*max).contains(&number).then(|| number.to_string())
            }
            Self::Number { min, max } => {
                let number: f64 = value.parse().ok()?;
                (*min..=*max).contains(&number).then(|| number.to_string())
            }
            Self::Text { max_length } => {
                let fits = value.len() <= *max_length && !value.contains(pliant_staging::is_unprintable);
                fits.then(|| value.to_owned())
            }
            Self::Choice(choices) => choices.iter().find(|choice| *choice == value).cloned(),
            Self::Bool => matches!(value, "true" | "false").then(|| value.to_owned()),
            Self::File => value.parse::<FileName>().ok().map(String::from),
        }
    }

    /// True if its value is free text, which could begin with `-` to become an option. Numbers and the
    /// operator's own choices are what they are.
    pub(crate) fn is_free(&self) -> bool {
        matches!(self, Self::Text { .. } | Self::File)
    }
}

/// The values of all arguments: those that were given, then defaults. An optional one without either is absent.
pub(crate) fn read_all(
    arguments: &BTreeMap<String, Argument>,
    given: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, Refusal> {
    if let Some(found) = given.keys().find(|name| !arguments.contains_key(*name)) {
        let expected = arguments.keys().cloned().collect();
        return Err(Refusal::Unknown { found: found.clone(), expected });
    }
    let mut values = BTreeMap::new();
    for (name, argument) in arguments {
        let expected = || argument.kind.expected();
        let Some(value) = given.get(name).or(argument.default.as_ref()) else {
            if argument.required {
                return Err(Refusal::Missing { argument: name.clone(), expected: expected() });
            }
            continue;
        };
        let value = argument.kind.read(value).ok_or_else(|| Refusal::Value {
            argument: name.clone(),
            expected: expected(),
            found: value.clone(),
        })?;
        values.insert(name.clone(), value);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_each_kind() {
        let check = |kind: &ArgumentKind, good: &[&str], bad: &[&str]| {
            good.iter().for_each(|value| assert!(kind.read(value).is_some(), "{value:?}"));
            bad.iter().for_each(|value| assert!(kind.read(value).is_none(), "{value:?}"));
        };
        let huge = "9223372036854775808";
        check(
            &ArgumentKind::Integer { min: -3, max: 9 },
            &["9", "-3", "0"],
            &["10", "-4", "1.0", "", " 1", "0x1", huge],
        );
        let number = ArgumentKind::Number { min: 0.0, max: f64::MAX };
        check(&number, &["0", "1e3", "2.5"], &["-1", "NaN", "inf", "1e999", "", "1,5"]);
        check(
            &ArgumentKind::Text { max_length: 9 },
            &["", "a b", "; rm -rf", "$(id)", "été"],
            &["a\nb", "a\0", "\u{1b}", "0123456789", "a\u{202e}"],
        );
        check(&ArgumentKind::Choice(vec!["lu".into(), "qr".into()]), &["lu"], &["LU", "", "l", "lu "]);
        check(&ArgumentKind::Bool, &["true", "false"], &["yes", "1", "True", ""]);
        check(&ArgumentKind::File, &["a.dat", "in/a", "it's $(a);b"], &["../a", "/a", "a\nb", "", "a/.."]);
        assert_eq!(
            ArgumentKind::Integer { min: 0, max: 9 }.read("+007").as_deref(),
            Some("7"),
            "written anew"
        );
    }
}
