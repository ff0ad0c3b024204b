//! Runtime history: predicts the walltime of the next run of a category from finished runs.
//!
//! Runs differ in size and in the speed of their cluster. The history stores *reference times*: the time of the same work
//! on the requested processors at speed 1 by the speedup model, the inverse of [`pliant_model::Walltimes::at`]. Each
//! category (a service, a user's program, ...) has a window of its last runs; a prediction is an order statistic of
//! the window with a margin.
//!
//! Recording a run costs O(window), a prediction O(log categories).

use std::num::NonZeroUsize;
use std::time::Duration;

use pliant_model::{Procs, Span, Speed, Speedup};

use super::choice::Choice;
use super::window::Windows;

/// A finished run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FinishedRun<'a> {
    /// Its runtime.
    pub runtime: Duration,
    /// The processors that it used.
    pub procs: Procs,
    /// Their speed.
    pub speed: Speed,
    /// The processors to which a requested walltime refers.
    pub requested: Procs,
    /// The speedup model.
    pub speedup: &'a Speedup,
}

impl FinishedRun<'_> {
    /// The time of the same work on the requested processors at speed 1, in milliseconds, rounded up:
    /// `runtime * speed * time(requested) / time(procs)`, reduced slightly before rounding like a walltime.
    pub fn reference_ms(&self) -> u64 {
        let Self { procs, requested, speedup, .. } = *self;
        let ratio = speedup.relative_time(requested, requested) / speedup.relative_time(procs, requested);
        let exact = self.runtime.as_secs_f64() * 1000.0 * self.speed.get() * ratio;
        (exact * (1.0 - 1e-12)).ceil() as u64
    }
}

/// The last runs of a category as data.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Recent {
    /// The category.
    pub category: String,
    /// Reference times in milliseconds, in the order of recording.
    pub reference_ms: Vec<u64>,
}

/// Reference times of finished runs by category.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct History {
    window: NonZeroUsize,
    /// In milliseconds.
    categories: Windows<String, u64>,
}

impl History {
    /// An empty history that keeps the last `window` runs of each category.
    pub fn new(window: NonZeroUsize) -> History {
        History { window, categories: Windows::default() }
    }

    /// Records a finished run of a category. Failed and cancelled runs must not be recorded: they do not show how long the
    /// work takes.
    pub fn record(&mut self, category: &str, run: &FinishedRun<'_>) {
        self.record_reference(category, run.reference_ms());
    }

    /// Records a run by its reference time, in milliseconds.
    pub fn record_reference(&mut self, category: &str, reference_ms: u64) {
        self.categories.push(category, reference_ms, self.window.get());
    }

    /// The walltime to request on the requested processors at speed 1, at least 1 s; none if the category has no run.
    pub fn predict(&self, category: &str, choice: Choice) -> Option<Span> {
        let reference_ms = choice.of(self.categories.get(category)?)?;
        let seconds = choice.with_margin(reference_ms as f64 / 1000.0);
        Some(Span(i64::try_from(seconds).unwrap_or(i64::MAX).clamp(1, Span::MAX.0)))
    }

    /// Number of runs in the window of a category.
    pub fn runs(&self, category: &str) -> usize {
        self.categories.get(category).map_or(0, |window| window.len())
    }

    /// The state as data, by category.
    pub fn dump(&self) -> Vec<Recent> {
        let recent = |(category, reference_ms)| Recent { category, reference_ms };
        self.categories.dump().map(recent).collect()
    }

    /// Restores a dumped history. A smaller window keeps the last runs.
    pub fn restore(window: NonZeroUsize, dump: &[Recent]) -> History {
        let samples = dump.iter().map(|one| (&one.category, one.reference_ms.as_slice()));
        History { window, categories: Windows::restore(samples, window.get()) }
    }
}

#[cfg(test)]
mod tests {
    use pliant_model::{JobId, Request, Time};
    use proptest::prelude::*;

    use super::*;

    const AMDAHL: Speedup = Speedup::Amdahl { parallel: 0.75, limit: Procs(64) };

    fn window(runs: usize) -> NonZeroUsize {
        NonZeroUsize::new(runs).unwrap()
    }

    fn choice(quantile: f64, margin: f64) -> Choice {
        Choice::new(quantile, margin).unwrap()
    }

