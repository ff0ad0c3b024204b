//! The past of a daemon, which is made here and not lived through.

use pliant_control::replay::Machine;
use pliant_daemon::host::digest;
use pliant_journal::{Batch, Entry, Journal, SnapshotPart};
use pliant_model::Time;

use crate::Outcome;

/// The bytes of a part of a snapshot.
const PART_BYTES: usize = 1 << 20;

/// A machine and the entries of its journal that are not committed yet.
pub(crate) struct Past<M> {
    pub(crate) machine: M,
    pub(crate) at: Time,
    pub(crate) entries: Vec<Entry>,
    pub(crate) sequence: u64,
}

impl<M: Machine> Past<M> {
    /// A machine in whose state the entry of that number is the last one.
    pub(crate) fn new(machine: M, at: Time, sequence: u64) -> Past<M> {
        Past { machine, at, entries: Vec::new(), sequence }
    }

    /// Hands an event to the machine. Returns what follows from it.
    pub(crate) fn deliver(&mut self, event: M::Event) -> Outcome<Vec<M::Command>> {
        let text = serde_json::to_string(&event)?;
        let mut commands = Vec::new();
        self.machine.on(self.at, event, &mut commands);
        self.sequence += 1;
        let digest = digest::<M>(&commands);
        self.entries.push(Entry { seq: self.sequence, at: self.at.0, event: text, commands: digest });
        Ok(commands)
    }

    /// Commits the entries.
    pub(crate) fn commit(&mut self, journal: &mut dyn Journal) -> Outcome<()> {
        let entries = std::mem::take(&mut self.entries);
        Ok(journal.commit(&Batch { entries, ..Batch::default() })?)
    }

    /// Writes a snapshot of the state. Returns its bytes.
    pub(crate) fn snapshot(&mut self, journal: &mut dyn Journal) -> Outcome<usize> {
        let bytes = serde_json::to_vec(&self.machine.dump(self.at))?;
        let last = bytes.len().div_ceil(PART_BYTES) - 1;
        for (number, piece) in bytes.chunks(PART_BYTES).enumerate() {
            let (part, is_last) = (u32::try_from(number)?, number == last);
            let (seq, at, bytes) = (self.sequence, self.at.0, piece.to_vec());
            let part = SnapshotPart { seq, at, part, bytes, is_last };
            journal.commit(&Batch { snapshot_part: Some(part), ..Batch::default() })?;
        }
        Ok(bytes.len())
    }
}
