//! Forecasts for mandatory requests, from the longest requests that ended on the server.

use pliant_model::{SpanMs, TimeMs};

use super::{Kind, Order, Queue, RequestId, UserId};

/// A forecast for a mandatory request.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Prospect {
    /// The wait of a request that arrives now; none if no request has ended.
    pub wait: Option<SpanMs>,
    /// Its runtime: the longest of the user's requests here, or of all users if none of this user has ended; none if no
    /// request has ended.
    pub run: Option<SpanMs>,
}

/// An unknown wait.
const UNKNOWN: SpanMs = SpanMs(i64::MAX);

impl Queue {
    /// The forecast for one more mandatory request. O(mandatory requests x cores).
    pub fn prospect(&self, now: TimeMs, user: Option<UserId>) -> Prospect {
        let wait = self.waits_in_order(now, |_, _| {});
        Prospect { wait: known(wait), run: self.length(user) }
    }

    /// The remaining waits of the waiting mandatory requests in queue order; none if unknown. Same cost.
    pub fn mandatory_waits(&self, now: TimeMs) -> Vec<(RequestId, Option<SpanMs>)> {
        let mut waits = Vec::new();
        self.waits_in_order(now, |request, wait| waits.push((request, known(wait))));
        waits
    }

    /// Assigns each waiting mandatory request the core that is free first and reports its wait; returns the wait of the next one.
    fn waits_in_order(&self, now: TimeMs, mut report: impl FnMut(RequestId, SpanMs)) -> SpanMs {
        let yields = |kind| kind == Kind::Optional && matches!(self.order, Order::Fair { .. });
        let left = |core: &Option<super::Run>| match core {
            Some(run) if !yields(run.request.kind) => match self.length(Some(run.request.user)) {
                Some(length) => SpanMs((length - (now - run.since)).0.max(0)),
                None => UNKNOWN,
            },
            _ => SpanMs::ZERO,
        };
        let mut cores: Vec<SpanMs> = self.cores.iter().map(left).collect();
        // Under FCFS all requests are stored as mandatory.
        for request in self.waiting.range(..(Kind::Optional, 0)).map(|(_, request)| request) {
            let Some(first) = cores.iter_mut().min() else { break };
            report(request.id, *first);
            let length = self.length(Some(request.user)).unwrap_or(UNKNOWN);
            *first = SpanMs(first.0.saturating_add(length.0));
        }
        cores.into_iter().min().unwrap_or(UNKNOWN)
    }

    /// The expected runtime of a user's request, from ended requests.
    fn length(&self, user: Option<UserId>) -> Option<SpanMs> {
        let own = user.and_then(|user| self.longest.get(&user));
        own.or_else(|| self.longest.values().max()).copied()
    }
}

fn known(wait: SpanMs) -> Option<SpanMs> {
    (wait != UNKNOWN).then_some(wait)
}
