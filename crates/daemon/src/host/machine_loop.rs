//! The loop of a daemon: every source of events turned into one inbox, one synchronous handler.
//!
//! The thread takes what has come in, hands it to the machine, commits all of it in one transaction (group commit) and
//! only then carries out what follows, replies included: whatever a user was answered is in the journal. While a
//! commit is under way the next batch gathers. A commit that fails (a full disk) is tried again until it
//! succeeds or the daemon is stopped; meanwhile nothing is answered but questions, and clients repeat.
//!
//! Questions are not journaled at all (a discovery: [`Machine::is_question`]). What no promise depends on
//! (a child that has gone, status updates that the parent has kept) does not wait for the disk: it goes with the next commit, at the
//! latest after [`UNWRITTEN`]. If it is lost, it is as if it had not been sent. What turned out to change nothing (a
//! refusal: [`Machine::is_without_effect`]) is not journaled either; it is answered once all that was sent before it
//! is durable, since it may rest on that.
//!
//! Events may come that must survive the end of the process only ([`Durability::Process`]): a batch of them is committed without
//! waiting for the disk ([`syncing`]).

mod questions;
mod syncing;

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use pliant_control::replay::Machine;
use pliant_journal::{Batch, Durability, Entry, Journal, JournalError};
use pliant_model::Time;
use pliant_telemetry::names;
use pliant_transport::Clock;
use tokio::sync::oneshot;

use self::questions::ANSWERING;
use self::syncing::Unsynced;
use super::crash_points::{self, CrashPoint};
use super::digest::digest;
use super::disk_space::DiskSpace;
use super::durable_record::{DurableRecord, keep};
use super::error::MachineError;
use super::health::JournalHealth;
use super::history::History;
use super::leader_checks::LeaderChecks;
use super::mailbox::{Inbox, Input, Question, Shared};
use super::pause::Pause;
use super::recovery::{Recovered, Since};
use super::settings::Settings;
use super::snapshots::Snapshots;

/// How many events there are between two commits at most.
const BATCH: usize = 1024;
/// How many bytes of what clients want.
const BATCH_BYTES: usize = 16 << 20;
/// From how many callers on that wait events are grouped.
const CALLERS_MIN: usize = 4;
/// The longest pause of the loop, so that it notices the passing of time.
const IDLE: Duration = Duration::from_secs(1);
/// How long what promises nothing may wait for a commit.
const UNWRITTEN: Duration = Duration::from_secs(1);
/// The pause between two attempts to commit.
const RETRY: Duration = Duration::from_millis(250);
/// How often things become too old, at the latest: snapshots are rare where little happens.
const TRIM_EVERY: Duration = Duration::from_secs(600);
/// After how many failed attempts the log says again that the journal cannot be written.
const LOGGED_EVERY: u32 = 240;

/// What a machine's commands mean outside.
pub trait Driver<M: Machine>: Send {
    /// What a command keeps in the journal, in the same transaction as the event it follows from.
    fn keeps(&mut self, command: &M::Command) -> DurableRecord;

    /// The machine takes this now: the commands of questions that are carried out next follow from it.
    fn before_event(&mut self, _event: &M::Event) {}

    /// How many callers wait for what follows from events, now.
    fn callers(&self) -> usize {
        0
    }

    /// What the commit of a [`Machine::due`] event must survive before these commands, which follow from it, are carried out.
    fn durability_of_due(&self, _machine: &M, _commands: &[M::Command]) -> Durability {
        Durability::Power
    }

    /// Carries a command out. `notice` is the journal's number of the status updates that the command keeps; none yet if they do not
    /// survive a power failure.
    fn carry_out(&mut self, machine: &M, now: Time, command: M::Command, notice: Option<u64>);

    /// The status updates up to that number, which was withheld from [`Driver::carry_out`], survive a power failure now.
    fn synced(&mut self, _notice: u64) {}

    /// Called after each attempt to commit a batch.
    fn committed(&mut self, _machine: &M) {}
}

/// Runs a recovered machine until it is stopped or its journal is lost. To be called on a thread of its own.
pub(crate) fn run<M: Machine, D: Driver<M>>(
    recovered: Recovered<M>,
    journal: Box<dyn Journal>,
    driver: D,
    inbox: Inbox<M>,
    settings: Settings,
    health: JournalHealth,
) -> Result<(), MachineError> {
    let Recovered { machine, sequence, since_snapshot, next_update, clock, history } = recovered;
    let batch = Batch::default();
    let backlog = Vec::new();
    let shared = Arc::new(Shared::new(machine, clock));
    inbox.show(shared.clone());
    let runner = Runner {
        shared,
        journal,
        driver,
        inbox,
        settings,
        health,
        disk: DiskSpace::new(settings.reserve_bytes),
        history: History::new(settings.history_bytes, history),
        sequence,
        since_snapshot,
        next_update,
        clock,
        batch,
        backlog,
        barriers: Vec::new(),
        leader_checks: LeaderChecks::default(),
        held: VecDeque::new(),
        postponed: VecDeque::new(),
        unwritten_since: None,
        unsynced: Unsynced::default(),
        snapshots: Snapshots::new(),
        before_snapshot: Since::default(),
        // An earlier process may have left parts of a snapshot.
        is_long: true,
        trimmed: Instant::now(),
        trim_pause: Pause::default(),
    };
    runner.run()
}

