//! Outcomes of calls that have ended a moment ago, for those who wait for them: a caller that comes later reads the file.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

/// How many outcomes are kept.
const COUNT_MAX: usize = 1024;
/// How many bytes of them are kept.
const BYTES_MAX: usize = 16 << 20;

/// The last outcomes, by the folders of their calls.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    kept: HashMap<PathBuf, Vec<u8>>,
    /// The folders in the order in which their outcomes came, also of those that were taken.
    order: VecDeque<PathBuf>,
    bytes: usize,
}

impl Outcomes {
    /// Keeps an outcome, in place of the oldest ones if there are too many.
    pub(super) fn put(&mut self, dir: PathBuf, outcome: Vec<u8>) {
        self.bytes += outcome.len();
        self.order.push_back(dir.clone());
        if let Some(replaced) = self.kept.insert(dir, outcome) {
            self.bytes -= replaced.len();
        }
        while self.order.len() > COUNT_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else { return };
            self.take(&oldest);
        }
    }

    /// The outcome of the call in a folder, which is not kept any longer.
    pub(super) fn take(&mut self, dir: &Path) -> Option<Vec<u8>> {
        let outcome = self.kept.remove(dir)?;
        self.bytes -= outcome.len();
        Some(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(number: usize) -> PathBuf {
        format!("/jobs/{number}").into()
    }

    #[test]
    fn an_outcome_is_taken_once_and_the_oldest_ones_go() {
        let mut outcomes = Outcomes::default();
        outcomes.put(dir(1), vec![1]);
        assert_eq!(outcomes.take(&dir(1)), Some(vec![1]));
        assert_eq!(outcomes.take(&dir(1)), None);
        (0..COUNT_MAX).for_each(|number| outcomes.put(dir(number), vec![0; 2]));
        outcomes.put(dir(COUNT_MAX), vec![3]);
        assert_eq!((outcomes.take(&dir(0)), outcomes.take(&dir(1))), (None, Some(vec![0; 2])));
        assert_eq!(outcomes.take(&dir(COUNT_MAX)), Some(vec![3]));
        assert_eq!(outcomes.bytes, (COUNT_MAX - 2) * 2);
    }

    #[test]
    fn long_outcomes_take_no_more_memory_than_that() {
        let mut outcomes = Outcomes::default();
        (0..5).for_each(|number| outcomes.put(dir(number), vec![0; BYTES_MAX / 4]));
        assert_eq!(outcomes.take(&dir(0)), None);
        assert_eq!(outcomes.bytes, BYTES_MAX);
        outcomes.put(dir(1), vec![1]);
        assert_eq!(outcomes.take(&dir(1)), Some(vec![1]), "another one in its place");
        assert_eq!(outcomes.bytes, BYTES_MAX / 4 * 3);
    }
}
