//! A state machine on a host: what it writes, what it loses when the host crashes, and what it finds again.
//!
//! Events reach the machine at once and become durable with the next commit; only then are the commands that follow from
//! them carried out. A crash loses what was not committed. What the machine knows when it comes back is decided at that moment,
//! so [`Node::machine`] is always the truth: of a node that is down it is what its journal says.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

use pliant_control::job::JobRecord;
use pliant_control::names::Handle;

/// A state machine that a [`Node`] runs.
pub(crate) trait NodeMachine: Sized {
    /// Its time.
    type Time: Copy + Ord + Debug;
    /// What it takes in.
    type Event: Clone + Debug;
    /// What it wants done.
    type Command: Clone + PartialEq + Debug;
    /// What it is made with.
    type Config;

    /// The machine before its first event.
    fn start(config: &Self::Config) -> Self;

    /// Takes in an event and appends the commands that follow.
    fn on(&mut self, now: Self::Time, event: Self::Event, commands: &mut Vec<Self::Command>);

    /// All of its state that lasts, as text.
    fn state(&mut self, now: Self::Time) -> String;

    /// The machine of a state; the error says what is wrong with it.
    fn restore(config: &Self::Config, state: &str) -> Result<Self, String>;

    /// What the journal keeps of a command, beside the event that it follows from.
    fn kept(_command: &Self::Command) -> Kept<'_> {
        Kept::Nothing
    }

    /// True if an event is part of a question, which is not journaled.
    fn is_question(_event: &Self::Event) -> bool {
        false
    }

    /// True if a command is part of a question, which waits for no commit.
    fn is_of_question(_command: &Self::Command) -> bool {
        false
    }
}

