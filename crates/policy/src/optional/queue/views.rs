//! What others may see of a queue: its runs, and what its users have had.

use pliant_model::{SpanMs, TimeMs};

use super::{Fate, Kind, Queue, RequestId, UserId};

/// A request on a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Running {
    /// Which.
    pub request: RequestId,
    /// Where.
    pub core: u32,
    /// Since when.
    pub since: TimeMs,
    /// It was decided to end it.
    pub ending: bool,
}

/// What a user has had on one server.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Share {
    /// The user's weight.
    pub weight: u32,
    /// Requests that are here, waiting and running.
    pub requests: u32,
    /// Resource time consumed, runs that were ended early and the present ones included.
    pub consumed: SpanMs,
    /// Resource time deserved: an equal share of the cores, by weight, while requests of the user were here.
    pub deserved: SpanMs,
    /// Requests that were completed, mandatory and optional.
    pub completed: u32,
    /// Resource time that went into these.
    pub useful: SpanMs,
    /// Runs of optional requests that were ended for a mandatory one.
    pub killed: u32,
    /// Mandatory requests that missed the user's deadline: completed after it, cancelled after it, failed at whatever time, or
    /// here after it. With one of them, a user is unhappy.
    pub late: u32,
}

impl Share {
    /// What was had over what was deserved (paper 004, section 3.3); none if nothing was.
    pub fn satisfaction(&self) -> Option<f64> {
        (self.deserved > SpanMs::ZERO).then(|| self.consumed.seconds() / self.deserved.seconds())
    }
}

/// What a user has had on two servers together. The weight is the greater one.
impl std::ops::Add for Share {
    type Output = Share;

    fn add(self, other: Share) -> Share {
        Share {
            weight: self.weight.max(other.weight),
            requests: self.requests.saturating_add(other.requests),
            consumed: self.consumed + other.consumed,
            deserved: self.deserved + other.deserved,
            completed: self.completed.saturating_add(other.completed),
            useful: self.useful + other.useful,
            killed: self.killed.saturating_add(other.killed),
            late: self.late.saturating_add(other.late),
        }
    }
}

/// The greatest satisfaction of a user minus the least (paper 004, section 3.3).
pub fn unfairness(shares: impl Iterator<Item = Share>) -> f64 {
    let satisfactions = shares.filter_map(|share| share.satisfaction());
    let extremes = satisfactions
        .map(|one| (one, one))
        .reduce(|(least, greatest), (one, _)| (least.min(one), greatest.max(one)));
    extremes.map_or(0.0, |(least, greatest)| greatest - least)
}

impl Queue {
    /// What runs, core by core.
    pub fn running(&self) -> impl Iterator<Item = Running> {
        let numbered = (0_u32..).zip(&self.cores);
        numbered.filter_map(|(core, run)| {
            let run = (*run)?;
            let ending = run.fate != Fate::Runs;
            Some(Running { request: run.request.id, core, since: run.since, ending })
        })
    }

    /// What a user has had here; none if the user was never here. O(log users + mandatory requests that wait).
    pub fn share(&self, now: TimeMs, user: UserId) -> Option<Share> {
        let mut share = self.accounts.share(now, user)?;
        let waiting = self.waiting.range(..(Kind::Optional, 0)).map(|(_, request)| request);
        // What is being ended for good was judged when that was decided.
        let running = self.cores.iter().flatten().filter(|run| run.fate != Fate::Goes);
        let here = waiting.chain(running.map(|run| &run.request));
        share.late += here.filter(|request| request.user == user && request.is_late(now)).count() as u32;
        Some(share)
    }
}
