//! A daemon: a node with a clock that may be wrong, and its pending commit and timer.

use pliant_model::Time;
use serde_json::Value;

use crate::kernel::{DaemonMachine, Node, NodeMachine, NumberedCommand};

/// The time at which schedules begin, on a correct clock.
pub(super) const ORIGIN: Time = Time(1_000_000);

/// A clock in whole seconds that may be wrong but never goes back.
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

    /// When the clock will show `time`, not before `now`.
    pub(super) fn until(&self, time: Time, now: u64) -> u64 {
        let at = time.0.saturating_sub(ORIGIN.0).saturating_mul(1000).saturating_sub(self.ahead);
        if time <= self.last { now } else { now.max(u64::try_from(at).unwrap_or(0)) }
    }

    /// The time that it has shown last.
    pub(super) fn last(&self) -> Time {
        self.last
    }

    pub(super) fn jump(&mut self, by: i64) {
        self.ahead += by;
    }
}

pub(super) struct Daemon<M: DaemonMachine> {
    pub(super) node: Node<M>,
    pub(super) clock: Clock,
    /// When its next time event is scheduled, if one is.
    pub(super) due: Option<u64>,
    /// A commit is in progress.
    pub(super) committing: bool,
    /// Calls that read durable state only: they are answered after the commit.
    pub(super) waiting: Vec<u64>,
}

impl<M: DaemonMachine> Daemon<M> {
    pub(super) fn new(config: <M as DaemonMachine>::Config, ahead: i64) -> Daemon<M> {
        let (node, clock) = (Node::new(config), Clock::new(ahead));
        Daemon { node, clock, due: None, committing: false, waiting: Vec::new() }
    }

    /// Passes an event to the machine. Returns the commands that wait for no commit: those of queries.
    pub(super) fn handle(&mut self, at: u64, event: M::Event, journaled: bool) -> Vec<M::Command> {
        let now = self.clock.now(at);
        self.node.handle(now, event, journaled)
    }

    /// Starts a commit if something is not durable or a call waits for one. Returns whether it did.
    pub(super) fn starts_commit(&mut self) -> bool {
        let is_dirty = self.node.is_dirty() || !self.waiting.is_empty();
        let starts = is_dirty && self.node.up && !self.committing;
        self.committing |= starts;
        starts
    }

    /// When to schedule its next time event, unless one is scheduled no later than that.
    pub(super) fn next_due(&mut self, at: u64) -> Option<u64> {
        let due = self.clock.until(self.node.machine.next_due()?, at);
        if !self.node.up || self.due.is_some_and(|planned| planned <= due) {
            return None;
        }
        self.due = Some(due);
        Some(due)
    }

    /// Commits pending events, with a snapshot on demand. Returns the commands that follow.
    pub(super) fn commit(&mut self, at: u64, snapshot: bool) -> Vec<NumberedCommand<M>> {
        self.committing = false;
        // Reading the clock changes its lower bound, so it is read for a snapshot only.
        let now = if snapshot { self.clock.now(at) } else { ORIGIN };
        self.node.commit(now, snapshot)
    }

    /// Crashes: drops everything that is not durable.
    pub(super) fn crash(&mut self) -> Result<(), String> {
        self.due = None;
        self.committing = false;
        self.waiting.clear();
        self.clock.last = self.node.crash()?.unwrap_or(ORIGIN);
        Ok(())
    }

    /// Removes one field of the machine's state, or of a part of the state: the effect of a driver that loses it.
    pub(super) fn forget(&mut self, at: u64, (part, field): (&str, &str)) -> Result<(), String> {
        self.change_state(at, |state| {
            if let Some(part) = state.pointer_mut(part).and_then(Value::as_object_mut) {
                part.remove(field);
            }
        })
    }

    /// Restarts the machine from its state as JSON with a change.
    pub(super) fn change_state(&mut self, at: u64, change: impl FnOnce(&mut Value)) -> Result<(), String> {
        let now = self.clock.now(at);
        let mut state =
            serde_json::to_value(self.node.machine.dump(now)).map_err(|error| error.to_string())?;
        change(&mut state);
        self.node.restore(&state.to_string())
    }

    /// The events in its journal and its state, as JSON.
    pub(super) fn recorded(&mut self, at: u64) -> (Vec<String>, String) {
        let now = self.clock.now(at);
        let text = |event| serde_json::to_string(event).expect("events are plain data with text keys");
        (self.node.events().map(text).collect(), self.node.machine.state(now))
    }

    /// Checks that a replay of the whole journal gives the same commands and the same state.
    pub(super) fn check_journal(&mut self, at: u64) -> Result<(), String> {
        let now = self.clock.now(at);
        self.node.check_journal(now)
    }
}
