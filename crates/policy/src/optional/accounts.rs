//! What each user has had on one server, and who is to be next: rule 4 of the queue order.
//!
//! A change of an account, and the rank of a user, cost O(log users).

use std::collections::BTreeMap;

use pliant_model::{SpanMs, TimeMs};

use super::{Share, UserId};

crate::named_enum! {
    /// In which sense the user with the fewest allocated resources comes first. What is allocated is the resource time
    /// consumed on this server, over the user's weight, runs that were ended early and the present ones included.
    Fairness, "sense of fairness", {
        /// Since the server began: the rule as it is printed. Whoever comes late has precedence until all others are
        /// caught up with, so it is fair only between users who come together (spec A.4.7).
        Cumulative = "cumulative",
        /// Start-time fair queueing (Goyal, Vin and Cheng 1996): a user who comes, or returns, begins where those who
        /// are there have got to, so that from then on all have equal shares.
        VirtualTime = "virtual-time",
        /// Over what the user deserved on this server: an equal share of its cores while there.
        Satisfaction = "satisfaction",
    }
}

/// Parts of a millisecond that virtual times and deserved shares are counted in.
const PARTS: u64 = 1 << 10;

/// A user who is away for less than this was only between two requests: the next one is on its way.
const BETWEEN_REQUESTS: SpanMs = SpanMs(5_000);

/// What is known of a user.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Account {
    weight: u32,
    /// Requests here, waiting and running.
    requests: u32,
    /// Since when there is none.
    away_since: TimeMs,
    /// By runs that are over.
    consumed: SpanMs,
    /// How many run now, and the sum of the times at which they started.
    running: u32,
    started: i64,
    /// Virtual time: where the user began, in parts, so that what was consumed is to be added.
    began: u64,
    /// Deserved in earlier stays, in parts, and the server's count when this one began.
    deserved: u64,
    entitled_before: u64,
    #[cfg_attr(feature = "serde", serde(default))]
    ends: Ends,
}

/// How a user's runs have ended.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Ends {
    /// Requests completed, and the time that these took.
    completed: u32,
    useful: SpanMs,
    /// Mandatory ones that missed the deadline.
    late: u32,
    /// Ended early, to wait again.
    killed: u32,
}

/// The accounts of a server's users.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Accounts {
    fairness: Fairness,
    cores: u32,
    users: BTreeMap<UserId, Account>,
    /// Virtual time of the server: where the user began whose optional request was started last, in parts.
    virtual_time: u64,
    /// What a user of weight 1 who was always there deserved until `counted`, in parts.
    entitled: u64,
    counted: TimeMs,
    /// The weights of the users who are there.
    present: u64,
}

impl Accounts {
    pub(super) fn new(fairness: Fairness, cores: u32) -> Accounts {
        Accounts {
            fairness,
            cores,
            users: BTreeMap::new(),
            virtual_time: 0,
            entitled: 0,
            counted: TimeMs::ZERO,
            present: 0,
        }
    }

    /// A request of the user has come.
    pub(super) fn came(&mut self, now: TimeMs, user: UserId, weight: u32) {
        self.count(now);
        let account = self.users.entry(user).or_insert(Account {
            weight: weight.max(1),
            requests: 0,
            away_since: now - BETWEEN_REQUESTS,
            consumed: SpanMs::ZERO,
            running: 0,
            started: 0,
            began: 0,
            deserved: 0,
            entitled_before: 0,
            ends: Ends::default(),
        });
        if account.requests == 0 {
            // Kept through a stay: what was had before is had at that weight.
            account.weight = weight.max(1);
            account.entitled_before = self.entitled;
            self.present += u64::from(account.weight);
            if now - account.away_since >= BETWEEN_REQUESTS {
                let had = account.consumed_parts(now);
                account.began = account.began.max(self.virtual_time.saturating_sub(had));
            }
        }
        account.requests += 1;
    }

    /// A request of the user is gone.
    pub(super) fn left(&mut self, now: TimeMs, user: UserId) {
        self.count(now);
        let entitled = self.entitled;
        if let Some(account) = self.users.get_mut(&user) {
            account.requests -= 1;
            if account.requests == 0 {
                account.away_since = now;
                account.deserved += u64::from(account.weight) * (entitled - account.entitled_before);
                self.present -= u64::from(account.weight);
            }
        }
    }

    /// A request of the user starts.
    pub(super) fn started(&mut self, now: TimeMs, user: UserId, optional: bool) {
        if let Some(account) = self.users.get_mut(&user) {
            if optional {
                self.virtual_time = self.virtual_time.max(account.began + account.consumed_parts(now));
            }
            account.running += 1;
            account.started += now.0;
        }
    }

    /// A request of the user that was started at `since` runs no more.
    pub(super) fn stopped(&mut self, now: TimeMs, user: UserId, since: TimeMs) {
        if let Some(account) = self.users.get_mut(&user) {
            account.running -= 1;
            account.started -= since.0;
            account.consumed = account.consumed + (now - since);
        }
    }

