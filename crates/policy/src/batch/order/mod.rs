//! Queue orders: in which order the waiting jobs of a cluster are served.
//!
//! An order gives every waiting job a rank, and the job with the lowest rank is served first: it is the head of the
//! queue, the only one that starts under strict service and the one with the reservation under EASY. Ties go by
//! submission. The published orders favour some jobs so much that others may never start. *Aging* prevents that: a
//! job that has waited longer than a bound goes before all jobs that have not, and such jobs go by submission.
//!
//! To add an order: one line in [`ORDERS`] and the function that it names.
//!
//! Ranks must have the same bits on every machine, since simulations and journals are replayed. They use the
//! operations that IEEE 754 defines exactly (`+ - * /` and square roots) and a logarithm (`log2`) that counts in integers; the
//! logarithms and powers of the standard library may differ between systems.

mod custom;
mod formulas;
mod local;
mod log2;
mod priority;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use pliant_model::{JobId, Owner, Procs, Span, Time};

pub(crate) use custom::CustomOrder;
pub use custom::{QueueOrder, QueueView};
pub use local::{LocalPolicy, LocalPolicyChange, local_policy};
pub use priority::{Entitlement, Factor, PriorityParts, PrioritySettings, UserPriority, Weights};
pub use usage::{Charge, JobPriority, Shares, UserUsage};

pub(super) use usage::Usages;

use super::Submission;
use crate::UnknownName;

/// A queue order.
pub struct Order {
    /// Its name in options and files.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    rank: Rank,
}

/// How an order ranks a job: the lowest value goes first.
#[derive(Clone, Copy)]
enum Rank {
    /// By submission alone.
    Submission,
    /// By what never changes while the job waits.
    Fixed(fn(&Candidate) -> f64),
    /// By what changes with time: ranked again at every event.
    Waiting(fn(&Candidate) -> f64),
    /// As the one before, and by what users have used.
    Usage(fn(&Candidate) -> f64),
    /// By a custom order, which ranks all jobs in one call.
    Custom,
}

/// The order whose ranks have parts.
const MULTIFACTOR: &str = "multifactor";

/// Every queue order, in the order in which they are listed to users.
pub const ORDERS: &[Order] = &[
    Order::new("first-come", "in order of submission", Rank::Submission),
    Order::new("shortest", "the shortest walltime first", Rank::Fixed(formulas::shortest)),
    Order::new(
        "smallest-area",
        "the least processors x walltime first",
        Rank::Fixed(formulas::smallest_area),
    ),
    Order::new("f1", "log10(walltime) x processors + 870 log10(submission)", Rank::Fixed(formulas::f1)),
    Order::new("f2", "sqrt(walltime) x processors + 25,600 log10(submission)", Rank::Fixed(formulas::f2)),
    Order::new("f3", "walltime x processors + 6,860,000 log10(submission)", Rank::Fixed(formulas::f3)),
    Order::new("f4", "walltime x sqrt(processors) + 530,000 log10(submission)", Rank::Fixed(formulas::f4)),
    Order::new("wfp3", "the most (wait / walltime)^3 x processors first", Rank::Waiting(formulas::wfp3)),
    Order::new(
        "unicep",
        "the most wait / (log2(processors) x walltime) first",
        Rank::Waiting(formulas::unicep),
    ),
    Order::new(
        MULTIFACTOR,
        "the most of age, size, fair share and class together",
        Rank::Usage(formulas::multifactor),
    ),
    Order::new(
        "fair-share",
        "the user who has used least lately for each share first",
        Rank::Usage(formulas::fair_share),
    ),
];

impl Order {
    const fn new(name: &'static str, summary: &'static str, rank: Rank) -> Order {
        Order { name, summary, rank }
    }

