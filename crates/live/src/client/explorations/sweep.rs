//! Which arguments each request of an exploration has: some are the same for all, others run through values.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How many values an argument may have.
const VALUES_MAX: u64 = 10_000_000;

/// The arguments of all requests, by their numbers.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Sweep {
    /// Those that are the same for all.
    pub fixed: BTreeMap<String, String>,
    /// Those that run through values. The last one changes with every request.
    pub varied: Vec<Varied>,
}

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
    List(Vec<String>),
}

/// A text that says no values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SweepError {
    found: String,
}

impl fmt::Display for SweepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected NAME=FIRST..LAST (integers) or NAME=VALUE,VALUE,..., found `{}`", self.found)
    }
}

impl std::error::Error for SweepError {}

/// As it is written on a command line.
impl fmt::Display for Varied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.values {
            Values::Range(first, last) => write!(f, "{}={first}..{last}", self.name),
            Values::List(values) => write!(f, "{}={}", self.name, values.join(",")),
        }
    }
}

/// The arguments as they are written on a command line, those that vary last.
impl fmt::Display for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fixed = self.fixed.iter().map(|(name, value)| format!("{name}={value}"));
        let words: Vec<String> = fixed.chain(self.varied.iter().map(Varied::to_string)).collect();
        f.write_str(&words.join(" "))
    }
}

impl Sweep {
    /// How many requests there are, one for each combination of values; none if nothing varies, and they differ in
    /// their numbers only.
    pub fn combinations(&self) -> Option<u32> {
        let counts = self.varied.iter().map(|varied| varied.values.len());
        let all = counts.fold(1, u64::saturating_mul).min(u32::MAX.into()) as u32;
        (!self.varied.is_empty()).then_some(all)
    }

    /// The arguments of the request of that number, from 0.
    pub fn arguments(&self, number: u32) -> BTreeMap<String, String> {
        let mut arguments = self.fixed.clone();
        let mut left = u64::from(number);
        for Varied { name, values } in self.varied.iter().rev() {
            arguments.insert(name.clone(), values.at(left % values.len()));
            left /= values.len();
        }
        arguments
    }
}

impl Values {
    fn len(&self) -> u64 {
        match self {
            Values::Range(first, last) => last.abs_diff(*first) + 1,
            Values::List(values) => values.len() as u64,
        }
    }

    fn at(&self, index: u64) -> String {
        match self {
            Values::Range(first, _) => (first + index as i64).to_string(),
            Values::List(values) => values[index as usize].clone(),
        }
    }
}

impl FromStr for Varied {
    type Err = SweepError;
    fn from_str(text: &str) -> Result<Varied, SweepError> {
        let error = || SweepError { found: text.to_owned() };
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
        let values = range.or_else(list).ok_or_else(error)?;
        Ok(Varied { name: name.to_owned(), values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(varied: &[&str], number: u32) -> String {
        let varied = varied.iter().map(|text| text.parse().unwrap()).collect();
        let fixed = BTreeMap::from([("size".to_owned(), "9".to_owned())]);
        let sweep = Sweep { fixed, varied };
        let pairs = sweep.arguments(number).into_iter().map(|(name, value)| format!("{name}={value}"));
        format!("{}: {}", sweep.combinations().unwrap_or(0), pairs.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn every_combination_has_a_number() {
        assert_eq!(arguments(&["seed=1..1000"], 0), "1000: seed=1 size=9");
        assert_eq!(arguments(&["seed=1..1000"], 999), "1000: seed=1000 size=9");
        assert_eq!(arguments(&["a=-1..1", "b=x,y"], 0), "6: a=-1 b=x size=9");
        assert_eq!(arguments(&["a=-1..1", "b=x,y"], 1), "6: a=-1 b=y size=9");
        assert_eq!(arguments(&["a=-1..1", "b=x,y"], 5), "6: a=1 b=y size=9");
        assert_eq!(arguments(&[], 7), "0: size=9");
    }

    #[test]
    fn what_says_no_values_is_shown() {
        for bad in ["", "seed", "=1..2", "seed=", "seed=2..1", "seed=1..", "seed=a,,b", "seed=0..10000000"] {
            let error = bad.parse::<Varied>().unwrap_err().to_string();
            assert!(error.ends_with(&format!("found `{bad}`")), "{error}");
        }
    }
}
