//! The queue of one server and the runs on its cores.
//!
//! The driver reports arrivals and ends, calls [`Queue::decide`] after all events of an instant, and carries the decisions
//! out. A run that is being ended keeps its core until the driver reports its end: processes take a moment to end, and
//! the run may complete in that moment.

mod prospects;
mod views;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use pliant_model::rng::Draws;
use pliant_model::{SpanMs, TimeMs};

use super::Fairness;
use super::accounts::Accounts;

pub use prospects::Prospect;
pub use views::{Running, Share, unfairness};

/// The ID of a request, given by the driver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RequestId(pub u32);

/// The ID of a user, given by the driver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct UserId(pub u32);

/// The kind of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Kind {
    /// It must be completed.
    Mandatory,
    /// It has value until the deadline.
    Optional,
}

/// A request for one core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Request {
    /// The ID.
    pub id: RequestId,
    /// The user.
    pub user: UserId,
    /// The user's weight, at least 1.
    pub weight: u32,
    /// The kind.
    pub kind: Kind,
    /// The user's deadline, if the server knows it. Without it no grace period applies.
    pub deadline: Option<TimeMs>,
}

impl Request {
    /// True if it is mandatory and past its deadline.
    pub(super) fn is_late(&self, now: TimeMs) -> bool {
        self.kind == Kind::Mandatory && self.deadline.is_some_and(|deadline| now > deadline)
    }

    /// True if this end means a missed deadline: it is late, or the request failed.
    fn is_missed(&self, at: TimeMs, how: RunOutcome) -> bool {
        let never = how != RunOutcome::Over && self.kind == Kind::Mandatory && self.deadline.is_some();
        never || self.is_late(at)
    }
}

/// The order in which requests run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Order {
    /// Order of arrival for all kinds; no run is ended (the paper's legacy system).
    Fcfs,
    /// By the five rules.
    Fair {
        /// Rule 4.
        fairness: Fairness,
        /// The longest wait of a mandatory request for an optional one to complete; 0 in the paper.
        grace: SpanMs,
    },
}

/// A decision for the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Start a request on a free core.
    Start {
        /// The request.
        request: RequestId,
        /// The core.
        core: u32,
    },
    /// End a running request and report its end.
    End {
        /// The request.
        request: RequestId,
    },
}

/// The outcome of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunOutcome {
    /// It completed.
    Over,
    /// It failed.
    Failed,
    /// It was ended by a decision.
    Killed,
}

/// The effect of a cancellation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cancelled {
    /// The request was waiting and is removed.
    Withdrawn,
    /// The request runs: end it and report its end.
    Running,
    /// The request does not exist.
    Unknown,
}

/// A run on a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Run {
    request: Request,
    /// Its number in the order of arrival.
    sequence: u64,
    since: TimeMs,
    state: RunState,
}

/// The state of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
enum RunState {
    /// It continues.
    Running,
    /// It is being ended and will be requeued.
    Requeueing,
    /// It is being ended and will be removed.
    Removing,
}

/// The position of a waiting request: mandatory requests first, each kind in order of arrival.
type QueuePosition = (Kind, u64);

/// The requests of one server.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Queue {
    order: Order,
    accounts: Accounts,
    cores: Vec<Option<Run>>,
    /// Sorted by position. Stored as a list of pairs in JSON, whose keys must be texts.
    #[cfg_attr(feature = "serde", serde(with = "pairs"))]
    waiting: BTreeMap<QueuePosition, Request>,
    positions: BTreeMap<RequestId, QueuePosition>,
    request_added: u64,
    /// The longest runtime of each user's requests on this server.
    longest: BTreeMap<UserId, SpanMs>,
    due: Option<TimeMs>,
}

impl Queue {
    /// An empty queue for that many cores.
    pub fn new(order: Order, cores: u32) -> Queue {
        let fairness = match order {
            Order::Fair { fairness, .. } => fairness,
            Order::Fcfs => Fairness::Cumulative,
        };
        Queue {
            order,
            accounts: Accounts::new(fairness, cores),
            cores: vec![None; cores as usize],
            waiting: BTreeMap::new(),
            positions: BTreeMap::new(),
            request_added: 0,
            longest: BTreeMap::new(),
            due: None,
        }
    }

    /// Adds a request. Its ID must be unused.
    pub fn submit(&mut self, now: TimeMs, request: Request) {
        self.accounts.request_added(now, request.user, request.weight);
        let sequence = self.request_added;
        self.request_added += 1;
        self.wait(request, sequence);
    }

