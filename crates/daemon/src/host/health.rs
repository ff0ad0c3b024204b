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
        let mut failures = self.0.lock();
        match &shortage {
            Some(why) if failures.disk.is_none() => {
                tracing::error!(why, "no new work is accepted: the disk is almost full");
            }
            None if failures.disk.is_some() => tracing::info!("the disk has room for new work again"),
            _ => {}
        }
        failures.disk = shortage;
    }

    /// Why the disk has no room for new work; none if it has. What was accepted goes on.
    pub(crate) fn shortage(&self) -> Option<String> {
        self.0.lock().disk.clone()
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
