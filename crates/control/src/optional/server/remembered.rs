//! The explorations that a server remembers: how their requests stand, for those who ask again, and what was cancelled,
//! also before it came.
//!
//! One is forgotten an hour after it was last heard of and its last request was over. Until then it takes room, so a
//! user has so many of them here, and so many cancelled requests in them, and no more. What is over otherwise has been
//! run, which bounds it. What users have here is counted as it changes, and explorations are kept by age: each
//! change costs O(log explorations).

use std::collections::{BTreeMap, BTreeSet};

use pliant_model::{SpanMs, TimeMs};
use pliant_policy::optional::RequestId;
use serde::{Deserialize, Serialize, Serializer};

use super::RequestState;
use crate::names::{Key, User};
use crate::reason::{Cause, Reason};

/// How long an exploration is remembered: longer than a client repeats itself.
const KEPT: SpanMs = SpanMs(3_600_000);
/// How many explorations of a user are remembered.
pub(super) const EXPLORATIONS_MAX: u32 = 10_000;
/// In how many places it is remembered that a request of a user is not to run, in all explorations: by its number, and by the
/// attempts that were taken back.
pub(super) const CANCELLED_MAX: u32 = 10_000;

/// What is known of an exploration.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Exploration {
    pub(super) user: User,
    /// Requests that are here, by their numbers in it.
    here: BTreeMap<u32, RequestId>,
    /// Optional ones among them.
    optional: u32,
    /// Requests that are over, and how they stand.
    over: BTreeMap<u32, RequestState>,
    /// Up to which attempt requests were cancelled or withdrawn, if not only the first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    given_back: BTreeMap<u32, u32>,
    /// How many of those that are over are cancelled: follows from them.
    #[serde(skip)]
    barred: u32,
    /// Nothing of it is wanted any more: what is not known otherwise is cancelled.
    cancelled: bool,
    /// When something was last heard of it, or its last request was over.
    heard: TimeMs,
}

/// What a user has here.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Crowd {
    /// Requests that wait or run.
    pub(super) here: u32,
    /// Optional ones among them.
    pub(super) optional: u32,
    /// Explorations that are remembered.
    explorations: u32,
    /// What is remembered of cancelled requests.
    cancelled: u32,
}

/// The explorations of a server. Kept as a map: the rest follows from it.
#[derive(Clone, PartialEq, Default, Debug, Deserialize)]
#[serde(from = "BTreeMap<Key, Exploration>")]
pub(super) struct ExplorationTable {
    known: BTreeMap<Key, Exploration>,
    crowds: BTreeMap<User, Crowd>,
    /// Those without requests, the longest silent first.
    idle: BTreeSet<(TimeMs, Key)>,
}

impl From<BTreeMap<Key, Exploration>> for ExplorationTable {
    fn from(mut known: BTreeMap<Key, Exploration>) -> ExplorationTable {
        let mut crowds: BTreeMap<User, Crowd> = BTreeMap::new();
        let mut idle = BTreeSet::new();
        for (key, exploration) in &mut known {
            exploration.barred =
                exploration.over.values().filter(|over| **over == RequestState::Cancelled).count() as u32;
            let crowd = crowds.entry(exploration.user.clone()).or_default();
            crowd.explorations += 1;
            crowd.here += exploration.here.len() as u32;
            crowd.optional += exploration.optional;
            crowd.cancelled += exploration.cancellations();
            if exploration.here.is_empty() {
                idle.insert((exploration.heard, *key));
            }
        }
        ExplorationTable { known, crowds, idle }
    }
}

impl Serialize for ExplorationTable {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.known.serialize(to)
    }
}

impl ExplorationTable {
    /// What is known of an exploration.
    pub(super) fn get(&self, key: Key) -> Option<&Exploration> {
        self.known.get(&key)
    }

