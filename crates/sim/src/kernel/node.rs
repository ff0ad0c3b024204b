//! A state machine on a host that journals its events and may crash.
//!
//! The machine handles an event at once; the event becomes durable with the next commit, and only then are its commands
//! executed. A crash drops what was not committed and rebuilds the machine from its journal immediately, so
//! [`Node::machine`] is always valid: for a node that is down it is what the journal holds.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

use pliant_control::job::JobRecord;
use pliant_control::names::Handle;

/// A state machine that a [`Node`] runs.
pub(crate) trait NodeMachine: Sized {
    /// Simulated time.
    type Time: Copy + Ord + Debug;
    /// An event that it handles.
    type Event: Clone + Debug;
    /// A command that it returns.
    type Command: Clone + PartialEq + Debug;
    /// The configuration that it is built from.
    type Config;

    /// Builds the machine before its first event.
    fn start(config: &Self::Config) -> Self;

    /// Handles an event and appends the commands that follow.
    fn on(&mut self, now: Self::Time, event: Self::Event, commands: &mut Vec<Self::Command>);

    /// The persistent state, as text.
    fn state(&mut self, now: Self::Time) -> String;

    /// Rebuilds the machine from a state; the error describes what is wrong with it.
    fn restore(config: &Self::Config, state: &str) -> Result<Self, String>;

    /// The row that a command adds to the journal, in addition to the event that caused it.
    fn journal_row(_command: &Self::Command) -> JournalRow<'_> {
        JournalRow::Nothing
    }

    /// True if an event belongs to a query, which is not journaled.
    fn is_question(_event: &Self::Event) -> bool {
        false
    }

    /// True if a command belongs to a query, which waits for no commit.
    fn is_of_question(_command: &Self::Command) -> bool {
        false
    }
}

