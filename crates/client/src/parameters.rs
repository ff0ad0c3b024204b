//! The arguments of the requests of an exploration or the instances of a sweep: some are the same for all, others vary. The
//! arguments of a request are computed from its number. Only the text of a file that lists values is kept.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

mod range;
mod table;

pub use range::{ParameterRange, ParameterRangeError};
pub use table::{ParameterTable, ParameterTableError};

/// The arguments of all requests, by their numbers.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct ParameterSpace {
    /// Arguments that are the same for all requests.
    pub fixed: BTreeMap<String, String>,
    /// Arguments that vary. The last one changes with every request.
    pub varied: Vec<ParameterRange>,
    /// Arguments that a file lists, a request for each row. They change before all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<ParameterTable>,
    /// All arguments change with every request, instead of every combination.
    #[serde(default, skip_serializing_if = "is_false")]
    pub zip: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Arguments that do not make a parameter space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ParameterError {
    /// An argument is given more than once.
    Twice(String),
    /// Arguments that change together have different numbers of values.
    Lengths {
        /// The first of them, and how many it has.
        first: (String, u64),
        /// Another one.
        other: (String, u64),
    },
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice(name) => write!(f, "expected each argument once, found `{name}` twice"),
            Self::Lengths { first, other } => write!(
                f,
                "expected as many values of each argument, found {} of `{}` and {} of `{}`",
                first.1, first.0, other.1, other.0
            ),
        }
    }
}

impl std::error::Error for ParameterError {}

/// The arguments as they are written on a command line, those that vary last.
impl fmt::Display for ParameterSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fixed = self.fixed.iter().map(|(name, value)| format!("{name}={value}"));
        let mut words: Vec<String> = fixed.chain(self.varied.iter().map(ParameterRange::to_string)).collect();
        words.extend(self.table.as_ref().map(|table| format!("{table}")));
        words.extend(self.zip.then(|| "--zip".to_owned()));
        f.write_str(&words.join(" "))
    }
}

impl ParameterSpace {
    /// Checks that no argument is given twice, and that arguments that change together have as many values.
    ///
    /// # Errors
    ///
    /// The first such argument.
    pub fn check(&self) -> Result<(), ParameterError> {
        let mut names: Vec<&str> = self.fixed.keys().map(String::as_str).chain(self.names()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(ParameterError::Twice(pair[0].to_owned()));
        }
        let lengths: Vec<(String, u64)> = self.lengths();
        let other = lengths.iter().find(|(_, length)| self.zip && *length != lengths[0].1);
        other.map_or(Ok(()), |other| {
            Err(ParameterError::Lengths { first: lengths[0].clone(), other: other.clone() })
        })
    }

    /// The number of combinations of values; none if nothing varies.
    pub fn combinations(&self) -> Option<u32> {
        let lengths = self.lengths();
        let first = lengths.first()?.1;
        let all = match self.zip {
            true => first,
            false => lengths.iter().map(|(_, length)| *length).fold(1, u64::saturating_mul),
        };
        Some(all.min(u32::MAX.into()) as u32)
    }

    /// The names of the arguments that vary.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let listed = self.table.iter().flat_map(|table| table.names());
        self.varied.iter().map(|varied| varied.name.as_str()).chain(listed)
    }

    /// The values of the arguments that vary, of the request of that number.
    pub fn values(&self, number: u32) -> Vec<String> {
        let mut left = u64::from(number);
        let mut index = |length: u64| match self.zip {
            true => u64::from(number) % length.max(1),
            false => {
                let index = left % length.max(1);
                left /= length.max(1);
                index
            }
        };
        let row = self.table.as_ref().map(|table| table.row(index(table.len())));
        let backwards: Vec<String> =
            self.varied.iter().rev().map(|varied| varied.at(index(varied.len()))).collect();
        backwards.into_iter().rev().chain(row.into_iter().flatten()).collect()
    }

    /// The arguments of the request of that number, from 0.
    pub fn arguments(&self, number: u32) -> BTreeMap<String, String> {
        let own = self.names().map(str::to_owned).zip(self.values(number));
        self.fixed.clone().into_iter().chain(own).collect()
    }

    /// The most bytes that the values of a request have.
    pub fn bytes_most(&self) -> usize {
        let listed = self.table.as_ref().map_or(0, ParameterTable::bytes_most);
        self.varied.iter().map(ParameterRange::bytes_most).sum::<usize>() + listed
    }

    /// How many values each dimension has.
    fn lengths(&self) -> Vec<(String, u64)> {
        let varied = self.varied.iter().map(|varied| (varied.name.clone(), varied.len()));
        let rows = self.table.iter().map(|table| (table.to_string(), table.len()));
        varied.chain(rows).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(varied: &[&str], table: &str, zip: bool) -> ParameterSpace {
        let varied = varied.iter().map(|text| text.parse().unwrap()).collect();
        let fixed = BTreeMap::from([("size".to_owned(), "9".to_owned())]);
        let table = (!table.is_empty()).then(|| table.to_owned().try_into().unwrap());
        ParameterSpace { fixed, varied, table, zip }
    }

    fn arguments(parameters: &ParameterSpace, number: u32) -> String {
        let pairs = parameters.arguments(number).into_iter().map(|(name, value)| format!("{name}={value}"));
        format!("{}: {}", parameters.combinations().unwrap_or(0), pairs.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn every_combination_has_a_number() {
        let check = |varied: &[&str], number, expected: &str| {
            assert_eq!(arguments(&parameters(varied, "", false), number), expected);
        };
        check(&["seed=1..1000"], 0, "1000: seed=1 size=9");
        check(&["seed=1..1000"], 999, "1000: seed=1000 size=9");
        check(&["a=-1..1", "b=x,y"], 0, "6: a=-1 b=x size=9");
        check(&["a=-1..1", "b=x,y"], 1, "6: a=-1 b=y size=9");
        check(&["a=-1..1", "b=x,y"], 5, "6: a=1 b=y size=9");
        check(&[], 7, "0: size=9");
        check(&["x=0:1:0.001", "seed=1..10"], 10_009, "10010: seed=10 size=9 x=1.000");
    }

    #[test]
    fn a_file_lists_rows_and_arguments_may_change_together() {
        let rows = "a,b\n1,x\n2,y\n3,\"z,z\"\n";
        let check = |varied: &[&str], zip, number, expected: &str| {
            let parameters = parameters(varied, rows, zip);
            parameters.check().unwrap();
            assert_eq!(arguments(&parameters, number), expected);
        };
        check(&[], false, 2, "3: a=3 b=z,z size=9");
        check(&["c=7,8"], false, 0, "6: a=1 b=x c=7 size=9");
        check(&["c=7,8"], false, 3, "6: a=1 b=x c=8 size=9");
        check(&["c=7..9"], true, 1, "3: a=2 b=y c=8 size=9");
        let error = |parameters: ParameterSpace| parameters.check().unwrap_err().to_string();
        assert!(error(parameters(&["c=7,8"], rows, true)).contains("found 2 of `c` and 3 of"));
        assert!(error(parameters(&["a=7,8"], rows, false)).contains("`a` twice"));
        assert!(error(parameters(&["size=7,8"], "", false)).contains("`size` twice"));
    }
}
