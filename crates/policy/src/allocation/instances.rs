//! The expected runtime of an instance on a server, and the expected end of batches.
//!
//! Times are in milliseconds. The unit of a service is in nanoseconds, since it may be much shorter than an instance.

use std::num::NonZeroUsize;

use pliant_model::{Span, SpanMs};

use super::{Free, Offer};
use crate::runtimes::{Categories, Estimator, Level, Predicted, Runtimes, Settings};

/// Nanoseconds in a millisecond.
const NS_PER_MS: f64 = 1e6;
/// The largest unit, in nanoseconds: four months, so that sums of squares of millions of units do not overflow.
const UNIT_MOST: i64 = 10_000_000_000_000_000;
/// The largest expected runtime: a thousand years.
const LONGEST_MS: f64 = 3.2e13;
/// The statistics of units: the last 1000 instances per server, and at least 3.
const SETTINGS: Settings = Settings {
    window: NonZeroUsize::new(1_000).expect("more than none"),
    least: NonZeroUsize::new(3).expect("more than none"),
};

/// The source of an expected runtime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuntimeSource {
    /// None: it is the walltime.
    Walltime,
    /// Jobs of the service that ended on the server.
    Statistics {
        /// Number of jobs.
        jobs: u64,
    },
    /// Jobs that ended in the federation, since the server has too few of the service.
    Federation {
        /// The level: the service, the user, or all jobs.
        level: Level,
        /// Number of jobs.
        jobs: u64,
    },
    /// Instances of the same multi-job.
    Own {
        /// Number of instances.
        instances: u64,
    },
}

impl RuntimeSource {
    /// True if the source is jobs of the same service.
    pub fn is_of_service(self) -> bool {
        match self {
            RuntimeSource::Statistics { .. } | RuntimeSource::Own { .. } => true,
            RuntimeSource::Federation { level, .. } => level == Level::Executable,
            RuntimeSource::Walltime => false,
        }
    }
}

/// The expected runtime of a job from all jobs ended in a federation, on the smallest number of processors at speed 1,
/// divided by the scale of its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expectation {
    /// The runtime.
    pub runtime: SpanMs,
    /// The level of the jobs.
    pub level: Level,
    /// Number of jobs.
    pub jobs: u64,
}

/// The expected runtime of an instance on a server, and its source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    /// The runtime.
    pub time: SpanMs,
    /// The source.
    pub source: RuntimeSource,
}

/// The expected runtime of an instance on a server without ended instances: from jobs of its service there (`own`, if there are
/// enough), else from jobs elsewhere; at most, and by default, `most`. `scale` is the scale of its arguments, `speed` that of
/// the server's processors.
pub fn expected_before_samples(
    own: Option<Predicted>,
    elsewhere: Option<Expectation>,
    scale: f64,
    speed: f64,
    most: SpanMs,
) -> Expected {
    let own = own.filter(|found| found.level == Level::Executable);
    let own = own
        .map(|Predicted { runtime, level, jobs, .. }| (runtime.0, level, RuntimeSource::Statistics { jobs }));
    let from_federation = |Expectation { runtime, level, jobs }: Expectation| {
        (runtime.0, level, RuntimeSource::Federation { level, jobs })
    };
    let found = own.or(elsewhere.map(from_federation)).map(|(runtime, level, source)| {
        let scale = if level == Level::Executable { scale } else { 1.0 };
        let ms = runtime as f64 * scale / speed;
        Expected { time: SpanMs((ms.ceil() as i64).max(1)), source }
    });
    found
        .filter(|found| found.time <= most)
        .unwrap_or(Expected { time: most, source: RuntimeSource::Walltime })
}

/// Runtimes of ended instances of a multi-job by server, and predictions for the others.
#[derive(Clone, Debug)]
pub struct InstanceRuntimes<Server> {
    /// Runtimes per unit, in nanoseconds.
    units: Runtimes<Server>,
}

impl<Server: Ord + Clone> InstanceRuntimes<Server> {
    /// No instance has ended.
    pub fn new() -> InstanceRuntimes<Server> {
        InstanceRuntimes { units: Runtimes::new(SETTINGS) }
    }