    /// A run of the user has completed its request, after so long.
    pub(super) fn completed(&mut self, user: UserId, took: SpanMs) {
        if let Some(Account { ends, .. }) = self.users.get_mut(&user) {
            ends.completed = ends.completed.saturating_add(1);
            ends.useful = ends.useful + took;
        }
    }

    /// A mandatory request of the user is gone, and was not completed by the deadline.
    pub(super) fn missed(&mut self, user: UserId) {
        if let Some(Account { ends, .. }) = self.users.get_mut(&user) {
            ends.late = ends.late.saturating_add(1);
        }
    }

    /// A run of the user was ended for a mandatory request.
    pub(super) fn killed(&mut self, user: UserId) {
        if let Some(Account { ends, .. }) = self.users.get_mut(&user) {
            ends.killed = ends.killed.saturating_add(1);
        }
    }

    /// Resource time that the user has consumed.
    pub(super) fn consumed(&self, now: TimeMs, user: UserId) -> SpanMs {
        self.users.get(&user).map_or(SpanMs::ZERO, |account| account.consumed(now))
    }

    /// The rank of a user: the least comes first. Ranks of one instant can be compared.
    pub(super) fn rank(&self, now: TimeMs, user: UserId) -> u128 {
        let Some(account) = self.users.get(&user) else { return 0 };
        match self.fairness {
            Fairness::Cumulative => account.consumed_parts(now).into(),
            Fairness::VirtualTime => u128::from(account.began) + u128::from(account.consumed_parts(now)),
            Fairness::Satisfaction => {
                let allocated = u128::from(account.consumed(now).0.unsigned_abs()) * u128::from(PARTS);
                match u128::from(self.deserved(now, account)) {
                    0 if allocated == 0 => 0,
                    0 => u128::MAX,
                    deserved => (allocated << 32) / deserved,
                }
            }
        }
    }

    /// What the user has had, for those who look.
    pub(super) fn share(&self, now: TimeMs, user: UserId) -> Option<Share> {
        let account = self.users.get(&user)?;
        let deserved = SpanMs((self.deserved(now, account) / PARTS) as i64);
        let Account { weight, requests, ends, .. } = *account;
        let Ends { completed, useful, late, killed } = ends;
        let consumed = account.consumed(now);
        Some(Share { weight, requests, consumed, deserved, completed, useful, killed, late })
    }

    /// What a user deserved, in earlier stays and in this one, in parts.
    fn deserved(&self, now: TimeMs, account: &Account) -> u64 {
        let stay = match account.requests {
            0 => 0,
            _ => u64::from(account.weight) * (self.entitled_at(now) - account.entitled_before),
        };
        account.deserved + stay
    }

    fn count(&mut self, now: TimeMs) {
        self.entitled = self.entitled_at(now);
        self.counted = now;
    }

    fn entitled_at(&self, now: TimeMs) -> u64 {
        let passed = (now - self.counted).0.max(0).unsigned_abs();
        let shared = passed * u64::from(self.cores) * PARTS;
        self.entitled + shared.checked_div(self.present).unwrap_or(0)
    }
}

impl Account {
    fn consumed(&self, now: TimeMs) -> SpanMs {
        self.consumed + SpanMs(i64::from(self.running) * now.0 - self.started)
    }

    /// What was consumed over the weight, in parts.
    fn consumed_parts(&self, now: TimeMs) -> u64 {
        self.consumed(now).0.unsigned_abs() * PARTS / u64::from(self.weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: UserId = UserId(0);
    const BOB: UserId = UserId(1);

    /// One core, of which Alice had 100 ms and then Bob 300 ms, and where Bob's next request has just started at 400 ms; Alice
    /// has been away since 100 ms.
    fn accounts() -> Accounts {
        let mut accounts = Accounts::new(Fairness::VirtualTime, 1);
        let mut run = |user, from, until| {
            let (from, until) = (TimeMs(from), TimeMs(until));
            accounts.came(from, user, 1);
            accounts.started(from, user, true);
            accounts.stopped(until, user, from);
            accounts.left(until, user);
        };
        run(ALICE, 0, 100);
        run(BOB, 100, 400);
        accounts.came(TimeMs(400), BOB, 1);
        accounts.started(TimeMs(400), BOB, true);
        accounts
    }

    #[test]
    fn who_returns_begins_where_the_others_are_and_what_was_had_before_counts_once() {
        let (mut accounts, back) = (accounts(), TimeMs(5_100));
        let others = accounts.virtual_time;
        assert!(others > 100 * PARTS);
        accounts.came(back, ALICE, 1);
        assert_eq!(accounts.rank(back, ALICE), u128::from(others));
    }

    #[test]
    fn who_pauses_between_two_requests_was_not_away() {
        let (mut accounts, back) = (accounts(), TimeMs(5_099));
        accounts.came(back, ALICE, 1);
        assert_eq!(
            accounts.rank(back, ALICE),
            u128::from(100 * PARTS),
            "behind the others by what they had more"
        );
    }
}