    /// A run of so many milliseconds on the processor asked for.
    fn run(ms: u64) -> FinishedRun<'static> {
        let runtime = Duration::from_millis(ms);
        let (procs, speed) = (Procs::ONE, Speed::REFERENCE);
        FinishedRun { runtime, procs, speed, requested: procs, speedup: &Speedup::Rigid }
    }

    #[test]
    fn runs_are_scaled_to_the_requested_size_and_speed_1() {
        let check = |seconds, procs, speed, requested, speedup: &Speedup, reference_ms| {
            let (runtime, speed) = (Duration::from_secs_f64(seconds), Speed::new(speed).unwrap());
            let (procs, requested) = (Procs(procs), Procs(requested));
            let run = FinishedRun { runtime, procs, speed, requested, speedup };
            assert_eq!(run.reference_ms(), reference_ms, "{run:?}");
        };
        check(10.0, 4, 1.0, 4, &Speedup::Rigid, 10_000);
        check(10.0, 4, 1.4, 4, &Speedup::Rigid, 14_000);
        check(0.0004, 1, 1.0, 1, &Speedup::Rigid, 1);
        check(0.0, 1, 1.0, 1, &Speedup::Rigid, 0);
        // Relative times: 1 on one processor, 0.5 on three, 0.28 on 25.
        check(28.0, 25, 1.0, 1, &AMDAHL, 100_000);
        check(28.0, 25, 0.5, 3, &AMDAHL, 25_000);
        // Three rounds.
        check(30.0, 4, 1.0, 10, &Speedup::Folding, 10_000);
        let table = Speedup::Table([(Procs(1), 60.0), (Procs(8), 10.0)].into());
        check(10.0, 9, 1.0, 1, &table, 60_000);
    }

    #[test]
    fn the_quantile_is_an_order_statistic() {
        let mut history = History::new(window(200));
        assert_eq!((history.predict("sort", choice(0.95, 1.0)), history.runs("sort")), (None, 0));
        // 1 to 20 s, in disorder.
        (1..=20).for_each(|number| history.record("sort", &run(number * 8 % 21 * 1000)));
        assert_eq!((history.runs("sort"), history.runs("other")), (20, 0));
        for (quantile, margin, expected) in [
            (1e-9, 1.0, 1),
            (0.05, 1.0, 1),
            (0.5, 1.0, 10),
            (0.95, 1.0, 19),
            (0.951, 1.0, 20),
            (1.0, 1.0, 20),
            (0.5, 1.5, 15),
            (0.5, 1.01, 11),
            (0.05, 0.01, 1),
        ] {
            let predicted = history.predict("sort", choice(quantile, margin));
            assert_eq!(predicted, Some(Span(expected)), "{quantile} times {margin}");
        }
        assert_eq!(history.predict("other", choice(0.95, 1.0)), None);
    }

    #[test]
    fn a_very_long_run_does_not_overflow() {
        let mut history = History::new(window(1));
        history.record("eternal", &FinishedRun { runtime: Duration::MAX, ..run(0) });
        let walltime = history.predict("eternal", choice(1.0, 100.0)).unwrap();
        assert!(walltime > Span(i64::MAX / 6) && walltime <= Span::MAX, "{walltime}");
    }

    /// The reference implementation: stores every run and sorts for each prediction.
    #[derive(Default)]
    struct Reference {
        recorded: Vec<(usize, u64)>,
    }

    impl Reference {
        /// By percentages of whole numbers.
        fn predict(&self, category: usize, window: usize, quantile: u64, margin: u64) -> Option<Span> {
            let all = self.recorded.iter().filter(|(other, _)| *other == category).map(|(_, ms)| *ms);
            let recent: Vec<u64> = all.rev().take(window).collect();
            let enough = |ms: &u64| {
                let within = recent.iter().filter(|other| *other <= ms).count() as u64;
                within * 100 >= quantile * recent.len() as u64
            };
            let ms = recent.iter().copied().filter(enough).min()?;
            Some(Span((ms * margin).div_ceil(100_000).max(1) as i64))
        }
    }

    proptest! {
            #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

            #[test]
    fn equals_the_reference_implementation(
                most in 1..30_usize,
                samples in prop::collection::vec((0..3_usize, prop_oneof![0..8_000_u64, 0..8_000_000_u64]), 1..150),
                quantile in 1..=100_u64,
                margin in 1..=300_u64,
                restored_at in 0..150_usize,
            ) {
                let choice = choice(quantile as f64 / 100.0, margin as f64 / 100.0);
                let names = ["a", "b", "c"];
                let (mut history, mut reference) = (History::new(window(most)), Reference::default());
                for (number, (category, ms)) in samples.into_iter().enumerate() {
                    history.record(names[category], &run(ms));
                    reference.recorded.push((category, ms));
                    if number == restored_at {
                        let restored = History::restore(window(most), &history.dump());
                        prop_assert_eq!(&restored, &history);
                        history = restored;
                    }
                    for (category, name) in names.into_iter().enumerate() {
                        let expected = reference.predict(category, most, quantile, margin);
                        prop_assert_eq!(history.predict(name, choice), expected, "{} of {:?}", name, reference.recorded);
                        // With a smaller window the last runs count.
                        let smaller = History::restore(window(1 + most / 2), &history.dump());
                        let expected = reference.predict(category, 1 + most / 2, quantile, margin);
                        prop_assert_eq!(smaller.predict(name, choice), expected);
                    }
                }
            }

            /// The history predicts the walltime that such a run needs, up to rounding to seconds.
            #[test]
    fn a_prediction_covers_the_recorded_run(
                seconds in 1..100_000_u64,
                procs in 1..=64_u32,
                requested in 1..=64_u32,
                speed in 0.1..10.0_f64,
                folding: bool,
            ) {
                let (procs, requested) = (Procs(procs), Procs(requested));
                prop_assume!(!folding || procs <= requested);
                let speedup = if folding { Speedup::Folding } else { AMDAHL };
                let (speed, runtime) = (Speed::new(speed).unwrap(), Duration::from_secs(seconds));
                let mut history = History::new(window(1));
                history.record("a", &FinishedRun { runtime, procs, speed, requested, speedup: &speedup });
                let walltime = history.predict("a", choice(1.0, 1.0)).unwrap();
                let (id, submit) = (JobId(0), Time::ZERO);
                let request = Request::new(id, submit, requested, walltime, speedup);
                let walltimes = request.on(Procs(64), speed).unwrap();
                let found = walltimes.at(procs).0 as u64;
                let rounding = (1.001 * walltimes.ratio(procs) / speed.get()).ceil() as u64;
                prop_assert!((seconds..=seconds + rounding).contains(&found), "{} s for {} s", found, seconds);
            }
        }
}
