//! That nothing is missing: entries and news are numbered without gaps, and the journal says where they end.

use super::{Batch, Entry, JournalError, Loaded, Notice};

const ENTRY: &str = "entry";
const NEWS: &str = "news";

/// Where a journal ends. Kept in a row of its own, changed in the same transaction as what it counts, so that
/// what is missing at the end is missed as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tail {
    /// The last entry; 0 if there was none.
    pub last_entry: u64,
    /// The number of the next news.
    pub next_notice: u64,
}

/// What a batch adds.
#[derive(PartialEq, Debug)]
pub(super) struct Fresh<'b> {
    pub entries: &'b [Entry],
    pub notices: &'b [Notice],
    /// Where the journal ends after it.
    pub tail: Tail,
}

impl Tail {
    /// The end of a new journal.
    pub(super) const START: Tail = Tail { last_entry: 0, next_notice: 1 };

    /// What a batch adds to a journal that ends here. None if its entries are there, and so all of it.
    pub(super) fn fresh(self, batch: &Batch) -> Result<Option<Fresh<'_>>, JournalError> {
        let entries = batch.entries.iter().map(|entry| entry.seq);
        let notices = batch.notices.iter().map(|notice| notice.seq);
        contiguous(ENTRY, entries)?;
        contiguous(NEWS, notices.clone())?;
        let repeated = batch.entries.last().is_some_and(|last| last.seq <= self.last_entry);
        let new_notices = notices.clone().filter(|seq| *seq >= self.next_notice).count();
        if repeated && new_notices == 0 {
            return Ok(None);
        }
        follows(ENTRY, self.last_entry + 1, batch.entries.first().map(|first| first.seq))?;
        let fresh = &batch.notices[batch.notices.len() - new_notices..];
        follows(NEWS, self.next_notice, fresh.first().map(|notice| notice.seq))?;
        let tail = Tail {
            last_entry: batch.entries.last().map_or(self.last_entry, |last| last.seq),
            next_notice: self.next_notice + new_notices as u64,
        };
        Ok(Some(Fresh { entries: &batch.entries, notices: fresh, tail }))
    }

    /// An error if a snapshot has entries that the journal never had.
    pub(super) fn covers(self, snapshot: u64) -> Result<(), JournalError> {
        if snapshot <= self.last_entry {
            return Ok(());
        }
        Err(JournalError::Order { what: ENTRY, expected: self.last_entry + 1, found: snapshot })
    }

    /// An error if what was loaded is not all that was committed.
    pub(super) fn check(self, place: &str, loaded: &Loaded) -> Result<(), JournalError> {
        let gap =
            |what, expected, found| Err(JournalError::Gap { place: place.to_owned(), what, expected, found });
        let mut expected = loaded.snapshot.as_ref().map_or(1, |snapshot| snapshot.seq + 1);
        for entry in &loaded.entries {
            if entry.seq != expected {
                return gap(ENTRY, expected, Some(entry.seq));
            }
            expected += 1;
        }
        if expected <= self.last_entry {
            return gap(ENTRY, expected, None);
        }
        if expected > self.last_entry + 1 {
            let why = format!("expected entry {} to be the last, found {}", self.last_entry, expected - 1);
            return Err(JournalError::Damaged { place: place.to_owned(), why });
        }
        // Those acknowledged are gone: the first may be any.
        let mut expected = loaded.notices.first().copied().unwrap_or(self.next_notice);
        for notice in &loaded.notices {
            if *notice != expected {
                return gap(NEWS, expected, Some(*notice));
            }
            expected += 1;
        }
        if expected != self.next_notice {
            return gap(NEWS, expected, None);
        }
        Ok(())
    }
}

/// An error if a batch that seems to be there already says something else than what is there: `kept` is the
/// entry with the number of its last, if that was not dropped.
pub(super) fn same(batch: &Batch, kept: Option<&Entry>) -> Result<(), JournalError> {
    match (batch.entries.last(), kept) {
        (Some(last), Some(kept)) if last != kept => {
            Err(JournalError::Order { what: ENTRY, expected: kept.seq + 1, found: last.seq })
        }
        _ => Ok(()),
    }
}

/// An error if entries of the past are not all there.
pub(super) fn whole(place: &str, entries: Vec<Entry>) -> Result<Vec<Entry>, JournalError> {
    for pair in entries.windows(2) {
        let expected = pair[0].seq + 1;
        if pair[1].seq != expected {
            let found = Some(pair[1].seq);
            return Err(JournalError::Gap { place: place.to_owned(), what: ENTRY, expected, found });
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
