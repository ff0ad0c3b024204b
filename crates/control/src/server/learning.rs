//! Runtimes learned from finished runs, for services that promise what history says.
//!
//! They are kept beside the statistics of `prospects`, which say what is expected: a walltime must hold for single runs, on the
//! processors that a service is declared for. So a batch is told there as the mean of its instances, and here as the longest.

use std::num::NonZeroUsize;
use std::time::Duration;

use pliant_model::{Span, Time};
use pliant_policy::runtimes::history::{FinishedRun, History};
use pliant_policy::runtimes::{Choice, rounds};

use super::{Server, ServerJob};

/// How many runs of a category are remembered.
const WINDOW: NonZeroUsize = NonZeroUsize::new(200).expect("more than none");
/// So many runs of a category were no longer than what is promised, as a share.
const QUANTILE: f64 = 0.95;

/// A history that remembers nothing yet.
pub(super) fn empty() -> History {
    History::new(WINDOW)
}

/// A history that remembers what was dumped.
pub(super) fn restore(dump: &[pliant_policy::runtimes::history::Recent]) -> History {
    History::restore(WINDOW, dump)
}

impl Server {
    /// How long a run of the category takes at speed 1 on the processors that it is declared for, to be on the safe
    /// side; none if none has finished.
    pub fn learned(&self, category: &str) -> Option<Span> {
        let choice = Choice::new(QUANTILE, 1.0).ok()?;
        self.history.predict(category, choice)
    }

    /// True if it is to be told how long the longest instance of a job took ([`Event::LongestInstance`](super::Event::LongestInstance)) before that
    /// has ended.
    pub fn needs_longest_instance(&self, number: u32) -> bool {
        let sample = self.jobs.get(&number).and_then(|kept| kept.sample.as_ref());
        sample.is_some_and(|sample| sample.promises && sample.is_batch)
    }

    /// A run has ended well, after `elapsed` if that was measured.
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