struct Runner<M: Machine, D> {
    /// The machine. Other threads read it; only this thread changes it.
    shared: Arc<Shared<M>>,
    journal: Box<dyn Journal>,
    driver: D,
    inbox: Inbox<M>,
    settings: Settings,
    health: JournalHealth,
    disk: DiskSpace,
    history: History,
    sequence: u64,
    since_snapshot: Since,
    next_update: u64,
    clock: Clock,
    batch: Batch,
    /// What follows from the present batch, to be carried out when it is durable.
    backlog: Vec<(M::Command, Option<u64>)>,
    /// Who waits for the present batch to be durable.
    barriers: Vec<oneshot::Sender<()>>,
    leader_checks: LeaderChecks,
    /// What came in while the journal could not be written.
    held: VecDeque<Input<M>>,
    /// Questions that are answered with the next inputs, because those before took long.
    postponed: VecDeque<Question<M>>,
    /// When the first event came into the present batch.
    unwritten_since: Option<Instant>,
    /// What was committed and does not survive a power failure yet.
    unsynced: Unsynced,
    snapshots: Snapshots,
    /// The entries that the snapshot under way contains, since the one before.
    before_snapshot: Since,
    /// The journal holds more than it is to keep.
    is_long: bool,
    /// When nothing was left of that for the last time.
    trimmed: Instant,
    /// When it may be tried to delete that.
    trim_pause: Pause,
}

impl<M: Machine, D: Driver<M>> Runner<M, D> {
    fn run(mut self) -> Result<(), MachineError> {
        let mut going = true;
        while going {
            going = self.gather();
            self.leader_checks.answer(self.journal.as_mut(), &self.health)?;
            self.disk.observe(self.journal.as_mut(), &self.health);
            if self.next_due().is_some_and(|due| due <= self.clock.now()) {
                self.deliver(M::due(), None::<Durability>);
            }
            self.add_part();
            if self.is_pressing() || !going {
                self.commit()?;
                self.compact()?;
            } else if self.batch.is_empty() {
                self.follow()?;
                self.compact()?;
            }
            self.sync_if_due()?;
        }
        self.answer_postponed(Duration::MAX);
        self.sync()?;
        self.last_snapshot()
    }

    fn next_due(&self) -> Option<Time> {
        self.shared.machine().next_due()
    }

    /// True if the batch is to be committed now: a call waits for it, or it has waited long enough.
    fn is_pressing(&mut self) -> bool {
        if self.batch.is_empty() {
            return false;
        }
        let since = *self.unwritten_since.get_or_insert_with(Instant::now);
        !self.backlog.is_empty()
            || !self.barriers.is_empty()
            || !self.batch.status_updates.is_empty()
            || !self.batch.ended.is_empty()
            || self.batch.snapshot_part.is_some()
            || self.batch.entries.len() >= BATCH
            || since.elapsed() >= UNWRITTEN
    }

    /// Takes what has come in, waiting until there is something or the machine is due. False at the
    /// end.
    fn gather(&mut self) -> bool {
        let mut answering = self.answer_postponed(ANSWERING);
        let due = self.next_due().map_or(IDLE, |due| self.clock.until(due).min(IDLE));
        let due = self.snapshots.look_in(Instant::now()).map_or(due, |look_in| look_in.min(due));
        let due = self.sync_in(due);
        let due = if self.postponed.is_empty() { due } else { Duration::ZERO };
        let mut next = match self.held.pop_front() {
            Some(input) => Some(input),
            None => match self.inbox.receiver.recv_timeout(due) {
                Ok(input) => Some(input),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return false,
            },
        };
        if matches!(next, Some(Input::Event(..))) {
            self.let_others_come();
        }
        let (mut taken, mut bytes) = (0, 0);
        while let Some(input) = next {
            match input {
                Input::Event(event, waits) => {
                    bytes += waits.bytes;
                    self.deliver(event, waits.durability);
                }
                Input::Question(question) if answering < ANSWERING => answering += self.answer(question),
                Input::Question(question) => self.postponed.push_back(question),
                Input::Acknowledged(sequence) => self.acknowledged(sequence),
                Input::Barrier(waits) => self.barriers.push(waits),
                Input::LeaderCheck(waits) => self.leader_checks.add(waits),
                Input::Stop => return false,
            }
            taken += 1;
            next = if taken < BATCH && bytes < BATCH_BYTES { self.next_input() } else { None };
        }
        true
    }

