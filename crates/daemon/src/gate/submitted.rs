//! How many bytes each user has submitted in the last day. Journals keep what was submitted for `history_days`, also if it is cancelled at once, so
//! a user who submits and cancels large scripts again and again would fill the disk of all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pliant_control::names::User;

const DAY: Duration = Duration::from_secs(86_400);
/// What the journal has of a submission besides the request: its record, the records of the audit trail, its cancellation.
const OVERHEAD_BYTES: usize = 4_096;

/// What users have submitted in the last day.
#[derive(Clone, Debug)]
pub(super) struct Submitted {
    /// The most bytes of a user in a day, in the long run.
    per_day: u64,
    users: Arc<Mutex<BTreeMap<User, Used>>>,
}

/// The bytes that a user submitted and that are not forgotten yet.
#[derive(Clone, Copy, Debug)]
struct Used {
    bytes: f64,
    at: Instant,
}

impl Submitted {
    pub(super) fn new(per_day: u64) -> Submitted {
        Submitted { per_day, users: Arc::default() }
    }

    /// Counts a submission of so many bytes, unless it is given back.
    ///
    /// # Errors
    /// With them the user would have submitted too many: the limit.
    pub(super) fn reserve(&self, user: &User, bytes: usize, now: Instant) -> Result<Reserved, u64> {
        let mut users = self.users.lock();
        if !users.contains_key(user) {
            users.retain(|_, used| self.left(used, now) > 0.0);
        }
        let bytes = (bytes + OVERHEAD_BYTES) as f64;
        let submitted = users.get(user).map_or(0.0, |used| self.left(used, now)) + bytes;
        if submitted > self.per_day as f64 {
            return Err(self.per_day);
        }
        users.insert(user.clone(), Used { bytes: submitted, at: now });
        Ok(Reserved { submitted: self.clone(), user: user.clone(), bytes, is_sent: false })
    }

    /// What still counts at that time.
    fn left(&self, used: &Used, now: Instant) -> f64 {
        let passed = now.duration_since(used.at).as_secs_f64() / DAY.as_secs_f64();
        (used.bytes - passed * self.per_day as f64).max(0.0)
    }
}

/// A submission that counts. Dropped before it was sent, it counts no more.
#[must_use]
#[derive(Debug)]
pub struct Reserved {
    submitted: Submitted,
    user: User,
    bytes: f64,
    is_sent: bool,
}

impl Reserved {
    /// Takes the outcome of sending the machine what this is for. If that succeeded, it counts from here on, whether the client
    /// waits for the answer or not: the journal may have it.
    pub fn sent<T, E>(&mut self, outcome: Result<T, E>) -> Result<T, E> {
        self.is_sent = outcome.is_ok();
        outcome
    }

    /// It was refused, or was known: the journal has nothing of it.
    pub fn give_back(mut self) {
        self.is_sent = false;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if !self.is_sent
            && let Some(used) = self.submitted.users.lock().get_mut(&self.user)
        {
            used.bytes = (used.bytes - self.bytes).max(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Rejected;

    #[test]
    fn a_user_may_submit_so_many_bytes_in_a_day() {
        let submitted = Submitted::new(1_000_000);
        let [alice, bob] = ["alice", "bob"].map(|name| name.parse::<User>().unwrap());
        let begun = Instant::now();
        let reserve = |user, bytes: usize, part_of_day| {
            submitted.reserve(user, bytes - OVERHEAD_BYTES, begun + DAY.mul_f64(part_of_day))
        };
        let submit = |user, bytes, part_of_day| {
            reserve(user, bytes, part_of_day).is_ok_and(|mut reserved| reserved.sent(Ok::<_, ()>(())).is_ok())
        };
        // What was not sent or was refused counts while that is open.
        let open = reserve(&alice, 600_000, 0.0).unwrap();
        assert!(reserve(&alice, 500_000, 0.0).is_err());
        drop(open);
        let mut refused = reserve(&alice, 600_000, 0.0).unwrap();
        refused.sent(Ok::<_, ()>(())).unwrap();
        refused.give_back();
        // The mailbox is full.
        let mut busy = reserve(&alice, 600_000, 0.0).unwrap();
        assert_eq!(busy.sent(Err::<(), _>(Rejected::Busy)), Err(Rejected::Busy));
        drop(busy);
        assert!(submit(&alice, 900_000, 0.0));
        assert!(!submit(&alice, 101_000, 0.0), "what is refused does not count");
        assert!(submit(&alice, 100_000, 0.0) && !submit(&alice, 5_000, 0.0));
        assert!(submit(&bob, 1_000_000, 0.0), "each user has a limit of its own");
        assert!(!submit(&alice, 500_000, 0.49) && submit(&alice, 500_000, 0.51));
        assert!(!submit(&alice, 1_001_000, 9.0));
        assert!(submit(&alice, 1_000_000, 9.0));
        assert_eq!(submitted.users.lock().len(), 2);
        assert!(submit(&"carol".parse().unwrap(), 5_000, 19.0));
        assert_eq!(submitted.users.lock().len(), 1, "who has submitted nothing for a day is forgotten");
    }
}
