//! Reports on a queue: its runs, and the usage of its users.

use pliant_model::{SpanMs, TimeMs};

use super::{Kind, Queue, RequestId, RunState, UserId};

/// A request on a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Running {
    /// The request.
    pub request: RequestId,
    /// The core.
    pub core: u32,
    /// The start.
    pub since: TimeMs,
    /// True if it is being ended.
    pub ending: bool,
}

/// The usage and fair share of a user on one server.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Share {
    /// The user's weight.
    pub weight: u32,
    /// Requests waiting and running.
    pub requests: u32,
    /// Resource time used, including runs that were ended early and present runs.
    pub usage: SpanMs,
    /// Fair share: a share of the cores proportional to the weight, while the user has requests.
    pub fair_share: SpanMs,
    /// Completed requests, mandatory and optional.
    pub completed: u32,
    /// Resource time of the completed requests.
    pub useful: SpanMs,
    /// Runs of optional requests that were ended for a mandatory one.
    pub killed: u32,
    /// Mandatory requests that missed the user's deadline: failed, completed or cancelled after it, or still here after it. A
    /// user with such a request is unhappy.
    pub late: u32,
}

impl Share {
    /// Usage over fair share (paper 004, section 3.3); none without a fair share.
    pub fn satisfaction(&self) -> Option<f64> {
        (self.fair_share > SpanMs::ZERO).then(|| self.usage.seconds() / self.fair_share.seconds())
    }
}

/// Adds the shares of a user on two servers. The weight is the larger one.
impl std::ops::Add for Share {
    type Output = Share;

    fn add(self, other: Share) -> Share {
        Share {
            weight: self.weight.max(other.weight),
            requests: self.requests.saturating_add(other.requests),
            usage: self.usage + other.usage,
            fair_share: self.fair_share + other.fair_share,
            completed: self.completed.saturating_add(other.completed),
            useful: self.useful + other.useful,
            killed: self.killed.saturating_add(other.killed),
            late: self.late.saturating_add(other.late),
        }
    }
}

/// The largest satisfaction minus the smallest (paper 004, section 3.3).
pub fn unfairness(shares: impl Iterator<Item = Share>) -> f64 {
    let satisfactions = shares.filter_map(|share| share.satisfaction());
    let extremes = satisfactions
        .map(|one| (one, one))
        .reduce(|(least, greatest), (one, _)| (least.min(one), greatest.max(one)));
    extremes.map_or(0.0, |(least, greatest)| greatest - least)
}

impl Queue {
    /// The runs, by core.
    pub fn running(&self) -> impl Iterator<Item = Running> {
        let numbered = (0_u32..).zip(&self.cores);
        numbered.filter_map(|(core, run)| {
            let run = (*run)?;
            let ending = run.state != RunState::Running;
            Some(Running { request: run.request.id, core, since: run.since, ending })
        })
    }

    /// The share of a user; none if the user never had a request here. O(log users + waiting mandatory requests).
    pub fn share(&self, now: TimeMs, user: UserId) -> Option<Share> {
        let mut share = self.accounts.share(now, user)?;
        let waiting = self.waiting.range(..(Kind::Optional, 0)).map(|(_, request)| request);
        // Runs that are being removed were judged by the decision.
        let running = self.cores.iter().flatten().filter(|run| run.state != RunState::Removing);
        let here = waiting.chain(running.map(|run| &run.request));
        share.late += here.filter(|request| request.user == user && request.is_late(now)).count() as u32;
        Some(share)
    }
}
