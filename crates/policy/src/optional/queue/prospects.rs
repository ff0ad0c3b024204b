//! When mandatory requests are to start on a server, judged by the longest requests that have ended there.

use pliant_model::{SpanMs, TimeMs};

use super::{Kind, Order, Queue, RequestId, UserId};

/// What a user may expect of a server for a mandatory request.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Prospect {
    /// How long one that came now would wait; none if nothing has ended by which that could be told.
    pub wait: Option<SpanMs>,
    /// How long it would run then: the longest that one of the user took here, or of anybody if none of the user has ended;
    /// none if nothing has.
    pub run: Option<SpanMs>,
}

/// A wait that cannot be told.
const UNKNOWN: SpanMs = SpanMs(i64::MAX);

impl Queue {
    /// What a user may expect for one mandatory request more. O(mandatory requests here, times cores).
    pub fn prospect(&self, now: TimeMs, user: Option<UserId>) -> Prospect {
        let wait = self.waits_in_turn(now, |_, _| {});
        Prospect { wait: known(wait), run: self.length(user) }
    }

    /// How long each of the mandatory requests that wait here will go on waiting, in their turn; none where that cannot be
    /// told. The same cost.
    pub fn mandatory_waits(&self, now: TimeMs) -> Vec<(RequestId, Option<SpanMs>)> {
        let mut waits = Vec::new();
        self.waits_in_turn(now, |request, wait| waits.push((request, known(wait))));
        waits
    }

    /// Gives each waiting mandatory request the core that is free first, and tells how long that takes; returns how long the
    /// next one would wait.
    fn waits_in_turn(&self, now: TimeMs, mut told: impl FnMut(RequestId, SpanMs)) -> SpanMs {
        let yields = |kind| kind == Kind::Optional && matches!(self.order, Order::Fair { .. });
        let left = |core: &Option<super::Run>| match core {
            Some(run) if !yields(run.request.kind) => match self.length(Some(run.request.user)) {
                Some(length) => SpanMs((length - (now - run.since)).0.max(0)),
                None => UNKNOWN,
            },
            _ => SpanMs::ZERO,
        };
        let mut cores: Vec<SpanMs> = self.cores.iter().map(left).collect();
        // Under FCFS all are in the class of mandatory requests.
        for request in self.waiting.range(..(Kind::Optional, 0)).map(|(_, request)| request) {
            let Some(first) = cores.iter_mut().min() else { break };
            told(request.id, *first);
            let length = self.length(Some(request.user)).unwrap_or(UNKNOWN);
            *first = SpanMs(first.0.saturating_add(length.0));
        }
        cores.into_iter().min().unwrap_or(UNKNOWN)
    }

    /// How long a request of a user takes here, by those that have ended.
    fn length(&self, user: Option<UserId>) -> Option<SpanMs> {
        let own = user.and_then(|user| self.longest.get(&user));
        own.or_else(|| self.longest.values().max()).copied()
    }
}

fn known(wait: SpanMs) -> Option<SpanMs> {
    (wait != UNKNOWN).then_some(wait)
}
