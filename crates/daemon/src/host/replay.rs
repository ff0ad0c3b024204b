//! A recorded journal replayed (invariant 10): a stopped daemon's entries, given to a new machine of `control`,
//! lead to the same commands.

use std::path::Path;

use pliant_control::replay::{JournalEvent, Machine, replay};
use pliant_journal::{self as journal, Entry};
use pliant_model::Time;

use super::{MachineError, digest};

/// How many entries are read at a time.
const PAGE: u32 = 10_000;

/// The outcome of a replay.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ReplayReport {
    /// How many entries were replayed.
    pub entries: u64,
    /// The numbers of those whose commands are others than were recorded.
    pub differing: Vec<u64>,
}

/// Replays the journal of a stopped daemon to a new machine, from the first entry on.
///
/// # Errors
///
/// If the journal cannot be read, or its first entries are kept no longer.
pub fn replay_journal<M: Machine>(
    folder: &Path,
    new: impl FnOnce(Time) -> M,
) -> Result<ReplayReport, MachineError> {
    let mut archive = journal::open_sqlite(folder)?.archive()?;
    let mut page = archive.entries(1, PAGE)?;
    let Some(first) = page.first() else { return Ok(ReplayReport::default()) };
    if first.seq != 1 {
        return Err(MachineError::Restore {
            why: format!("expected the journal from its first entry on, found it from entry {}", first.seq),
        });
    }
    let mut machine = new(Time(first.at));
    let mut replayed = ReplayReport::default();
    while let Some(last) = page.last().map(|entry| entry.seq) {
        let events = page.iter().map(recorded::<M>).collect::<Result<Vec<_>, _>>()?;
        for (entry, commands) in page.iter().zip(replay(&mut machine, events)) {
            replayed.entries += 1;
            if digest::<M>(&commands) != entry.commands {
                replayed.differing.push(entry.seq);
            }
        }
        page = archive.entries(last + 1, PAGE)?;
    }
    Ok(replayed)
}

fn recorded<M: Machine>(entry: &Entry) -> Result<JournalEvent<M::Event>, MachineError> {
    let event = serde_json::from_str(&entry.event);
    let event = event.map_err(|source| MachineError::Unreadable { sequence: entry.seq, source })?;
    Ok(JournalEvent { at: Time(entry.at), event })
}
