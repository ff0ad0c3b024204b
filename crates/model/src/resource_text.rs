//! Resources as people write them, in options and in files: one text for each.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::{A_WORD, Constraint, GpuCount, Gpus, Mebibytes, MebibytesError, is_word};

/// A text that says no resource.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ResourceTextError {
    /// It is no amount.
    #[error(transparent)]
    Amount(#[from] MebibytesError),
    /// It is an amount of nothing.
    #[error("expected an amount above 0, found `{0}`")]
    NoAmount(String),
    /// A name has other letters, or none.
    #[error("expected {A_WORD}, found `{}`", .0.escape_debug())]
    Word(String),
    /// The kind of GPUs has other letters, or none.
    #[error("expected {A_WORD} before the number, found `{}`", .0.escape_debug())]
    GpuKind(String),
    /// It is no number of something.
    #[error("expected a whole number above 0, found `{}`", .0.escape_debug())]
    Count(String),
    /// Features are joined in two ways.
    #[error("expected features joined by & or by |, found both in `{}`", .0.escape_debug())]
    Joined(String),
    /// A licence is named twice.
    #[error("expected each licence once, found `{0}` twice")]
    Repeated(String),
}

/// The name of a feature, a licence or a partition.
///
/// # Errors
///
/// [`ResourceTextError::Word`].
pub fn parse_word(text: &str) -> Result<String, ResourceTextError> {
    if is_word(text) { Ok(text.to_owned()) } else { Err(ResourceTextError::Word(text.to_owned())) }
}

/// An amount of memory or disk space above 0: `512M`, `64G`, `1T`.
///
/// # Errors
///
/// If it is none.
pub fn parse_amount(text: &str) -> Result<Mebibytes, ResourceTextError> {
    match text.parse()? {
        Mebibytes::ZERO => Err(ResourceTextError::NoAmount(text.to_owned())),
        amount => Ok(amount),
    }
}

/// Licences with how many of each: `matlab`, `matlab:2,ansys`.
///
/// # Errors
///
/// If it is none, or one is named twice.
pub fn parse_licences(text: &str) -> Result<BTreeMap<String, u32>, ResourceTextError> {
    let mut licences = BTreeMap::new();
    for one in text.split(',') {
        let (name, count) = match one.split_once(':') {
            Some((name, count)) => (name, positive(count)?),
            None => (one, 1),
        };
        if licences.insert(parse_word(name)?, count).is_some() {
            return Err(ResourceTextError::Repeated(name.to_owned()));
        }
    }
    Ok(licences)
}

impl Gpus {
    /// GPUs as `2` or `a100:2`, of which `count` says what the number counts.
    ///
    /// # Errors
    ///
    /// If it is neither.
    pub fn parse(text: &str, count: fn(u32) -> GpuCount) -> Result<Gpus, ResourceTextError> {
        let (kind, number) = match text.rsplit_once(':') {
            Some((kind, number)) => (Some(kind.to_owned()), number),
            None => (None, text),
        };
        if let Some(kind) = kind.as_ref().filter(|kind| !is_word(kind)) {
            return Err(ResourceTextError::GpuKind(kind.clone()));
        }
        Ok(Gpus { count: count(positive(number)?), kind })
    }
}

/// `a&b`, `a,b` (both of them) or `a|b`.
impl FromStr for Constraint {
    type Err = ResourceTextError;
    fn from_str(text: &str) -> Result<Constraint, ResourceTextError> {
        let (all, any) = (text.contains(['&', ',']), text.contains('|'));
        if all && any {
            return Err(ResourceTextError::Joined(text.to_owned()));
        }
        let words = text.split(['&', ',', '|']).map(parse_word).collect::<Result<_, _>>()?;
        Ok(if any { Constraint::Any(words) } else { Constraint::All(words) })
    }
}

fn positive(text: &str) -> Result<u32, ResourceTextError> {
    let number = text.parse::<u32>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| ResourceTextError::Count(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    fn check<A: Debug>(found: Result<A, ResourceTextError>, expected: &str) {
        assert_eq!(found.unwrap_err().to_string(), expected);
    }

    #[test]
    fn resources_are_read_as_they_are_written() {
        for (text, mib) in [("1", 1), ("512M", 512), ("4G", 4096)] {
            assert_eq!(parse_amount(text), Ok(Mebibytes(mib)));
        }
        let gpus = |text| Gpus::parse(text, GpuCount::PerProc).unwrap();
        assert_eq!(gpus("2"), Gpus { count: GpuCount::PerProc(2), kind: None });
        assert_eq!(gpus("a100:1"), Gpus { count: GpuCount::PerProc(1), kind: Some("a100".to_owned()) });
        for text in ["fast", "fast&ib", "fast|ib"] {
            assert_eq!(text.parse::<Constraint>().unwrap().to_string(), text);
        }
        assert_eq!("fast,ib".parse::<Constraint>(), "fast&ib".parse());
        let licences = BTreeMap::from([("ansys".to_owned(), 1), ("matlab".to_owned(), 2)]);
        assert_eq!(parse_licences("matlab:2,ansys"), Ok(licences));
    }

    #[test]
    fn texts_that_say_no_resource() {
        check(
            parse_amount("much"),
            "expected an amount such as 512M, 64G or 1T, less than 4096T, found `much`",
        );
        check(parse_amount("0G"), "expected an amount above 0, found `0G`");
        let gpus = |text| Gpus::parse(text, GpuCount::Total);
        check(gpus("0"), "expected a whole number above 0, found `0`");
        check(gpus("a100"), "expected a whole number above 0, found `a100`");
        check(gpus("a/b:1"), &format!("expected {A_WORD} before the number, found `a/b`"));
        check("a&b|c".parse::<Constraint>(), "expected features joined by & or by |, found both in `a&b|c`");
        check("[a*2]".parse::<Constraint>(), &format!("expected {A_WORD}, found `[a*2]`"));
        check("".parse::<Constraint>(), &format!("expected {A_WORD}, found ``"));
        check(parse_licences("a:0"), "expected a whole number above 0, found `0`");
        check(parse_licences("a,,b"), &format!("expected {A_WORD}, found ``"));
        check(parse_licences("a,a:2"), "expected each licence once, found `a` twice");
    }
}
