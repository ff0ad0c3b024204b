//! Runtimes learned from finished runs, for services that promise what history says.
//!
//! They are kept beside the statistics of `prospects`, which say what is expected: a walltime must hold for single runs, on the
//! processors that a service is declared for. So a pack is told there as the mean of its instances, and here as the longest.

use std::num::NonZeroUsize;
use std::time::Duration;

use pliant_model::{Span, Time};
use pliant_policy::history::{Choice, FinishedRun, History};
use pliant_policy::runtimes::Level;
use serde::{Deserialize, Serialize};

use super::{Kept, Server};
use crate::job::is_false;

/// How many runs of a category are remembered.
const WINDOW: NonZeroUsize = NonZeroUsize::new(200).expect("more than none");
/// So many runs of a category were no longer than what is promised, as a share.
const QUANTILE: f64 = 0.95;

/// What a run teaches.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Lesson {
    /// About what: the service.
    pub category: String,
    /// How much longer this request takes than what is learned of the category; positive.
    pub scale: f64,
    /// Walltimes of the category are made of it.
    #[serde(default = "yes")]
    pub promises: bool,
    /// How many instances a pack has; 1 of anything else.
    #[serde(default = "one")]
    pub instances: u32,
    /// It is a pack, of which the longest instance counts for walltimes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub packed: bool,
}

/// Earlier versions kept no other lessons.
fn yes() -> bool {
    true
}

/// Earlier versions did not say how many.
fn one() -> u32 {
    1
}

impl Lesson {
    /// In how many of what statistics of that level are of its runtime is: of a service in what its arguments make of it, of
    /// users and all in instances.
    pub(super) fn units(&self, level: Level) -> f64 {
        if level == Level::Executable { self.scale } else { f64::from(self.instances.max(1)) }
    }
}

/// A history that remembers nothing yet.
pub(super) fn empty() -> History {
    History::new(WINDOW)
}

/// A history that remembers what was dumped.
pub(super) fn restore(dump: &[pliant_policy::history::Recent]) -> History {
    History::restore(WINDOW, dump)
}

impl Server {
    /// How long a run of the category takes at speed 1 on the processors that it is declared for, to be on the safe
    /// side; none if none has finished.
    pub fn learned(&self, category: &str) -> Option<Span> {
        let choice = Choice::new(QUANTILE, 1.0).ok()?;
        self.history.predict(category, choice)
    }

    /// True if it is to be told how long the longest instance of a job took ([`Event::Longest`](super::Event::Longest)) before that
    /// has ended.
    pub fn wants_longest(&self, number: u32) -> bool {
        let lesson = self.jobs.get(&number).and_then(|kept| kept.lesson.as_ref());
        lesson.is_some_and(|lesson| lesson.promises && lesson.packed)
    }

    /// A run has ended well, after `elapsed` if that was measured.
    pub(super) fn learn_from(&mut self, number: u32, elapsed: Option<Duration>, now: Time) {
        let Some(Kept { record, lesson: Some(lesson), run, longest, .. }) = self.jobs.get(&number) else {
            return;
        };
        if !lesson.promises {
            return;
        }
        // A folded job ran in rounds.
        let asked = run.as_ref().map_or(record.procs, |run| run.procs);
        let rounds = asked.0.div_ceil(record.procs.0.max(1)).max(1);
        if lesson.packed {
            let Some(longest) = longest else { return };
            let reference = *longest as f64 * self.config.speed.get() / f64::from(rounds);
            self.history.tell_reference(&lesson.category, reference.ceil() as u64);
            return;
        }
        let Some(started) = record.started else { return };
        let elapsed = elapsed.unwrap_or(Duration::from_secs((now - started).0.max(0) as u64));
        let run = FinishedRun {
            runtime: elapsed.div_f64(f64::from(rounds) * lesson.scale),
            procs: asked,
            speed: self.config.speed,
            requested: record.work.procs,
            speedup: &record.work.speedup,
        };
        self.history.tell(&lesson.category, &run);
    }
}
