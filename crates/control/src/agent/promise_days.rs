//! How promises were kept, by server and day.
//!
//! With the status update of each job that ran and has ended, the errors of its start and its completion
//! ([`JobRecord::start_error`], [`JobRecord::completion_error`]) are counted for the server that promised them last and the day
//! (UTC) of the end. A count is a histogram whose classes widen with the error, so it is small, and two can be added. O(log days +
//! log classes) for each job.

use std::collections::BTreeMap;

use pliant_model::{Span, Time};
use pliant_policy::completion::is_promise_kept;
#[cfg(doc)]
use pliant_policy::completion::tolerated;
use serde::{Deserialize, Serialize};

use super::Agent;
use crate::job::JobRecord;
use crate::names::Name;

/// A day, in seconds.
const DAY_S: i64 = 86_400;
/// How many days are kept: today and those before.
pub const PROMISE_DAYS: u32 = 60;
/// The most days of all servers together; of more, the oldest are forgotten.
const ROWS_MAX: usize = 6_000;
/// The largest error that is distinguished from larger ones: ten years.
const ERROR_MAX: Span = Span(10 * 365 * DAY_S);
/// Classes for each doubling of an error, which they are exact to: a fourth.
const CLASSES_BITS: u32 = 2;

/// How promises of a server were kept on a day.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PromiseDay {
    /// The beginning of the day (UTC).
    pub day: Time,
    /// The number of jobs that ran and ended on that day.
    pub jobs: u32,
    /// Errors of the start.
    pub start: DayErrors,
    /// Errors of the completion.
    pub completion: DayErrors,
}

/// Errors of promises, exact to an eighth.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DayErrors {
    /// The median; later than promised is positive.
    pub median: Span,
    /// The median of their absolute values.
    pub absolute_median: Span,
    /// The quantile 90 % of their absolute values.
    pub absolute_p90: Span,
    /// The number of jobs that were at most as late as is tolerated ([`tolerated`]): a tenth of the promised response time, and at
    /// least a minute. Earlier is kept.
    pub kept: u32,
}

/// The days of all servers.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct PromiseDays(BTreeMap<Name, BTreeMap<i64, DayCounts>>);

#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
struct DayCounts {
    start: ErrorCounts,
    completion: ErrorCounts,
}

/// Jobs by the class of their error.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
struct ErrorCounts {
    classes: BTreeMap<i32, u32>,
    kept: u32,
}

/// The class of an error: its sign, and the place of its absolute value.
fn class(error: Span) -> i32 {
    let size = error.0.unsigned_abs();
    let first = 1 << CLASSES_BITS;
    let place = if size < first {
        size
    } else {
        let doublings = size.ilog2() - CLASSES_BITS;
        u64::from(doublings) * first + (size >> doublings)
    };
    // At most 65 doublings of four classes.
    let place = i32::try_from(place).unwrap_or(i32::MAX);
    if error.0 < 0 { -place } else { place }
}

/// The middle of a class.
fn middle(class: i32) -> Span {
    let (place, first) = (u64::from(class.unsigned_abs()), 1 << CLASSES_BITS);
    let size = if place < 2 * first {
        place
    } else {
        let doublings = u32::try_from(place / first - 1).unwrap_or(u32::MAX).min(61);
        let least = (first + place % first) << doublings;
        least + ((1_u64 << doublings) >> 1)
    };
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    Span(if class < 0 { -size } else { size })
}

impl ErrorCounts {
    fn add(&mut self, error: Span, is_kept: bool) {
        // No clock is off by more.
        let near = Span(error.0.clamp(-ERROR_MAX.0, ERROR_MAX.0));
        *self.classes.entry(class(near)).or_default() += 1;
        self.kept += u32::from(is_kept);
    }

    fn jobs(&self) -> u32 {
        self.classes.values().sum()
    }

    fn summary(&self) -> DayErrors {
        let mut absolute: BTreeMap<i32, u32> = BTreeMap::new();
        for (class, jobs) in &self.classes {
            *absolute.entry(class.abs()).or_default() += jobs;
        }
        DayErrors {
            median: quantile(&self.classes, 50),
            absolute_median: quantile(&absolute, 50),
            absolute_p90: quantile(&absolute, 90),
            kept: self.kept,
        }
    }
}

