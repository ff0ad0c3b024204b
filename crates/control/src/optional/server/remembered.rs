//! The explorations that a server remembers: the states of their requests, for repeated submissions, and cancelled
//! requests, also those that never arrived.
//!
//! The server forgets an exploration an hour after its last message and the end of its last request. The number of
//! remembered explorations and cancelled requests is limited for each user; the number of other ended requests is bounded
//! by the time that they ran. Counts for each user are kept up to date, and explorations are ordered by age: each change
//! costs O(log explorations).

use std::collections::{BTreeMap, BTreeSet};

use pliant_model::{SpanMs, TimeMs};
use pliant_policy::optional::RequestId;
use serde::{Deserialize, Serialize, Serializer};

use super::{RequestKey, RequestState};
use crate::names::{Key, User};
use crate::reason::{Cause, Reason};

/// How long an exploration is remembered: longer than a client repeats messages.
const KEPT: SpanMs = SpanMs(3_600_000);
/// The most remembered explorations of a user.
pub(super) const EXPLORATIONS_MAX: u32 = 10_000;
/// The most cancellation entries of a user over all explorations: cancelled numbers, and attempts that were taken back.
pub(super) const CANCELLED_MAX: u32 = 10_000;

/// The remembered state of an exploration.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Exploration {
    pub(super) user: User,
    /// Present requests, by their numbers.
    here: BTreeMap<u32, RequestId>,
    /// The number of optional requests among them.
    optional: u32,
    /// The bytes of the present requests.
    #[serde(default, skip_serializing_if = "is_none")]
    bytes: u64,
    /// The states of ended requests.
    over: BTreeMap<u32, RequestState>,
    /// The last attempt that was cancelled or withdrawn, if not the first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    taken_back: BTreeMap<u32, u32>,
    /// The number of cancelled requests among the ended ones; derived.
    #[serde(skip)]
    cancelled_count: u32,
    /// The whole exploration is cancelled: unknown requests count as cancelled.
    cancelled: bool,
    /// The time of the last message or the end of the last request.
    last_message: TimeMs,
}

/// The requests and explorations of a user on this server.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct UserCounts {
    /// Waiting or running requests.
    pub(super) here: u32,
    /// The optional ones among them.
    pub(super) optional: u32,
    /// The bytes of those that wait or run.
    pub(super) bytes: u64,
    /// Remembered explorations.
    explorations: u32,
    /// Cancellation entries.
    cancelled: u32,
}

/// The explorations of a server. Only the map is serialized; the rest is derived.
#[derive(Clone, PartialEq, Default, Debug, Deserialize)]
#[serde(from = "BTreeMap<Key, Exploration>")]
pub(super) struct ExplorationTable {
    known: BTreeMap<Key, Exploration>,
    users: BTreeMap<User, UserCounts>,
    /// Explorations without requests, by the time of their last message.
    idle: BTreeSet<(TimeMs, Key)>,
    /// The bytes of all present requests.
    bytes: u64,
}

impl From<BTreeMap<Key, Exploration>> for ExplorationTable {
    fn from(mut known: BTreeMap<Key, Exploration>) -> ExplorationTable {
        let mut users: BTreeMap<User, UserCounts> = BTreeMap::new();
        let (mut idle, mut bytes) = (BTreeSet::new(), 0);
        for (key, exploration) in &mut known {
            exploration.cancelled_count =
                exploration.over.values().filter(|over| **over == RequestState::Cancelled).count() as u32;
            let counts = users.entry(exploration.user.clone()).or_default();
            counts.explorations += 1;
            counts.here += exploration.here.len() as u32;
            counts.optional += exploration.optional;
            counts.bytes += exploration.bytes;
            bytes += exploration.bytes;
            counts.cancelled += exploration.cancellations();
            if exploration.here.is_empty() {
                idle.insert((exploration.last_message, *key));
            }
        }
        ExplorationTable { known, users, idle, bytes }
    }
}

impl Serialize for ExplorationTable {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.known.serialize(to)
    }
}

impl ExplorationTable {
    /// The remembered state of an exploration.
    pub(super) fn get(&self, key: Key) -> Option<&Exploration> {
        self.known.get(&key)
    }

