//! The tasks of an array, as `sbatch --array` has them: `1-100:5,200%10`.

use std::collections::BTreeSet;
use std::str::FromStr;

use pliant_client::{ParameterRange, ParameterSpace};
use pliant_wire::TaskArray;

use crate::parameter_options::REQUESTS_MAX;

/// The most indices in several ranges.
const LISTED_MAX: usize = 100_000;
/// How they are written.
const FORMS: &str =
    "FIRST-LAST, FIRST-LAST:STEP or indices and ranges with commas between, from 0 on, and %LIMIT behind";

/// The indices of an array, and how many of its tasks may run at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskIndices {
    indices: Indices,
    /// How many tasks run at a time at most; none for any number.
    pub at_once: Option<u32>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Indices {
    /// One range.
    Range(IndexRange),
    /// Several ranges: each index once, in their order.
    Listed(BTreeSet<u32>),
}

/// `FIRST-LAST:STEP`; a single index is a range with that alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct IndexRange {
    first: u32,
    /// It is one of the indices.
    last: u32,
    step: u32,
}

impl IndexRange {
    /// All numbers of 32 bits are one more than such a number can say.
    fn count(self) -> u64 {
        u64::from((self.last - self.first) / self.step) + 1
    }
}

impl FromStr for TaskIndices {
    type Err = String;

    fn from_str(text: &str) -> Result<TaskIndices, String> {
        let wrong = |expected: &str| format!("expected {expected}, found `{}`", text.escape_debug());
        let (ranges, limit) = match text.split_once('%') {
            Some((ranges, limit)) => (ranges, Some(limit)),
            None => (text, None),
        };
        let at_once = match limit.map(number) {
            Some(None | Some(0)) => return Err(wrong("a number of tasks above 0 behind %")),
            limit => limit.flatten(),
        };
        let ranges: Option<Vec<IndexRange>> = ranges.split(',').map(range).collect();
        let ranges = ranges.ok_or_else(|| wrong(FORMS))?;
        if let [range] = ranges[..] {
            return match range.count() <= u64::from(REQUESTS_MAX) {
                true => Ok(TaskIndices { indices: Indices::Range(range), at_once }),
                false => Err(wrong(&format!("at most {REQUESTS_MAX} indices"))),
            };
        }
        let mut listed = BTreeSet::new();
        for IndexRange { first, last, step } in ranges {
            // One more than may be listed shows that there are too many.
            listed.extend((first..=last).step_by(step as usize).take(LISTED_MAX + 1));
            if listed.len() > LISTED_MAX {
                return Err(wrong(&format!("at most {LISTED_MAX} indices in several ranges")));
            }
        }
        Ok(TaskIndices { indices: Indices::Listed(listed), at_once })
    }
}

fn number(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

fn range(text: &str) -> Option<IndexRange> {
    let (ends, step) = match text.split_once(':') {
        Some((ends, step)) => (ends, number(step).filter(|step| *step > 0)?),
        None => (text, 1),
    };
    let (first, last) = match ends.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None if step == 1 => (number(ends)?, number(ends)?),
        None => return None,
    };
    // The last index is one that the steps reach.
    let last = last.checked_sub(first).map(|length| first + length / step * step)?;
    Some(IndexRange { first, last, step })
}

impl TaskIndices {
    /// The parameter space in which the index of the task varies.
    pub fn space(&self) -> ParameterSpace {
        let values = match &self.indices {
            Indices::Range(IndexRange { first, last, step }) => match first == last {
                true => first.to_string(),
                false => format!("{first}:{last}:{step}"),
            },
            Indices::Listed(indices) => indices.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
        };
        let varied: ParameterRange =
            format!("{}={values}", TaskArray::INDEX).parse().expect("it is a list or steps of integers");
        ParameterSpace { varied: vec![varied], ..ParameterSpace::default() }
    }

    /// What each task finds about the array.
    pub fn array(&self) -> TaskArray {
        match &self.indices {
            Indices::Range(range @ IndexRange { first, last, step }) => {
                TaskArray { first: *first, last: *last, count: range.count() as u32, step: *step }
            }
            Indices::Listed(indices) => TaskArray {
                first: indices.first().copied().unwrap_or(0),
                last: indices.last().copied().unwrap_or(0),
                count: indices.len() as u32,
                step: 1,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_those_of_slurm() {
        let check = |text: &str, expected: &[u32], step: u32, at_once: Option<u32>| {
            let parsed: TaskIndices = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            let space = parsed.space();
            space.check().unwrap();
            let count = space.combinations().unwrap();
            let found: Vec<u32> = (0..count).map(|task| space.values(task)[0].parse().unwrap()).collect();
            assert_eq!(found, expected, "{text}");
            let (first, last) = (expected[0], *expected.last().unwrap());
            assert_eq!(parsed.array(), TaskArray { first, last, count, step }, "{text}");
            assert_eq!(parsed.at_once, at_once, "{text}");
        };
        check("1-4", &[1, 2, 3, 4], 1, None);
        check("0-10:3", &[0, 3, 6, 9], 3, None);
        check("1-10:3%2", &[1, 4, 7, 10], 3, Some(2));
        check("7", &[7], 1, None);
        check("3-4:5", &[3], 5, None);
        check("9,1-3,2%100", &[1, 2, 3, 9], 1, Some(100));
        check("1-9:4,20", &[1, 5, 9, 20], 1, None);
        check("4294967295", &[u32::MAX], 1, None);
    }

    #[test]
    fn everything_else_is_no_array() {
        let check = |text: &str, expected: &str| {
            let error = text.parse::<TaskIndices>().unwrap_err();
            assert!(error.starts_with(&format!("expected {expected}")), "{text}: {error}");
        };
        for text in ["", "a", "1-", "-1", "2-1", "1-5:0", "1:2", "1-5:", "1,,2", "1-2-3", "4294967296", "+1"]
        {
            check(text, "FIRST-LAST, ");
        }
        for text in ["1-5%", "1-5%0", "1-5%x", "1-5%2%3"] {
            check(text, "a number of tasks above 0 behind %");
        }
        check("0-4294967295", "at most 10000000 indices");
        check("0-4294967295,5", "at most 100000 indices in several ranges");
    }
}