    /// Waits for a moment if many callers wait: their events then share a commit.
    fn let_others_come(&self) {
        let group: u64 = std::env::var("PLIANT_GROUP_US").ok().and_then(|v| v.parse().ok()).unwrap_or(0);
        if group > 0 && self.driver.callers() >= CALLERS_MIN {
            std::thread::sleep(Duration::from_micros(group));
        }
    }

    /// What has come in already: first what had to wait.
    fn next_input(&mut self) -> Option<Input<M>> {
        self.held.pop_front().or_else(|| self.inbox.receiver.try_recv().ok())
    }

    fn acknowledged(&mut self, sequence: u64) {
        let before = self.batch.updates_acknowledged;
        self.batch.updates_acknowledged = before.max(Some(sequence));
    }

    /// Has the machine take an event, whose commit must survive that; what a due event needs follows from its commands.
    fn deliver(&mut self, event: M::Event, durability: impl Into<Option<Durability>>) {
        let text = (!M::is_question(&event))
            .then(|| serde_json::to_string(&event).expect("events are plain data with text keys"));
        crash_points::received(&event);
        let mut commands = Vec::new();
        self.driver.before_event(&event);
        let shared = self.shared.clone();
        let (mut machine, now) = shared.at_present();
        machine.on(now, event, &mut commands);
        if let Some(text) = text.filter(|_| !M::is_without_effect(&commands)) {
            self.sequence += 1;
            self.since_snapshot.record_event(&text);
            self.history.record(self.sequence, &text);
            let entry =
                Entry { seq: self.sequence, at: now.0, event: text, commands: digest::<M>(&commands) };
            let durability =
                durability.into().unwrap_or_else(|| self.driver.durability_of_due(&machine, &commands));
            // The strongest that one of its events asks for.
            let is_first = self.batch.entries.is_empty();
            self.batch.durability = if is_first { durability } else { self.batch.durability.min(durability) };
            self.batch.entries.push(entry);
        }
        for command in commands {
            let kept = match self.driver.keeps(&command) {
                DurableRecord::StatusUpdate(_) if !self.settings.notices => DurableRecord::Nothing,
                kept => kept,
            };
            let notice = keep(&mut self.batch, kept, &mut self.next_update);
            if M::is_of_question(&command) {
                self.driver.carry_out(&machine, now, command, notice);
            } else {
                self.backlog.push((command, notice));
            }
        }
    }

