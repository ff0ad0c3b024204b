//! A daemon as it stands on its host: a machine, a journal and a clock, which outlive crashes as they do live.
//!
//! Events are told to the machine at once and become durable with the next commit; only then is what follows from them
//! carried out. A crash loses what was not committed. What the daemon will know when it comes back is decided at that
//! moment, so [`Daemon::machine`] is always the truth: of a daemon that is down it is what its journal says.

use std::collections::{BTreeMap, VecDeque};

use pliant_control::agent::{self, Agent, AgentConfig};
use pliant_control::job::JobRecord;
use pliant_control::names::Handle;
use pliant_control::replay::{Machine, Recorded};
use pliant_control::server::{self, Server, ServerConfig};
use pliant_model::Time;

/// When schedules begin, on a clock that is right.
pub(super) const ORIGIN: Time = Time(1_000_000);

/// A machine that a daemon can be made of.
pub(super) trait Kind: Machine<Command: Clone, Event: std::fmt::Debug> + Sized {
    /// What it is made with.
    type Config;

    /// Without a journal.
    fn make(config: &Self::Config) -> Self;

    /// From a snapshot; what is wrong with it.
    fn make_again(config: &Self::Config, state: Self::State) -> Result<Self, String>;

    /// What of a command is kept in the journal.
    fn keeps(command: &Self::Command) -> Keeps<'_>;
}

/// What is kept of a command, beside the event that it follows from.
pub(super) enum Keeps<'a> {
    Nothing,
    /// News for the parent, until they are acknowledged.
    News(&'a JobRecord),
    /// The record of a job that is over here.
    Ended(&'a JobRecord),
}

impl Kind for Server {
    type Config = ServerConfig;

    fn make(config: &ServerConfig) -> Server {
        Server::new(config.clone(), ORIGIN).expect("plans name policies that there are")
    }

    fn make_again(config: &ServerConfig, state: Self::State) -> Result<Server, String> {
        Server::from_state(config.clone(), state).map_err(|error| error.to_string())
    }

    fn keeps(command: &server::Command) -> Keeps<'_> {
        match command {
            server::Command::Tell(record) => Keeps::News(record),
            server::Command::Archive(record) => Keeps::Ended(record),
            _ => Keeps::Nothing,
        }
    }
}

impl Kind for Agent {
    type Config = AgentConfig;

    fn make(config: &AgentConfig) -> Agent {
        Agent::new(config.clone())
    }

    fn make_again(config: &AgentConfig, state: Self::State) -> Result<Agent, String> {
        Ok(Agent::from_state(config.clone(), state))
    }

    fn keeps(command: &agent::Command) -> Keeps<'_> {
        match command {
            agent::Command::Tell(record) => Keeps::News(record),
            agent::Command::Archive(record) => Keeps::Ended(record),
            _ => Keeps::Nothing,
        }
    }
}

/// A clock in whole seconds that may be wrong, and never goes back.
pub(super) struct Clock {
    /// How far it is ahead, in milliseconds.
    ahead: i64,
    last: Time,
}

impl Clock {
    pub(super) fn new(ahead: i64) -> Clock {
        Clock { ahead, last: ORIGIN }
    }

    pub(super) fn now(&mut self, at: u64) -> Time {
        let shown = Time(ORIGIN.0 + (at as i64 + self.ahead).div_euclid(1000));
        self.last = self.last.max(shown);
        self.last
    }

    /// When it will show that time, at the earliest now.
    pub(super) fn until(&self, time: Time, now: u64) -> u64 {
        let at = time.0.saturating_sub(ORIGIN.0).saturating_mul(1000).saturating_sub(self.ahead);
        if time <= self.last { now } else { now.max(u64::try_from(at).unwrap_or(0)) }
    }

    pub(super) fn jump(&mut self, by: i64) {
        self.ahead += by;
    }
}

/// A command to be carried out, with the number of the news that it is.
pub(super) type ToDo<M> = (<M as Machine>::Command, Option<u64>);

struct Entry<M: Machine> {
    recorded: Recorded<M::Event>,
    commands: Vec<M::Command>,
}

/// What is kept with events.
#[derive(Default)]
struct Rows {
    news: VecDeque<(u64, JobRecord)>,
    ended: Vec<JobRecord>,
}