    /// Cancels a request. A mandatory request that is late counts as missed.
    pub fn cancel(&mut self, now: TimeMs, id: RequestId) -> Cancelled {
        if let Some(request) = self.take_back(now, id) {
            if request.is_late(now) {
                self.accounts.missed(request.user);
            }
            return Cancelled::Withdrawn;
        }
        let Some(run) = self.run_mut(id) else { return Cancelled::Unknown };
        let (request, before) = (run.request, std::mem::replace(&mut run.state, RunState::Removing));
        if before != RunState::Removing && request.is_late(now) {
            self.accounts.missed(request.user);
        }
        Cancelled::Running
    }

    /// Removes a waiting request that moves to another server.
    pub fn take_back(&mut self, now: TimeMs, id: RequestId) -> Option<Request> {
        let position = self.positions.remove(&id)?;
        let request = self.waiting.remove(&position)?;
        self.accounts.request_removed(now, request.user);
        Some(request)
    }

    /// Records the end of a run. True if its request is requeued.
    pub fn ended(&mut self, now: TimeMs, id: RequestId, how: RunOutcome) -> bool {
        self.ended_at(now, now, id, how)
    }

    /// Like [`Queue::ended`] for a run that ended at `at`: the user is not charged for the time until the end was noticed.
    pub fn ended_at(&mut self, now: TimeMs, at: TimeMs, id: RequestId, how: RunOutcome) -> bool {
        let found = self.cores.iter().position(|core| core.is_some_and(|run| run.request.id == id));
        let Some(run) = found.and_then(|core| self.cores[core].take()) else { return false };
        let (user, at) = (run.request.user, at.min(now).max(run.since));
        self.accounts.stopped(at, user, run.since);
        if how == RunOutcome::Killed && run.state == RunState::Requeueing {
            self.accounts.killed(user);
            self.wait(run.request, run.sequence);
            return true;
        }
        if how == RunOutcome::Over {
            self.accounts.completed(user, at - run.since);
        }
        if run.state != RunState::Removing && run.request.is_missed(at, how) {
            self.accounts.missed(user);
        }
        if how != RunOutcome::Killed {
            let longest = self.longest.entry(user).or_default();
            *longest = (*longest).max(at - run.since);
        }
        self.accounts.request_removed(now, user);
        false
    }

    /// Decides at the end of an instant which requests start and which runs end. Appends to `decisions`.
    ///
    /// Starting a mandatory request costs O(log waiting). Starting an optional request scans all waiting requests and the users
    /// of the lowest rank: O(waiting x users of that rank).
    pub fn decide(&mut self, now: TimeMs, draws: &mut Draws, decisions: &mut Vec<Decision>) {
        self.due = None;
        for core in 0..self.cores.len() {
            if self.cores[core].is_some() {
                continue;
            }
            let Some(position) = self.next(now, draws) else { break };
            decisions.push(self.start(now, position, core));
        }
        if let Order::Fair { grace, .. } = self.order {
            self.preempt(now, grace, draws, decisions);
        }
    }

    /// When [`Queue::decide`] must be called next if no other event occurs: at the end of a grace period.
    pub fn next_due(&self) -> Option<TimeMs> {
        self.due
    }

    /// Number of cores.
    pub fn cores(&self) -> u32 {
        self.cores.len() as u32
    }

    /// Numbers of waiting and of running requests.
    pub fn counts(&self) -> (u32, u32) {
        let running = self.cores.iter().flatten().count();
        (self.waiting.len() as u32, running as u32)
    }

    /// Number of optional requests, waiting or running.
    pub fn optional(&self) -> u32 {
        let waiting = self.waiting.values();
        let running = self.cores.iter().flatten().map(|run| &run.request);
        waiting.chain(running).filter(|request| request.kind == Kind::Optional).count() as u32
    }

    /// True if the request waits.
    pub fn waits(&self, id: RequestId) -> bool {
        self.positions.contains_key(&id)
    }

    /// The user's resource time on this server.
    pub fn usage(&self, now: TimeMs, user: UserId) -> SpanMs {
        self.accounts.usage(now, user)
    }

    fn wait(&mut self, request: Request, sequence: u64) {
        let class = match self.order {
            Order::Fcfs => Kind::Mandatory,
            Order::Fair { .. } => request.kind,
        };
        self.positions.insert(request.id, (class, sequence));
        self.waiting.insert((class, sequence), request);
    }

