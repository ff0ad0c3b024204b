//! A machine with its journal, from the opening of the journal to the start of its thread.

use pliant_control::replay::Machine;
use pliant_journal::{Batch, Entry, Journal, JournalError};
use pliant_model::Time;
use pliant_transport::Clock;

use super::digest::digest;
use super::durable_record::{DurableRecord, keep};
use super::health::JournalHealth;
use super::machine_loop::Driver;
use super::mailbox::{Inbox, Mailbox, mailbox};
use super::readers::SharedArchive;
use super::recovery::{Recovered, recover};
use super::settings::Settings;
use super::thread::MachineThread;
use super::{DaemonError, MachineError};

/// A recovered machine. It is reached by its mailbox; [`MachineHost::start`] runs it.
pub(crate) struct MachineHost<M: Machine> {
    /// Where events and questions for the machine go.
    pub(crate) mailbox: Mailbox<M>,
    /// The clock that the machine goes on with.
    pub(crate) clock: Clock,
    /// Whether the journal can be written, from the start on.
    pub(crate) health: JournalHealth,
    recovered: Recovered<M>,
    journal: Box<dyn Journal>,
    inbox: Inbox<M>,
}

impl<M> MachineHost<M>
where
    M: Machine + Send + 'static,
    M::Event: Send,
    M::Command: Send,
{
    /// Opens a journal, claims it for `owner`, and recovers the machine from it: see [`MachineHost::of`].
    ///
    /// # Errors
    ///
    /// If the journal cannot be opened, is another daemon's, or does not fit the configuration.
    pub(crate) async fn recover(
        owner: String,
        open: impl FnOnce() -> Result<Box<dyn Journal>, JournalError> + Send + 'static,
        new: impl FnOnce(u64, Time) -> M + Send + 'static,
        restore: impl FnOnce(M::State) -> Result<M, String> + Send + 'static,
    ) -> Result<MachineHost<M>, DaemonError> {
        let recovery = tokio::task::spawn_blocking(move || -> Result<_, DaemonError> {
            let mut journal = open()?;
            journal.claim(&owner)?;
            Ok(MachineHost::of(journal, new, restore)?)
        });
        recovery.await.expect("recovery does not panic")
    }

    /// Recovers a machine from a journal: `restore` makes it from the last snapshot; `new`, which is given the journal's id and
    /// the time of its first entry, makes one where there is no snapshot.
    ///
    /// # Errors
    ///
    /// If the journal cannot be read, or does not fit the configuration.
    pub(crate) fn of(
        mut journal: Box<dyn Journal>,
        new: impl FnOnce(u64, Time) -> M,
        restore: impl FnOnce(M::State) -> Result<M, String>,
    ) -> Result<MachineHost<M>, MachineError> {
        let id = journal.id();
        let recovered = recover(journal.as_mut(), |at| new(id, at), restore)?;
        // A process before may not have synced its last commits, and their status updates go to the parent now.
        match journal.sync() {
            Err(error) if !error.is_transient() => return Err(error.into()),
            Err(error) => tracing::warn!(%error, "the journal cannot be synced now"),
            Ok(()) => {}
        }
        let (mailbox, inbox) = mailbox();
        let (clock, health) = (recovered.clock, JournalHealth::default());
        Ok(MachineHost { mailbox, clock, health, recovered, journal, inbox })
    }

    /// Adapts the recovered machine to a configuration that may have changed.
    ///
    /// # Errors
    ///
    /// If the machine's state does not allow the change.
    pub(crate) fn adapt(
        mut self,
        adapt: impl FnOnce(M) -> Result<M, String>,
    ) -> Result<MachineHost<M>, MachineError> {
        self.recovered.machine =
            adapt(self.recovered.machine).map_err(|why| MachineError::Restore { why })?;
        Ok(self)
    }

    /// True if nothing was ever journaled.
    pub(crate) fn is_new(&self) -> bool {
        self.recovered.sequence == 0
    }

    /// Applies and journals an event from which no command follows.
    ///
    /// # Errors
    ///
    /// If the journal cannot be written.
    pub(crate) fn record(self, event: M::Event) -> Result<MachineHost<M>, DaemonError> {
        self.record_all(event, |_| unreachable!("this event only changes the state"))
    }

    /// Applies and journals an event, with what `keeps` says of the commands that follow from it. None of them is carried out.
    ///
    /// # Errors
    ///
    /// If the journal cannot be written.
    pub(crate) fn record_all(
        mut self,
        event: M::Event,
        keeps: impl Fn(&M::Command) -> DurableRecord,
    ) -> Result<MachineHost<M>, DaemonError> {
        let text = serde_json::to_string(&event).expect("events are plain data with text keys");
        let (now, mut commands) = (self.clock.now(), Vec::new());
        self.recovered.machine.on(now, event, &mut commands);
        self.recovered.sequence += 1;
        self.recovered.since_snapshot.record_event(&text);
        let (seq, digest) = (self.recovered.sequence, digest::<M>(&commands));
        let entry = Entry { seq, at: now.0, event: text, commands: digest };
        let mut batch = Batch { entries: vec![entry], ..Batch::default() };
        for command in &commands {
            // The parent's connection begins with all that was not acknowledged.
            let _ = keep(&mut batch, keeps(command), &mut self.recovered.next_update);
        }
        self.journal.commit(&batch)?;
        Ok(self)
    }

    /// The machine, before it runs.
    pub(crate) fn machine(&self) -> &M {
        &self.recovered.machine
    }

    /// The machine, which is not run.
    pub(crate) fn into_machine(self) -> M {
        self.recovered.machine
    }

    /// The id of the journal.
    pub(crate) fn journal_id(&self) -> u64 {
        self.journal.id()
    }

    /// The number of the next notice to the parent.
    pub(crate) fn next_update(&self) -> u64 {
        self.recovered.next_update
    }

    /// The journal's archive, for requests.
    ///
    /// # Errors
    ///
    /// If it cannot be opened.
    pub(crate) fn archive(&self) -> Result<SharedArchive, DaemonError> {
        Ok(SharedArchive::open(|| self.journal.archive())?)
    }

    /// Runs the machine on a thread of that name.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started.
    pub(crate) fn start<D: Driver<M> + 'static>(
        self,
        name: &str,
        driver: D,
        settings: Settings,
    ) -> Result<MachineThread, DaemonError> {
        let MachineHost { mailbox, health, recovered, journal, inbox, .. } = self;
        let loop_of_machine =
            move || super::machine_loop::run(recovered, journal, driver, inbox, settings, health);
        MachineThread::start(name, loop_of_machine, move || mailbox.stop())
    }
}
