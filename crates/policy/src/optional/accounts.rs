//! The usage of each user on one server, and rule 4 of the queue order.
//!
//! A change of an account, and the rank of a user, cost O(log users).

use std::collections::BTreeMap;

use pliant_model::{SpanMs, TimeMs};

use super::{Share, UserId};

crate::named_enum! {
    /// The rule by which the user with the least usage comes first. Usage is the resource time used on this server over
    /// the user's weight, including runs that were ended early and present runs.
    Fairness, "sense of fairness", {
        /// Total usage since the server started: the rule as printed. A late user has precedence until the others are reached,
        /// so it is fair only between users who arrive together.
        Cumulative = "cumulative",
        /// Start-time fair queueing (Goyal, Vin and Cheng 1996): a user who arrives, or returns, starts at the virtual time of
        /// the present users; from then on all have equal shares.
        VirtualTime = "virtual-time",
        /// Usage over the fair share: an equal share of the server's cores while the user has requests.
        Satisfaction = "satisfaction",
    }
}

/// Virtual times and fair shares are counted in this part of a millisecond.
const PARTS: u64 = 1 << 10;

/// A user without requests for less than this stays active: the next request is on its way.
const BETWEEN_REQUESTS: SpanMs = SpanMs(5_000);

/// The account of a user.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Account {
    weight: u32,
    /// Requests on this server, waiting and running.
    requests: u32,
    /// When the last request left.
    idle_since: TimeMs,
    /// Usage of ended runs.
    usage: SpanMs,
    /// Number of present runs, and the sum of their start times.
    running: u32,
    started: i64,
    /// Virtual start time in parts; usage is added to it.
    began: u64,
    /// Fair share of earlier active periods in parts, and the server's count at the start of the present one.
    fair_share: u64,
    entitled_before: u64,
    #[cfg_attr(feature = "serde", serde(default))]
    ends: EndCounts,
}

/// Counts of ended runs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct EndCounts {
    /// Completed requests and their total runtime.
    completed: u32,
    useful: SpanMs,
    /// Mandatory requests that missed the deadline.
    late: u32,
    /// Runs that were ended early and requeued.
    killed: u32,
}

