use std::num::NonZeroUsize;

use pliant_model::Span;
use proptest::prelude::*;

use super::*;

fn settings(window: usize, least: usize) -> Settings {
    let count = |count| NonZeroUsize::new(count).unwrap();
    Settings { window: count(window), least: count(least) }
}

fn of(executable: i32, user: i32, group: i32) -> Categories<i32> {
    let known = |id: i32| (id >= 0).then_some(id);
    Categories { executable: known(executable), user: known(user), group: known(group) }
}

#[test]
fn unknown_categories_fall_back_to_the_next_broader_one() {
    let mut runtimes = Runtimes::new(settings(10, 2));
    assert_eq!(runtimes.predict(&of(1, 1, 1), Level::Executable, Estimator::Mean), None);
    for (executable, user, group, runtime) in
        [(1, 1, 1, 10), (1, 1, 1, 21), (2, 1, 1, 100), (3, 2, 1, 1000), (-1, -1, 2, 5000)]
    {
        runtimes.record(&of(executable, user, group), Span(runtime));
    }
    let check = |of: Categories<i32>, from, runtime, level, jobs| {
        let found = runtimes.predict(&of, from, Estimator::Mean).unwrap();
        assert_eq!((found.runtime, found.level, found.jobs), (Span(runtime), level, jobs), "{of:?}");
    };
    check(of(1, 1, 1), Level::Executable, 16, Level::Executable, 2);
    // One run of that executable is too few.
    check(of(2, 1, 1), Level::Executable, 44, Level::User, 3);
    check(of(1, 1, 1), Level::User, 44, Level::User, 3);
    check(of(3, 2, 1), Level::Executable, 283, Level::Group, 4);
    check(of(-1, -1, 1), Level::Executable, 283, Level::Group, 4);
    check(of(-1, -1, 2), Level::Group, 1226, Level::All, 5);
    check(of(1, 1, 1), Level::All, 1226, Level::All, 5);
    check(of(9, 9, 9), Level::Executable, 1226, Level::All, 5);
    let of = |level, key: Option<i32>| runtimes.of_category(level, key.as_ref(), Estimator::Mean);
    assert_eq!(
        of(Level::Executable, Some(2)).unwrap().runtime,
        Span(100),
        "one is enough if it is asked for"
    );
    assert_eq!(of(Level::All, None).unwrap().jobs, 5);
    assert_eq!(of(Level::User, Some(9)), None);
    assert_eq!(runtimes.known().count(), 8);
    let counts = Level::ALL.iter().map(|level| runtimes.categories(*level));
    assert_eq!(counts.collect::<Vec<_>>(), [3, 2, 2, 1]);
}

#[test]
fn estimators_have_unique_descriptions() {
    let mut runtimes = Runtimes::new(settings(4, 1));
    [1000, 2, 4, 6, 9].iter().for_each(|runtime| runtimes.record(&of(1, 1, 1), Span(*runtime)));
    let check = |estimator, expected| {
        let found = runtimes.predict(&of(1, 1, 1), Level::User, estimator).unwrap();
        assert_eq!((found.runtime, found.deviation), (Span(expected), Span(398)), "{estimator:?}");
    };
    check(Estimator::Mean, 204);
    check(Estimator::RecentMean, 5);
    check(Estimator::Quantile(Choice::new(0.5, 1.0).unwrap()), 4);
    check(Estimator::Quantile(Choice::new(0.8, 1.5).unwrap()), 14);
    let mut short = Runtimes::new(settings(4, 1));
    short.record(&of(1, 1, 1), Span(0));
    assert_eq!(short.predict(&of(1, 1, 1), Level::All, Estimator::Mean).unwrap().runtime, Span(1));
}

#[test]
fn running_jobs_are_predicted_by_jobs_that_ran_longer() {
    let mut runtimes = Runtimes::new(settings(4, 1));
    [500, 10, 10, 20, 40].iter().for_each(|runtime| runtimes.record(&of(1, 1, 1), Span(*runtime)));
    for (elapsed, expected) in [
        // The mean of all is 116 s.
        (0, 116),
        (15, 116),
        (39, 116),
        // None of the last ones ran longer, but others did.
        (115, 116),
        // Longer than all recorded jobs: twice the elapsed time.
        (116, 232),
        (600, 1_200),
    ] {
        let found = runtimes.predict_running(&of(1, 1, 1), Level::Executable, Span(elapsed)).unwrap();
        assert_eq!((found.runtime, found.jobs), (Span(expected), 5), "after {elapsed} s");
    }
    runtimes.record(&of(1, 1, 1), Span(200));
    runtimes.record(&of(1, 1, 1), Span(300));
    let longer =
        |elapsed| runtimes.predict_running(&of(1, 1, 1), Level::Executable, Span(elapsed)).unwrap().runtime;
    // The mean of all is 154 s; the last ones are 20, 40, 200 and 300 s.
    assert_eq!([0, 20, 40, 160, 200, 299, 300].map(longer), [154, 180, 250, 250, 300, 300, 600].map(Span));
    assert_eq!(Runtimes::new(settings(4, 1)).predict_running(&of(1, 1, 1), Level::All, Span(5)), None);
}