    /// The order of that name.
    pub fn by_name(name: &str) -> Result<&'static Order, UnknownName> {
        ORDERS.iter().find(|one| one.name == name).ok_or_else(|| UnknownName {
            what: "queue order",
            found: name.to_owned(),
            expected: ORDERS.iter().map(|one| one.name).collect(),
        })
    }

    /// The rank of a job; the lowest goes first.
    pub fn rank(&self, job: &Candidate) -> f64 {
        match self.rank {
            Rank::Submission | Rank::Custom => 0.0,
            Rank::Fixed(rank) | Rank::Waiting(rank) | Rank::Usage(rank) => rank(job),
        }
    }

    /// True if jobs are served in order of submission.
    pub fn is_first_come(&self) -> bool {
        matches!(self.rank, Rank::Submission)
    }

    /// True if the usage and the shares of users count ([`PrioritySettings`]).
    pub fn by_usage(&self) -> bool {
        matches!(self.rank, Rank::Usage(_))
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// After which wait a job goes before all that have waited less, whatever its rank; none never.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aging(pub Option<Span>);

impl Default for Aging {
    fn default() -> Aging {
        // A shorter one makes overloaded clusters serve by submission (docs/research/orders.md).
        Aging(Some(Span(7 * 86_400)))
    }
}

/// The units of a bound, longest first, s.
const UNITS: [(&str, i64); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];

impl FromStr for Aging {
    type Err = UnknownName;

    /// `none`, or a whole number of seconds (`3600`, `3600s`), minutes (`90m`), hours (`24h`) or days (`7d`).
    fn from_str(text: &str) -> Result<Aging, UnknownName> {
        if text == "none" {
            return Ok(Aging(None));
        }
        let with = |(unit, seconds): (&str, i64)| Some((text.strip_suffix(unit)?, seconds));
        let (digits, unit) = UNITS.into_iter().find_map(with).unwrap_or((text, 1));
        let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let count = digits.parse::<i64>().ok().filter(|_| is_plain);
        let bound = count.and_then(|count| count.checked_mul(unit)).filter(|bound| *bound <= Span::MAX.0);
        let unknown = UnknownName {
            what: "bound of aging",
            found: text.to_owned(),
            expected: vec!["none", "24h", "7d", "90m", "3600s"],
        };
        Ok(Aging(Some(Span(bound.ok_or(unknown)?))))
    }
}

impl fmt::Display for Aging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Span(bound)) = self.0 else { return f.write_str("none") };
        let whole = |(_, seconds): &(&str, i64)| bound != 0 && bound % seconds == 0;
        let (unit, seconds) = UNITS.into_iter().find(whole).unwrap_or(("s", 1));
        write!(f, "{}{unit}", bound / seconds)
    }
}

/// A queue order with its aging.
#[derive(Clone, Copy, Debug)]
pub struct Ordering {
    /// The order.
    pub order: &'static Order,
    /// The aging.
    pub aging: Aging,
}

/// A waiting job as an order sees it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Candidate {
    /// Processors that it asks for.
    pub procs: Procs,
    /// Its walltime, or what it is planned for.
    pub walltime: Span,
    /// How long it has waited; at least 0.
    pub waited: Span,
    /// Its submission, since the cluster was set up; at least 1 s.
    pub since: Span,
    /// Processors of the cluster.
    pub capacity: Procs,
    /// The usage and the shares of its user.
    pub user: Entitlement,
    /// The weights of the factors of its priority.
    pub weights: Weights,
    /// After this wait its age no longer grows; at least 1 s.
    pub age_max: Span,
}

/// Ranks the waiting jobs of one cluster.
#[derive(Clone, Debug)]
pub struct Ranking {
    ordering: Ordering,
    capacity: Procs,
    /// When the cluster was set up.
    since: Time,
    usages: Usages,
    /// Priorities that operators have given.
    by_operators: BTreeMap<JobId, i64>,
    /// The order, if it is none of [`ORDERS`].
    custom: Option<CustomOrder>,
}

/// The rank of a waiting job with its tie breakers: the lowest is served first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// What an operator has given; the highest is served first.
    priority: i64,
    aged: bool,
    rank: f64,
    submit: Time,
    /// Which submission to this cluster it was.
    arrival: u64,
}

impl Standing {
    /// The same with another rank.
    pub(super) fn ranked(self, rank: f64) -> Standing {
        Standing { rank, ..self }
    }

    pub(super) fn arrival(&self) -> u64 {
        self.arrival
    }

    pub(super) fn compare(&self, other: &Standing) -> std::cmp::Ordering {
        let by_rank = match self.aged && other.aged {
            true => std::cmp::Ordering::Equal,
            false => self.rank.total_cmp(&other.rank),
        };
        let by_operator = other.priority.cmp(&self.priority);
        let aged_first = other.aged.cmp(&self.aged);
        let by_submission = (self.submit, self.arrival).cmp(&(other.submit, other.arrival));
        by_operator.then(aged_first).then(by_rank).then(by_submission)
    }
}

