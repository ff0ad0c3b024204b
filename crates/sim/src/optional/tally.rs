//! Accounts the usage of each user during a simulation and builds the [`ExplorationRun`].

use pliant_model::{Capacity, Exploration, ExplorationRun, SpanMs, TimeMs};
use pliant_policy::optional::Kind;

use super::scenario::{Scenario, UserDraw};

/// The counts of a run.
pub(super) struct Tally {
    explorations: Vec<Exploration>,
    mandatory: Vec<u32>,
    capacity: Vec<Capacity>,
    stored: u32,
    stored_most: u32,
    pub(super) submissions: u64,
}

/// How a run on a server ended, from the point of view of its user.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RunEnd {
    Completed(Kind),
    Killed,
    Cancelled,
}

impl Tally {
    pub(super) fn new(scenario: &Scenario, users: &[UserDraw]) -> Tally {
        let exploration = |user: &UserDraw| Exploration {
            arrival: user.arrival,
            deadline: user.arrival + scenario.deadline,
            weight: user.weight,
            mandatory: scenario.mandatory,
            mandatory_done: None,
            completed: 0,
            usage: SpanMs::ZERO,
            useful: SpanMs::ZERO,
            killed: 0,
            left: user.arrival,
        };
        let resources = scenario.speeds.iter().sum::<f64>() * f64::from(scenario.cores);
        Tally {
            explorations: users.iter().map(exploration).collect(),
            mandatory: vec![0; users.len()],
            capacity: vec![Capacity { since: TimeMs::ZERO, resources }],
            stored: 0,
            stored_most: 0,
            submissions: 0,
        }
    }

    /// Changes the capacity when a server goes up or down.
    pub(super) fn resources(&mut self, now: TimeMs, change: f64) {
        let resources = self.capacity.last().map_or(0.0, |last| last.resources) + change;
        self.capacity.push(Capacity { since: now, resources });
    }

    /// Counts an optional request that reaches the platform.
    pub(super) fn add_stored(&mut self) {
        self.stored += 1;
        self.stored_most = self.stored_most.max(self.stored);
    }

    /// Counts an optional request that leaves the platform.
    pub(super) fn remove_stored(&mut self) {
        self.stored -= 1;
    }

    /// Accounts an ended run. A run that was cancelled because its user has left counts only until the user's deadline: after
    /// that it runs on only because a cancellation was lost.
    pub(super) fn ran(&mut self, now: TimeMs, user: usize, elapsed: SpanMs, speed: f64, end: RunEnd) {
        let exploration = &mut self.explorations[user];
        let late = (now - exploration.deadline).max(SpanMs::ZERO);
        let elapsed = if end == RunEnd::Cancelled { (elapsed - late).max(SpanMs::ZERO) } else { elapsed };
        let resources = SpanMs((elapsed.0 as f64 * speed).round() as i64);
        exploration.usage = exploration.usage + resources;
        match end {
            RunEnd::Completed(kind) => {
                exploration.completed += 1;
                exploration.useful = exploration.useful + resources;
                if kind == Kind::Mandatory {
                    self.mandatory[user] += 1;
                    if self.mandatory[user] == exploration.mandatory {
                        exploration.mandatory_done = Some(now);
                    }
                }
            }
            RunEnd::Killed => exploration.killed += 1,
            RunEnd::Cancelled => {}
        }
    }

    /// Records that a user has left.
    pub(super) fn left(&mut self, now: TimeMs, user: usize) {
        self.explorations[user].left = now;
    }

    /// When a user's mandatory requests were completed, and their deadline.
    pub(super) fn mandatory_of(&self, user: usize) -> (Option<TimeMs>, TimeMs) {
        let Exploration { mandatory_done, deadline, .. } = self.explorations[user];
        (mandatory_done, deadline)
    }

    /// The deadline of the last user.
    pub(super) fn last_deadline(&self) -> TimeMs {
        self.explorations.iter().map(|user| user.deadline).max().unwrap_or(TimeMs::ZERO)
    }

    /// The maximal number of optional requests on the platform at a time.
    pub(super) fn stored_most(&self) -> u32 {
        self.stored_most
    }

    pub(super) fn conclude(self) -> ExplorationRun {
        ExplorationRun {
            capacity: self.capacity,
            explorations: self.explorations,
            stored_most: self.stored_most,
            submissions: self.submissions,
        }
    }
}
