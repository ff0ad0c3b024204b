//! The estimates of waiting jobs as they changed.
//!
//! A server plans its waiting jobs anew with each change of its queue, so what was promised at the submission and what is planned now
//! may differ. After an event, at most once a minute, the plan of each waiting job is compared with the last one that was noted
//! for it (at first the promise), and noted in its record if the start has changed by at least a minute and a tenth of the
//! remaining wait. A record has at most [`ESTIMATES_MAX`] changes: of more, every second one of the older half is left out.
//! O(waiting jobs) each time; nothing is journaled, since a replay of the same events notes the same changes.
//!
//! A job that moves takes its changes along, and as the first one what was promised when it was submitted: its record has the promise of
//! its present server.

use pliant_model::{Estimate, JobId, Span, Time};

use super::Server;
use crate::job::{ESTIMATES_MAX, EstimateChange, JobRecord};

/// The shortest time between two looks at the plans.
const PAUSE: Span = Span(60);
/// The least change of a start that is noted, if the job is to start soon.
const CHANGE_MIN: Span = Span(60);

impl Server {
    /// Notes the estimates that have changed since they were noted last.
    pub(super) fn note_estimates(&mut self, now: Time) {
        if self.estimates_noted.is_some_and(|noted| now < noted + PAUSE) || self.batch.usage().waiting == 0 {
            return;
        }
        self.estimates_noted = Some(now);
        for waiting in self.batch.waiting(now) {
            let JobId(number) = waiting.job;
            let is_new = |record: &JobRecord| {
                let last = last_noted(record);
                let apart = Span((waiting.plan.start - last.start).0.abs());
                apart >= Span(((last.start - now).0 / 10).max(CHANGE_MIN.0))
            };
            // Entries are shared with the last snapshot, so one that does not change is not taken to be written.
            if self.jobs.get(&number).is_some_and(|entry| is_new(&entry.record))
                && let Some(entry) = self.jobs.get_mut(&number)
            {
                add(&mut entry.record.estimates, EstimateChange { at: now, plan: waiting.plan });
            }
        }
    }
}

/// The plan at this server that was noted last: at first the promise.
fn last_noted(record: &JobRecord) -> &Estimate {
    let is_here = |change: &&EstimateChange| record.hops.last().is_none_or(|hop| change.at > hop.at);
    record.estimates.last().filter(is_here).map_or(&record.expected, |change| &change.plan)
}

/// The estimates that a job takes to another server.
pub(super) fn carried(record: &JobRecord) -> Vec<EstimateChange> {
    let mut estimates = record.estimates.clone();
    if record.hops.is_empty() {
        let promise = EstimateChange { at: record.submitted, plan: record.expected };
        estimates.insert(0, promise);
        if estimates.len() > ESTIMATES_MAX {
            estimates.remove(1);
        }
    }
    estimates
}

/// The estimates that a job brings, by the clock of this server: all were noted before it came.
pub(super) fn taken_over(estimates: Vec<EstimateChange>, now: Time) -> Vec<EstimateChange> {
    estimates.into_iter().map(|change| EstimateChange { at: change.at.min(now), ..change }).collect()
}

fn add(estimates: &mut Vec<EstimateChange>, change: EstimateChange) {
    if estimates.len() >= ESTIMATES_MAX {
        let mut place = 0;
        estimates.retain(|_| {
            place += 1;
            place > ESTIMATES_MAX / 2 || place % 2 == 1
        });
    }
    estimates.push(change);
}

#[cfg(test)]
mod tests {
    use pliant_model::{Estimate, Procs};

    use super::*;

    #[test]
    fn the_newest_changes_and_the_first_one_stay() {
        let mut estimates = Vec::new();
        for at in 0..1_000 {
            let plan = Estimate { procs: Procs(1), walltime: Span(60), start: Time(at + 100) };
            add(&mut estimates, EstimateChange { at: Time(at), plan });
            assert!(estimates.len() <= ESTIMATES_MAX);
        }
        assert!(estimates.is_sorted_by_key(|change| change.at));
        assert_eq!((estimates[0].at, estimates.last().unwrap().at), (Time(0), Time(999)));
        assert!(estimates[estimates.len() - 8..].iter().map(|change| change.at.0).eq(992..1_000));
    }
}