    /// Records a completed instance of `scale` units on a server.
    pub fn record(&mut self, server: &Server, took: SpanMs, scale: f64) {
        let unit = took.0.max(0) as f64 * NS_PER_MS / scale.max(f64::MIN_POSITIVE);
        self.units.record(&of(server), Span((unit as i64).min(UNIT_MOST)));
    }

    /// The expected runtime of an instance of `scale` units on a server: from instances that ended there, from the server's
    /// own statistics of the service, from instances elsewhere, or from the server's other expectation.
    pub fn expected(&self, server: &Server, scale: f64, said: Expected) -> Expected {
        let found = self.units.predict(&of(server), Level::Executable, Estimator::Mean);
        let own = found.filter(|found| found.level == Level::Executable);
        let found = own.or(found.filter(|_| !said.source.is_of_service()));
        found.map_or(said, |found| {
            let ms = found.runtime.0 as f64 * scale / NS_PER_MS;
            let time = SpanMs(ms.ceil().min(LONGEST_MS) as i64);
            Expected { time, source: RuntimeSource::Own { instances: found.jobs } }
        })
    }
}

impl<Server: Ord + Clone> Default for InstanceRuntimes<Server> {
    fn default() -> Self {
        InstanceRuntimes::new()
    }
}

fn of<Server: Clone>(server: &Server) -> Categories<Server> {
    Categories { executable: Some(server.clone()), user: None, group: None }
}

/// The remaining time of a batch with `left` instances, of which the present one has run for `elapsed`. An instance that exceeds
/// its expectation is expected to run twice its excess longer.
pub fn batch_time_left(left: usize, instance: SpanMs, elapsed: SpanMs) -> SpanMs {
    let behind = (left as i64 - 1).max(0).saturating_mul(instance.0);
    SpanMs(behind.saturating_add((instance.0 - elapsed.0).abs()))
}

/// A server's offer `since` after it was made, with the processors of its `running` batches as free, since instances in them
/// are still to be done. These processors are assumed to be the first to become free.
pub fn with_own_processors(mut offer: Offer, running: u32, since: SpanMs) -> Offer {
    let (mut own, mut freed) = (running, 0);
    offer.free.sort_by_key(|free| free.at);
    for free in &mut offer.free {
        if free.at > Span::ZERO {
            let count = free.processors.min(own);
            free.processors -= count;
            (own, freed) = (own - count, freed + count);
        }
        free.at = (free.at - Span(since.0)).max(Span::ZERO);
    }
    offer.free.push(Free { at: Span::ZERO, processors: freed });
    offer
}

