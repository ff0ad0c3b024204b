use std::num::NonZeroUsize;

use pliant_model::{JobId, Request, Time};
use proptest::prelude::*;

use super::*;

const AMDAHL: Speedup = Speedup::Amdahl { parallel: 0.75, limit: Procs(64) };

/// The last so many runs of each user, of whom one is enough.
fn window(runs: usize) -> Settings {
    Settings { window: NonZeroUsize::new(runs).unwrap(), least: NonZeroUsize::MIN }
}

fn choice(quantile: f64, margin: f64) -> Choice {
    Choice::new(quantile, margin).unwrap()
}

/// A run of so many milliseconds on the processor asked for.
fn run(ms: u64) -> FinishedRun<'static> {
    let runtime = Duration::from_millis(ms);
    let (procs, speed) = (Procs::ONE, Speed::REFERENCE);
    FinishedRun { runtime, procs, gpus: 0, speed, requested: procs, speedup: &Speedup::Rigid }
}

#[test]
fn runs_are_scaled_to_the_requested_size_and_speed_1() {
    let check = |seconds, procs, speed, requested, speedup: &Speedup, reference_ms| {
        let (runtime, speed) = (Duration::from_secs_f64(seconds), Speed::new(speed).unwrap());
        let (procs, requested) = (Procs(procs), Procs(requested));
        let run = FinishedRun { runtime, procs, gpus: 0, speed, requested, speedup };
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
    assert_eq!(history.predict("sort", "ann", choice(0.95, 1.0)), None);
    // 1 to 20 s, in disorder.
    (1..=20).for_each(|number| history.record("sort", "ann", &run(number * 8 % 21 * 1000)));
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
        let predicted = history.predict("sort", "ann", choice(quantile, margin));
        assert_eq!(predicted, Some(Span(expected)), "{quantile} times {margin}");
    }
    assert_eq!(history.predict("other", "ann", choice(0.95, 1.0)), None);
}

#[test]
fn a_very_long_run_does_not_overflow() {
    let mut history = History::new(window(1));
    history.record("eternal", "ann", &FinishedRun { runtime: Duration::MAX, ..run(0) });
    let walltime = history.predict("eternal", "ann", choice(1.0, 100.0)).unwrap();
    assert!(walltime > Span(i64::MAX / 6) && walltime <= Span::MAX, "{walltime}");
}

/// Runs of alice that last ten seconds, and of bob and carol that last twenty; each has enough.
fn honest() -> History {
    let mut history = History::new(Settings { least: NonZeroUsize::new(3).unwrap(), ..window(100) });
    for (user, ms) in [("alice", 10_000), ("bob", 20_000), ("carol", 20_000)] {
        (0..5).for_each(|_| history.record("fit", user, &run(ms)));
    }
    history
}

#[test]
fn many_runs_of_one_user_change_what_others_get_by_one_vote_at_most() {
    let walltime =
        |history: &History, user| history.predict("fit", user, choice(0.95, 1.0)).map(|found| found.0);
    for (runs, ms) in [(14, 600_000), (210, 1), (2_000, u64::MAX / 4)] {
        let mut history = honest();
        (0..runs).for_each(|_| history.record_reference("fit", "mallory", ms));
        let found = ["alice", "bob", "dave"].map(|user| walltime(&history, user));
        let by_votes = if ms < 10_000 { 10 } else { 20 };
        assert_eq!(found, [Some(10), Some(20), Some(by_votes)], "after {runs} runs of {ms} ms");
    }
    assert_eq!(walltime(&honest(), "dave"), Some(20), "without them");
}

#[test]
fn few_runs_and_few_users_predict_nothing() {
    let mut history = History::new(Settings { least: NonZeroUsize::new(3).unwrap(), ..window(100) });
    let walltime =
        |history: &History, user| history.predict("fit", user, choice(0.95, 1.0)).map(|found| found.0);
    (0..200).for_each(|_| history.record("fit", "mallory", &run(1_000)));
    (0..3).for_each(|_| history.record("fit", "alice", &run(7_000)));
    (0..2).for_each(|_| history.record("fit", "bob", &run(9_000)));
    assert_eq!(
        ["mallory", "alice", "bob", "dave"].map(|user| walltime(&history, user)),
        [Some(1), Some(7), None, None]
    );
    history.record("fit", "bob", &run(9_000));
    assert_eq!(["bob", "dave"].map(|user| walltime(&history, user)), [Some(9), Some(7)]);
}

/// The reference implementation: stores every run and sorts for each prediction.
#[derive(Default)]
struct Reference {
    recorded: Vec<(usize, usize, u64)>,
}

impl Reference {
    /// By percentages of whole numbers.
    fn statistic(&self, category: usize, user: usize, settings: Settings, quantile: u64) -> Option<u64> {
        let all = self.recorded.iter().filter(|one| (one.0, one.1) == (category, user)).map(|one| one.2);
        let recent: Vec<u64> = all.rev().take(settings.window.get()).collect();
        let enough = |ms: &u64| {
            let within = recent.iter().filter(|other| *other <= ms).count() as u64;
            within * 100 >= quantile * recent.len() as u64
        };
        let counts = recent.len() >= settings.least.get();
        recent.iter().copied().filter(enough).min().filter(|_| counts)
    }

