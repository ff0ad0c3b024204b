//! Jobs that may start from an instant on, and the check that none starts earlier.

use pliant_control::job::JobRecord;
use pliant_model::{Span, Time};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::daemon::ORIGIN;
use super::world::World;

/// Draws the earliest start of a job that is submitted at that time, in milliseconds; none if it may start at once.
pub(super) fn draw_begin(rng: &mut ChaCha8Rng, submitted: u64) -> Option<Time> {
    let after = rng.random_range(0..=90_000);
    let begin = Span((submitted + after).div_euclid(1000) as i64);
    rng.random_ratio(1, 3).then(|| ORIGIN + begin)
}

impl World {
    /// Checks that the clock of a server shows the instant from which a job may start, or a later one.
    pub(super) fn check_begin(&mut self, index: usize, record: &JobRecord) {
        let planned = self.plan.jobs.iter().find(|planned| planned.key == record.key);
        let begin = planned.and_then(|planned| planned.work.begin);
        let now = self.servers[index].daemon.clock.last();
        if begin.is_some_and(|begin| now < begin) {
            let what = format!("c{index} starts {} too early, at {}", record.handle, now.utc());
            self.report_violation("deferred", what);
        }
    }
}
