//! Views for drivers: running requests, users' shares, and states.

use pliant_model::{SpanMs, TimeMs};
use pliant_policy::optional::{Prospects, RequestId, Share, UserId};

use super::{RequestKey, RequestState, Requests};
use crate::names::{Key, User};
use crate::payload::Payload;

/// For how long a message that was recorded stands for later ones: much shorter than an exploration is remembered.
const REMEMBERED_AGAIN: SpanMs = SpanMs(60_000);

/// A request that runs, starts or is being ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// The server's ID of the request.
    pub request: RequestId,
    /// The client's key of the request.
    pub key: RequestKey,
    /// The core.
    pub core: u32,
    /// When it started.
    pub since: TimeMs,
    /// The program, as its driver describes it.
    pub payload: Payload,
    /// True if it is to be ended.
    pub ending: bool,
}

/// The share of a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserShare {
    /// The user.
    pub user: User,
    /// The share.
    pub share: Share,
}

impl Requests {
    /// The prospects of an exploration on this server.
    pub fn prospects(&self, now: TimeMs, exploration: Key, user: &User) -> Prospects {
        let more = self.queue.prospect(now, self.users.get(user).copied());
        let own = |(request, wait)| {
            let key = self.requests.get(&request)?.key;
            (key.exploration == exploration).then_some((key.number, wait))
        };
        Prospects { more, waiting: self.queue.mandatory_waits(now).into_iter().filter_map(own).collect() }
    }

    /// The requests that run or start; a restarted driver continues with these.
    pub fn processes(&self) -> impl Iterator<Item = Process> {
        self.queue.running().filter_map(|run| {
            let kept = self.requests.get(&run.request)?;
            let (key, payload, ending) = (kept.key, kept.payload.clone(), run.ending || kept.cancelled);
            Some(Process { request: run.request, key, core: run.core, since: run.since, payload, ending })
        })
    }

    /// The share of every user who ever submitted here.
    pub fn shares(&self, now: TimeMs) -> impl Iterator<Item = UserShare> {
        let share = move |(user, id): (&User, &UserId)| {
            Some(UserShare { user: user.clone(), share: self.queue.share(now, *id)? })
        };
        self.users.iter().filter_map(share)
    }

    /// The share of one user.
    pub fn share(&self, now: TimeMs, user: &User) -> Option<Share> {
        self.queue.share(now, *self.users.get(user)?)
    }

    /// The owner of an exploration, while it is remembered.
    pub fn owner(&self, exploration: Key) -> Option<&User> {
        self.explorations.get(exploration).map(|known| &known.user)
    }

    /// The remembered explorations.
    pub fn explorations(&self) -> impl Iterator<Item = Key> {
        self.explorations.keys()
    }

    /// The state of a request, if it is remembered.
    pub fn request_state(&self, key: RequestKey) -> Option<RequestState> {
        let known = self.explorations.get(key.exploration)?;
        match known.here(key.number) {
            Some(here) => Some(self.state(here)),
            None => known.state(key.number),
        }
    }

    /// The state with which a submission that is repeated is answered without an event; none if the machine has to handle it. From time to
    /// time it does, to remember the exploration longer.
    pub fn repeated(&self, now: TimeMs, key: RequestKey, user: &User, attempt: u32) -> Option<RequestState> {
        let known = self.explorations.get(key.exploration)?;
        let is_recent = now < known.last_message() + REMEMBERED_AGAIN;
        self.known(key, attempt)?.ok().filter(|_| is_recent && known.user == *user)
    }
}