/// The error at that percentage of the jobs, in the order of their errors.
fn quantile(classes: &BTreeMap<i32, u32>, percent: u64) -> Span {
    let last = classes.values().map(|jobs| u64::from(*jobs)).sum::<u64>().saturating_sub(1);
    let mut before = last * percent / 100;
    for (class, jobs) in classes {
        match before.checked_sub(u64::from(*jobs)) {
            Some(rest) => before = rest,
            None => return middle(*class),
        }
    }
    Span(0)
}

impl PromiseDays {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Counts a job that has ended, if it ran.
    pub(super) fn count(&mut self, now: Time, record: &JobRecord) {
        let errors = record.start_error().zip(record.completion_error());
        let (Some((start, completion)), Some(ended)) = (errors, record.ended) else { return };
        // A clock may be ahead.
        let (today, day) = (now.0.div_euclid(DAY_S), ended.min(now).0.div_euclid(DAY_S));
        let first = today - i64::from(PROMISE_DAYS) + 1;
        if day < first {
            return;
        }
        let promised = &record.expected;
        let is_kept = |error| is_promise_kept(promised, record.submitted, error);
        let of_server = self.0.entry(record.server().clone()).or_default();
        let is_new = !of_server.contains_key(&day);
        let counts = of_server.entry(day).or_default();
        counts.start.add(start, is_kept(start));
        counts.completion.add(completion, is_kept(completion));
        if is_new {
            self.forget(first);
        }
    }

    /// Forgets days before that one, and the oldest ones if there are too many.
    fn forget(&mut self, mut first: i64) {
        loop {
            self.0.retain(|_, days| {
                *days = days.split_off(&first);
                !days.is_empty()
            });
            if self.0.values().map(BTreeMap::len).sum::<usize>() <= ROWS_MAX {
                return;
            }
            let oldest = self.0.values().filter_map(|days| days.first_key_value()).map(|(day, _)| *day).min();
            first = oldest.map_or(first, |day| day + 1);
        }
    }

    /// The last days of a server, the newest first; days on which no job ended are left out.
    fn of(&self, server: &Name, now: Time, days: u32) -> Vec<PromiseDay> {
        let first = now.0.div_euclid(DAY_S) - i64::from(days.min(PROMISE_DAYS)) + 1;
        let known = self.0.get(server).into_iter().flat_map(|known| known.range(first..).rev());
        let day = |(day, counts): (&i64, &DayCounts)| PromiseDay {
            day: Time(day.saturating_mul(DAY_S)),
            jobs: counts.start.jobs(),
            start: counts.start.summary(),
            completion: counts.completion.summary(),
        };
        known.map(day).take(PROMISE_DAYS as usize).collect()
    }
}

