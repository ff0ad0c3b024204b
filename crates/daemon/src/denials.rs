//! Refusals for lack of rights on their way into the audit trail, which is never trimmed: a flood of them must fill no disk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pliant_control::names::User;

/// The length of a window, in which so many refusals of one user and so many of all users are recorded.
const WINDOW: Duration = Duration::from_secs(3600);
const OF_USER_MAX: u32 = 20;
const OF_ALL_MAX: u32 = 200;

/// Says which refusals are recorded.
#[derive(Clone, Default)]
pub(crate) struct Denials(Arc<Mutex<Option<Window>>>);

/// What was recorded since a window began.
struct Window {
    since: Instant,
    all: u32,
    users: BTreeMap<User, u32>,
}

impl Denials {
    /// True if a refusal of this user is recorded. The others are in the log only.
    pub(crate) fn admit(&self, user: &User, now: Instant) -> bool {
        let mut window = self.0.lock();
        let fresh = || Window { since: now, all: 0, users: BTreeMap::new() };
        if window.as_ref().is_some_and(|window| now.duration_since(window.since) >= WINDOW) {
            *window = None;
        }
        let window = window.get_or_insert_with(fresh);
        if window.all >= OF_ALL_MAX {
            return false;
        }
        let of_user = window.users.entry(user.clone()).or_default();
        if *of_user >= OF_USER_MAX {
            return false;
        }
        *of_user += 1;
        window.all += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_is_recorded_in_part() {
        let (denials, begun) = (Denials::default(), Instant::now());
        let admitted = |name: &str, now| {
            let user = name.parse().unwrap();
            (0..1000).filter(|_| denials.admit(&user, now)).count()
        };
        assert_eq!(admitted("alice", begun), 20);
        assert_eq!(admitted("alice", begun), 0);
        let others: usize = (0..50).map(|number| admitted(&format!("u{number}"), begun)).sum();
        assert_eq!(others, 180, "200 of all users");
        assert_eq!(admitted("alice", begun + WINDOW), 20, "in the next window");
    }
}
