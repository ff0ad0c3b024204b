//! The units that runtimes of a federation are counted in: milliseconds on processors of speed 1, the fewest that the work takes, and
//! for a service divided by what the arguments make of it.

use std::time::Duration;

use pliant_model::{Procs, Span, Speed, Walltimes};

use super::categories::{Categories, Estimator, Level, Predicted, Runtimes};

/// The shape in which a job runs on a cluster.
#[derive(Clone, Copy, Debug)]
pub struct InShape<'a> {
    /// What the work takes there.
    pub walltimes: &'a Walltimes<'a>,
    /// On how many processors.
    pub procs: Procs,
    /// With how many GPUs, where the times depend on them.
    pub gpus: u32,
    /// How fast they are.
    pub speed: Speed,
}

impl InShape<'_> {
    /// The time in this shape relative to that on the fewest processors that will do.
    fn relative_time(&self) -> f64 {
        let Self { walltimes, procs, gpus, .. } = self;
        let procs = (*procs).clamp(walltimes.least(), walltimes.most());
        walltimes.ratio_with(procs, *gpus) / walltimes.ratio(walltimes.least())
    }
}

/// A job that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ran<'a> {
    /// The shape for which it was submitted.
    pub shape: InShape<'a>,
    /// The processors that it got: fewer, if it was folded.
    pub got: Procs,
    /// How long it took.
    pub elapsed: Duration,
}

impl Ran<'_> {
    /// How long each of so many units took, in milliseconds, rounded up.
    pub fn unit_ms(&self, units: f64) -> Span {
        let Self { shape, got, elapsed } = self;
        let rounds = rounds(shape.procs, *got);
        let narrow = shape.speed.get() / (shape.relative_time() * f64::from(rounds));
        Span((elapsed.as_secs_f64() * 1_000.0 * narrow / units).ceil() as i64)
    }
}

/// In how many rounds a job ran that asked for more processors than it got: a folded one.
pub fn rounds(asked: Procs, got: Procs) -> u32 {
    asked.0.div_ceil(got.0.max(1)).max(1)
}

impl<Key: Ord + Clone> Runtimes<Key> {
    /// How long a job of these categories is expected to run in all in a shape in which it has run for `elapsed`; none if too
    /// few are known. `units` says how many units of a level it has.
    pub fn predict_in_shape(
        &self,
        of: &Categories<Key>,
        shape: InShape<'_>,
        units: impl Fn(Level) -> f64,
        elapsed: Span,
    ) -> Option<Predicted> {
        let found = self.predict(of, Level::Executable, Estimator::Mean)?;
        if found.jobs < self.least() {
            return None;
        }
        let factor = units(found.level) * shape.relative_time() / shape.speed.get();
        let elapsed = Span((elapsed.0 as f64 / factor) as i64);
        let found = self.predict_running(of, found.level, elapsed)?;
        let scaled = |span: Span| Span((span.0 as f64 * factor).ceil() as i64);
        Some(Predicted { runtime: scaled(found.runtime), deviation: scaled(found.deviation), ..found })
    }
}