    /// All of them.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        self.known.keys().copied()
    }

    /// What a user has here.
    pub(super) fn crowd(&self, user: &User) -> Crowd {
        self.crowds.get(user).copied().unwrap_or_default()
    }

    /// Whether a user may speak of an exploration, which may be a new one.
    ///
    /// # Errors
    ///
    /// If it is another user's, or one more than is remembered of a user.
    pub(super) fn admits(&self, key: Key, user: &User) -> Result<(), Reason> {
        match self.known.get(&key) {
            Some(known) if known.user == *user => Ok(()),
            Some(_) => Err(Cause::KeyTaken.because("another user's exploration has this key")),
            None => at_most(
                EXPLORATIONS_MAX,
                self.crowd(user).explorations,
                "explorations of a user to be remembered here, each for an hour after it was last heard of",
            ),
        }
    }

    /// Whether it can be remembered of one more request of a user that it is not to run.
    ///
    /// # Errors
    ///
    /// If of too many is.
    pub(super) fn admits_cancelled(&self, user: &User) -> Result<(), Reason> {
        let what = "cancelled requests of a user to be remembered here, each for as long as its exploration";
        at_most(CANCELLED_MAX, self.crowd(user).cancelled, what)
    }

    /// Something is heard of an exploration by its user, who is admitted.
    pub(super) fn hear(&mut self, now: TimeMs, key: Key, user: &User) {
        let known = self.known.entry(key).or_insert_with(|| {
            self.crowds.entry(user.clone()).or_default().explorations += 1;
            Exploration {
                user: user.clone(),
                here: BTreeMap::new(),
                optional: 0,
                over: BTreeMap::new(),
                given_back: BTreeMap::new(),
                barred: 0,
                cancelled: false,
                heard: now,
            }
        });
        let before = std::mem::replace(&mut known.heard, now);
        if known.here.is_empty() {
            self.idle.remove(&(before, key));
            self.idle.insert((now, key));
        }
    }

    /// A request is here.
    pub(super) fn came(&mut self, key: Key, number: u32, id: RequestId, optional: bool) {
        self.change(key, |known| {
            let barred = known.over.remove(&number) == Some(RequestState::Cancelled);
            known.barred -= u32::from(barred);
            known.here.insert(number, id);
            known.optional += u32::from(optional);
        });
    }

    /// A request is here no more.
    pub(super) fn over(&mut self, now: TimeMs, key: Key, number: u32, optional: bool, state: RequestState) {
        self.change(key, |known| {
            known.here.remove(&number);
            known.optional -= u32::from(optional);
            known.heard = now.max(known.heard);
            known.set(number, state);
        });
    }

    /// A request that is not here is not to come.
    pub(super) fn bar(&mut self, key: Key, number: u32) {
        self.change(key, |known| known.set(number, RequestState::Cancelled));
    }

    /// A request was taken back up to that attempt.
    pub(super) fn give_back(&mut self, key: Key, number: u32, attempt: u32) {
        self.change(key, |known| {
            if attempt > 0 && !known.cancelled {
                let up_to = known.given_back.entry(number).or_default();
                *up_to = attempt.max(*up_to);
            }
        });
    }

    /// Nothing of an exploration is wanted any more. What is here is told.
    pub(super) fn cancel_all(&mut self, key: Key) -> Vec<RequestId> {
        self.change(key, |known| {
            known.cancelled = true;
            known.given_back.clear();
            known.over.retain(|_, state| *state != RequestState::Cancelled);
            known.barred = 0;
        });
        self.known.get(&key).into_iter().flat_map(|known| known.here.values()).copied().collect()
    }

    /// Forgets those that have been silent for long.
    pub(super) fn forget(&mut self, now: TimeMs) {
        while let Some((heard, key)) = self.idle.first().copied()
            && now - heard >= KEPT
        {
            self.idle.pop_first();
            let Some(gone) = self.known.remove(&key) else { continue };
            let crowd = self.crowds.entry(gone.user.clone()).or_default();
            crowd.explorations -= 1;
            crowd.cancelled -= gone.cancellations();
            if crowd.explorations == 0 {
                self.crowds.remove(&gone.user);
            }
        }
    }

    /// Changes an exploration, and what follows from it.
    fn change(&mut self, key: Key, change: impl FnOnce(&mut Exploration)) {
        let Some(known) = self.known.get_mut(&key) else { return };
        let (here, optional, cancelled) = (known.here.len(), known.optional, known.cancellations());
        if here == 0 {
            self.idle.remove(&(known.heard, key));
        }
        change(known);
        if known.here.is_empty() {
            self.idle.insert((known.heard, key));
        }
        let crowd = self.crowds.entry(known.user.clone()).or_default();
        crowd.here = crowd.here - here as u32 + known.here.len() as u32;
        crowd.optional = crowd.optional - optional + known.optional;
        crowd.cancelled = crowd.cancelled - cancelled + known.cancellations();
    }
}

impl Exploration {
    /// The request of that number, while it is here.
    pub(super) fn here(&self, number: u32) -> Option<RequestId> {
        self.here.get(&number).copied()
    }

    /// How a request stands that is not here, if that is known.
    pub(super) fn stands(&self, number: u32) -> Option<RequestState> {
        let over = self.over.get(&number).copied();
        over.or_else(|| self.cancelled.then_some(RequestState::Cancelled))
    }

    /// True if that is an attempt of a request later than those that were cancelled or withdrawn.
    pub(super) fn comes_back(&self, number: u32, attempt: u32) -> bool {
        !self.cancelled && attempt > self.given_back.get(&number).copied().unwrap_or_default()
    }

    fn set(&mut self, number: u32, state: RequestState) {
        if self.cancelled && state == RequestState::Cancelled {
            return;
        }
        let before = self.over.insert(number, state);
        self.barred += u32::from(state == RequestState::Cancelled);
        self.barred -= u32::from(before == Some(RequestState::Cancelled));
    }

    fn cancellations(&self) -> u32 {
        self.barred + self.given_back.len() as u32
    }
}

fn at_most(most: u32, there: u32, what: &str) -> Result<(), Reason> {
    let refusal = || Cause::TooMany.because(format!("expected at most {most} {what}, found one more"));
    (there < most).then_some(()).ok_or_else(refusal)
}
