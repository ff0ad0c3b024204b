//! What others may see of a queue: its runs, and what its users have had.

use pliant_model::{SpanMs, TimeMs};

use super::{Fate, Queue, RequestId, UserId};

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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// The user's weight.
    pub weight: u32,
    /// Requests that are here, waiting and running.
    pub requests: u32,
    /// Resource time consumed, runs that were ended early and the present ones included.
    pub consumed: SpanMs,
    /// Resource time deserved: an equal share of the cores, by weight, while requests of the user were here.
    pub deserved: SpanMs,
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

    /// What a user has had here; none if the user was never here.
    pub fn share(&self, now: TimeMs, user: UserId) -> Option<Share> {
        self.accounts.share(now, user)
    }
}
