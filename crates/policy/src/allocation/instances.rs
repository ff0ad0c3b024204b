//! How long an instance of a multi-job is expected to take on a server, and when all of them have ended.
//!
//! Times are in milliseconds, the unit of a service in nanoseconds, since it may be much shorter than its instances.

use std::num::NonZeroUsize;

use pliant_model::{Span, SpanMs};

use super::{Free, Offer};
use crate::runtimes::{Categories, Estimator, Level, Predicted, Runtimes, Settings};

/// Nanoseconds in a millisecond.
const NS_PER_MS: f64 = 1e6;
/// The longest unit that is distinguished, in nanoseconds: four months, so that squares of millions of them have a sum.
const UNIT_MOST: i64 = 10_000_000_000_000_000;
/// What arguments make longer than that is not distinguished: a thousand years.
const LONGEST_MS: f64 = 3.2e13;
/// Which instances count: of a server the last 1000 for what is recent, and at least 3.
const SETTINGS: Settings = Settings {
    window: NonZeroUsize::new(1_000).expect("more than none"),
    least: NonZeroUsize::new(3).expect("more than none"),
};

/// From where it is known how long an instance takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuntimeSource {
    /// It is not: that is its walltime.
    Walltime,
    /// From jobs of the service that ended on the server.
    Statistics {
        /// How many.
        jobs: u64,
    },
    /// From jobs that ended anywhere in the federation: the server has seen too few of the service itself.
    Federation {
        /// What they have in common: the service or, where too few jobs of it are known, the user, or nothing.
        level: Level,
        /// How many.
        jobs: u64,
    },
    /// From instances of the same multi-job.
    Own {
        /// How many.
        instances: u64,
    },
}

impl RuntimeSource {
    /// True if jobs of the same service tell it.
    pub fn is_of_service(self) -> bool {
        match self {
            RuntimeSource::Statistics { .. } | RuntimeSource::Own { .. } => true,
            RuntimeSource::Federation { level, .. } => level == Level::Executable,
            RuntimeSource::Walltime => false,
        }
    }
}

/// How long a job is expected to run by all that has ended in a federation, on processors of speed 1 and the fewest that
/// it takes, divided by what its arguments make of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expectation {
    /// So long.
    pub runtime: SpanMs,
    /// What the jobs that tell it have in common.
    pub level: Level,
    /// How many they are.
    pub jobs: u64,
}

/// How long an instance is expected to take on a server, and from where that is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    /// So long.
    pub time: SpanMs,
    /// By what.
    pub source: RuntimeSource,
}

/// How long an instance is expected to take that a server has not seen yet: as jobs of its service there (`own`, if enough of the
/// service itself are known), as such jobs elsewhere, or as long as it may, at most. `scale` is what its arguments make of
/// the service's unit, `speed` that of the server's processors.
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
    let told_elsewhere = |Expectation { runtime, level, jobs }: Expectation| {
        (runtime.0, level, RuntimeSource::Federation { level, jobs })
    };
    let found = own.or(elsewhere.map(told_elsewhere)).map(|(runtime, level, source)| {
        let scale = if level == Level::Executable { scale } else { 1.0 };
        let ms = runtime as f64 * scale / speed;
        Expected { time: SpanMs((ms.ceil() as i64).max(1)), source }
    });
    found
        .filter(|found| found.time <= most)
        .unwrap_or(Expected { time: most, source: RuntimeSource::Walltime })
}

/// The runtimes of the instances of a multi-job that have ended, by server, and what is expected of the others.
#[derive(Clone, Debug)]
pub struct InstanceRuntimes<Server> {
    /// What a unit took, in nanoseconds.
    units: Runtimes<Server>,
}

impl<Server: Ord + Clone> InstanceRuntimes<Server> {
    /// None has ended.
    pub fn new() -> InstanceRuntimes<Server> {
        InstanceRuntimes { units: Runtimes::new(SETTINGS) }
    }

    /// An instance of `scale` units has ended well on a server, after `took`.
    pub fn record(&mut self, server: &Server, took: SpanMs, scale: f64) {
        let unit = took.0.max(0) as f64 * NS_PER_MS / scale.max(f64::MIN_POSITIVE);
        self.units.record(&of(server), Span((unit as i64).min(UNIT_MOST)));
    }

    /// How long an instance of `scale` units is expected to take on a server: by those that ended there, by what the server says
    /// of earlier jobs of the service, by those that ended elsewhere, or by what else the server says.
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

/// When a pack is expected to end that has `left` instances, of which the present one has run for so long. One that runs
/// longer than was expected is expected to run as long again as it is over.
pub fn batch_time_left(left: usize, instance: SpanMs, elapsed: SpanMs) -> SpanMs {
    let behind = (left as i64 - 1).max(0).saturating_mul(instance.0);
    SpanMs(behind.saturating_add((instance.0 - elapsed.0).abs()))
}

/// A server's offer `since` after it was made, with the places of its `running` packs as free: instances in them are still to
/// be done. Of the places that are taken the first to come free are theirs, as a pack is shorter than most jobs.
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

/// Where so many processors at a time come free that one job needs: groups of `width`, from those that come free one after
/// the other.
pub fn places(free: &[Free], width: u32) -> Vec<Free> {
    let width = width.max(1);
    let mut places = Vec::with_capacity(free.len());
    let mut rest = 0;
    for step in free {
        let processors = rest + step.processors;
        rest = processors % width;
        if processors >= width {
            places.push(Free { at: step.at, processors: processors / width });
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_over_is_expected_to_run_as_long_again_as_it_is_over() {
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
        assert_eq!(places(&steps(&[(0, 3), (5, 1), (9, 4)]), 2), steps(&[(0, 1), (5, 1), (9, 2)]));
        assert_eq!(places(&steps(&[(0, 3), (5, 1)]), 0), steps(&[(0, 3), (5, 1)]));
    }
}
