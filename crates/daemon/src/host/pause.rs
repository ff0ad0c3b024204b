//! The pause after something that failed, until it is tried again.

use std::time::{Duration, Instant};

/// The pause after the first failure, and the longest one.
const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(600);

/// A pause that doubles with each failure. A success begins anew, with [`Pause::default`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pause {
    next: Duration,
    not_before: Option<Instant>,
}

impl Default for Pause {
    fn default() -> Pause {
        Pause { next: FIRST, not_before: None }
    }
}

impl Pause {
    /// True if it may be tried now.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|not_before| now >= not_before)
    }

    /// It failed. Returns how long the pause is.
    pub(super) fn failed(&mut self, now: Instant) -> Duration {
        let pause = self.next;
        *self = Pause { next: LONGEST.min(pause * 2), not_before: Some(now + pause) };
        pause
    }
}