    fn run_mut(&mut self, id: RequestId) -> Option<&mut Run> {
        self.cores.iter_mut().flatten().find(|run| run.request.id == id)
    }

    /// The first waiting request by rules 1, 3, 4 and 5.
    fn next(&self, now: TimeMs, draws: &mut Draws) -> Option<QueuePosition> {
        let (first, _) = self.waiting.first_key_value()?;
        if first.0 == Kind::Mandatory {
            return Some(*first);
        }
        let mut best: Option<u128> = None;
        // The first request of each user of the lowest rank.
        let mut candidates: Vec<(UserId, QueuePosition)> = Vec::new();
        for (position, request) in &self.waiting {
            let rank = self.accounts.rank(now, request.user);
            if best.is_some_and(|best| rank > best)
                || candidates.iter().any(|(user, _)| *user == request.user)
            {
                continue;
            }
            if best != Some(rank) {
                candidates.clear();
                best = Some(rank);
            }
            candidates.push((request.user, *position));
        }
        let drawn = draws.below(candidates.len() as u32) as usize;
        candidates.get(drawn).map(|(_, position)| *position)
    }

    fn start(&mut self, now: TimeMs, position: QueuePosition, core: usize) -> Decision {
        let request = self.waiting.remove(&position).expect("a position comes from the waiting requests");
        self.positions.remove(&request.id);
        self.accounts.started(now, request.user, request.kind == Kind::Optional);
        self.cores[core] = Some(Run { request, sequence: position.1, since: now, state: RunState::Running });
        Decision::Start { request: request.id, core: core as u32 }
    }

    /// Ends as many optional runs as mandatory requests wait for a core, the last of the order first. Runs within a grace
    /// period continue.
    fn preempt(&mut self, now: TimeMs, grace: SpanMs, draws: &mut Draws, decisions: &mut Vec<Decision>) {
        let mandatory = self.waiting.range(..(Kind::Optional, 0)).count();
        let ending = self.cores.iter().flatten().filter(|run| run.state != RunState::Running).count();
        let mut missing = mandatory.saturating_sub(ending);
        if missing == 0 {
            return;
        }
        let mut running: Vec<(usize, u128)> = Vec::new();
        for (core, run) in self.cores.iter().enumerate() {
            let Some(run) =
                run.filter(|run| run.state == RunState::Running && run.request.kind == Kind::Optional)
            else {
                continue;
            };
            match self.grace_end(now, grace, &run) {
                Some(end) if missing > 0 => {
                    missing -= 1;
                    self.due = Some(self.due.map_or(end, |due| due.min(end)));
                }
                _ => running.push((core, self.accounts.rank(now, run.request.user))),
            }
        }
        // Rule 5 among equals: a random order, then a stable sort by rule 4.
        draws.shuffle(&mut running);
        running.sort_by_key(|(_, rank)| Reverse(*rank));
        for (core, _) in running.into_iter().take(missing) {
            if let Some(run) = &mut self.cores[core] {
                run.state = RunState::Requeueing;
                decisions.push(Decision::End { request: run.request.id });
            }
        }
    }

    /// The expected completion of an optional run within the grace period; none if the waiting mandatory requests cannot wait
    /// for it. The expectation is the longest runtime of this user's requests here, and every waiting mandatory request
    /// must still have time for the longest runtime of any request, in queue order.
    fn grace_end(&self, now: TimeMs, grace: SpanMs, run: &Run) -> Option<TimeMs> {
        let end = run.since + *self.longest.get(&run.request.user)?;
        if grace == SpanMs::ZERO || end <= now || end - now > grace {
            return None;
        }
        let longest = self.longest.values().copied().max().unwrap_or_default();
        let mut until = end;
        for request in self.waiting.range(..(Kind::Optional, 0)).map(|(_, request)| request) {
            until += longest;
            if request.deadline.is_none_or(|deadline| until > deadline) {
                return None;
            }
        }
        Some(end)
    }
}

/// Serializes a map as a list of pairs.
#[cfg(feature = "serde")]
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::{QueuePosition, Request};

    pub(super) fn serialize<S: Serializer>(
        map: &BTreeMap<QueuePosition, Request>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(map)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<QueuePosition, Request>, D::Error> {
        Ok(Vec::deserialize(from)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests;
