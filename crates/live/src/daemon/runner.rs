//! The loop of a daemon: every source of events turned into one inbox, one synchronous handler.
//!
//! The thread takes what has come in, tells the machine, commits all of it in one transaction (group commit) and
//! only then carries out what follows, replies included: whatever a user was told is in the journal. While a
//! commit is under way the next batch gathers. A commit that fails (a full disk) is tried again until it
//! succeeds or the daemon is stopped; meanwhile nothing is answered but questions, and clients repeat.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use pliant_control::replay::Machine;
use pliant_model::{Span, Time};

use super::Clock;
use crate::journal::{Batch, Entry, JobRow, Journal, JournalError, Notice, Snapshot};
use crate::telemetry::names;

/// How many events are told between two commits at most.
const BATCH: usize = 1024;
/// The longest pause of the loop, so that it notices what nobody tells it.
const IDLE: Duration = Duration::from_secs(1);
/// The pause between two attempts to commit.
const RETRY: Duration = Duration::from_millis(250);

/// What a machine's commands mean outside.
pub trait Driver<M: Machine>: Send {
    /// What a command keeps in the journal, in the same transaction as the event it follows from.
    fn keeps(&mut self, command: &M::Command) -> Kept;

    /// True if the command may be carried out before its event is durable: it promises nothing.
    fn is_early(&self, command: &M::Command) -> bool;

    /// Carries a command out. `notice` is the journal's number of the news that the command keeps.
    fn carry_out(&mut self, machine: &M, now: Time, command: M::Command, notice: Option<u64>);

    /// Told after each batch: how the journal does.
    fn committed(&mut self, _machine: &M, _outcome: Result<(), &JournalError>) {}
}

/// What is kept of a command.
#[derive(Clone, PartialEq, Debug)]
pub enum Kept {
    /// Nothing.
    Nothing,
    /// News for the parent, until they are acknowledged.
    Notice(String),
    /// The row of a job that has ended.
    Ended(Box<JobRow>),
}

/// How the loop is to run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// How many entries between two snapshots.
    pub snapshot_every: u64,
    /// How long entries are kept for replays once they are in a snapshot.
    pub history: Span,
    /// Whether the daemon has a parent to tell news to.
    pub notices: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { snapshot_every: 20_000, history: Span(30 * 86_400), notices: true }
    }
}

/// Why the loop cannot go on.
#[derive(Debug)]
pub enum RunnerError {
    /// The journal is lost for good: somebody else leads, or it is damaged.
    Journal(JournalError),
    /// The state in the journal does not fit the configuration.
    Restore {
        /// Why.
        why: String,
    },
    /// What the journal holds cannot be read.
    Unreadable {
        /// The entry, or the snapshot's.
        sequence: u64,
        /// What is wrong.
        source: serde_json::Error,
    },
}

impl std::fmt::Display for RunnerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Journal(error) => write!(f, "{error}"),
            Self::Restore { why } => write!(
                f,
                "the state in the journal does not fit the configuration: {why}; to change a cluster's size or policy, \
                 let it run empty first"
            ),
            Self::Unreadable { sequence, source } => {
                write!(f, "cannot read entry {sequence} of the journal: {source}")
            }
        }
    }
}

impl std::error::Error for RunnerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Journal(error) => Some(error),
            Self::Restore { .. } => None,
            Self::Unreadable { source, .. } => Some(source),
        }
    }
}

impl From<JournalError> for RunnerError {
    fn from(error: JournalError) -> RunnerError {
        RunnerError::Journal(error)
    }
}

impl Settings {
    /// So many days.
    pub fn days(days: u32) -> Span {
        Span(i64::from(days) * 86_400)
    }
}

type Question<M> = Box<dyn FnOnce(&mut M, Time) + Send>;

enum Input<M: Machine> {
    Event(M::Event),
    Question(Question<M>),
    Acknowledged(u64),
    Stop,
}

/// Where to leave what the machine is to be told or asked.
pub struct Mailbox<M: Machine> {
    sender: Sender<Input<M>>,
}

impl<M: Machine> Clone for Mailbox<M> {
    fn clone(&self) -> Self {
        Mailbox { sender: self.sender.clone() }
    }
}

/// The daemon has stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped;

impl<M: Machine> Mailbox<M> {
    /// Tells the machine what happened.
    pub fn tell(&self, event: M::Event) -> Result<(), Stopped> {
        self.sender.send(Input::Event(event)).map_err(|_| Stopped)
    }

