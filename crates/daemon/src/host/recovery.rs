//! A machine made again from its journal, and when to take the snapshot that this begins with.

use std::io::{self, BufReader, Cursor, Read};

use pliant_control::replay::Machine;
use pliant_journal::{EntryBytes, Journal, JournalError, Snapshot};
use pliant_model::Time;
use pliant_transport::Clock;
use serde::de::DeserializeOwned;

use super::MachineError;

/// How many times as many bytes of events as the last snapshot had are gathered before the next one: a snapshot of
/// many jobs is long, and while it is written no call is answered.
const GROWTH: usize = 2;
/// How many bytes more are enough, whatever the number of their entries.
const BYTES: usize = 64 << 20;
/// However long the last snapshot was, the next one is taken after so many times [`Settings::snapshot_every`]
/// entries: a restart replays them all.
const ENTRIES_FACTOR: u64 = 5;

/// A machine recovered from its journal, and what it needs to go on.
pub(crate) struct Recovered<M> {
    /// The machine.
    pub machine: M,
    /// The last entry replayed.
    pub(super) sequence: u64,
    pub(super) since_snapshot: Since,
    /// The number of the next status update.
    pub(crate) next_update: u64,
    /// The clock to go on with.
    pub clock: Clock,
    /// The bytes of the entries that the journal has.
    pub(super) history: Vec<EntryBytes>,
}

/// The entries since the last snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Since {
    entries: u64,
    bytes: usize,
    /// How long that snapshot was.
    snapshot_bytes: usize,
}

impl Since {
    /// Nothing yet, since a snapshot of so many bytes.
    pub(super) fn snapshot(snapshot_bytes: usize) -> Since {
        Since { snapshot_bytes, ..Since::default() }
    }

    /// The entries since a snapshot of so many bytes which contains those until then.
    pub(super) fn after(self, until: Since, snapshot_bytes: usize) -> Since {
        let (entries, bytes) = (self.entries - until.entries, self.bytes - until.bytes);
        Since { entries, bytes, snapshot_bytes }
    }

    /// True if there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// One more event.
    pub(super) fn record_event(&mut self, event: &str) {
        self.entries += 1;
        self.bytes += event.len();
    }

    /// True if it is time for the next one.
    pub(super) fn is_enough(&self, every: u64) -> bool {
        let has_grown = self.bytes >= self.snapshot_bytes * GROWTH;
        // Few large events fill a disk as well.
        let has_many_bytes = self.bytes >= self.snapshot_bytes * GROWTH + BYTES;
        has_many_bytes || self.entries >= every && (has_grown || self.entries >= every * ENTRIES_FACTOR)
    }
}

/// How many entries are read at once.
const PAGE: u32 = 256;

/// Makes a machine from its journal: the last snapshot, and every entry after it. Neither is in memory as a whole.
pub(crate) fn recover<M: Machine>(
    journal: &mut dyn Journal,
    new: impl FnOnce(Time) -> M,
    from_state: impl FnOnce(M::State) -> Result<M, String>,
) -> Result<Recovered<M>, MachineError> {
    let loaded = journal.load()?;
    let mut sequence = loaded.snapshot.map_or(0, |snapshot| snapshot.seq);
    let mut entries = journal.entries(sequence, PAGE)?;
    let mut last = loaded.snapshot.map(|snapshot| snapshot.at);
    let mut since_snapshot = Since::default();
    let mut machine = match loaded.snapshot {
        Some(snapshot) => {
            let (state, bytes) = state(journal, snapshot)?;
            since_snapshot = Since::snapshot(bytes);
            from_state(state).map_err(|why| MachineError::Restore { why })?
        }
        None => new(entries.first().map_or_else(|| Clock::start(Time(0)).now(), |entry| Time(entry.at))),
    };
    let mut commands = Vec::new();
    while !entries.is_empty() {
        for entry in entries {
            sequence = entry.seq;
            last = Some(entry.at);
            since_snapshot.record_event(&entry.event);
            let event = serde_json::from_str(&entry.event)
                .map_err(|source| MachineError::Unreadable { sequence, source })?;
            machine.on(Time(entry.at), event, &mut commands);
            commands.clear();
        }
        entries = journal.entries(sequence, PAGE)?;
    }
    let clock = Clock::start(Time(last.unwrap_or(0)));
    let (next_update, history) = (loaded.next_update, loaded.history);
    Ok(Recovered { machine, sequence, since_snapshot, next_update, clock, history })
}

/// The state in a snapshot, and its length in bytes.
fn state<S: DeserializeOwned>(
    journal: &mut dyn Journal,
    snapshot: Snapshot,
) -> Result<(S, usize), MachineError> {
    let mut parts = Parts { journal, snapshot, next: 0, current: Cursor::default(), bytes: 0, failure: None };
    let read = serde_json::from_reader(BufReader::with_capacity(1 << 16, &mut parts));
    if let Some(error) = parts.failure {
        return Err(error.into());
    }
    let state = read.map_err(|source| MachineError::Unreadable { sequence: snapshot.seq, source })?;
    Ok((state, parts.bytes))
}

/// Reads a snapshot part by part.
struct Parts<'j> {
    journal: &'j mut dyn Journal,
    snapshot: Snapshot,
    next: u32,
    current: Cursor<Vec<u8>>,
    bytes: usize,
    failure: Option<JournalError>,
}

impl Read for Parts<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.current.read(buffer)?;
            if read > 0 || buffer.is_empty() || self.next == self.snapshot.parts {
                return Ok(read);
            }
            let part = self.journal.snapshot_part(self.snapshot.seq, self.next).map_err(|error| {
                let text = error.to_string();
                self.failure = Some(error);
                io::Error::other(text)
            })?;
            self.next += 1;
            self.bytes += part.len();
            self.current = Cursor::new(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_a_snapshot_the_later_the_next_one() {
        let is_enough = |entries: u64, snapshot_bytes: usize| {
            let mut since = Since::snapshot(snapshot_bytes);
            (0..entries).for_each(|_| since.record_event("ten bytes."));
            since.is_enough(100)
        };
        let mut large = Since::snapshot(1_000);
        large.record_event(&"x".repeat(BYTES + GROWTH * 1_000 - 1));
        assert!(!large.is_enough(100));
        large.record_event("x");
        assert!(large.is_enough(100), "large events");
        // Bytes of the snapshot, and after how many events of ten bytes the next one is taken.
        for (snapshot_bytes, expected) in [(0, 100), (500, 100), (1_000, 200), (2_000, 400), (1_000_000, 500)]
        {
            assert!(!is_enough(expected - 1, snapshot_bytes), "{snapshot_bytes} bytes: too early");
            assert!(is_enough(expected, snapshot_bytes), "{snapshot_bytes} bytes: too late");
        }
    }
}
