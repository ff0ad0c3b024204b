//! Runtimes learned from finished runs, for services whose walltime comes from history.
//!
//! The runs of a user predict that user's next run of a service; a user without enough runs gets the median over users
//! ([`pliant_policy::runtimes::history`]), so that the runs of one user do not decide over the walltimes of others.
//!
//! These walltimes must hold for single runs on the processors that a service is declared for. So a batch counts here as
//! its longest instance, whereas in the statistics of `prospects` it counts as the mean of its instances.

use std::num::NonZeroUsize;
use std::time::Duration;

use pliant_model::{Span, Time};
use pliant_policy::runtimes::history::{FinishedRun, History, Recent};
use pliant_policy::runtimes::{Choice, Settings, rounds};

use super::{Server, ServerJob};
use crate::names::User;

/// The number of last runs that count of each user of a service, and the fewest that a user needs.
const SETTINGS: Settings = Settings {
    window: NonZeroUsize::new(100).expect("more than none"),
    least: NonZeroUsize::new(3).expect("more than none"),
};
/// The quantile of a user's runtimes that becomes the walltime.
const QUANTILE: f64 = 0.95;

/// An empty history.
pub(super) fn empty() -> History {
    History::new(SETTINGS)
}

/// The history of a dump.
pub(super) fn restore(dump: &[Recent]) -> History {
    History::restore(SETTINGS, dump)
}

impl Server {
    /// The walltime learned for a user's next run of a service, at speed 1 on the processors that the service is declared
    /// for; none if too few runs have finished.
    pub fn learned(&self, service: &str, user: &User) -> Option<Span> {
        let choice = Choice::new(QUANTILE, 1.0).ok()?;
        self.history.predict(service, user.as_str(), choice)
    }

    /// True if the driver reports the runtime of this batch's longest instance
    /// ([`Event::LongestInstance`](super::Event::LongestInstance)) before the batch ends.
    pub fn needs_longest_instance(&self, number: u32) -> bool {
        let sample = self.jobs.get(&number).and_then(|entry| entry.sample.as_ref());
        sample.is_some_and(|sample| sample.promises && sample.is_batch)
    }

    /// Records a run that succeeded, after `elapsed` if that was measured.
    pub(super) fn record_walltime_sample(&mut self, number: u32, elapsed: Option<Duration>, now: Time) {
        let Some(entry) = self.jobs.get(&number) else { return };
        let ServerJob { record, sample: Some(sample), run, longest, .. } = entry else { return };
        if !sample.promises {
            return;
        }
        let asked = run.as_ref().map_or(record.procs, |run| run.procs);
        let rounds = rounds(asked, record.procs);
        if sample.is_batch {
            let Some(longest) = longest else { return };
            let reference = *longest as f64 * self.config.speed.get() / f64::from(rounds);
            self.history.record_reference(&sample.category, record.owner.as_str(), reference.ceil() as u64);
            return;
        }
        let Some(started) = record.started else { return };
        let elapsed = elapsed.unwrap_or(Duration::from_secs((now - started).0.max(0) as u64));
        let gpus = entry.gpus_of_size(self.config.speed);
        let run = FinishedRun {
            // The arguments of a user may make the scale as small as they like.
            runtime: Duration::try_from_secs_f64(elapsed.as_secs_f64() / (f64::from(rounds) * sample.scale))
                .unwrap_or(Duration::MAX),
            procs: asked,
            gpus,
            speed: self.config.speed,
            requested: record.work.procs,
            speedup: &record.work.speedup,
        };
        self.history.record(&sample.category, record.owner.as_str(), &run);
    }
}
