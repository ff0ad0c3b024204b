//! What a driver looks up: what is to run at the moment, and what users have had.

use pliant_model::TimeMs;
use pliant_policy::optional::{Prospects, RequestId, Share, UserId};

use super::{RequestKey, RequestState, Requests};
use crate::names::{Key, User};
use crate::payload::Payload;

/// A request that is to run, or that is being ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// Which, here.
    pub request: RequestId,
    /// Which, to its client.
    pub key: RequestKey,
    /// On which core.
    pub core: u32,
    /// Since when.
    pub since: TimeMs,
    /// What: as its driver describes it.
    pub payload: Payload,
    /// It is to be ended.
    pub ending: bool,
}

/// What a user has had here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserShare {
    /// Who.
    pub user: User,
    /// How much.
    pub share: Share,
}

impl Requests {
    /// What the client of an exploration may expect here.
    pub fn prospects(&self, now: TimeMs, exploration: Key, user: &User) -> Prospects {
        let more = self.queue.prospect(now, self.users.get(user).copied());
        let own = |(request, wait)| {
            let key = self.requests.get(&request)?.key;
            (key.exploration == exploration).then_some((key.number, wait))
        };
        Prospects { more, waiting: self.queue.mandatory_waits(now).into_iter().filter_map(own).collect() }
    }

    /// What runs, or is to: a driver that begins again goes on with these.
    pub fn processes(&self) -> impl Iterator<Item = Process> {
        self.queue.running().filter_map(|run| {
            let kept = self.requests.get(&run.request)?;
            let (key, payload, ending) = (kept.key, kept.payload.clone(), run.ending || kept.cancelled);
            Some(Process { request: run.request, key, core: run.core, since: run.since, payload, ending })
        })
    }

    /// What every user who was ever here has had.
    pub fn shares(&self, now: TimeMs) -> impl Iterator<Item = UserShare> {
        let share = move |(user, id): (&User, &UserId)| {
            Some(UserShare { user: user.clone(), share: self.queue.share(now, *id)? })
        };
        self.users.iter().filter_map(share)
    }

    /// What one user has had.
    pub fn share(&self, now: TimeMs, user: &User) -> Option<Share> {
        self.queue.share(now, *self.users.get(user)?)
    }

    /// Whose an exploration is, while it is remembered.
    pub fn owner(&self, exploration: Key) -> Option<&User> {
        self.explorations.get(exploration).map(|known| &known.user)
    }

    /// The explorations that are remembered.
    pub fn explorations(&self) -> impl Iterator<Item = Key> {
        self.explorations.keys()
    }

    /// How a request stands, if it is remembered.
    pub fn stands(&self, key: RequestKey) -> Option<RequestState> {
        let known = self.explorations.get(key.exploration)?;
        match known.here(key.number) {
            Some(here) => Some(self.state(here)),
            None => known.stands(key.number),
        }
    }
}
