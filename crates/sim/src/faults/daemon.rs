//! A daemon: a node with a clock that may be wrong, and what is under way there.

use pliant_model::Time;

use crate::kernel::{DaemonMachine, Node, NumberedCommand};

/// When schedules begin, on a clock that is right.
pub(super) const ORIGIN: Time = Time(1_000_000);

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

pub(super) struct Daemon<M: DaemonMachine> {
    pub(super) node: Node<M>,
    pub(super) clock: Clock,
    /// When it is told next that time has passed, if that is under way.
    pub(super) due: Option<u64>,
    /// A commit is under way.
    pub(super) committing: bool,
    /// Calls that ask for what is durable: they are answered after the commit.
    pub(super) waiting: Vec<u64>,
}

impl<M: DaemonMachine> Daemon<M> {
    pub(super) fn new(config: <M as DaemonMachine>::Config, ahead: i64) -> Daemon<M> {
        let (node, clock) = (Node::new(config), Clock::new(ahead));
        Daemon { node, clock, due: None, committing: false, waiting: Vec::new() }
    }

    /// Tells the machine; returns the commands that wait for no commit, which are of questions.
    pub(super) fn tell(&mut self, at: u64, event: M::Event, journaled: bool) -> Vec<M::Command> {
        let now = self.clock.now(at);
        self.node.tell(now, event, journaled)
    }

    /// True if a commit is to be begun: something is not durable, or a call waits for what is.
    pub(super) fn begins_commit(&mut self) -> bool {
        let is_dirty = self.node.is_dirty() || !self.waiting.is_empty();
        let begins = is_dirty && self.node.up && !self.committing;
        self.committing |= begins;
        begins
    }

    /// When it is to be told that time has passed, if that is not under way.
    pub(super) fn next_due(&mut self, at: u64) -> Option<u64> {
        let due = self.clock.until(self.node.machine.next_due()?, at);
        if !self.node.up || self.due.is_some_and(|planned| planned <= due) {
            return None;
        }
        self.due = Some(due);
        Some(due)
    }

    /// Commits what the machine was told, with a snapshot on demand; returns the commands that follow.
    pub(super) fn commit(&mut self, at: u64, snapshot: bool) -> Vec<NumberedCommand<M>> {
        self.committing = false;
        // A clock that is read never goes back: it is read for a snapshot only.
        let now = if snapshot { self.clock.now(at) } else { ORIGIN };
        self.node.commit(now, snapshot)
    }

    /// Loses what is not durable.
    pub(super) fn crash(&mut self) -> Result<(), String> {
        self.due = None;
        self.committing = false;
        self.waiting.clear();
        self.clock.last = self.node.crash()?.unwrap_or(ORIGIN);
        Ok(())
    }

    /// The state loses a part: what a driver does that forgets something.
    pub(super) fn forget(&mut self, at: u64, part: &str) -> Result<(), String> {
        let now = self.clock.now(at);
        let mut state =
            serde_json::to_value(self.node.machine.dump(now)).map_err(|error| error.to_string())?;
        if let Some(state) = state.as_object_mut() {
            state.remove(part);
        }
        self.node.restore(&state.to_string())
    }

    /// Replays the whole journal: it gives the same commands and the same state.
    pub(super) fn check_journal(&mut self, at: u64) -> Result<(), String> {
        let now = self.clock.now(at);
        self.node.check_journal(now)
    }
}