    /// Makes the batch durable, however long that takes, and carries out what follows.
    fn commit(&mut self) -> Result<(), MachineError> {
        if self.batch.is_empty() {
            return self.follow();
        }
        self.decide_durability();
        let mut failures = 0_u32;
        loop {
            let begun = Instant::now();
            self.is_at(CrashPoint::BeforeJournal);
            let outcome = self.journal.commit(&self.batch);
            self.health.committed(outcome.as_ref().copied());
            self.driver.committed(&self.shared.machine());
            match outcome {
                Ok(()) => {
                    self.part_committed(begun);
                    metrics::histogram!(names::JOURNAL_COMMIT_SECONDS).record(begun.elapsed().as_secs_f64());
                    metrics::histogram!(names::JOURNAL_BATCH_EVENTS).record(self.batch.entries.len() as f64);
                    if failures > 0 {
                        tracing::info!(attempts = failures, "the journal can be written again");
                    }
                    break;
                }
                Err(error) if error.is_transient() && self.batch.snapshot_part.take().is_some() => {
                    self.snapshot_failed(&error);
                    self.give_back_space();
                    if self.batch.is_empty() {
                        break;
                    }
                }
                Err(error) if error.is_transient() => {
                    // Often on the same full disk: logged once, and then every minute.
                    if failures.is_multiple_of(LOGGED_EVERY) {
                        tracing::error!(%error, "cannot write the journal: trying again, nothing is accepted meanwhile");
                    }
                    failures += 1;
                    self.give_back_space();
                    if !self.hold_out() {
                        // Nothing was promised of what is lost with this batch.
                        return Err(error.into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.is_at(CrashPoint::AfterJournal);
        self.note_committed();
        self.batch = Batch::default();
        self.unwritten_since = None;
        self.follow()
    }

    /// It is there with the present batch.
    fn is_at(&self, point: CrashPoint) {
        crash_points::reached_by_events(point, self.batch.entries.iter().map(|entry| entry.event.as_str()));
    }

    /// Waits a little, answering questions and keeping everything else for later. False if the daemon is to stop.
    fn hold_out(&mut self) -> bool {
        self.answer_postponed(Duration::MAX);
        let until = Instant::now() + RETRY;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.inbox.receiver.recv_timeout(left) {
                Ok(Input::Question(question)) => _ = self.answer(question),
                Ok(Input::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
                Ok(input) => self.held.push_back(input),
                Err(RecvTimeoutError::Timeout) => return true,
            }
        }
    }

    /// Begins a snapshot if it is time, and deletes what the last one has made superfluous.
    fn compact(&mut self) -> Result<(), MachineError> {
        let is_time = self.since_snapshot.is_enough(self.settings.snapshot_every) && !self.disk.is_short();
        if is_time && self.snapshots.may_begin(Instant::now()) {
            self.begin_snapshot();
        }
        self.is_long |= self.trimmed.elapsed() >= TRIM_EVERY;
        if self.is_long && self.trim_pause.is_over(Instant::now()) {
            match self.trim() {
                Ok(is_more) => {
                    (self.is_long, self.trim_pause) = (is_more, Pause::default());
                    self.trimmed = Instant::now();
                }
                // The journal is longer than it need be: no harm yet.
                Err(error) if error.is_transient() => {
                    let again_in = self.trim_pause.failed(Instant::now()).as_secs();
                    tracing::warn!(%error, again_in_s = again_in, "cannot trim the journal");
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn begin_snapshot(&mut self) {
        let (state, now) = {
            let (mut machine, now) = self.shared.at_present();
            (machine.dump(now), now)
        };
        self.before_snapshot = self.since_snapshot;
        if let Err(error) = self.snapshots.begin(state, self.sequence, now.0) {
            self.snapshot_failed(&error);
        }
    }

    /// Adds the next part of a snapshot to the batch, if there is one and the disk has room.
    fn add_part(&mut self) {
        if self.disk.is_short() {
            return;
        }
        match self.snapshots.next_part(Instant::now()) {
            Ok(part) => self.batch.snapshot_part = part,
            Err(error) => self.snapshot_failed(&error),
        }
    }

    /// The batch is durable, and with it the part of a snapshot if it had one.
    fn part_committed(&mut self, begun: Instant) {
        let Some(part) = &self.batch.snapshot_part else { return };
        let complete = self.snapshots.committed(part, Instant::now(), begun.elapsed());
        if let Some(complete) = complete {
            self.since_snapshot = self.since_snapshot.after(self.before_snapshot, complete.bytes);
            self.is_long = true;
            self.health.snapshot(None);
            metrics::gauge!(names::JOURNAL_SNAPSHOT_TIMESTAMP_SECONDS).set(part.at as f64);
            metrics::gauge!(names::JOURNAL_SNAPSHOT_BYTES).set(complete.bytes as f64);
            metrics::histogram!(names::JOURNAL_SNAPSHOT_SECONDS).record(complete.took.as_secs_f64());
        }
    }

    /// The journal grows without it: no harm yet, but restarts take longer and longer.
    fn snapshot_failed(&mut self, error: &impl Error) {
        let again_in = self.snapshots.failed(Instant::now()).as_secs();
        tracing::warn!(%error, again_in_s = again_in, "a snapshot cannot be written");
        metrics::counter!(names::JOURNAL_SNAPSHOT_FAILURES).increment(1);
        self.health.snapshot(Some(error.to_string()));
        // The parts that were written.
        self.is_long = true;
    }

    /// Deletes some of what the journal holds and does not need. True if there is more.
    fn trim(&mut self) -> Result<bool, JournalError> {
        let keep_from = self.settings.keep_from(self.clock.now(), self.history.first_kept());
        self.journal.trim(&keep_from, self.snapshots.seq())
    }

    /// The same while the journal cannot be written, perhaps for want of space.
    fn give_back_space(&mut self) {
        if self.is_long {
            // Failures are reported with the commit that is tried again.
            self.is_long = self.trim().unwrap_or(true);
        }
    }

    /// Takes a snapshot at the end, unless nothing has happened since the last one or the disk is almost full.
    fn last_snapshot(&mut self) -> Result<(), MachineError> {
        if self.since_snapshot.is_empty() || self.disk.is_short() {
            return Ok(());
        }
        self.begin_snapshot();
        loop {
            let part = match self.snapshots.wait_for_part() {
                Ok(part) => part,
                Err(error) => {
                    self.snapshot_failed(&error);
                    return Ok(());
                }
            };
            let is_last = part.is_last;
            match self.journal.commit(&Batch { snapshot_part: Some(part), ..Batch::default() }) {
                // The next start replays more entries.
                Err(error) if error.is_transient() => {
                    self.snapshot_failed(&error);
                    return Ok(());
                }
                committed => committed?,
            }
            if is_last {
                break;
            }
        }
        match self.trim() {
            Err(error) if !error.is_transient() => Err(error.into()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
