//! Callers that act outside of the journal, such as in the folder of a job, and that wait until it is known that this daemon leads.
//!
//! A daemon that hung while another one took its journal over has commands left that it had committed before. A commit would fail; these
//! checks do the same for what needs no commit.

use std::time::{Duration, Instant};

use pliant_journal::{Journal, JournalError};
use tokio::sync::oneshot;

use super::health::JournalHealth;

/// The pause after a check that failed.
const RETRY: Duration = Duration::from_secs(1);

/// The callers that wait for the next check.
#[derive(Default, Debug)]
pub(super) struct LeaderChecks {
    waiting: Vec<oneshot::Sender<()>>,
    /// When the last check failed, if it did.
    failed: Option<Instant>,
}

impl LeaderChecks {
    /// Adds a caller. It is answered if this daemon leads, and never if it does not.
    pub(super) fn add(&mut self, waits: oneshot::Sender<()>) {
        self.waiting.push(waits);
    }

    /// Checks for all that wait. While the journal's database cannot be reached, they go on waiting.
    ///
    /// # Errors
    ///
    /// [`JournalError::Deposed`] and other errors that do not pass: the daemon must end.
    pub(super) fn answer(
        &mut self,
        journal: &mut dyn Journal,
        health: &JournalHealth,
    ) -> Result<(), JournalError> {
        if self.waiting.is_empty() || self.failed.is_some_and(|failed| failed.elapsed() < RETRY) {
            return Ok(());
        }
        let outcome = journal.check_leader();
        health.committed(outcome.as_ref().copied());
        match outcome {
            Ok(()) => {
                for waits in self.waiting.drain(..) {
                    // The caller may have gone.
                    let _ = waits.send(());
                }
                self.failed = None;
                Ok(())
            }
            Err(error) if error.is_transient() => {
                if self.failed.is_none() {
                    tracing::warn!(%error, "cannot see whether this daemon still leads: trying again, folders of jobs wait");
                }
                self.failed = Some(Instant::now());
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}
