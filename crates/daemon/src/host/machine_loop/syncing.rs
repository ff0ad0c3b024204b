//! Commits that do not wait for the disk, and their syncing.
//!
//! A batch whose events all have [`Durability::Process`] is committed without a sync: what follows from it is carried out at once, and
//! a kill of the process loses nothing. A power failure may lose the last such batches, never one without all later ones. So the numbers
//! of their status updates are withheld from the driver until they are synced: a parent never keeps what the journal may lose. They are
//! synced with the next batch that waits for the disk, or by themselves after [`SYNC_WITHIN`].

use std::time::{Duration, Instant};

use pliant_control::replay::Machine;
use pliant_journal::Durability;

use super::{Driver, MachineError, Runner};

/// How long a commit may not be synced.
const SYNC_WITHIN: Duration = Duration::from_millis(200);
/// How many entries may not be synced.
const ENTRIES_MAX: usize = 4096;

/// What was committed and not synced.
#[derive(Default)]
pub(super) struct Unsynced {
    /// When the first of it was committed.
    since: Option<Instant>,
    entries: usize,
    /// The last status update that was withheld.
    notice: Option<u64>,
    /// The last attempt to sync it failed: nothing more is committed without a sync.
    has_failed: bool,
}

impl Unsynced {
    /// The number of a status update, unless it is withheld.
    pub(super) fn withhold(&mut self, notice: Option<u64>) -> Option<u64> {
        match self.since {
            None => notice,
            Some(_) => {
                self.notice = self.notice.max(notice);
                None
            }
        }
    }
}

impl<M: Machine, D: Driver<M>> Runner<M, D> {
    /// Decides whether the present batch waits for the disk.
    pub(super) fn decide_durability(&mut self) {
        let has_rest = self.batch.entries.is_empty() || self.batch.snapshot_part.is_some();
        let is_enough = self.unsynced.entries + self.batch.entries.len() > ENTRIES_MAX;
        if has_rest || is_enough || !self.barriers.is_empty() || self.unsynced.has_failed {
            self.batch.durability = Durability::Power;
        }
    }

    /// Carries out what waited for what is committed now.
    pub(super) fn follow(&mut self) -> Result<(), MachineError> {
        self.let_go()?;
        if self.backlog.is_empty() {
            return Ok(());
        }
        let (machine, now) = self.shared.at_present();
        for (command, notice) in self.backlog.drain(..) {
            let notice = self.unsynced.withhold(notice);
            self.driver.carry_out(&machine, now, command, notice);
        }
        Ok(())
    }

    /// Answers those who wait until all is durable. Nothing is left to be written.
    fn let_go(&mut self) -> Result<(), MachineError> {
        if self.barriers.is_empty() {
            return Ok(());
        }
        self.sync()?;
        if self.unsynced.since.is_some() {
            // They go on waiting.
            return Ok(());
        }
        for waits in self.barriers.drain(..) {
            // The caller may have gone.
            let _ = waits.send(());
        }
        Ok(())
    }

    /// The present batch is committed.
    pub(super) fn note_committed(&mut self) {
        match self.batch.durability {
            Durability::Power => self.note_synced(),
            Durability::Process => {
                self.unsynced.since.get_or_insert_with(Instant::now);
                self.unsynced.entries += self.batch.entries.len();
            }
        }
    }

    /// How long the loop may wait: no longer than until something is to be synced.
    pub(super) fn sync_in(&self, due: Duration) -> Duration {
        match self.unsynced.since {
            Some(since) if !self.unsynced.has_failed => due.min(SYNC_WITHIN.saturating_sub(since.elapsed())),
            _ => due,
        }
    }

    /// Syncs what has not been for as long as that may be.
    pub(super) fn sync_if_due(&mut self) -> Result<(), MachineError> {
        match self.unsynced.since {
            Some(since) if since.elapsed() >= SYNC_WITHIN => self.sync(),
            _ => Ok(()),
        }
    }

    /// Syncs all that was committed. If the disk does not take it now, later commits try again, and wait for that.
    pub(super) fn sync(&mut self) -> Result<(), MachineError> {
        if self.unsynced.since.is_none() {
            return Ok(());
        }
        match self.journal.sync() {
            Ok(()) => self.note_synced(),
            Err(error) if error.is_transient() => {
                if !std::mem::replace(&mut self.unsynced.has_failed, true) {
                    tracing::error!(%error, "cannot sync the journal: later commits wait for the disk");
                }
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn note_synced(&mut self) {
        let synced = std::mem::take(&mut self.unsynced);
        if let Some(notice) = synced.notice {
            self.driver.synced(notice);
        }
    }
}

#[cfg(test)]
mod tests {
    use pliant_journal::JournalError;

    use super::super::tests::{Echo, Memory, Word, runner};
    use super::*;
    use crate::host::mailbox;

    /// What each commit was to survive, and how often the journal was synced.
    fn committed(journal: &Memory) -> (Vec<Durability>, usize) {
        let kept = journal.0.lock();
        (kept.commits.clone(), kept.syncs)
    }

    #[tokio::test]
    async fn a_batch_waits_for_the_disk_if_one_of_its_events_does() {
        let (mailbox, inbox) = mailbox::<Echo>();
        let journal = Memory::default();
        let mut runner = Runner { inbox, journal: Box::new(journal.clone()), ..runner() };
        let send = |durability| mailbox.send_durable(Word::Durable, durability).unwrap();
        send(Durability::Process);
        assert!(runner.gather() && runner.is_pressing());
        runner.commit().unwrap();
        assert_eq!(committed(&journal), (vec![Durability::Process], 0));
        assert_eq!(runner.driver.0, [Word::Durable], "carried out at once");
        assert_eq!(runner.unsynced.withhold(Some(7)), None, "a parent must not keep what may be lost");
        send(Durability::Process);
        send(Durability::Power);
        assert!(runner.gather());
        runner.commit().unwrap();
        assert_eq!(committed(&journal).0, [Durability::Process, Durability::Power]);
        assert_eq!(runner.driver.1, [7]);
        assert_eq!(runner.unsynced.withhold(Some(8)), Some(8));
    }

    #[tokio::test]
    async fn what_waits_for_durability_waits_for_the_disk() {
        let (mailbox, inbox) = mailbox::<Echo>();
        let journal = Memory::default();
        let mut runner = Runner { inbox, journal: Box::new(journal.clone()), ..runner() };
        mailbox.send_durable(Word::Durable, Durability::Process).unwrap();
        assert!(runner.gather());
        runner.commit().unwrap();
        let settled = tokio::spawn({
            let mailbox = mailbox.clone();
            async move { mailbox.settled().await }
        });
        tokio::task::yield_now().await;
        assert!(runner.gather());
        runner.commit().unwrap();
        assert_eq!(committed(&journal), (vec![Durability::Process], 1));
        settled.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn nothing_is_committed_without_the_disk_once_the_disk_has_failed() {
        let (mailbox, inbox) = mailbox::<Echo>();
        let journal = Memory::default();
        let mut runner = Runner { inbox, journal: Box::new(journal.clone()), ..runner() };
        for _ in 0..2 {
            mailbox.send_durable(Word::Durable, Durability::Process).unwrap();
            assert!(runner.gather());
            runner.commit().unwrap();
            journal.0.lock().sync_failures = vec![JournalError::Failed { why: "disk I/O error".to_owned() }];
            runner.sync().unwrap();
        }
        assert_eq!(committed(&journal).0, [Durability::Process, Durability::Power]);
    }
}