impl Ranking {
    pub(super) fn new(ordering: Ordering, capacity: Procs, since: Time) -> Ranking {
        let (usages, by_operators) = (Usages::default(), BTreeMap::new());
        Ranking { ordering, capacity, since, usages, by_operators, custom: None }
    }

    /// By a custom order.
    pub(super) fn custom(order: CustomOrder, aging: Aging, capacity: Procs, since: Time) -> Ranking {
        let ordering = Ordering { order: &custom::ORDER, aging };
        Ranking { custom: Some(order), ..Ranking::new(ordering, capacity, since) }
    }

    /// The custom order, if it is one.
    pub(super) fn by_custom(&self) -> Option<&CustomOrder> {
        self.custom.as_ref()
    }

    /// The standing of a job at `now`; `before` is its previous standing.
    pub(super) fn standing(
        &self,
        now: Time,
        job: &Submission,
        arrival: u64,
        before: Option<&Standing>,
    ) -> Standing {
        let waited = Span((now - job.submit).0.max(0));
        let aged = self.ordering.aging.0.is_some_and(|bound| waited > bound);
        let order = self.ordering.order;
        let rank = match (order.rank, before) {
            (Rank::Fixed(_), Some(before)) => before.rank,
            (Rank::Usage(_), _) => order.rank(&self.entitled(now, job)),
            _ => order.rank(&self.candidate(now, job)),
        };
        let priority = self.by_operators.get(&job.job).copied().unwrap_or(0);
        Standing { priority, aged, rank, submit: job.submit, arrival }
    }

    /// Processors of the cluster.
    pub(super) fn capacity(&self) -> Procs {
        self.capacity
    }

    /// When a standing may change next.
    pub(super) fn changes_at(&self, standing: &Standing) -> Time {
        match (self.ordering.order.rank, self.ordering.aging.0) {
            (Rank::Waiting(_) | Rank::Usage(_) | Rank::Custom, _) => Time(i64::MIN),
            (_, Some(bound)) if !standing.aged => standing.submit + bound + Span(1),
            _ => Time::MAX,
        }
    }

    /// The parts of the priority of a job, as of the last [`Ranking::settle`]; none under other orders.
    pub(super) fn parts(&self, now: Time, job: &Submission) -> Option<PriorityParts> {
        let is_by_parts = self.ordering.order.name == MULTIFACTOR;
        is_by_parts.then(|| formulas::parts(&self.entitled(now, job)))
    }

    /// The job with the usage and the shares of its user.
    fn entitled(&self, now: Time, job: &Submission) -> Candidate {
        Candidate { user: self.usages.of(job.owner, now), ..self.candidate(now, job) }
    }

    fn candidate(&self, now: Time, job: &Submission) -> Candidate {
        Candidate {
            procs: job.procs,
            walltime: job.walltime,
            waited: Span((now - job.submit).0.max(0)),
            since: Span((job.submit - self.since).0.max(1)),
            capacity: self.capacity,
            user: Entitlement::UNUSED,
            weights: self.usages.priority().weights,
            age_max: self.usages.priority().age_max,
        }
    }

    /// Sums up usage until now, for the following ranks.
    pub(super) fn settle(&mut self, now: Time) {
        if self.ordering.order.by_usage() {
            self.usages.settle(now);
        }
    }

    /// Records the start of a job.
    pub(super) fn started(&mut self, now: Time, job: JobId, owner: Owner, procs: Procs) {
        if self.ordering.order.by_usage() {
            self.usages.start(Charge { job, owner, procs, start: now });
        }
    }

    /// A job has given its processors back.
    pub(super) fn finished(&mut self, now: Time, job: JobId) {
        self.usages.finish(now, job);
    }

    /// What has to be remembered.
    pub(super) fn dump(&self) -> Shares {
        let by_operators = self.by_operators.iter();
        let by_operators = by_operators.map(|(job, priority)| JobPriority { job: *job, priority: *priority });
        Shares { by_operators: by_operators.collect(), ..self.usages.dump(self.since) }
    }

    /// The same that was dumped.
    pub(super) fn restore(&mut self, shares: &Shares) {
        self.since = shares.since;
        self.usages = Usages::restored(shares);
        self.by_operators = shares.by_operators.iter().map(|one| (one.job, one.priority)).collect();
    }
}