#[test]
fn scaled_samples_go_to_their_executable_only() {
    let mut runtimes = Runtimes::new(settings(10, 1));
    // A thousand times the unit, and three times another one.
    runtimes.record_scaled(&of(1, 1, 1), Span(2), Span(2_000));
    runtimes.record_scaled(&of(2, 1, -1), Span(20), Span(60));
    let mean = |executable, level| {
        runtimes.predict(&of(executable, 1, 1), level, Estimator::Mean).map(|found| found.runtime.0)
    };
    assert_eq!([1, 2].map(|executable| mean(executable, Level::Executable)), [Some(2), Some(20)]);
    let broader = [Level::User, Level::Group, Level::All];
    assert_eq!(broader.map(|level| mean(1, level)), [Some(1_030), Some(2_000), Some(1_030)]);
}

#[test]
fn runtimes_without_end_do_not_overflow() {
    let mut runtimes = Runtimes::new(settings(10, 1));
    (0..5).for_each(|_| runtimes.record(&of(1, 1, 1), Span(i64::MAX)));
    let found = runtimes.predict(&of(1, 1, 1), Level::User, Estimator::Mean).unwrap();
    assert_eq!((found.runtime, found.jobs), (Span::MAX, 5));
}

#[test]
fn errors_are_counted_by_level() {
    let mut calibration = Calibration::default();
    let mut count = |predicted, level, runtime| {
        let predicted = Predicted { runtime: Span(predicted), deviation: Span(0), level, jobs: 1 };
        calibration.record(&predicted, Span(runtime));
    };
    count(10, Level::User, 4);
    count(10, Level::User, 10);
    count(10, Level::All, 30);
    let user = Errors { jobs: 2, absolute: 6, signed: 6, runtimes: 14, within: 2 };
    let all = Errors { jobs: 1, absolute: 20, signed: -20, runtimes: 30, within: 0 };
    let levels: Vec<_> = calibration.levels().collect();
    assert_eq!(levels, [(Level::User, user), (Level::All, all)]);
    assert_eq!(calibration.all(), Errors { jobs: 3, absolute: 26, signed: -14, runtimes: 44, within: 2 });
    assert_eq!(Calibration::restore(levels), calibration);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Compares with a scan of all recorded jobs for every prediction, also after a restart.
    #[test]
    fn equals_the_reference_implementation(
        window in 1..20_usize,
        least in 1..5_usize,
        samples in prop::collection::vec((-1..3_i32, -1..3_i32, -1..2_i32, 0..10_000_i64), 1..80),
        asked in (-1..4_i32, -1..4_i32, -1..3_i32),
        from in 0..4_usize,
        restored_at in 0..80_usize,
    ) {
        let settings = settings(window, least);
        let mut runtimes = Runtimes::new(settings);
        for (number, (executable, user, group, runtime)) in samples.iter().enumerate() {
            runtimes.record(&of(*executable, *user, *group), Span(*runtime));
            if number == restored_at {
                let restored = Runtimes::restore(settings, &runtimes.dump());
                prop_assert_eq!(&restored, &runtimes);
                runtimes = restored;
            }
        }
        let (executable, user, group) = asked;
        let of_level = |level: Level| -> Option<Vec<i64>> {
            let same = |one: &(i32, i32, i32, i64)| match level {
                Level::Executable => one.0 == executable && executable >= 0,
                Level::User => one.1 == user && user >= 0,
                Level::Group => one.2 == group && group >= 0,
                Level::All => true,
            };
            let of: Vec<i64> = samples.iter().filter(|one| same(one)).map(|one| one.3).collect();
            (level == Level::All || of.len() >= least && !of.is_empty()).then_some(of)
        };
        let from = Level::ALL[from];
        let (level, of_category) =
            Level::ALL.iter().filter(|level| **level >= from).find_map(|level| Some((*level, of_level(*level)?))).unwrap();
        let recent: Vec<i64> = of_category.iter().rev().take(window).copied().collect();
        let mean = |all: &[i64]| {
            let (sum, count) = (all.iter().sum::<i64>(), all.len() as i64);
            Span(((sum + count / 2) / count).max(1))
        };
        let asked = of(executable, user, group);
        for (estimator, expected) in
            [(Estimator::Mean, mean(&of_category)), (Estimator::RecentMean, mean(&recent))]
        {
            let found = runtimes.predict(&asked, from, estimator).unwrap();
            prop_assert_eq!((found.runtime, found.level), (expected, level));
            prop_assert_eq!(found.jobs, of_category.len() as u64);
        }
        let elapsed = samples[0].3;
        let longer: Vec<i64> = recent.iter().copied().filter(|runtime| *runtime > elapsed).collect();
        let whole = mean(&of_category);
        let known = if longer.is_empty() || elapsed == 0 { whole } else { mean(&longer).max(whole) };
        let expected = if known > Span(elapsed) { known } else { Span(2 * elapsed) };
        let found = runtimes.predict_running(&asked, from, Span(elapsed)).unwrap();
        prop_assert_eq!((found.runtime, found.level), (expected, level));
        let mut sorted = recent;
        sorted.sort_unstable();
        let median = Estimator::Quantile(Choice::new(0.5, 1.0).unwrap());
        let expected = Span(sorted[(sorted.len() - 1) / 2].max(1));
        prop_assert_eq!(runtimes.predict(&asked, from, median).unwrap().runtime, expected);
    }
}