/// When groups of `width` processors become free, from processors that become free one by one: the capacity for jobs of
/// `width` processors.
pub fn slots(free: &[Free], width: u32) -> Vec<Free> {
    let width = width.max(1);
    let mut slots = Vec::with_capacity(free.len());
    let mut rest = 0;
    for step in free {
        let processors = rest + step.processors;
        rest = processors % width;
        if processors >= width {
            slots.push(Free { at: step.at, processors: processors / width });
        }
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_that_exceeds_its_expectation_is_extended_by_its_excess() {
        let check = |left, elapsed, expected| {
            assert_eq!(
                batch_time_left(left, SpanMs(100), SpanMs(elapsed)),
                SpanMs(expected),
                "{left} after {elapsed}"
            );
        };
        check(1, 0, 100);
        check(1, 60, 40);
        check(1, 100, 0);
        check(1, 130, 30);
        check(3, 60, 240);
        check(0, 60, 40);
    }

    #[test]
    fn a_server_is_judged_by_its_own_instances_first() {
        let mut runtimes = InstanceRuntimes::new();
        let said = |source| Expected { time: SpanMs(700), source };
        let walltime = said(RuntimeSource::Walltime);
        assert_eq!(runtimes.expected(&'a', 2.0, walltime), walltime);
        (0..3).for_each(|_| runtimes.record(&'a', SpanMs(100), 1.0));
        let own = Expected { time: SpanMs(200), source: RuntimeSource::Own { instances: 3 } };
        assert_eq!(runtimes.expected(&'a', 2.0, said(RuntimeSource::Statistics { jobs: 9 })), own);
        assert_eq!(runtimes.expected(&'b', 2.0, walltime), own);
        let federation = |level| said(RuntimeSource::Federation { level, jobs: 9 });
        assert_eq!(runtimes.expected(&'b', 2.0, federation(Level::User)), own);
        for source in [federation(Level::Executable), said(RuntimeSource::Statistics { jobs: 9 })] {
            assert_eq!(runtimes.expected(&'b', 2.0, source), source);
        }
    }

    #[test]
    fn processors_come_free_in_groups_of_a_width() {
        let steps = |steps: &[(i64, u32)]| -> Vec<Free> {
            steps.iter().map(|(at, processors)| Free { at: Span(*at), processors: *processors }).collect()
        };
        assert_eq!(slots(&steps(&[(0, 3), (5, 1), (9, 4)]), 2), steps(&[(0, 1), (5, 1), (9, 2)]));
        assert_eq!(slots(&steps(&[(0, 3), (5, 1)]), 0), steps(&[(0, 3), (5, 1)]));
    }

    #[test]
    fn before_any_sample_an_instance_is_expected_from_its_service_then_from_others_then_at_its_walltime() {
        let own = |level| Some(Predicted { runtime: Span(100), deviation: Span(0), level, jobs: 5 });
        let elsewhere = |level| Some(Expectation { runtime: SpanMs(301), level, jobs: 9 });
        let check = |own, elsewhere, most, time, source| {
            let found = expected_before_samples(own, elsewhere, 2.0, 4.0, SpanMs(most));
            assert_eq!(found, Expected { time: SpanMs(time), source });
        };
        // Of the same service, runtimes are for arguments of scale 1; all are for processors of speed 1.
        let service = Level::Executable;
        check(own(service), elsewhere(service), 50, 50, RuntimeSource::Statistics { jobs: 5 });
        let others = |level| RuntimeSource::Federation { level, jobs: 9 };
        check(own(Level::User), elsewhere(service), 1_000, 151, others(service));
        check(None, elsewhere(Level::User), 1_000, 76, others(Level::User));
        check(own(service), None, 49, 49, RuntimeSource::Walltime);
        check(None, None, 700, 700, RuntimeSource::Walltime);
        let short = Some(Expectation { runtime: SpanMs(0), level: service, jobs: 1 });
        check(None, short, 10, 1, RuntimeSource::Federation { level: service, jobs: 1 });
    }

    #[test]
    fn processors_of_own_batches_are_free_now_instead_of_the_first_that_become_free() {
        let offer = |free: &[(i64, u32)]| Offer {
            free: free
                .iter()
                .map(|(at, processors)| Free { at: Span(*at), processors: *processors })
                .collect(),
            job: Span(7),
        };
        let check = |running, expected: &[(i64, u32)]| {
            let found = with_own_processors(offer(&[(50, 4), (0, 1), (20, 2)]), running, SpanMs(30));
            assert_eq!(found, offer(expected), "{running}");
        };
        check(0, &[(0, 1), (0, 2), (20, 4), (0, 0)]);
        check(1, &[(0, 1), (0, 1), (20, 4), (0, 1)]);
        check(3, &[(0, 1), (0, 0), (20, 3), (0, 3)]);
        check(99, &[(0, 1), (0, 0), (20, 0), (0, 6)]);
    }

    #[test]
    fn a_unit_is_bounded_however_short_or_long_the_instance() {
        let mut runtimes = InstanceRuntimes::new();
        (0..3).for_each(|_| runtimes.record(&'a', SpanMs(i64::MAX), 0.0));
        let walltime = Expected { time: SpanMs(1), source: RuntimeSource::Walltime };
        let expected = |scale| runtimes.expected(&'a', scale, walltime).time;
        assert_eq!(expected(1.0), SpanMs(10_000_000_000), "four months");
        assert_eq!(expected(1e9), SpanMs(32_000_000_000_000), "a thousand years");
    }
}
