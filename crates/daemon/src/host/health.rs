//! Whether a journal can be written.

use std::sync::Arc;

use parking_lot::Mutex;
use pliant_journal::JournalError;

/// Why a daemon's journal cannot be written at the moment, if it cannot.
#[derive(Clone, Default, Debug)]
pub(crate) struct JournalHealth(Arc<Mutex<Failures>>);

#[derive(Default, Debug)]
struct Failures {
    commit: Option<String>,
    snapshot: Option<String>,
    disk: Option<String>,
    jobs_disk: Option<String>,
}

impl JournalHealth {
    /// How the last commit went.
    pub(crate) fn committed(&self, outcome: Result<(), &JournalError>) {
        self.0.lock().commit = outcome.err().map(ToString::to_string);
    }

    /// How the last snapshot went: why it could not be written.
    pub(crate) fn snapshot(&self, failure: Option<String>) {
        self.0.lock().snapshot = failure;
    }

    /// Whether its disk has room: why there is none for new work.
    pub(crate) fn disk(&self, shortage: Option<String>) {
        note(&mut self.0.lock().disk, shortage);
    }

    /// The same of the disks with the folders of jobs.
    pub(crate) fn jobs_disk(&self, shortage: Option<String>) {
        note(&mut self.0.lock().jobs_disk, shortage);
    }

    /// Why a disk has no space for new work; none if all have. What was accepted goes on.
    pub(crate) fn shortage(&self) -> Option<String> {
        let failures = self.0.lock();
        failures.disk.as_ref().or(failures.jobs_disk.as_ref()).cloned()
    }

    /// Why the journal cannot be written; none if it can.
    pub(crate) fn failure(&self) -> Option<String> {
        self.0.lock().commit.clone()
    }

    /// Why no snapshot can be written; none if one can. The journal grows meanwhile.
    pub(crate) fn snapshot_failure(&self) -> Option<String> {
        self.0.lock().snapshot.clone()
    }
}

fn note(known: &mut Option<String>, shortage: Option<String>) {
    match &shortage {
        Some(why) if known.is_none() => {
            tracing::error!(why, "no new work is accepted: the disk is almost full");
        }
        None if known.is_some() => tracing::info!("the disk has space for new work again"),
        _ => {}
    }
    *known = shortage;
}
