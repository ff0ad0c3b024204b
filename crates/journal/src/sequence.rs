//! Checks of completeness: entries and status updates are numbered without gaps, and the journal stores their ends.

use super::{Batch, Entry, JournalError, SnapshotPart, StatusUpdate};

const ENTRY: &str = "entry";
const STATUS_UPDATE: &str = "status update";

/// The end of a journal. Stored in a row of its own and changed in the same transaction as the numbered rows, so that rows
/// missing at the end are noticed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tail {
    /// The last entry; 0 if there is none.
    pub last_entry: u64,
    /// The number of the next status update.
    pub next_update: u64,
}

/// The new part of a batch.
#[derive(PartialEq, Debug)]
pub(super) struct Fresh<'b> {
    pub entries: &'b [Entry],
    pub status_updates: &'b [StatusUpdate],
    /// The end of the journal after the batch.
    pub tail: Tail,
}

impl Tail {
    /// The end of a new journal.
    pub(super) const START: Tail = Tail { last_entry: 0, next_update: 1 };

    /// The part of a batch that is not in the journal yet. None if the journal has its entries, and so all of it.
    pub(super) fn fresh(self, batch: &Batch) -> Result<Option<Fresh<'_>>, JournalError> {
        let entries = batch.entries.iter().map(|entry| entry.seq);
        let updates = batch.status_updates.iter().map(|update| update.seq);
        contiguous(ENTRY, entries)?;
        contiguous(STATUS_UPDATE, updates.clone())?;
        let repeated = batch.entries.last().is_some_and(|last| last.seq <= self.last_entry);
        let new_updates = updates.clone().filter(|seq| *seq >= self.next_update).count();
        if repeated && new_updates == 0 {
            return Ok(None);
        }
        follows(ENTRY, self.last_entry + 1, batch.entries.first().map(|first| first.seq))?;
        let fresh = &batch.status_updates[batch.status_updates.len() - new_updates..];
        follows(STATUS_UPDATE, self.next_update, fresh.first().map(|update| update.seq))?;
        let tail = Tail {
            last_entry: batch.entries.last().map_or(self.last_entry, |last| last.seq),
            next_update: self.next_update + new_updates as u64,
        };
        match &batch.snapshot_part {
            Some(SnapshotPart { seq, .. }) if *seq > tail.last_entry => {
                Err(JournalError::Order { what: ENTRY, expected: tail.last_entry + 1, found: *seq })
            }
            _ => Ok(Some(Fresh { entries: &batch.entries, status_updates: fresh, tail })),
        }
    }

    /// Checks that the journal does not end before an earlier end.
    #[cfg(feature = "postgres")]
    pub(super) fn check_follows(self, location: &str, earlier: Tail) -> Result<(), JournalError> {
        let ends = [
            (ENTRY, earlier.last_entry, self.last_entry),
            (STATUS_UPDATE, earlier.next_update - 1, self.next_update - 1),
        ];
        match ends.into_iter().find(|(_, expected, found)| found < expected) {
            None => Ok(()),
            Some((what, expected, found)) => {
                Err(JournalError::Lagging { location: location.to_owned(), what, expected, found })
            }
        }
    }

    /// Checks that everything committed is there: these are the numbers of the entries after a snapshot, and of status updates.
    pub(super) fn check(
        self,
        location: &str,
        snapshot: u64,
        entries: &[u64],
        status_updates: &[u64],
    ) -> Result<(), JournalError> {
        let gap = |what, expected, found| {
            Err(JournalError::Gap { location: location.to_owned(), what, expected, found })
        };
        let mut expected = snapshot + 1;
        for entry in entries {
            if *entry != expected {
                return gap(ENTRY, expected, Some(*entry));
            }
            expected += 1;
        }
        if expected <= self.last_entry {
            return gap(ENTRY, expected, None);
        }
        if expected > self.last_entry + 1 {
            let why = format!("expected entry {} to be the last, found {}", self.last_entry, expected - 1);
            return Err(JournalError::Damaged { location: location.to_owned(), why });
        }
        // Acknowledged updates are deleted: the first may have any number.
        let mut expected = status_updates.first().copied().unwrap_or(self.next_update);
        for update in status_updates {
            if *update != expected {
                return gap(STATUS_UPDATE, expected, Some(*update));
            }
            expected += 1;
        }
        if expected != self.next_update {
            return gap(STATUS_UPDATE, expected, None);
        }
        Ok(())
    }
}

/// Checks that a repeated batch equals the committed one: `kept` is the journal's entry with the number of the batch's
/// last entry, if it was not deleted.
pub(super) fn same(batch: &Batch, kept: Option<&Entry>) -> Result<(), JournalError> {
    match (batch.entries.last(), kept) {
        (Some(last), Some(kept)) if last != kept => {
            Err(JournalError::Order { what: ENTRY, expected: kept.seq + 1, found: last.seq })
        }
        _ => Ok(()),
    }
}

/// Checks that entries read from the past are contiguous.
pub(super) fn whole(location: &str, entries: Vec<Entry>) -> Result<Vec<Entry>, JournalError> {
    for pair in entries.windows(2) {
        let expected = pair[0].seq + 1;
        if pair[1].seq != expected {
            let found = Some(pair[1].seq);
            return Err(JournalError::Gap { location: location.to_owned(), what: ENTRY, expected, found });
        }
    }
    Ok(entries)
}

fn contiguous(what: &'static str, mut numbers: impl Iterator<Item = u64>) -> Result<(), JournalError> {
    let Some(mut last) = numbers.next() else { return Ok(()) };
    for found in numbers {
        follows(what, last + 1, Some(found))?;
        last = found;
    }
    Ok(())
}

fn follows(what: &'static str, expected: u64, found: Option<u64>) -> Result<(), JournalError> {
    match found {
        Some(found) if found != expected => Err(JournalError::Order { what, expected, found }),
        _ => Ok(()),
    }
}
