//! Which jobs changed last, so that a client that follows many of them asks for what is new only.
//!
//! Changes are numbered from 1 and only the last ones are kept. Nothing of it is in a snapshot: after a restart numbers begin again, and
//! the driver says to which run of it a number belongs.

use std::collections::VecDeque;

use crate::job::JobRecord;
use crate::names::{Handle, User};

/// How many changes are kept.
const KEPT: usize = 20_000;

/// The last changes of jobs.
#[derive(Default)]
pub(super) struct RecentChanges {
    /// The number of the last one.
    last: u64,
    kept: VecDeque<(Handle, User)>,
}

impl RecentChanges {
    /// Notes that a job is new or has changed.
    pub(super) fn note(&mut self, record: &JobRecord) {
        self.last += 1;
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((record.handle.clone(), record.owner.clone()));
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// The changes after one, the oldest first, each with its number; none if some of them are not kept, or there was no such change.
    pub(super) fn after(&self, number: u64) -> Option<impl Iterator<Item = (u64, &Handle, &User)>> {
        // Before anything is added to it: a caller chooses it.
        let number = Some(number).filter(|number| *number <= self.last)?;
        let first = self.last - self.kept.len() as u64 + 1;
        let skipped = (number + 1).checked_sub(first)?;
        let kept = self.kept.iter().skip(usize::try_from(skipped).ok()?);
        Some(kept.zip(number + 1..).map(|((handle, owner), number)| (number, handle, owner)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::record;
    use super::*;
    use crate::job::JobState;

    #[test]
    fn changes_are_listed_from_a_number_on() {
        let mut changes = RecentChanges::default();
        let numbers = |changes: &RecentChanges, after| {
            let found = changes.after(after)?;
            Some(found.map(|(number, handle, _)| (number, handle.number)).collect::<Vec<_>>())
        };
        assert_eq!((numbers(&changes, 0), numbers(&changes, 1)), (Some(vec![]), None));
        for number in [7, 8, 7] {
            changes.note(&record(number, JobState::Queued));
        }
        assert_eq!(changes.last(), 3);
        assert_eq!(numbers(&changes, 0), Some(vec![(1, 7), (2, 8), (3, 7)]));
        assert_eq!(numbers(&changes, 2), Some(vec![(3, 7)]));
        assert_eq!(numbers(&changes, 3), Some(vec![]));
        assert_eq!((numbers(&changes, 4), numbers(&changes, u64::MAX)), (None, None));
        for _ in 0..KEPT {
            changes.note(&record(9, JobState::Active));
        }
        assert_eq!(numbers(&changes, 2), None, "it is not kept");
        assert_eq!(numbers(&changes, 3).map(|found| found.len()), Some(KEPT));
    }
}
