//! How long the history of a journal may be in bytes: old entries that are in a snapshot go before they are too old if many bytes
//! came in after them. A peer that sends as much as it may so fills no disk.

use std::collections::VecDeque;

use pliant_journal::EntryBytes;

/// In how many parts a full history is counted.
const PARTS: u64 = 64;

/// The bytes of the entries of a journal.
#[derive(Debug)]
pub(super) struct History {
    limit_bytes: u64,
    /// In order; empty before the first entry.
    parts: VecDeque<EntryBytes>,
    /// Of all parts.
    bytes: u64,
    /// Zero while all entries are within the limit.
    first_kept: u64,
}

impl History {
    /// The history of a journal that has these entries already.
    pub(super) fn new(limit_bytes: u64, loaded: Vec<EntryBytes>) -> History {
        let bytes = loaded.iter().map(|part| part.bytes).sum();
        History { limit_bytes, parts: loaded.into(), bytes, first_kept: 0 }
    }

    /// One more entry.
    pub(super) fn record(&mut self, seq: u64, event: &str) {
        let bytes = event.len() as u64;
        self.bytes += bytes;
        match self.parts.back_mut() {
            Some(last) if last.bytes < self.limit_bytes / PARTS => last.bytes += bytes,
            _ => self.parts.push_back(EntryBytes { first: seq, bytes }),
        }
    }

    /// The first entry that is within the limit, zero if all are. Those before it are not counted any more.
    pub(super) fn first_kept(&mut self) -> u64 {
        while self.bytes > self.limit_bytes
            && self.parts.len() > 1
            && let Some(oldest) = self.parts.pop_front()
        {
            self.bytes -= oldest.bytes;
            self.first_kept = self.parts.front().map_or(0, |part| part.first);
        }
        self.first_kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_entries_within_the_limit_are_kept() {
        let mut history = History::new(6_400, Vec::new());
        assert_eq!(history.first_kept(), 0, "nothing is there");
        for seq in 1..=64 {
            history.record(seq, &"x".repeat(100));
        }
        assert_eq!(history.first_kept(), 0, "exactly full");
        for seq in 65..=70 {
            history.record(seq, &"x".repeat(100));
        }
        assert_eq!(history.first_kept(), 7);
        history.record(71, &"x".repeat(9_000));
        assert_eq!(history.first_kept(), 71, "one that is too long by itself stays");
    }

    #[test]
    fn small_entries_are_counted_together() {
        let mut history = History::new(64_000, Vec::new());
        for seq in 1..=100_000 {
            history.record(seq, "12345678");
            let kept = (seq - history.first_kept().max(1) + 1) * 8;
            assert!(kept <= 64_000 && (seq < 8_000 || kept > 62_000), "{kept} bytes at {seq}");
            assert!(history.parts.len() <= 66);
        }
    }

    #[test]
    fn what_was_loaded_counts() {
        let loaded = vec![EntryBytes { first: 5, bytes: 600 }, EntryBytes { first: 9, bytes: 300 }];
        let mut history = History::new(1_000, loaded);
        assert_eq!(history.first_kept(), 0);
        history.record(12, &"x".repeat(200));
        assert_eq!(history.first_kept(), 9);
    }
}
