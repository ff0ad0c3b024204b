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
pub struct ParameterRange {
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
pub struct ParameterRangeError {
    expected: &'static str,
    found: String,
}

/// How values are written.
const FORMS: &str = "NAME=FIRST..LAST (integers), NAME=FIRST:LAST:STEP (decimals) or NAME=VALUE,VALUE,...";

impl fmt::Display for ParameterRangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found `{}`", self.expected, self.found)
    }
}

impl std::error::Error for ParameterRangeError {}

impl fmt::Display for ParameterRange {
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

impl ParameterRange {
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
    is_number(text).then(|| format!("{whole}{rest:0<decimals$}").parse().ok()).flatten()
}

fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_digit());
    let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
    digits(whole.strip_prefix('-').unwrap_or(whole)) && digits(rest)
}

/// The values of three numbers with colons between; none if it is no such text, and what would be one if they say no
/// values.
fn steps(text: &str) -> Option<Result<Values, &'static str>> {
    let parts: Vec<&str> = text.split(':').collect();
    let &[first, last, step] = &parts[..] else { return None };
    let decimals = |text: &&str| text.split_once('.').map_or(0, |(_, rest)| rest.len());
    let most = parts.iter().map(decimals).max().unwrap_or(0);
    if parts.iter().all(|part| is_number(part)) {
        return Some(counted(first, last, step, most));
    }
    let is_float = |part: &&str| part.parse::<f64>().is_ok_and(f64::is_finite);
    parts.iter().all(is_float).then_some(Err("numbers with digits only, such as 0.001 for 1e-3"))
}

/// The values from one integer to another; none if it is no such text, and what would be one if they say no values.
fn range(text: &str) -> Option<Result<Values, &'static str>> {
    let (first, last) = text.split_once("..")?;
    let (first, last) = (first.parse::<i64>().ok()?, last.parse::<i64>().ok()?);
    Some(match last.abs_diff(first) {
        _ if first > last => {
            Err("the first of a range FIRST..LAST not to be after its last, or FIRST:LAST:-1")
        }
        VALUES_MAX.. => Err("at most 10,000,000 values"),
        _ => Ok(Values::Range(first, last)),
    })
}

fn counted(first: &str, last: &str, step: &str, decimals: usize) -> Result<Values, &'static str> {
    let exact = |text| units(text, decimals).filter(|_| decimals <= DECIMALS_MAX);
    let numbers = (exact(first), exact(last), exact(step));
    let (Some(first), Some(last), Some(step)) = numbers else {
        return Err("at most 12 decimals, and 18 digits in all");
    };
    let span = last.checked_sub(first).ok_or("at most 18 digits between the first value and the last")?;
    // Towards the last value, which need not be one of them.
    if step == 0 || span != 0 && (span > 0) != (step > 0) {
        return Err("a step that leads from the first value towards the last");
    }
    let count = span.checked_div(step).map_or(u64::MAX, |count| count.unsigned_abs().saturating_add(1));
    match count {
        ..=VALUES_MAX => Ok(Values::Steps { first, step, count, decimals: decimals as u32 }),
        _ => Err("at most 10,000,000 values"),
    }
}

impl FromStr for ParameterRange {
    type Err = ParameterRangeError;
    fn from_str(text: &str) -> Result<ParameterRange, ParameterRangeError> {
        let error = |expected| ParameterRangeError { expected, found: text.to_owned() };
        let named = text.split_once('=').filter(|(name, _)| !name.is_empty());
        let (name, values) = named.ok_or_else(|| error(FORMS))?;
        let list = || {
            let values: Vec<String> = values.split(',').map(str::to_owned).collect();
            let fits = !values.iter().any(|value| value.is_empty() || value.contains(".."));
            fits.then_some(Values::List(values))
        };
        let values = match range(values).or_else(|| steps(values)) {
            Some(found) => found.map_err(error)?,
            None => list().ok_or_else(|| error(FORMS))?,
        };
        Ok(ParameterRange { name: name.to_owned(), values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_they_are_given() {
        let check = |text: &str, expected: &[&str]| {
            let varied: ParameterRange = text.parse().unwrap();
            let found: Vec<String> = (0..varied.len()).map(|index| varied.at(index)).collect();
            assert_eq!(found, expected, "{text}");
            assert_eq!(varied.bytes_most(), expected.iter().map(|value| value.len()).max().unwrap());
        };
        check("a=-1..1", &["-1", "0", "1"]);
        check("a=0:1:0.25", &["0.00", "0.25", "0.50", "0.75", "1.00"]);
        check("a=-0.1:0.1:0.1", &["-0.1", "0.0", "0.1"]);
        check("a=10:0:-4", &["10", "6", "2"]);
        check("a=3:3:1", &["3"]);
        check("a=x,y", &["x", "y"]);
        // A list of one that only looks like steps.
        check("a=12:30:00,b", &["12:30:00", "b"]);
    }

    #[test]
    fn invalid_values_are_shown() {
        let expected = |bad: &str| {
            let error = bad.parse::<ParameterRange>().unwrap_err().to_string();
            assert!(error.ends_with(&format!("found `{bad}`")), "{error}");
            error
        };
        for bad in ["", "seed", "=1..2", "seed=", "seed=1..", "seed=a,,b"] {
            assert!(expected(bad).starts_with("expected NAME="), "{bad}");
        }
        assert!(expected("seed=2..1").contains("FIRST:LAST:-1"));
        assert!(expected("seed=0..10000000").contains("at most 10,000,000 values"));
        assert!(expected("seed=0:1:1e-3").contains("such as 0.001"));
    }

    #[test]
    fn steps_without_values_are_refused() {
        let check = |text: &str, expected: &str| {
            let error = text.parse::<ParameterRange>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("expected {expected}")), "{error}");
        };
        check("x=1:0:0.1", "a step that leads from the first value towards the last");
        check("x=0:1:-1", "a step that leads");
        check("x=0:1:0", "a step that leads");
        check("x=12:30:00", "a step that leads");
        check("x=0:1:0.0000001", "at most 10,000,000 values");
        check("x=0:1:0.0000000000001", "at most 12 decimals");
        check("x=0:-9223372036854775808:-1", "at most 10,000,000 values");
        check("x=1:-9223372036854775808:-1", "at most 18 digits between");
        check("x=0:9223372036854775808:1", "at most 12 decimals, and 18 digits");
    }
}
