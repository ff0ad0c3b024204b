//! How many bytes each user has submitted of late. Journals keep what was submitted for `history_days`, also if it is cancelled at once, so
//! a user who submits and cancels large scripts again and again would fill the disk of all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pliant_control::names::User;

const DAY: Duration = Duration::from_secs(86_400);

/// What users have submitted of late.
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

    /// Counts a submission of so many bytes.
    ///
    /// # Errors
    /// The user has submitted too many bytes: the limit.
    pub(super) fn admit(&self, user: &User, bytes: u64, now: Instant) -> Result<(), u64> {
        let mut users = self.users.lock();
        let left = |used: &Used| {
            let forgotten =
                now.duration_since(used.at).as_secs_f64() / DAY.as_secs_f64() * self.per_day as f64;
            (used.bytes - forgotten).max(0.0)
        };
        if !users.contains_key(user) {
            users.retain(|_, used| left(used) > 0.0);
        }
        let submitted = users.get(user).map_or(0.0, left) + bytes as f64;
        if submitted > self.per_day as f64 {
            return Err(self.per_day);
        }
        users.insert(user.clone(), Used { bytes: submitted, at: now });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_may_submit_so_many_bytes_in_a_day() {
        let submitted = Submitted::new(1_000);
        let [alice, bob] = ["alice", "bob"].map(|name| name.parse::<User>().unwrap());
        let begun = Instant::now();
        let admit =
            |user, bytes, part_of_day| submitted.admit(user, bytes, begun + DAY.mul_f64(part_of_day)).is_ok();
        assert!(admit(&alice, 900, 0.0));
        assert!(!admit(&alice, 101, 0.0), "what is refused does not count");
        assert!(admit(&alice, 100, 0.0) && !admit(&alice, 1, 0.0));
        assert!(admit(&bob, 1_000, 0.0), "each for oneself");
        assert!(!admit(&alice, 500, 0.49) && admit(&alice, 500, 0.51));
        assert!(!admit(&alice, 1_001, 9.0));
        assert!(admit(&alice, 1_000, 9.0));
        assert_eq!(submitted.users.lock().len(), 2);
        assert!(admit(&"carol".parse().unwrap(), 1, 19.0));
        assert_eq!(submitted.users.lock().len(), 1, "who has submitted nothing for a day is forgotten");
    }
}