    fn predict(
        &self,
        category: usize,
        user: usize,
        settings: Settings,
        (quantile, margin): (u64, u64),
    ) -> Option<Span> {
        let of = |user| self.statistic(category, user, settings, quantile);
        let mut votes: Vec<u64> = (0..NAMES.len()).filter_map(of).collect();
        votes.sort_unstable();
        // At least as many users are above the lower median as below it.
        let median = (votes.len() >= 3).then(|| votes[votes.len().div_ceil(2) - 1]);
        let ms = of(user).or(median)?;
        Some(Span((ms * margin).div_ceil(100_000).max(1) as i64))
    }
}

const NAMES: [&str; 5] = ["ann", "bob", "cid", "dan", "eve"];

/// A category, a user and a time.
fn samples() -> impl Strategy<Value = Vec<(usize, usize, u64)>> {
    let ms = prop_oneof![0..8_000_u64, 0..8_000_000_u64];
    prop::collection::vec((0..2_usize, 0..NAMES.len(), ms), 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equals_the_reference_implementation(
        most in 1..30_usize,
        least in 1..4_usize,
        samples in samples(),
        quantile in 1..=100_u64,
        margin in 1..=300_u64,
        restored_at in 0..150_usize,
    ) {
        let choice = choice(quantile as f64 / 100.0, margin as f64 / 100.0);
        let settings = |most| Settings { least: NonZeroUsize::new(least).unwrap(), ..window(most) };
        let (mut history, mut reference) = (History::new(settings(most)), Reference::default());
        for (number, (category, user, ms)) in samples.into_iter().enumerate() {
            history.record(["a", "b"][category], NAMES[user], &run(ms));
            reference.recorded.push((category, user, ms));
            if number == restored_at {
                let restored = History::restore(settings(most), &history.dump());
                prop_assert_eq!(&restored, &history);
                history = restored;
            }
            let expected = reference.predict(category, user, settings(most), (quantile, margin));
            let found = history.predict(["a", "b"][category], NAMES[user], choice);
            prop_assert_eq!(found, expected, "{} of {:?}", NAMES[user], reference.recorded);
        }
        // With a smaller window the last runs count.
        let fewer = settings(1 + most / 2);
        let smaller = History::restore(fewer, &history.dump());
        for (user, name) in NAMES.into_iter().enumerate() {
            let expected = reference.predict(0, user, fewer, (quantile, margin));
            prop_assert_eq!(smaller.predict("a", name, choice), expected);
        }
    }

    /// Whatever eve's runs are, what another user gets stays between the two middle statistics of the others, and what a
    /// user with enough own runs gets stays the same.
    #[test]
    fn one_user_moves_the_others_between_their_two_middle_statistics_at_most(
        samples in samples(),
        attack in prop::collection::vec(any::<u64>(), 0..300),
    ) {
        let settings = Settings { least: NonZeroUsize::new(3).unwrap(), ..window(100) };
        let (mut before, choice) = (History::new(settings), choice(0.95, 1.0));
        for (_, user, ms) in samples.into_iter().filter(|(_, user, _)| NAMES[*user] != "eve") {
            before.record("a", NAMES[user], &run(ms));
        }
        let mut after = before.clone();
        attack.iter().for_each(|ms| after.record_reference("a", "eve", *ms));
        let own = |name: &&str| before.categories["a"].get(*name).is_some_and(|window| window.len() >= 3);
        let (known, unknown): (Vec<&str>, Vec<&str>) = NAMES[..4].iter().partition(|name| !before.categories.is_empty() && own(name));
        for user in &known {
            prop_assert_eq!(before.predict("a", user, choice), after.predict("a", user, choice));
        }
        let mut statistics: Vec<Span> = known.iter().filter_map(|user| before.predict("a", user, choice)).collect();
        statistics.sort_unstable();
        for user in unknown {
            let found = [before.predict("a", user, choice), after.predict("a", user, choice)];
            if let Some(low) = statistics.len().checked_sub(2) {
                let (low, high) = (statistics[low / 2], statistics[low / 2 + 1]);
                prop_assert!(found.iter().flatten().all(|one| (low..=high).contains(one)), "{found:?} by {statistics:?}");
            } else {
                prop_assert_eq!(found, [None, None]);
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
            history.record("a", "ann", &FinishedRun { runtime, procs, gpus: 0, speed, requested, speedup: &speedup });
            let walltime = history.predict("a", "ann", choice(1.0, 1.0)).unwrap();
            let (id, submit) = (JobId(0), Time::ZERO);
            let request = Request::new(id, submit, requested, walltime, speedup);
            let walltimes = request.on(Procs(64), speed).unwrap();
            let found = walltimes.at(procs).0 as u64;
            let rounding = (1.001 * walltimes.ratio(procs) / speed.get()).ceil() as u64;
            prop_assert!((seconds..=seconds + rounding).contains(&found), "{} s for {} s", found, seconds);
        }
    }