/// What is kept of a command.
pub(crate) enum Kept<'a> {
    Nothing,
    /// A status update for the parent, until the parent acknowledges it.
    Update(&'a JobRecord),
    /// The record of a job that is over here.
    Ended(&'a JobRecord),
}

/// A command to be carried out, with the number of the status update that it is.
pub(crate) type NumberedCommand<M> = (<M as NodeMachine>::Command, Option<u64>);

struct Entry<M: NodeMachine> {
    at: M::Time,
    event: M::Event,
    commands: Vec<M::Command>,
}

/// A snapshot of a machine.
struct Snapshot<T> {
    at: T,
    /// How many entries of the journal it has taken in.
    entries: usize,
    state: String,
}

/// What is written with events.
#[derive(Default)]
struct Rows {
    updates: VecDeque<(u64, JobRecord)>,
    ended: Vec<JobRecord>,
}

/// A state machine on a host that may crash.
pub(crate) struct Node<M: NodeMachine> {
    pub(crate) machine: M,
    pub(crate) up: bool,
    /// How often it crashed: what was begun in an earlier life is void.
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
    /// Durable, and not acknowledged.
    outbox: VecDeque<(u64, JobRecord)>,
    durable_updates: u64,
    archive: BTreeMap<Handle, JobRecord>,
    /// An older record replaced a newer one in the archive.
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

    /// The machine takes in an event; the commands of questions come back at once, the others with the commit.
    pub(crate) fn handle(&mut self, now: M::Time, event: M::Event, journaled: bool) -> Vec<M::Command> {
        let mut commands = Vec::new();
        self.machine.on(now, event.clone(), &mut commands);
        let (query_commands, commands): (Vec<_>, Vec<_>) = commands.into_iter().partition(M::is_of_question);
        for command in &commands {
            let mut number = None;
            match M::kept(command) {
                Kept::Nothing => {}
                Kept::Update(record) => {
                    let next = self.number_update();
                    number = Some(next);
                    self.rows.updates.push_back((next, record.clone()));
                }
                Kept::Ended(record) => self.rows.ended.push(record.clone()),
            }
            self.commands.push((command.clone(), number));
        }
        if journaled && !M::is_question(&event) {
            self.batch.push(Entry { at: now, event, commands });
        }
        query_commands
    }

    /// The machine takes in an event on a host that never crashes: nothing is journaled, and commands are carried out at
    /// once.
    pub(crate) fn deliver(&mut self, now: M::Time, event: M::Event, commands: &mut Vec<M::Command>) {
        self.machine.on(now, event, commands);
    }

    /// The number of the next status update for the parent.
    pub(crate) fn number_update(&mut self) -> u64 {
        self.next_update += 1;
        self.next_update - 1
    }

    /// True if something is not durable.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.batch.is_empty() || !self.commands.is_empty()
    }

    /// The commands of what is not durable yet.
    pub(crate) fn pending_commands(&self) -> impl Iterator<Item = &M::Command> {
        self.batch.iter().flat_map(|entry| &entry.commands)
    }

    /// The commands to be carried out, before they are durable.
    pub(crate) fn take_commands(&mut self) -> Vec<NumberedCommand<M>> {
        std::mem::take(&mut self.commands)
    }

    /// Makes durable what the machine was told, with a snapshot on demand, and returns the commands that follow.
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

    /// Loses what is not durable and goes back to what the journal says. Returns the last time that is in it.
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
        let taken_in = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.entries);
        for Entry { at, event, .. } in self.entries.iter().skip(taken_in) {
            self.machine.on(*at, event.clone(), &mut Vec::new());
        }
        let written = self.entries.last().map(|last| last.at);
        Ok(written.max(self.snapshot.as_ref().map(|snapshot| snapshot.at)))
    }

    /// Loses the journal as well.
    pub(crate) fn lose_journal(&mut self) {
        self.entries.clear();
        self.snapshot = None;
        self.machine = M::start(&self.config);
    }

    /// Goes on from a changed state: what a driver does that forgets something.
    pub(crate) fn restore(&mut self, state: &str) -> Result<(), String> {
        self.machine = M::restore(&self.config, state)?;
        Ok(())
    }

    /// Replays the whole journal and compares commands and state.
    pub(crate) fn check_journal(&mut self, now: M::Time) -> Result<(), String> {
        let mut again = M::start(&self.config);
        for (place, entry) in self.entries.iter().chain(&self.batch).enumerate() {
            check_entry(&mut again, place, entry)?;
        }
        let (expected, found) = (self.machine.state(now), again.state(now));
        if expected == found { Ok(()) } else { Err(format!("the state is {expected}, replayed {found}")) }
    }

    /// The parent keeps the status updates up to that number.
    pub(crate) fn acknowledge(&mut self, number: u64) {
        self.acknowledged = self.acknowledged.max(number);
        while self.outbox.front().is_some_and(|(one, _)| *one <= number) {
            self.outbox.pop_front();
        }
    }

    /// True if the parent keeps every status update.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.acknowledged + 1 == self.next_update
    }

    /// Durable status updates that the parent has not acknowledged.
    pub(crate) fn outbox(&self) -> impl Iterator<Item = &(u64, JobRecord)> {
        self.outbox.iter()
    }

    /// A job that is over here, which is durable.
    pub(crate) fn archived(&self, handle: &Handle) -> Option<&JobRecord> {
        self.archive.get(handle)
    }

    /// A job that is over here, which is not durable yet.
    pub(crate) fn pending_archived(&self, handle: &Handle) -> Option<&JobRecord> {
        self.rows.ended.iter().rev().find(|record| record.handle == *handle)
    }

    /// Every job that was over here.
    pub(crate) fn archive(&self) -> impl Iterator<Item = &JobRecord> {
        self.archive.values()
    }
}

fn check_entry<M: NodeMachine>(machine: &mut M, place: usize, entry: &Entry<M>) -> Result<(), String> {
    let Entry { at, event, commands: expected } = entry;
    let mut commands = Vec::new();
    machine.on(*at, event.clone(), &mut commands);
    commands.retain(|command| !M::is_of_question(command));
    if commands == *expected {
        return Ok(());
    }
    Err(format!("entry {place}, {event:?} at {at:?}, gave {expected:?}, replayed {commands:?}"))
}