/// The row that a command adds to the journal.
pub(crate) enum JournalRow<'a> {
    Nothing,
    /// A status update for the parent, until the parent acknowledges it.
    Update(&'a JobRecord),
    /// The record of a job that has ended or left here.
    Ended(&'a JobRecord),
}

/// A command to execute, with its number if it is a status update.
pub(crate) type NumberedCommand<M> = (<M as NodeMachine>::Command, Option<u64>);

struct Entry<M: NodeMachine> {
    at: M::Time,
    event: M::Event,
    commands: Vec<M::Command>,
}

/// A snapshot of a machine.
struct Snapshot<T> {
    at: T,
    /// The number of journal entries that it covers.
    entries: usize,
    state: String,
}

/// The rows that a commit writes in addition to events.
#[derive(Default)]
struct Rows {
    updates: VecDeque<(u64, JobRecord)>,
    ended: Vec<JobRecord>,
}

/// A state machine on a host that may crash.
pub(crate) struct Node<M: NodeMachine> {
    pub(crate) machine: M,
    pub(crate) up: bool,
    /// The number of its crashes. Pending events of earlier incarnations are void.
    pub(crate) incarnation: u32,
    config: M::Config,
    /// Durable.
    entries: Vec<Entry<M>>,
    snapshot: Option<Snapshot<M::Time>>,
    /// Not durable.
    batch: Vec<Entry<M>>,
    rows: Rows,
    commands: Vec<NumberedCommand<M>>,
    next_update: u64,
    acknowledged: u64,
    /// Durable and not acknowledged.
    outbox: VecDeque<(u64, JobRecord)>,
    durable_updates: u64,
    archive: BTreeMap<Handle, JobRecord>,
    /// True if an older record has replaced a newer one in the archive.
    pub(crate) regressed: bool,
}

impl<M: NodeMachine> Node<M> {
    pub(crate) fn new(config: M::Config) -> Node<M> {
        Node {
            machine: M::start(&config),
            up: true,
            incarnation: 0,
            config,
            entries: Vec::new(),
            snapshot: None,
            batch: Vec::new(),
            rows: Rows::default(),
            commands: Vec::new(),
            next_update: 1,
            acknowledged: 0,
            outbox: VecDeque::new(),
            durable_updates: 1,
            archive: BTreeMap::new(),
            regressed: false,
        }
    }

    /// Handles an event. Returns the commands of queries; the others follow with the commit.
    pub(crate) fn handle(&mut self, now: M::Time, event: M::Event, journaled: bool) -> Vec<M::Command> {
        let mut commands = Vec::new();
        self.machine.on(now, event.clone(), &mut commands);
        let (query_commands, commands): (Vec<_>, Vec<_>) = commands.into_iter().partition(M::is_of_question);
        for command in &commands {
            let mut number = None;
            match M::journal_row(command) {
                JournalRow::Nothing => {}
                JournalRow::Update(record) => {
                    let next = self.number_update();
                    number = Some(next);
                    self.rows.updates.push_back((next, record.clone()));
                }
                JournalRow::Ended(record) => self.rows.ended.push(record.clone()),
            }
            self.commands.push((command.clone(), number));
        }
        if journaled && !M::is_question(&event) {
            self.batch.push(Entry { at: now, event, commands });
        }
        query_commands
    }

    /// Handles an event on a host that never crashes: nothing is journaled, and commands are executed at once.
    pub(crate) fn deliver(&mut self, now: M::Time, event: M::Event, commands: &mut Vec<M::Command>) {
        self.machine.on(now, event, commands);
    }

    /// Returns the number of the next status update for the parent.
    pub(crate) fn number_update(&mut self) -> u64 {
        self.next_update += 1;
        self.next_update - 1
    }

    /// True if something is not durable.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.batch.is_empty() || !self.commands.is_empty()
    }

    /// The commands of events that are not durable yet.
    pub(crate) fn pending_commands(&self) -> impl Iterator<Item = &M::Command> {
        self.batch.iter().flat_map(|entry| &entry.commands)
    }

    /// Takes the pending commands before they are durable.
    pub(crate) fn take_commands(&mut self) -> Vec<NumberedCommand<M>> {
        std::mem::take(&mut self.commands)
    }

    /// Makes pending events durable, with a snapshot on demand. Returns the commands that follow.
    pub(crate) fn commit(&mut self, now: M::Time, snapshot: bool) -> Vec<NumberedCommand<M>> {
        self.entries.append(&mut self.batch);
        let Rows { updates, ended } = std::mem::take(&mut self.rows);
        self.outbox.extend(updates);
        self.durable_updates = self.next_update;
        for record in ended {
            let known = self.archive.get(&record.handle);
            self.regressed |= known.is_some_and(|known| known.progress() > record.progress());
            self.archive.insert(record.handle.clone(), record);
        }
        if snapshot {
            let state = self.machine.state(now);
            self.snapshot = Some(Snapshot { at: now, entries: self.entries.len(), state });
        }
        self.take_commands()
    }

    /// Crashes: drops what is not durable and rebuilds the machine from the journal. Returns the last time in the journal.
    pub(crate) fn crash(&mut self) -> Result<Option<M::Time>, String> {
        self.up = false;
        self.incarnation += 1;
        self.batch.clear();
        self.rows = Rows::default();
        self.commands.clear();
        self.next_update = self.durable_updates;
        self.machine = match &self.snapshot {
            Some(snapshot) => M::restore(&self.config, &snapshot.state)?,
            None => M::start(&self.config),
        };
        let covered = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.entries);
        for Entry { at, event, .. } in self.entries.iter().skip(covered) {
            self.machine.on(*at, event.clone(), &mut Vec::new());
        }
        let written = self.entries.last().map(|last| last.at);
        Ok(written.max(self.snapshot.as_ref().map(|snapshot| snapshot.at)))
    }

    /// Drops the journal and the machine's state.
    pub(crate) fn lose_journal(&mut self) {
        self.entries.clear();
        self.snapshot = None;
        self.machine = M::start(&self.config);
    }

    /// Replaces the machine's state: the effect of a driver that loses a part of it.
    pub(crate) fn restore(&mut self, state: &str) -> Result<(), String> {
        self.machine = M::restore(&self.config, state)?;
        Ok(())
    }

    /// The events in the journal, in order.
    pub(crate) fn events(&self) -> impl Iterator<Item = &M::Event> {
        self.entries.iter().map(|entry| &entry.event)
    }

    /// Replays the whole journal and compares commands and state.
    pub(crate) fn check_journal(&mut self, now: M::Time) -> Result<(), String> {
        let mut again = M::start(&self.config);
        for (position, entry) in self.entries.iter().chain(&self.batch).enumerate() {
            check_entry(&mut again, position, entry)?;
        }
        let (expected, found) = (self.machine.state(now), again.state(now));
        if expected == found { Ok(()) } else { Err(format!("the state is {expected}, replayed {found}")) }
    }

    /// Records that the parent has status updates up to that number.
    pub(crate) fn acknowledge(&mut self, number: u64) {
        self.acknowledged = self.acknowledged.max(number);
        while self.outbox.front().is_some_and(|(one, _)| *one <= number) {
            self.outbox.pop_front();
        }
    }

    /// True if the parent has acknowledged every status update.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.acknowledged + 1 == self.next_update
    }

    /// Durable status updates that the parent has not acknowledged.
    pub(crate) fn outbox(&self) -> impl Iterator<Item = &(u64, JobRecord)> {
        self.outbox.iter()
    }

    /// The durable record of a job that has ended or left here.
    pub(crate) fn archived(&self, handle: &Handle) -> Option<&JobRecord> {
        self.archive.get(handle)
    }

    /// The pending record of a job that has ended or left here.
    pub(crate) fn pending_archived(&self, handle: &Handle) -> Option<&JobRecord> {
        self.rows.ended.iter().rev().find(|record| record.handle == *handle)
    }

    /// The durable records of all jobs that have ended or left here.
    pub(crate) fn archive(&self) -> impl Iterator<Item = &JobRecord> {
        self.archive.values()
    }
}

fn check_entry<M: NodeMachine>(machine: &mut M, position: usize, entry: &Entry<M>) -> Result<(), String> {
    let Entry { at, event, commands: expected } = entry;
    let mut commands = Vec::new();
    machine.on(*at, event.clone(), &mut commands);
    commands.retain(|command| !M::is_of_question(command));
    if commands == *expected {
        return Ok(());
    }
    Err(format!("entry {position}, {event:?} at {at:?}, gave {expected:?}, replayed {commands:?}"))
}