    /// Asks the machine something that changes nothing.
    pub async fn ask<A: Send + 'static>(
        &self,
        question: impl FnOnce(&mut M, Time) -> A + Send + 'static,
    ) -> Result<A, Stopped> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let question: Question<M> = Box::new(move |machine, now| {
            // Whoever asked may have gone.
            let _ = sender.send(question(machine, now));
        });
        self.sender.send(Input::Question(question)).map_err(|_| Stopped)?;
        receiver.await.map_err(|_| Stopped)
    }

    /// The parent has kept the news up to there.
    pub fn acknowledged(&self, sequence: u64) {
        // A daemon that has stopped asks again when it starts.
        let _ = self.sender.send(Input::Acknowledged(sequence));
    }

    /// Ends the loop once what was told before is done.
    pub fn stop(&self) {
        let _ = self.sender.send(Input::Stop);
    }
}

/// A machine as its journal tells it, and what it needs to go on.
pub(crate) struct Recovered<M> {
    /// The machine.
    pub machine: M,
    /// The last entry told.
    sequence: u64,
    since_snapshot: u64,
    /// News that were not acknowledged.
    pub notices: Vec<Notice>,
    next_notice: u64,
    /// The clock to go on with.
    pub clock: Clock,
}

/// Makes a machine from its journal: the last snapshot, and every entry after it.
pub(crate) fn recover<M: Machine>(
    journal: &mut dyn Journal,
    new: impl FnOnce(Time) -> M,
    from_state: impl FnOnce(M::State) -> Result<M, String>,
) -> Result<Recovered<M>, RunnerError> {
    let loaded = journal.load()?;
    let last = loaded.entries.last().map(|entry| entry.at);
    let not_before = last.or(loaded.snapshot.as_ref().map(|snapshot| snapshot.at)).unwrap_or(0);
    let clock = Clock::start(Time(not_before));
    let mut sequence = 0;
    let mut machine = match loaded.snapshot {
        Some(snapshot) => {
            sequence = snapshot.seq;
            let state = serde_json::from_str(&snapshot.state)
                .map_err(|source| RunnerError::Unreadable { sequence, source })?;
            from_state(state).map_err(|why| RunnerError::Restore { why })?
        }
        None => new(loaded.entries.first().map_or(clock.now(), |entry| Time(entry.at))),
    };
    let since_snapshot = loaded.entries.len() as u64;
    let mut commands = Vec::new();
    for entry in loaded.entries {
        sequence = entry.seq;
        let event = serde_json::from_str(&entry.event)
            .map_err(|source| RunnerError::Unreadable { sequence, source })?;
        machine.on(Time(entry.at), event, &mut commands);
        commands.clear();
    }
    let next_notice = loaded.next_notice;
    Ok(Recovered { machine, sequence, since_snapshot, notices: loaded.notices, next_notice, clock })
}

/// A mailbox and its other end.
pub(crate) fn mailbox<M: Machine>() -> (Mailbox<M>, Inbox<M>) {
    let (sender, receiver) = mpsc::channel();
    (Mailbox { sender }, Inbox { receiver })
}

/// The other end of a mailbox.
pub(crate) struct Inbox<M: Machine> {
    receiver: Receiver<Input<M>>,
}

/// Runs a recovered machine until it is stopped or its journal is lost. To be called on a thread of its own.
pub(crate) fn run<M: Machine, D: Driver<M>>(
    recovered: Recovered<M>,
    journal: Box<dyn Journal>,
    driver: D,
    inbox: Inbox<M>,
    settings: Settings,
) -> Result<(), RunnerError> {
    let Recovered { machine, sequence, since_snapshot, next_notice, clock, .. } = recovered;
    let batch = Batch::default();
    let backlog = Vec::new();
    let runner = Runner {
        machine,
        journal,
        driver,
        inbox,
        settings,
        sequence,
        since_snapshot,
        next_notice,
        clock,
        batch,
        backlog,
        held: VecDeque::new(),
    };
    runner.run()
}

struct Runner<M: Machine, D> {
    machine: M,
    journal: Box<dyn Journal>,
    driver: D,
    inbox: Inbox<M>,
    settings: Settings,
    sequence: u64,
    since_snapshot: u64,
    next_notice: u64,
    clock: Clock,
    batch: Batch,
    /// What follows from the present batch, to be carried out when it is durable.
    backlog: Vec<(M::Command, Option<u64>)>,
    /// What came in while the journal could not be written.
    held: VecDeque<Input<M>>,
}

impl<M: Machine, D: Driver<M>> Runner<M, D> {
    fn run(mut self) -> Result<(), RunnerError> {
        let mut going = true;
        while going {
            going = self.gather();
            let now = self.clock.now();
            if self.machine.next_due().is_some_and(|due| due <= now) {
                self.tell(now, M::due());
            }
            self.commit(now)?;
            self.compact(now)?;
        }
        let now = self.clock.now();
        self.snapshot(now)
    }

