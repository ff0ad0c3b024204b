//! Whether a journal can be written.

use std::sync::Arc;

use parking_lot::Mutex;
use pliant_journal::JournalError;

/// Why a daemon's journal cannot be written at the moment, if it cannot.
#[derive(Clone, Default, Debug)]
pub(crate) struct JournalHealth(Arc<Mutex<Option<String>>>);

impl JournalHealth {
    /// How the last commit went.
    pub(crate) fn committed(&self, outcome: Result<(), &JournalError>) {
        *self.0.lock() = outcome.err().map(ToString::to_string);
    }

    /// Why the journal cannot be written; none if it can.
    pub(crate) fn failure(&self) -> Option<String> {
        self.0.lock().clone()
    }
}
