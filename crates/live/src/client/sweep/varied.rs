//! An argument that runs through values, as it is written on a command line.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How many values an argument may have.
const VALUES_MAX: u64 = 10_000_000;
/// The most decimals of a step.
const DECIMALS_MAX: usize = 12;

/// An argument that runs through values.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Varied {
    /// Its name.
    pub name: String,
    values: Values,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Values {
    /// Both ends are among them.
    Range(i64, i64),
    /// Decimal fractions, exact: so many units of the last decimal.
    Steps {
        first: i64,
        step: i64,
        count: u64,
        decimals: u32,
    },
    List(Vec<String>),
}

/// A text that says no values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VariedError {
    found: String,
}

impl fmt::Display for VariedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expected =
            "expected NAME=FIRST..LAST (integers), NAME=FIRST:LAST:STEP (decimals) or NAME=VALUE,VALUE,...";
        write!(f, "{expected}, found `{}`", self.found)
    }
}

impl std::error::Error for VariedError {}

impl fmt::Display for Varied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.values {
            Values::Range(first, last) => write!(f, "{}={first}..{last}", self.name),
            Values::Steps { step, count, decimals, .. } => {
                let (first, last) = (self.at(0), self.at(count - 1));
                write!(f, "{}={first}:{last}:{}", self.name, decimal(*step, *decimals))
            }
            Values::List(values) => write!(f, "{}={}", self.name, values.join(",")),
        }
    }
}

impl Varied {
    /// How many values it has.
    pub(super) fn len(&self) -> u64 {
        match &self.values {
            Values::Range(first, last) => last.abs_diff(*first) + 1,
            Values::Steps { count, .. } => *count,
            Values::List(values) => values.len() as u64,
        }
    }

    /// One of them, from 0.
    pub(super) fn at(&self, index: u64) -> String {
        match &self.values {
            Values::Range(first, _) => (first + index as i64).to_string(),
            Values::Steps { first, step, decimals, .. } => decimal(first + step * index as i64, *decimals),
            Values::List(values) => values[index as usize].clone(),
        }
    }

    /// The most bytes that one has.
    pub(super) fn bytes_most(&self) -> usize {
        match &self.values {
            Values::List(values) => values.iter().map(String::len).max().unwrap_or(0),
            Values::Range(..) | Values::Steps { .. } => self.at(0).len().max(self.at(self.len() - 1).len()),
        }
    }
}

/// So many units of the last decimal, as a number is written.
fn decimal(units: i64, decimals: u32) -> String {
    if decimals == 0 {
        return units.to_string();
    }
    let one = 10_u64.pow(decimals);
    let (whole, rest) = (units.unsigned_abs() / one, units.unsigned_abs() % one);
    let sign = if units < 0 { "-" } else { "" };
    format!("{sign}{whole}.{rest:0width$}", width = decimals as usize)
}

/// How many units of the last of so many decimals a number is.
fn units(text: &str, decimals: usize) -> Option<i64> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_digit());
    let unsigned = whole.strip_prefix('-').unwrap_or(whole);
    let is_number = digits(unsigned) && (digits(rest) || !text.contains('.'));
    is_number.then(|| format!("{whole}{rest:0<decimals$}").parse().ok()).flatten()
}

fn steps(text: &str) -> Option<Values> {
    let parts: Vec<&str> = text.split(':').collect();
    let &[first, last, step] = &parts[..] else { return None };
    let decimals = |text: &str| text.split_once('.').map_or(0, |(_, rest)| rest.len());
    let most = parts.iter().map(|part| decimals(part)).max().unwrap_or(0);
    if most > DECIMALS_MAX {
        return None;
    }
    let (first, last, step) = (units(first, most)?, units(last, most)?, units(step, most)?);
    let span = last.checked_sub(first)?;
    // Towards the last value, which need not be one of them.
    if step == 0 || span != 0 && (span > 0) != (step > 0) {
        return None;
    }
    let count = span.checked_div(step)?.unsigned_abs() + 1;
    (count <= VALUES_MAX).then_some(Values::Steps { first, step, count, decimals: most as u32 })
}

impl FromStr for Varied {
    type Err = VariedError;
    fn from_str(text: &str) -> Result<Varied, VariedError> {
        let error = || VariedError { found: text.to_owned() };
        let (name, values) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(error)?;
        let range = values.split_once("..").and_then(|(first, last)| {
            let (first, last) = (first.parse::<i64>().ok()?, last.parse::<i64>().ok()?);
            (first <= last && last.abs_diff(first) < VALUES_MAX).then_some(Values::Range(first, last))
        });
        let list = || {
            let values: Vec<String> = values.split(',').map(str::to_owned).collect();
            let fits = !values.iter().any(|value| value.is_empty() || value.contains(".."));
            fits.then_some(Values::List(values))
        };
        let values = range.or_else(|| steps(values)).or_else(list).ok_or_else(error)?;
        Ok(Varied { name: name.to_owned(), values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_they_are_given() {
        let check = |text: &str, expected: &[&str]| {
            let varied: Varied = text.parse().unwrap();
            let found: Vec<String> = (0..varied.len()).map(|index| varied.at(index)).collect();
            assert_eq!(found, expected, "{text}");
            assert_eq!(varied.bytes_most(), expected.iter().map(|value| value.len()).max().unwrap());
        };
        check("a=-1..1", &["-1", "0", "1"]);
        check("a=0:1:0.25", &["0.00", "0.25", "0.50", "0.75", "1.00"]);
        check("a=-0.1:0.1:0.1", &["-0.1", "0.0", "0.1"]);
        check("a=10:0:-4", &["10", "6", "2"]);
        // Three numbers that are no steps are one text.
        check("a=0:-9223372036854775808:-1", &["0:-9223372036854775808:-1"]);
        check("a=3:3:1", &["3"]);
        check("a=x,y", &["x", "y"]);
        // A list of one that only looks like steps.
        check("a=12:30:00,b", &["12:30:00", "b"]);
    }

    #[test]
    fn what_says_no_values_is_shown() {
        for bad in ["", "seed", "=1..2", "seed=", "seed=2..1", "seed=1..", "seed=a,,b", "seed=0..10000000"] {
            let error = bad.parse::<Varied>().unwrap_err().to_string();
            assert!(error.ends_with(&format!("found `{bad}`")), "{error}");
        }
    }
}