/// The accounts of a server's users.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Accounts {
    fairness: Fairness,
    cores: u32,
    users: BTreeMap<UserId, Account>,
    /// Virtual time of the server in parts: the start tag of the last started optional request.
    virtual_time: u64,
    /// The fair share of a permanently active user of weight 1 until `counted`, in parts.
    entitled: u64,
    counted: TimeMs,
    /// The weights of the active users.
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

    /// Adds a request of the user.
    pub(super) fn request_added(&mut self, now: TimeMs, user: UserId, weight: u32) {
        self.count(now);
        let account = self.users.entry(user).or_insert(Account {
            weight: weight.max(1),
            requests: 0,
            idle_since: now - BETWEEN_REQUESTS,
            usage: SpanMs::ZERO,
            running: 0,
            started: 0,
            began: 0,
            fair_share: 0,
            entitled_before: 0,
            ends: EndCounts::default(),
        });
        if account.requests == 0 {
            // The weight is constant during an active period: earlier usage was charged at that weight.
            account.weight = weight.max(1);
            account.entitled_before = self.entitled;
            self.present += u64::from(account.weight);
            if now - account.idle_since >= BETWEEN_REQUESTS {
                let usage = account.usage_parts(now);
                account.began = account.began.max(self.virtual_time.saturating_sub(usage));
            }
        }
        account.requests += 1;
    }

    /// Removes a request of the user.
    pub(super) fn request_removed(&mut self, now: TimeMs, user: UserId) {
        self.count(now);
        let entitled = self.entitled;
        if let Some(account) = self.users.get_mut(&user) {
            account.requests -= 1;
            if account.requests == 0 {
                account.idle_since = now;
                account.fair_share += u64::from(account.weight) * (entitled - account.entitled_before);
                self.present -= u64::from(account.weight);
            }
        }
    }

    /// Records the start of a run.
    pub(super) fn started(&mut self, now: TimeMs, user: UserId, optional: bool) {
        if let Some(account) = self.users.get_mut(&user) {
            if optional {
                self.virtual_time = self.virtual_time.max(account.began + account.usage_parts(now));
            }
            account.running += 1;
            account.started += now.0;
        }
    }

    /// Records the end of a run that started at `since`.
    pub(super) fn stopped(&mut self, now: TimeMs, user: UserId, since: TimeMs) {
        if let Some(account) = self.users.get_mut(&user) {
            account.running -= 1;
            account.started -= since.0;
            account.usage = account.usage + (now - since);
        }
    }

    /// Records a completed request and its runtime.
    pub(super) fn completed(&mut self, user: UserId, took: SpanMs) {
        if let Some(Account { ends, .. }) = self.users.get_mut(&user) {
            ends.completed = ends.completed.saturating_add(1);
            ends.useful = ends.useful + took;
        }
    }

    /// Records a mandatory request that missed the deadline.
    pub(super) fn missed(&mut self, user: UserId) {
        if let Some(Account { ends, .. }) = self.users.get_mut(&user) {
            ends.late = ends.late.saturating_add(1);
        }
    }

    /// Records a run that was ended for a mandatory request.
    pub(super) fn killed(&mut self, user: UserId) {
        if let Some(Account { ends, .. }) = self.users.get_mut(&user) {
            ends.killed = ends.killed.saturating_add(1);
        }
    }

    /// The user's resource time.
    pub(super) fn usage(&self, now: TimeMs, user: UserId) -> SpanMs {
        self.users.get(&user).map_or(SpanMs::ZERO, |account| account.usage(now))
    }

    /// The rank of a user; the lowest comes first. Ranks of the same instant are comparable.
    pub(super) fn rank(&self, now: TimeMs, user: UserId) -> u128 {
        let Some(account) = self.users.get(&user) else { return 0 };
        match self.fairness {
            Fairness::Cumulative => account.usage_parts(now).into(),
            Fairness::VirtualTime => u128::from(account.began) + u128::from(account.usage_parts(now)),
            Fairness::Satisfaction => {
                let allocated = u128::from(account.usage(now).0.unsigned_abs()) * u128::from(PARTS);
                match u128::from(self.fair_share(now, account)) {
                    0 if allocated == 0 => 0,
                    0 => u128::MAX,
                    fair_share => (allocated << 32) / fair_share,
                }
            }
        }
    }

    /// The share of a user, for reports.
    pub(super) fn share(&self, now: TimeMs, user: UserId) -> Option<Share> {
        let account = self.users.get(&user)?;
        let fair_share = SpanMs((self.fair_share(now, account) / PARTS) as i64);
        let Account { weight, requests, ends, .. } = *account;
        let EndCounts { completed, useful, late, killed } = ends;
        let usage = account.usage(now);
        Some(Share { weight, requests, usage, fair_share, completed, useful, killed, late })
    }

    /// The fair share of a user over all active periods, in parts.
    fn fair_share(&self, now: TimeMs, account: &Account) -> u64 {
        let stay = match account.requests {
            0 => 0,
            _ => u64::from(account.weight) * (self.entitled_at(now) - account.entitled_before),
        };
        account.fair_share + stay
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
    fn usage(&self, now: TimeMs) -> SpanMs {
        self.usage + SpanMs(i64::from(self.running) * now.0 - self.started)
    }

    /// Usage over weight, in parts.
    fn usage_parts(&self, now: TimeMs) -> u64 {
        self.usage(now).0.unsigned_abs() * PARTS / u64::from(self.weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: UserId = UserId(0);
    const BOB: UserId = UserId(1);

    /// One core. Alice used 100 ms, then Bob 300 ms; Bob's next request starts at 400 ms, and Alice has no requests since
    /// 100 ms.
    fn accounts() -> Accounts {
        let mut accounts = Accounts::new(Fairness::VirtualTime, 1);
        let mut run = |user, from, until| {
            let (from, until) = (TimeMs(from), TimeMs(until));
            accounts.request_added(from, user, 1);
            accounts.started(from, user, true);
            accounts.stopped(until, user, from);
            accounts.request_removed(until, user);
        };
        run(ALICE, 0, 100);
        run(BOB, 100, 400);
        accounts.request_added(TimeMs(400), BOB, 1);
        accounts.started(TimeMs(400), BOB, true);
        accounts
    }

    #[test]
    fn a_returning_user_starts_at_the_virtual_time_and_earlier_usage_counts_once() {
        let (mut accounts, back) = (accounts(), TimeMs(5_100));
        let others = accounts.virtual_time;
        assert!(others > 100 * PARTS);
        accounts.request_added(back, ALICE, 1);
        assert_eq!(accounts.rank(back, ALICE), u128::from(others));
    }

    #[test]
    fn a_short_pause_between_two_requests_keeps_the_user_active() {
        let (mut accounts, back) = (accounts(), TimeMs(5_099));
        accounts.request_added(back, ALICE, 1);
        assert_eq!(
            accounts.rank(back, ALICE),
            u128::from(100 * PARTS),
            "behind the others by their additional usage"
        );
    }

    /// Ranks compare shares, also those of users with little usage.
    #[test]
    fn the_least_satisfied_user_comes_first_however_short_the_usage() {
        let mut accounts = Accounts::new(Fairness::Satisfaction, 1);
        let mut use_core = |user, from, until| {
            accounts.request_added(TimeMs(from), user, 1);
            accounts.started(TimeMs(from), user, true);
            accounts.stopped(TimeMs(until), user, TimeMs(from));
        };
        use_core(ALICE, 0, 100);
        use_core(BOB, 400, 401);
        // Alice was alone for 400 ms, and half of the next 10 ms is each user's.
        let now = TimeMs(410);
        let shares = [ALICE, BOB].map(|user| accounts.share(now, user).unwrap());
        assert_eq!(shares.map(|share| (share.usage.0, share.fair_share.0)), [(100, 405), (1, 5)]);
        assert!(accounts.rank(now, BOB) < accounts.rank(now, ALICE));
    }

    /// In the first moments, and with very different weights, a fair share is less than a part of a millisecond.
    #[test]
    fn with_no_fair_share_yet_a_user_without_usage_comes_first() {
        let mut accounts = Accounts::new(Fairness::Satisfaction, 1);
        accounts.request_added(TimeMs(0), ALICE, 1);
        accounts.request_added(TimeMs(0), BOB, 4_095);
        accounts.started(TimeMs(0), ALICE, true);
        let rank = |user| accounts.rank(TimeMs(1), user);
        assert_eq!([ALICE, BOB].map(|user| accounts.fair_share(TimeMs(1), &accounts.users[&user])), [0, 0]);
        assert!(rank(BOB) < rank(ALICE), "{} {}", rank(BOB), rank(ALICE));
    }
}
