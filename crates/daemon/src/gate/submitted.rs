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

    /// Whether a user may submit so many bytes now.
    ///
    /// # Errors
    /// With them the user would have submitted too many: the limit.
    pub(super) fn check(&self, user: &User, bytes: usize, now: Instant) -> Result<(), u64> {
        let used = self.users.lock().get(user).map_or(0.0, |used| self.left(used, now));
        if used + cost(bytes) > self.per_day as f64 { Err(self.per_day) } else { Ok(()) }
    }

    /// Counts what was accepted.
    pub(super) fn add(&self, user: &User, bytes: usize, now: Instant) {
        let mut users = self.users.lock();
        if !users.contains_key(user) {
            users.retain(|_, used| self.left(used, now) > 0.0);
        }
        let bytes = users.get(user).map_or(0.0, |used| self.left(used, now)) + cost(bytes);
        users.insert(user.clone(), Used { bytes, at: now });
    }

    /// What still counts at that time.
    fn left(&self, used: &Used, now: Instant) -> f64 {
        let passed = now.duration_since(used.at).as_secs_f64() / DAY.as_secs_f64();
        (used.bytes - passed * self.per_day as f64).max(0.0)
    }
}

fn cost(bytes: usize) -> f64 {
    (bytes + OVERHEAD_BYTES) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_may_submit_so_many_bytes_in_a_day() {
        let submitted = Submitted::new(1_000_000);
        let [alice, bob] = ["alice", "bob"].map(|name| name.parse::<User>().unwrap());
        let begun = Instant::now();
        let submit = |user, bytes: usize, part_of_day| {
            let (bytes, now) = (bytes - OVERHEAD_BYTES, begun + DAY.mul_f64(part_of_day));
            let checked = submitted.check(user, bytes, now);
            if checked.is_ok() {
                submitted.add(user, bytes, now);
            }
            checked.is_ok()
        };
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
