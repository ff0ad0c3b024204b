//! The queue of one server and what runs on its cores.
//!
//! The driver tells what comes and what ends, asks [`Queue::decide`] when all of an instant is in, and carries the
//! decisions out. A run that is to be ended keeps its core until the driver says that it is gone: processes take a
//! moment to end, and one may complete on its own in that moment.

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

/// A request, by the driver's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RequestId(pub u32);

/// A user, by the driver's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct UserId(pub u32);

/// Whether a request has to be completed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Kind {
    /// It has to, whatever the deadline.
    Mandatory,
    /// It is worth something until the deadline.
    Optional,
}

/// A request for one core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Request {
    /// The driver's number for it.
    pub id: RequestId,
    /// Whose it is.
    pub user: UserId,
    /// The user's weight, at least 1.
    pub weight: u32,
    /// Whether it has to be completed.
    pub kind: Kind,
    /// The user's deadline, if the server is to know it: without it there is no grace for those in its way.
    pub deadline: Option<TimeMs>,
}

impl Request {
    /// True if it has to be completed, and should have been.
    pub(super) fn is_late(&self, now: TimeMs) -> bool {
        self.kind == Kind::Mandatory && self.deadline.is_some_and(|deadline| now > deadline)
    }

    /// True if its end says that it missed its deadline: it comes too late, or there is nothing to come.
    fn is_missed(&self, at: TimeMs, how: RunOutcome) -> bool {
        let never = how != RunOutcome::Over && self.kind == Kind::Mandatory && self.deadline.is_some();
        never || self.is_late(at)
    }
}

/// The order in which requests are run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Order {
    /// As they came, mandatory or not; nothing is ended (the paper's legacy system).
    Fcfs,
    /// By the five rules.
    Fair {
        /// Rule 4.
        fairness: Fairness,
        /// How long a mandatory request may wait for an optional one to complete; none in the paper.
        grace: SpanMs,
    },
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Run a request on a core that is free.
    Start {
        /// Which.
        request: RequestId,
        /// Where.
        core: u32,
    },
    /// End a running request, then say that it is gone.
    End {
        /// Which.
        request: RequestId,
    },
}

/// How a run came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunOutcome {
    /// By itself: it is complete.
    Over,
    /// By itself, and is worth nothing.
    Failed,
    /// It was ended, as was decided.
    Killed,
}

/// What a cancellation found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cancelled {
    /// The request waited and is gone.
    Withdrawn,
    /// It runs: end it, then say that it is gone.
    Running,
    /// There is none such.
    Unknown,
}

/// A run on a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Run {
    request: Request,
    /// Its place among those that came.
    sequence: u64,
    since: TimeMs,
    fate: Fate,
}

/// What is to become of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
enum Fate {
    /// It goes on.
    Runs,
    /// It is being ended, and waits again when it is gone.
    Returns,
    /// It is being ended for good.
    Goes,
}

/// The place of a waiting request: a mandatory one is before every optional one, and each kind is as it came.
type Place = (Kind, u64);

/// The requests of one server.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Queue {
    order: Order,
    accounts: Accounts,
    cores: Vec<Option<Run>>,
    /// Sorted by place. Kept as a list of pairs in JSON, whose keys are texts.
    #[cfg_attr(feature = "serde", serde(with = "pairs"))]
    waiting: BTreeMap<Place, Request>,
    places: BTreeMap<RequestId, Place>,
    came: u64,
    /// The longest that a request of each user took here.
    longest: BTreeMap<UserId, SpanMs>,
    due: Option<TimeMs>,
}