pub(super) struct Daemon<M: Kind> {
    pub(super) machine: M,
    pub(super) up: bool,
    /// How often it was started: what was begun in an earlier life is void.
    pub(super) life: u32,
    pub(super) clock: Clock,
    /// When it is told next that time has passed, if that is under way.
    pub(super) due: Option<u64>,
    /// A commit is under way.
    pub(super) committing: bool,
    /// Who asked for what is durable: answered after the commit.
    pub(super) waiting: Vec<u64>,
    config: M::Config,
    entries: Vec<Entry<M>>,
    /// How many entries are in the snapshot, when it was taken, and its text.
    snapshot: Option<(usize, Time, String)>,
    /// Not durable.
    batch: Vec<Entry<M>>,
    rows: Rows,
    todo: Vec<ToDo<M>>,
    next_news: u64,
    /// Durable, and not acknowledged.
    outbox: VecDeque<(u64, JobRecord)>,
    durable_news: u64,
    archive: BTreeMap<Handle, JobRecord>,
    /// A row of the archive was replaced by an older one.
    pub(super) went_back: bool,
}

impl<M: Kind> Daemon<M> {
    pub(super) fn new(config: M::Config, ahead: i64) -> Daemon<M> {
        Daemon {
            machine: M::make(&config),
            up: true,
            life: 0,
            clock: Clock::new(ahead),
            due: None,
            committing: false,
            waiting: Vec::new(),
            config,
            entries: Vec::new(),
            snapshot: None,
            batch: Vec::new(),
            rows: Rows::default(),
            todo: Vec::new(),
            next_news: 1,
            outbox: VecDeque::new(),
            durable_news: 1,
            archive: BTreeMap::new(),
            went_back: false,
        }
    }

    /// Tells the machine; returns what is to be done at once, which is of questions.
    pub(super) fn tell(&mut self, at: u64, event: M::Event, journaled: bool) -> Vec<M::Command> {
        let now = self.clock.now(at);
        let mut commands = Vec::new();
        self.machine.on(now, event.clone(), &mut commands);
        let (at_once, commands): (Vec<_>, Vec<_>) = commands.into_iter().partition(M::is_of_question);
        for command in &commands {
            let mut number = None;
            match M::keeps(command) {
                Keeps::Nothing => {}
                Keeps::News(record) => {
                    number = Some(self.next_news);
                    self.rows.news.push_back((self.next_news, record.clone()));
                    self.next_news += 1;
                }
                Keeps::Ended(record) => self.rows.ended.push(record.clone()),
            }
            self.todo.push((command.clone(), number));
        }
        if journaled && !M::is_question(&event) {
            self.batch.push(Entry { recorded: Recorded { at: now, event }, commands });
        }
        at_once
    }

    /// True if a commit is to be begun: something is not durable, or somebody waits for what is.
    pub(super) fn begins_commit(&mut self) -> bool {
        let is_dirty = !self.batch.is_empty() || !self.todo.is_empty() || !self.waiting.is_empty();
        let begins = is_dirty && self.up && !self.committing;
        self.committing |= begins;
        begins
    }

    /// When it is to be told that time has passed, if that is not under way.
    pub(super) fn next_due(&mut self, at: u64) -> Option<u64> {
        let due = self.clock.until(self.machine.next_due()?, at);
        if !self.up || self.due.is_some_and(|planned| planned <= due) {
            return None;
        }
        self.due = Some(due);
        Some(due)
    }

    /// What follows from what is not durable yet.
    pub(super) fn about_to_follow(&self) -> impl Iterator<Item = &M::Command> {
        self.batch.iter().flat_map(|entry| &entry.commands)
    }

    /// What is to be carried out, before it is durable.
    pub(super) fn todo(&mut self) -> Vec<ToDo<M>> {
        std::mem::take(&mut self.todo)
    }

