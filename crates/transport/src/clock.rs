//! The clock of a daemon: whole seconds since the Unix epoch that never go back.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pliant_model::Time;

/// Reads the system's clock once and then counts by the monotonic one, so a clock that is set while the daemon
/// runs moves nothing. After a restart it does not begin before what the journal has seen.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Duration,
    since: Instant,
}

impl Clock {
    /// A clock that begins now, or at `not_before` if the system's clock is behind that.
    pub fn start(not_before: Time) -> Clock {
        let system = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let not_before = Duration::from_secs(not_before.0.max(0) as u64);
        Clock { origin: system.max(not_before), since: Instant::now() }
    }

    /// Since the Unix epoch.
    pub fn exact(&self) -> Duration {
        self.origin + self.since.elapsed()
    }

    /// The present second.
    pub fn now(&self) -> Time {
        Time(self.exact().as_secs() as i64)
    }

    /// How long until `time`; zero if it is past.
    pub fn until(&self, time: Time) -> Duration {
        Duration::from_secs(time.0.max(0) as u64).saturating_sub(self.exact())
    }
}

/// The system's time, by which handshakes judge certificates, in seconds since the Unix epoch.
pub(super) fn unix_now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_does_not_begin_before_what_was_journaled() {
        let far = Clock::start(Time(0)).now() + pliant_model::Span(1_000_000);
        assert!(Clock::start(far).now() >= far);
        assert_eq!(Clock::start(far).until(Time(1)), Duration::ZERO);
        assert!(Clock::start(Time(0)).now() < far);
    }
}
