//! Runtimes learned from finished runs, for services whose walltime comes from history.
//!
//! These walltimes must hold for single runs on the processors that a service is declared for. So a batch counts here as
//! its longest instance, whereas in the statistics of `prospects` it counts as the mean of its instances.

use std::num::NonZeroUsize;
use std::time::Duration;

use pliant_model::{Span, Time};
use pliant_policy::runtimes::history::{FinishedRun, History};
use pliant_policy::runtimes::{Choice, rounds};

use super::{Server, ServerJob};

/// How many runs of a category are kept.
const WINDOW: NonZeroUsize = NonZeroUsize::new(200).expect("more than none");
/// The quantile of a category's runtimes that becomes its walltime.
const QUANTILE: f64 = 0.95;

/// An empty history.
pub(super) fn empty() -> History {
    History::new(WINDOW)
}

/// The history of a dump.
pub(super) fn restore(dump: &[pliant_policy::runtimes::history::Recent]) -> History {
    History::restore(WINDOW, dump)
}

impl Server {
    /// The walltime learned for a category, at speed 1 on the processors that it is declared for; none if no run has finished.
    pub fn learned(&self, category: &str) -> Option<Span> {
        let choice = Choice::new(QUANTILE, 1.0).ok()?;
        self.history.predict(category, choice)
    }

    /// True if the driver reports the runtime of this batch's longest instance
    /// ([`Event::LongestInstance`](super::Event::LongestInstance)) before the batch ends.
    pub fn needs_longest_instance(&self, number: u32) -> bool {
        let sample = self.jobs.get(&number).and_then(|entry| entry.sample.as_ref());
        sample.is_some_and(|sample| sample.promises && sample.is_batch)
    }

    /// Records a run that succeeded, after `elapsed` if that was measured.
    pub(super) fn record_walltime_sample(&mut self, number: u32, elapsed: Option<Duration>, now: Time) {
        let Some(ServerJob { record, sample: Some(sample), run, longest, .. }) = self.jobs.get(&number)
        else {
            return;
        };
        if !sample.promises {
            return;
        }
        let asked = run.as_ref().map_or(record.procs, |run| run.procs);
        let rounds = rounds(asked, record.procs);
        if sample.is_batch {
            let Some(longest) = longest else { return };
            let reference = *longest as f64 * self.config.speed.get() / f64::from(rounds);
            self.history.record_reference(&sample.category, reference.ceil() as u64);
            return;
        }
        let Some(started) = record.started else { return };
        let elapsed = elapsed.unwrap_or(Duration::from_secs((now - started).0.max(0) as u64));
        let run = FinishedRun {
            runtime: elapsed.div_f64(f64::from(rounds) * sample.scale),
            procs: asked,
            speed: self.config.speed,
            requested: record.work.procs,
            speedup: &record.work.speedup,
        };
        self.history.record(&sample.category, &run);
    }
}