    /// Takes what has come in, waiting until there is something or the machine wants to be told. False at the
    /// end.
    fn gather(&mut self) -> bool {
        let due = self.machine.next_due().map_or(IDLE, |due| self.clock.until(due).min(IDLE));
        let mut next = match self.held.pop_front() {
            Some(input) => Some(input),
            None => match self.inbox.receiver.recv_timeout(due) {
                Ok(input) => Some(input),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return false,
            },
        };
        let mut taken = 0;
        while let Some(input) = next {
            let now = self.clock.now();
            match input {
                Input::Event(event) => self.tell(now, event),
                Input::Question(question) => question(&mut self.machine, now),
                Input::Acknowledged(sequence) => self.acknowledged(sequence),
                Input::Stop => return false,
            }
            taken += 1;
            next = if taken < BATCH { self.next_input() } else { None };
        }
        true
    }

    /// What has come in already: first what had to wait.
    fn next_input(&mut self) -> Option<Input<M>> {
        self.held.pop_front().or_else(|| self.inbox.receiver.try_recv().ok())
    }

    fn acknowledged(&mut self, sequence: u64) {
        let before = self.batch.notices_acknowledged;
        self.batch.notices_acknowledged = before.max(Some(sequence));
    }

    fn tell(&mut self, now: Time, event: M::Event) {
        let text = serde_json::to_string(&event).expect("events are plain data with text keys");
        let mut commands = Vec::new();
        self.machine.on(now, event, &mut commands);
        self.sequence += 1;
        let entry = Entry { seq: self.sequence, at: now.0, event: text, commands: digest::<M>(&commands) };
        self.batch.entries.push(entry);
        for command in commands {
            let mut notice = None;
            match self.driver.keeps(&command) {
                Kept::Nothing => {}
                Kept::Notice(_) if !self.settings.notices => {}
                Kept::Notice(body) => {
                    let seq = self.next_notice;
                    self.next_notice += 1;
                    notice = Some(seq);
                    self.batch.notices.push(Notice { seq, body });
                }
                Kept::Ended(row) => self.batch.ended.push(*row),
            }
            if self.driver.is_early(&command) {
                self.driver.carry_out(&self.machine, now, command, notice);
            } else {
                self.backlog.push((command, notice));
            }
        }
    }

    /// Makes the batch durable, however long that takes, and carries out what follows.
    fn commit(&mut self, now: Time) -> Result<(), RunnerError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        loop {
            let begun = Instant::now();
            let outcome = self.journal.commit(&self.batch);
            self.driver.committed(&self.machine, outcome.as_ref().copied());
            match outcome {
                Ok(()) => {
                    metrics::histogram!(names::JOURNAL_COMMIT_SECONDS).record(begun.elapsed().as_secs_f64());
                    metrics::histogram!(names::JOURNAL_BATCH_EVENTS).record(self.batch.entries.len() as f64);
                    break;
                }
                Err(error) if error.may_pass() => {
                    tracing::error!(%error, "cannot write the journal: trying again, nothing is accepted meanwhile");
                    if !self.hold_out() {
                        // Nobody was told anything of what is lost with this batch.
                        return Err(error.into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.since_snapshot += self.batch.entries.len() as u64;
        self.batch = Batch::default();
        for (command, notice) in std::mem::take(&mut self.backlog) {
            self.driver.carry_out(&self.machine, now, command, notice);
        }
        Ok(())
    }

    /// Waits a little, answering questions and keeping everything else for later. False if the daemon is to stop.
    fn hold_out(&mut self) -> bool {
        let until = Instant::now() + RETRY;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.inbox.receiver.recv_timeout(left) {
                Ok(Input::Question(question)) => question(&mut self.machine, self.clock.now()),
                Ok(Input::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
                Ok(input) => self.held.push_back(input),
                Err(RecvTimeoutError::Timeout) => return true,
            }
        }
    }

    fn compact(&mut self, now: Time) -> Result<(), RunnerError> {
        if self.since_snapshot < self.settings.snapshot_every {
            return Ok(());
        }
        self.snapshot(now)
    }

    fn snapshot(&mut self, now: Time) -> Result<(), RunnerError> {
        let state = self.machine.dump(now);
        let state = serde_json::to_string(&state).expect("states are plain data with text keys");
        let snapshot = Snapshot { seq: self.sequence, at: now.0, state };
        match self.journal.compact(&snapshot, (now - self.settings.history).0) {
            Ok(_) => self.since_snapshot = 0,
            // The journal is longer than it need be: no harm yet.
            Err(error) if error.may_pass() => tracing::warn!(%error, "cannot compact the journal"),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// A number that stands for commands: the same for the same commands, on every machine (FNV-1a, 64 bits).
pub fn digest<M: Machine>(commands: &[M::Command]) -> u64 {
    struct Fnv(u64);
    impl std::io::Write for Fnv {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            for byte in bytes {
                self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    for command in commands {
        serde_json::to_writer(&mut hash, command).expect("commands are plain data with text keys");
    }
    hash.0
}