impl Agent {
    /// How promises were kept on the last days, by server, the newest day first; days on which no job ended are left out.
    pub fn promise_days(&self, now: Time, days: u32) -> BTreeMap<Name, Vec<PromiseDay>> {
        let servers = self.promise_days.0.keys();
        let of = servers.map(|server| (server.clone(), self.promise_days.of(server, now, days)));
        of.filter(|(_, days)| !days.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use pliant_model::{Estimate, Procs};
    use proptest::prelude::*;

    use super::super::tests::{Bench, name, record};
    use super::*;
    use crate::job::JobState;
    use crate::replay::Machine;

    /// A job of server `a` that was promised to run from 100 to 700, and did so with these errors.
    fn ended(number: u32, start: i64, completion: i64, day: i64) -> JobRecord {
        let begin = day * DAY_S;
        JobRecord {
            submitted: Time(begin),
            expected: Estimate { procs: Procs(1), walltime: Span(600), start: Time(begin + 100) },
            started: Some(Time(begin + 100 + start)),
            ended: Some(Time(begin + 700 + completion)),
            ..*record(number, JobState::Completed)
        }
    }

    fn counted(jobs: impl IntoIterator<Item = JobRecord>, now: i64) -> PromiseDays {
        let mut days = PromiseDays::default();
        jobs.into_iter().for_each(|job| days.count(Time(now), &job));
        days
    }

    #[test]
    fn errors_are_counted_by_the_day_of_the_end() {
        let mut cancelled = ended(5, 0, 0, 11);
        cancelled.started = None;
        let jobs = [
            ended(1, 0, -600, 10),
            ended(2, 60, 70, 11),
            ended(3, 71, 71, 11),
            ended(4, -3, 1000, 11),
            cancelled,
        ];
        let days = counted(jobs, 11 * DAY_S + 5000);
        let found = days.of(&name("a"), Time(11 * DAY_S + 5000), 7);
        let day =
            |found: &PromiseDay| (found.day.0 / DAY_S, found.jobs, found.start.kept, found.completion.kept);
        // A tenth of 700 s is tolerated.
        assert_eq!(found.iter().map(day).collect::<Vec<_>>(), [(11, 3, 2, 1), (10, 1, 1, 1)]);
        assert_eq!(found[0].start.median, middle(class(Span(60))));
        assert_eq!(found[0].completion.absolute_p90, middle(class(Span(71))));
        assert_eq!(
            found[1].completion,
            DayErrors { median: Span(-576), absolute_median: Span(576), absolute_p90: Span(576), kept: 1 }
        );
        assert_eq!(days.of(&name("a"), Time(12 * DAY_S), 1), []);
        assert_eq!(days.of(&name("b"), Time(12 * DAY_S), 60), []);
    }

    #[test]
    fn only_so_many_days_are_kept() {
        let kept = i64::from(PROMISE_DAYS);
        let mut days = counted((0..100).map(|day| ended(1, 0, 0, day)), 99 * DAY_S + 5000);
        assert_eq!(days.0[&name("a")].len(), PROMISE_DAYS as usize);
        assert_eq!(days.of(&name("a"), Time(99 * DAY_S), 400).len(), PROMISE_DAYS as usize);
        // A clock that is ahead counts for today, and one that is far behind does not count.
        days.count(Time(99 * DAY_S), &ended(2, 0, 0, 400));
        days.count(Time(99 * DAY_S), &ended(3, 0, 0, 99 - kept));
        assert_eq!(days.of(&name("a"), Time(99 * DAY_S), 1)[0].jobs, 2);
        for server in 0..200 {
            let job = |day| {
                let mut job = ended(1, 0, 0, day);
                job.handle.server = format!("s{server}").parse().unwrap();
                job
            };
            (60..100).for_each(|day| days.count(Time(99 * DAY_S + 5000), &job(day)));
        }
        assert!(days.0.values().map(BTreeMap::len).sum::<usize>() <= ROWS_MAX);
        assert_eq!(days.of(&name("s0"), Time(99 * DAY_S), 1)[0].jobs, 1, "the newest days stay");
    }

    #[test]
    fn each_end_is_counted_once_and_survives_a_restart() {
        use super::super::Event;
        let mut bench = Bench::new(true);
        bench.now = Time(5000);
        bench.attach("a");
        for sequence in [1, 1, 2] {
            let record = Box::new(ended(1, 10, 20, 0));
            bench.handle(Event::StatusUpdate { child: name("a"), sequence, record });
        }
        let expected = bench.agent.promise_days(Time(5000), 7);
        assert_eq!(expected[&name("a")][0].jobs, 1);
        let state = serde_json::to_string(&bench.agent.dump(Time(5000))).unwrap();
        let restored = Agent::from_state(bench.agent.config().clone(), serde_json::from_str(&state).unwrap());
        assert_eq!(restored.promise_days(Time(5000), 7), expected);
    }

    proptest! {
        #[test]
        fn a_class_is_near_its_errors(error in any::<i64>(), near in -100_000_i64..100_000, other in -100_000_i64..100_000) {
            for error in [error, near] {
                let found = middle(class(Span(error)));
                let apart = (i128::from(found.0) - i128::from(error)).abs();
                prop_assert!(apart * 8 <= i128::from(error).abs(), "{error} as {}", found.0);
            }
            // Classes are in the order of errors.
            prop_assert!((near <= other) == (class(Span(near)) <= class(Span(other))) || class(Span(near)) == class(Span(other)));
        }

        #[test]
        fn quantiles_are_those_of_sorted_errors(mut errors in prop::collection::vec(-5_000_i64..5_000, 1..60), percent in 0_u64..=100) {
            let mut counts = ErrorCounts::default();
            errors.iter().for_each(|error| counts.add(Span(*error), *error <= 0));
            errors.sort_unstable();
            let exact = errors[(errors.len() - 1) * percent as usize / 100];
            prop_assert_eq!(quantile(&counts.classes, percent), middle(class(Span(exact))));
            prop_assert_eq!(counts.kept as usize, errors.iter().filter(|error| **error <= 0).count());
        }
    }
}
