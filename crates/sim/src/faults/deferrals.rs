//! Jobs that may start from an instant on, and jobs with deadlines: none starts earlier, or so late that it could end after its deadline.

use pliant_control::job::JobRecord;
use pliant_model::{Span, Time};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::daemon::ORIGIN;
use super::plan::PlannedJob;
use super::world::World;

/// Draws the earliest start of a job that is submitted at that time, in milliseconds; none if it may start at once.
pub(super) fn draw_begin(rng: &mut ChaCha8Rng, submitted: u64) -> Option<Time> {
    let after = rng.random_range(0..=90_000);
    let begin = Span((submitted + after).div_euclid(1000) as i64);
    rng.random_ratio(1, 3).then(|| ORIGIN + begin)
}

/// Draws the deadline of a job; none if it has none.
pub(super) fn draw_deadline(rng: &mut ChaCha8Rng, job: &PlannedJob) -> Option<Time> {
    let after = Span(rng.random_range(0..=300));
    let begin = job.work.begin.unwrap_or(ORIGIN + Span(job.at.div_euclid(1000) as i64));
    rng.random_ratio(1, 4).then(|| begin + job.work.walltime + after)
}

/// True if a job could not end before its deadline if it were started at that time.
pub(super) fn is_too_late(record: &JobRecord, now: Time) -> bool {
    record.work.deadline.is_some_and(|deadline| now + record.expected.walltime > deadline)
}

impl World {
    /// Checks that Pliant's own batch system starts a job in time for its deadline.
    pub(super) fn check_deadline(&mut self, index: usize, record: &JobRecord) {
        let now = self.servers[index].daemon.clock.last();
        let start = record.started.unwrap_or(now);
        if is_too_late(record, start) {
            let what =
                format!("c{index} starts {} too late for its deadline, at {}", record.handle, start.utc());
            self.report_violation("deadline", what);
        }
    }

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