    /// The keys of all explorations.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        self.known.keys().copied()
    }

    /// The requests and explorations of a user.
    pub(super) fn counts(&self, user: &User) -> UserCounts {
        self.users.get(user).copied().unwrap_or_default()
    }

    /// The bytes of all present requests.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Checks that a user may use an exploration, which may be new.
    ///
    /// # Errors
    ///
    /// It is another user's, or the user has too many.
    pub(super) fn admits(&self, key: Key, user: &User) -> Result<(), Reason> {
        match self.known.get(&key) {
            Some(known) if known.user == *user => Ok(()),
            Some(_) => Err(Cause::KeyTaken.because("another user's exploration has this key")),
            None => at_most(
                EXPLORATIONS_MAX,
                self.counts(user).explorations,
                "explorations of a user to be remembered here, each for an hour after its last message",
            ),
        }
    }

    /// Checks that one more cancellation of a user can be remembered.
    ///
    /// # Errors
    ///
    /// The user has too many.
    pub(super) fn admits_cancelled(&self, user: &User) -> Result<(), Reason> {
        let what = "cancelled requests of a user to be remembered here, each for as long as its exploration";
        at_most(CANCELLED_MAX, self.counts(user).cancelled, what)
    }

    /// Records a message of an admitted user about an exploration.
    pub(super) fn touch(&mut self, now: TimeMs, key: Key, user: &User) {
        let known = self.known.entry(key).or_insert_with(|| {
            self.users.entry(user.clone()).or_default().explorations += 1;
            Exploration {
                user: user.clone(),
                here: BTreeMap::new(),
                optional: 0,
                bytes: 0,
                over: BTreeMap::new(),
                taken_back: BTreeMap::new(),
                cancelled_count: 0,
                cancelled: false,
                last_message: now,
            }
        });
        let before = std::mem::replace(&mut known.last_message, now);
        if known.here.is_empty() {
            self.idle.remove(&(before, key));
            self.idle.insert((now, key));
        }
    }

    /// Records a request of so many bytes that has arrived.
    pub(super) fn add(&mut self, key: Key, number: u32, id: RequestId, optional: bool, bytes: u64) {
        self.change(key, |known| {
            let cancelled_count = known.over.remove(&number) == Some(RequestState::Cancelled);
            known.cancelled_count -= u32::from(cancelled_count);
            known.here.insert(number, id);
            known.optional += u32::from(optional);
            known.bytes += bytes;
        });
    }

    /// Records a request that has ended: whether it was optional, and its bytes.
    pub(super) fn record_end(
        &mut self,
        now: TimeMs,
        RequestKey { exploration, number }: RequestKey,
        (optional, bytes): (bool, u64),
        state: RequestState,
    ) {
        self.change(exploration, |known| {
            known.here.remove(&number);
            known.optional -= u32::from(optional);
            // Snapshots of earlier versions do not count them.
            known.bytes = known.bytes.saturating_sub(bytes);
            known.last_message = now.max(known.last_message);
            known.set(number, state);
        });
    }

    /// Records the cancellation of a request that has not arrived.
    pub(super) fn cancel_absent(&mut self, key: Key, number: u32) {
        self.change(key, |known| known.set(number, RequestState::Cancelled));
    }

    /// Records the attempts of a request that were taken back.
    pub(super) fn record_taken_back(&mut self, key: Key, number: u32, attempt: u32) {
        self.change(key, |known| {
            if attempt > 0 && !known.cancelled {
                let up_to = known.taken_back.entry(number).or_default();
                *up_to = attempt.max(*up_to);
            }
        });
    }

    /// Cancels a whole exploration; returns its present requests.
    pub(super) fn cancel_all(&mut self, key: Key) -> Vec<RequestId> {
        self.change(key, |known| {
            known.cancelled = true;
            known.taken_back.clear();
            known.over.retain(|_, state| *state != RequestState::Cancelled);
            known.cancelled_count = 0;
        });
        self.known.get(&key).into_iter().flat_map(|known| known.here.values()).copied().collect()
    }

    /// Forgets explorations without recent messages.
    pub(super) fn forget(&mut self, now: TimeMs) {
        while let Some((last_message, key)) = self.idle.first().copied()
            && now - last_message >= KEPT
        {
            self.idle.pop_first();
            let Some(gone) = self.known.remove(&key) else { continue };
            let counts = self.users.entry(gone.user.clone()).or_default();
            counts.explorations -= 1;
            counts.cancelled -= gone.cancellations();
            if counts.explorations == 0 {
                self.users.remove(&gone.user);
            }
        }
    }

    /// Changes an exploration, and the counts derived from it.
    fn change(&mut self, key: Key, change: impl FnOnce(&mut Exploration)) {
        let Some(known) = self.known.get_mut(&key) else { return };
        let (here, optional, cancelled) = (known.here.len(), known.optional, known.cancellations());
        let bytes = known.bytes;
        if here == 0 {
            self.idle.remove(&(known.last_message, key));
        }
        change(known);
        if known.here.is_empty() {
            self.idle.insert((known.last_message, key));
        }
        let counts = self.users.entry(known.user.clone()).or_default();
        counts.here = counts.here - here as u32 + known.here.len() as u32;
        counts.optional = counts.optional - optional + known.optional;
        counts.bytes = counts.bytes - bytes + known.bytes;
        self.bytes = self.bytes - bytes + known.bytes;
        counts.cancelled = counts.cancelled - cancelled + known.cancellations();
    }
}

impl Exploration {
    /// The request with this number, while it is here.
    pub(super) fn here(&self, number: u32) -> Option<RequestId> {
        self.here.get(&number).copied()
    }

    /// The time of the last message that was recorded, or the end of the last request.
    pub(super) fn last_message(&self) -> TimeMs {
        self.last_message
    }

    /// The state of a request that is not here, if it is known.
    pub(super) fn state(&self, number: u32) -> Option<RequestState> {
        let over = self.over.get(&number).copied();
        over.or_else(|| self.cancelled.then_some(RequestState::Cancelled))
    }

    /// True if the attempt is later than every attempt that was cancelled or withdrawn.
    pub(super) fn is_new_attempt(&self, number: u32, attempt: u32) -> bool {
        !self.cancelled && attempt > self.taken_back.get(&number).copied().unwrap_or_default()
    }

    fn set(&mut self, number: u32, state: RequestState) {
        if self.cancelled && state == RequestState::Cancelled {
            return;
        }
        let before = self.over.insert(number, state);
        self.cancelled_count += u32::from(state == RequestState::Cancelled);
        self.cancelled_count -= u32::from(before == Some(RequestState::Cancelled));
    }

    fn cancellations(&self) -> u32 {
        self.cancelled_count + self.taken_back.len() as u32
    }
}

/// True if there are no bytes: serialization then omits the field.
fn is_none(bytes: &u64) -> bool {
    *bytes == 0
}

fn at_most(most: u32, present: u32, what: &str) -> Result<(), Reason> {
    let refusal = || Cause::TooMany.because(format!("expected at most {most} {what}, found one more"));
    (present < most).then_some(()).ok_or_else(refusal)
}