impl Queue {
    /// An empty queue before that many cores.
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
            places: BTreeMap::new(),
            came: 0,
            longest: BTreeMap::new(),
            due: None,
        }
    }

    /// A request comes. Its number must not be in use.
    pub fn submit(&mut self, now: TimeMs, request: Request) {
        self.accounts.came(now, request.user, request.weight);
        let sequence = self.came;
        self.came += 1;
        self.wait(request, sequence);
    }

    /// A user wants a request no more. A mandatory one that is late by now has missed its deadline; one that is not, has not.
    pub fn cancel(&mut self, now: TimeMs, id: RequestId) -> Cancelled {
        if let Some(request) = self.take_back(now, id) {
            if request.is_late(now) {
                self.accounts.missed(request.user);
            }
            return Cancelled::Withdrawn;
        }
        let Some(run) = self.run_mut(id) else { return Cancelled::Unknown };
        let (request, before) = (run.request, std::mem::replace(&mut run.fate, Fate::Goes));
        if before != Fate::Goes && request.is_late(now) {
            self.accounts.missed(request.user);
        }
        Cancelled::Running
    }

    /// A request that waits goes to another server, where it is late if it is.
    pub fn take_back(&mut self, now: TimeMs, id: RequestId) -> Option<Request> {
        let place = self.places.remove(&id)?;
        let request = self.waiting.remove(&place)?;
        self.accounts.left(now, request.user);
        Some(request)
    }

    /// A run is gone from its core. True if its request waits again.
    pub fn ended(&mut self, now: TimeMs, id: RequestId, how: RunOutcome) -> bool {
        self.ended_at(now, now, id, how)
    }

    /// As [`Queue::ended`], of a run that ended at `at`: its user is not charged for the time in which nobody noticed that.
    pub fn ended_at(&mut self, now: TimeMs, at: TimeMs, id: RequestId, how: RunOutcome) -> bool {
        let found = self.cores.iter().position(|core| core.is_some_and(|run| run.request.id == id));
        let Some(run) = found.and_then(|core| self.cores[core].take()) else { return false };
        let (user, at) = (run.request.user, at.min(now).max(run.since));
        self.accounts.stopped(at, user, run.since);
        if how == RunOutcome::Killed && run.fate == Fate::Returns {
            self.accounts.killed(user);
            self.wait(run.request, run.sequence);
            return true;
        }
        if how == RunOutcome::Over {
            self.accounts.completed(user, at - run.since);
        }
        if run.fate != Fate::Goes && run.request.is_missed(at, how) {
            self.accounts.missed(user);
        }
        if how != RunOutcome::Killed {
            let longest = self.longest.entry(user).or_default();
            *longest = (*longest).max(at - run.since);
        }
        self.accounts.left(now, user);
        false
    }

    /// All of an instant is in: says what is to start and what is to be ended. Appends to `decisions`.
    ///
    /// A start of a mandatory request costs O(log waiting). One of an optional request looks at all that wait, for each at the
    /// users who are first so far: O(waiting x users of the least rank), which are few, as servers take a few of each user.
    pub fn decide(&mut self, now: TimeMs, draws: &mut Draws, decisions: &mut Vec<Decision>) {
        self.due = None;
        for core in 0..self.cores.len() {
            if self.cores[core].is_some() {
                continue;
            }
            let Some(place) = self.next(now, draws) else { break };
            decisions.push(self.start(now, place, core));
        }
        if let Order::Fair { grace, .. } = self.order {
            self.preempt(now, grace, draws, decisions);
        }
    }

    /// When [`Queue::decide`] is to be asked next if nothing else happens: a grace ends.
    pub fn next_due(&self) -> Option<TimeMs> {
        self.due
    }

    /// How many cores there are.
    pub fn cores(&self) -> u32 {
        self.cores.len() as u32
    }

    /// Requests that wait and that have a core.
    pub fn counts(&self) -> (u32, u32) {
        let running = self.cores.iter().flatten().count();
        (self.waiting.len() as u32, running as u32)
    }

    /// Optional requests that are here, waiting or running.
    pub fn optional(&self) -> u32 {
        let waiting = self.waiting.values();
        let running = self.cores.iter().flatten().map(|run| &run.request);
        waiting.chain(running).filter(|request| request.kind == Kind::Optional).count() as u32
    }

    /// True if the request waits.
    pub fn waits(&self, id: RequestId) -> bool {
        self.places.contains_key(&id)
    }

    /// Resource time that a user has consumed here.
    pub fn consumed(&self, now: TimeMs, user: UserId) -> SpanMs {
        self.accounts.consumed(now, user)
    }

    fn wait(&mut self, request: Request, sequence: u64) {
        let class = match self.order {
            Order::Fcfs => Kind::Mandatory,
            Order::Fair { .. } => request.kind,
        };
        self.places.insert(request.id, (class, sequence));
        self.waiting.insert((class, sequence), request);
    }

    fn run_mut(&mut self, id: RequestId) -> Option<&mut Run> {
        self.cores.iter_mut().flatten().find(|run| run.request.id == id)
    }

    /// Who is the first that waits: rules 1, 3, 4 and 5.
    fn next(&self, now: TimeMs, draws: &mut Draws) -> Option<Place> {
        let (first, _) = self.waiting.first_key_value()?;
        if first.0 == Kind::Mandatory {
            return Some(*first);
        }
        let mut best: Option<u128> = None;
        // The first request of each user of the least rank: of a user's own, the first to come goes first.
        let mut candidates: Vec<(UserId, Place)> = Vec::new();
        for (place, request) in &self.waiting {
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
            candidates.push((request.user, *place));
        }
        let drawn = draws.below(candidates.len() as u32) as usize;
        candidates.get(drawn).map(|(_, place)| *place)
    }

    fn start(&mut self, now: TimeMs, place: Place, core: usize) -> Decision {
        let request = self.waiting.remove(&place).expect("a place comes from the waiting requests");
        self.places.remove(&request.id);
        self.accounts.started(now, request.user, request.kind == Kind::Optional);
        self.cores[core] = Some(Run { request, sequence: place.1, since: now, fate: Fate::Runs });
        Decision::Start { request: request.id, core: core as u32 }
    }

    /// Ends as many optional runs as mandatory requests wait for a core: the last of the order first. Runs that are
    /// about to complete are left alone, if those who wait have the time.
    fn preempt(&mut self, now: TimeMs, grace: SpanMs, draws: &mut Draws, decisions: &mut Vec<Decision>) {
        let mandatory = self.waiting.range(..(Kind::Optional, 0)).count();
        let ending = self.cores.iter().flatten().filter(|run| run.fate != Fate::Runs).count();
        let mut missing = mandatory.saturating_sub(ending);
        if missing == 0 {
            return;
        }
        let mut running: Vec<(usize, u128)> = Vec::new();
        for (core, run) in self.cores.iter().enumerate() {
            let Some(run) = run.filter(|run| run.fate == Fate::Runs && run.request.kind == Kind::Optional)
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
        // Rule 5 among equals: a drawn order, then the stable sort by rule 4.
        draws.shuffle(&mut running);
        running.sort_by_key(|(_, rank)| Reverse(*rank));
        for (core, _) in running.into_iter().take(missing) {
            if let Some(run) = &mut self.cores[core] {
                run.fate = Fate::Returns;
                decisions.push(Decision::End { request: run.request.id });
            }
        }
    }

    /// When an optional run will be complete, if the mandatory requests that wait can wait for it: it will be within
    /// the grace, judged by the longest that this user's requests took here, and every mandatory request that waits
    /// then still has the time to run, in its turn, for as long as the longest request of anybody.
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

/// A map as a list of pairs.
#[cfg(feature = "serde")]
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::{Place, Request};

    pub(super) fn serialize<S: Serializer>(map: &BTreeMap<Place, Request>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(map)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<Place, Request>, D::Error> {
        Ok(Vec::deserialize(from)?.into_iter().collect())
    }
}