    /// What is told becomes durable, with a snapshot on demand; returns what follows from it.
    pub(super) fn commit(&mut self, at: u64, snapshot: bool) -> Vec<ToDo<M>> {
        self.committing = false;
        self.entries.append(&mut self.batch);
        let Rows { news, ended } = std::mem::take(&mut self.rows);
        self.outbox.extend(news);
        self.durable_news = self.next_news;
        for record in ended {
            let known = self.archive.get(&record.handle);
            self.went_back |= known.is_some_and(|known| known.progress() > record.progress());
            self.archive.insert(record.handle.clone(), record);
        }
        if snapshot {
            let now = self.clock.now(at);
            self.snapshot = Some((self.entries.len(), now, text(&self.machine.dump(now))));
        }
        std::mem::take(&mut self.todo)
    }

    /// Loses what is not durable; `edit` may change the snapshot.
    pub(super) fn crash(&mut self) -> Result<(), String> {
        self.up = false;
        self.life += 1;
        self.due = None;
        self.committing = false;
        self.waiting.clear();
        self.batch.clear();
        self.rows = Rows::default();
        self.todo.clear();
        self.next_news = self.durable_news;
        let (told, taken) = self.snapshot.as_ref().map_or((0, ORIGIN), |(told, at, _)| (*told, *at));
        self.clock.last = self.entries.last().map_or(taken, |last| last.recorded.at.max(taken));
        self.machine = match &self.snapshot {
            Some((.., text)) => {
                let state = serde_json::from_str(text).map_err(|error| error.to_string())?;
                M::make_again(&self.config, state)?
            }
            None => M::make(&self.config),
        };
        for Entry { recorded, .. } in self.entries.iter().skip(told) {
            self.machine.on(recorded.at, recorded.event.clone(), &mut Vec::new());
        }
        Ok(())
    }

    /// The state loses a part: what a driver does that forgets something.
    pub(super) fn forget(&mut self, at: u64, part: &str) -> Result<(), String> {
        let now = self.clock.now(at);
        let mut state = serde_json::to_value(self.machine.dump(now)).map_err(|error| error.to_string())?;
        if let Some(state) = state.as_object_mut() {
            state.remove(part);
        }
        let state = serde_json::from_value(state).map_err(|error| error.to_string())?;
        self.machine = M::make_again(&self.config, state)?;
        Ok(())
    }

    /// The whole journal told again from its beginning gives the same commands and the same state.
    pub(super) fn check_journal(&mut self, at: u64) -> Result<(), String> {
        let mut again = M::make(&self.config);
        for (place, entry) in self.entries.iter().chain(&self.batch).enumerate() {
            tell_again(&mut again, place, entry)?;
        }
        let now = self.clock.now(at);
        let (expected, found) = (text(&self.machine.dump(now)), text(&again.dump(now)));
        if expected == found { Ok(()) } else { Err(format!("the state is {expected}, told again {found}")) }
    }

    /// The news up to there are kept by the parent.
    pub(super) fn acknowledged(&mut self, number: u64) {
        while self.outbox.front().is_some_and(|(one, _)| *one <= number) {
            self.outbox.pop_front();
        }
    }

    /// Durable news that the parent has not acknowledged.
    pub(super) fn outbox(&self) -> impl Iterator<Item = &(u64, JobRecord)> {
        self.outbox.iter()
    }

    /// A job that is over here, which is durable.
    pub(super) fn archived(&self, handle: &Handle) -> Option<&JobRecord> {
        self.archive.get(handle)
    }

    /// A job that is over here, which is not durable yet.
    pub(super) fn about_to_be_archived(&self, handle: &Handle) -> Option<&JobRecord> {
        self.rows.ended.iter().rev().find(|record| record.handle == *handle)
    }

    /// Every job that was over here.
    pub(super) fn archive(&self) -> impl Iterator<Item = &JobRecord> {
        self.archive.values()
    }
}

fn tell_again<M: Kind>(machine: &mut M, place: usize, entry: &Entry<M>) -> Result<(), String> {
    let Recorded { at, event } = &entry.recorded;
    let mut commands = Vec::new();
    machine.on(*at, event.clone(), &mut commands);
    commands.retain(|command| !M::is_of_question(command));
    if commands == entry.commands {
        return Ok(());
    }
    let expected = &entry.commands;
    Err(format!("entry {place}, {event:?} at {at}, gave {expected:?}, told again {commands:?}"))
}

fn text(state: &impl serde::Serialize) -> String {
    serde_json::to_string(state).expect("states are plain data with text keys")
}
