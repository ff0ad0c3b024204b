//! A machine made again from its journal, and when to take the snapshot that this begins with.

use pliant_control::replay::Machine;
use pliant_journal::Journal;
use pliant_model::Time;
use pliant_transport::Clock;

use super::MachineError;

/// How many times as many bytes of events as the last snapshot had are gathered before the next one: a snapshot of
/// many jobs is long, and while it is written no call is answered.
const GROWTH: usize = 2;
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
}

/// The entries since the last snapshot.
#[derive(Clone, Copy, Default, Debug)]
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

    /// One more event.
    pub(super) fn record_event(&mut self, event: &str) {
        self.entries += 1;
        self.bytes += event.len();
    }

    /// True if it is time for the next one.
    pub(super) fn is_enough(&self, every: u64) -> bool {
        let has_grown = self.bytes >= self.snapshot_bytes * GROWTH;
        self.entries >= every && (has_grown || self.entries >= every * ENTRIES_FACTOR)
    }
}

/// Makes a machine from its journal: the last snapshot, and every entry after it.
pub(crate) fn recover<M: Machine>(
    journal: &mut dyn Journal,
    new: impl FnOnce(Time) -> M,
    from_state: impl FnOnce(M::State) -> Result<M, String>,
) -> Result<Recovered<M>, MachineError> {
    let loaded = journal.load()?;
    let last = loaded.entries.last().map(|entry| entry.at);
    let not_before = last.or(loaded.snapshot.as_ref().map(|snapshot| snapshot.at)).unwrap_or(0);
    let clock = Clock::start(Time(not_before));
    let mut sequence = 0;
    let mut since_snapshot = Since::default();
    let mut machine = match loaded.snapshot {
        Some(snapshot) => {
            sequence = snapshot.seq;
            since_snapshot = Since::snapshot(snapshot.state.len());
            let state = serde_json::from_str(&snapshot.state)
                .map_err(|source| MachineError::Unreadable { sequence, source })?;
            from_state(state).map_err(|why| MachineError::Restore { why })?
        }
        None => new(loaded.entries.first().map_or(clock.now(), |entry| Time(entry.at))),
    };
    let mut commands = Vec::new();
    for entry in loaded.entries {
        sequence = entry.seq;
        since_snapshot.record_event(&entry.event);
        let event = serde_json::from_str(&entry.event)
            .map_err(|source| MachineError::Unreadable { sequence, source })?;
        machine.on(Time(entry.at), event, &mut commands);
        commands.clear();
    }
    let next_update = loaded.next_update;
    Ok(Recovered { machine, sequence, since_snapshot, next_update, clock })
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
        // Bytes of the snapshot, and after how many events of ten bytes the next one is taken.
        for (snapshot_bytes, expected) in [(0, 100), (500, 100), (1_000, 200), (2_000, 400), (1_000_000, 500)]
        {
            assert!(!is_enough(expected - 1, snapshot_bytes), "{snapshot_bytes} bytes: too early");
            assert!(is_enough(expected, snapshot_bytes), "{snapshot_bytes} bytes: too late");
        }
    }
}
