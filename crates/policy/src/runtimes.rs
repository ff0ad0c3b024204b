//! Statistics of runtimes: how long the next job of a category will run, judging by those that have finished
//! (paper 002, sections 3 and 5; spec A.2.2).
//!
//! A job belongs to the category of its executable, of its user and of its group, and to the one of all jobs. What is
//! asked of one level falls back to the next broader one while too few jobs of the category are known. The means are
//! over all jobs that were told, the paper's; the quantiles and recent means over a window of the last ones.
//!
//! What the past is, is for the caller to say: jobs told as they finish make a *causal* estimator; a whole log told
//! before its first job is predicted gives the paper's figures, which see the future. [`Calibration`] keeps how far
//! predictions were off.
//!
//! Beside this, [`crate::history`] predicts the walltime of one service across sizes and speeds, and [`crate::used`]
//! how much of its limit a job uses. Telling a job costs O(log categories + window), a prediction O(log categories).

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use pliant_model::Span;

use crate::history::Choice;
use crate::window::Window;

crate::named_enum! {
    /// What jobs of a category have in common, from the narrowest to the broadest.
    Level, "level of categories", {
        /// The executable.
        Executable = "executable",
        /// The user.
        User = "user",
        /// The group.
        Group = "group",
        /// Nothing: all jobs.
        All = "all",
    }
}

/// The categories of a job, as far as they are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Categories<Key> {
    /// Its executable.
    pub executable: Option<Key>,
    /// Its user.
    pub user: Option<Key>,
    /// Its group.
    pub group: Option<Key>,
}

impl<Key: Clone> Categories<Key> {
    /// The category of a level, if it is known: its place among the categories of [`Runtimes`].
    fn at(&self, level: Level) -> Option<(Level, Option<Key>)> {
        let key = match level {
            Level::Executable => &self.executable,
            Level::User => &self.user,
            Level::Group => &self.group,
            Level::All => return Some((level, None)),
        };
        key.clone().map(|key| (level, Some(key)))
    }
}

/// What is predicted from the jobs of a category.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Estimator {
    /// Their mean.
    Mean,
    /// The mean of the last ones.
    RecentMean,
    /// An order statistic of the last ones, with a margin.
    Quantile(Choice),
}

/// How long a job is expected to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Predicted {
    /// So long, at least 1 s.
    pub runtime: Span,
    /// The standard deviation of the jobs that tell.
    pub deviation: Span,
    /// Of which level they are.
    pub level: Level,
    /// How many they are.
    pub jobs: u64,
}

/// Which jobs count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Settings {
    /// How many of the last jobs of a category quantiles and recent means are of.
    pub window: NonZeroUsize,
    /// A category with fewer jobs says nothing; its next broader one is asked.
    pub least: NonZeroUsize,
}

/// What finished jobs have taught.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Runtimes<Key> {
    settings: Settings,
    categories: BTreeMap<(Level, Option<Key>), Category>,
}

/// The jobs of a category: sums over all, and the last ones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Category {
    jobs: u64,
    sum: u128,
    squares: u128,
    recent: Window<u64>,
    recent_sum: u128,
}

/// A category, as data.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CategoryDump<Key> {
    /// Its level.
    pub level: Level,
    /// Which of that level; none of all jobs.
    pub key: Option<Key>,
    /// How many jobs were told.
    pub jobs: u64,
    /// The sum of their runtimes, s.
    pub sum: u128,
    /// The sum of their squares.
    pub squares: u128,
    /// The runtimes of the last ones, in the order in which they were told.
    pub recent: Vec<u64>,
}

impl Category {
    fn push(&mut self, runtime: u64, most: usize) {
        self.recent_sum += u128::from(runtime);
        if let Some(oldest) = self.recent.push(runtime, most) {
            self.recent_sum -= u128::from(oldest);
        }
    }

    fn predict(&self, estimator: Estimator) -> u64 {
        let sorted = self.recent.sorted();
        match estimator {
            Estimator::Mean => mean(self.sum, u128::from(self.jobs)),
            Estimator::RecentMean => mean(self.recent_sum, sorted.len() as u128),
            Estimator::Quantile(choice) => {
                let runtime = sorted.get(choice.position(sorted.len())).copied().unwrap_or(0);
                (runtime as f64 * choice.margin() * (1.0 - 1e-12)).ceil() as u64
            }
        }
    }

    fn predicted(&self, level: Level, estimator: Estimator) -> Predicted {
        let runtime = span(self.predict(estimator)).max(Span(1));
        Predicted { runtime, deviation: span(self.deviation()), level, jobs: self.jobs }
    }

    fn deviation(&self) -> u64 {
        let jobs = self.jobs.max(1) as f64;
        let mean = self.sum as f64 / jobs;
        (self.squares as f64 / jobs - mean * mean).max(0.0).sqrt().round() as u64
    }
}

/// Rounded half up.
fn mean(sum: u128, count: u128) -> u64 {
    let count = count.max(1);
    ((sum + count / 2) / count) as u64
}

fn span(seconds: u64) -> Span {
    Span(i64::try_from(seconds).unwrap_or(i64::MAX).min(Span::MAX.0))
}

impl<Key: Ord + Clone> Runtimes<Key> {
    /// Nothing is known yet.
    pub fn new(settings: Settings) -> Runtimes<Key> {
        Runtimes { settings, categories: BTreeMap::new() }
    }

    /// A job of these categories has finished that ran for so long.
    pub fn tell(&mut self, of: &Categories<Key>, runtime: Span) {
        let seconds = runtime.0.max(0) as u64;
        for category in Level::ALL.iter().filter_map(|level| of.at(*level)) {
            let category = self.categories.entry(category).or_default();
            category.jobs += 1;
            category.sum += u128::from(seconds);
            category.squares += u128::from(seconds) * u128::from(seconds);
            category.push(seconds, self.settings.window.get());
        }
    }

    /// How long a job of these categories will run, by those of a level or, where these are too few, of the next
    /// broader one that has enough; by all jobs, however few. None if nothing was told.
    pub fn predict(&self, of: &Categories<Key>, from: Level, estimator: Estimator) -> Option<Predicted> {
        let broader = Level::ALL.iter().copied().filter(|level| *level >= from);
        let found = broader.filter_map(|level| {
            let category = self.categories.get(&of.at(level)?)?;
            let enough = level == Level::All || category.jobs >= self.settings.least.get() as u64;
            enough.then_some((level, category))
        });
        let (level, category) = { found }.next()?;
        Some(category.predicted(level, estimator))
    }

    /// What the jobs of one category say, however few; none if none was told.
    pub fn of_category(&self, level: Level, key: Option<&Key>, estimator: Estimator) -> Option<Predicted> {
        Some(self.categories.get(&(level, key.cloned()))?.predicted(level, estimator))
    }

    /// Every category, by level: the narrowest first.
    pub fn known(&self) -> impl Iterator<Item = (Level, Option<&Key>)> {
        self.categories.keys().map(|(level, key)| (*level, key.as_ref()))
    }

    /// How many categories of a level are known.
    pub fn categories(&self, level: Level) -> usize {
        self.categories.keys().filter(|(other, _)| *other == level).count()
    }

    /// The state, as data, by level and category.
    pub fn dump(&self) -> Vec<CategoryDump<Key>> {
        let dump = |((level, key), category): (&(Level, Option<Key>), &Category)| CategoryDump {
            level: *level,
            key: key.clone(),
            jobs: category.jobs,
            sum: category.sum,
            squares: category.squares,
            recent: category.recent.told().collect(),
        };
        self.categories.iter().map(dump).collect()
    }

    /// Statistics that go on like the dumped ones. With a smaller window than those had, the last jobs count.
    pub fn restore(settings: Settings, dump: &[CategoryDump<Key>]) -> Runtimes<Key> {
        let mut runtimes = Runtimes::new(settings);
        for CategoryDump { level, key, jobs, sum, squares, recent } in dump {
            let mut category = Category { jobs: *jobs, sum: *sum, squares: *squares, ..Category::default() };
            recent.iter().for_each(|runtime| category.push(*runtime, settings.window.get()));
            runtimes.categories.insert((*level, key.clone()), category);
        }
        runtimes
    }
}

/// How far predictions were off, by the level that they came from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Calibration {
    levels: BTreeMap<Level, Errors>,
}

/// Sums over predictions of which the truth is known. Divided by `jobs` they are the mean absolute error, the bias
/// and the share of jobs that ran no longer than predicted: that of a calibrated quantile is the quantile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Errors {
    /// How many.
    pub jobs: u64,
    /// Of the predicted less the true runtimes, without their signs, s.
    pub absolute: u128,
    /// The same with their signs.
    pub signed: i128,
    /// Of the true runtimes, s.
    pub runtimes: u128,
    /// How many ran no longer than predicted.
    pub within: u64,
}

impl Calibration {
    /// A job has finished that was predicted so.
    pub fn tell(&mut self, predicted: &Predicted, runtime: Span) {
        self.levels.entry(predicted.level).or_default().tell(predicted.runtime, runtime);
    }

    /// By level.
    pub fn levels(&self) -> impl Iterator<Item = (Level, Errors)> {
        self.levels.iter().map(|(level, errors)| (*level, *errors))
    }

    /// Over all levels.
    pub fn all(&self) -> Errors {
        self.levels.values().fold(Errors::default(), |sum, errors| Errors {
            jobs: sum.jobs + errors.jobs,
            absolute: sum.absolute + errors.absolute,
            signed: sum.signed + errors.signed,
            runtimes: sum.runtimes + errors.runtimes,
            within: sum.within + errors.within,
        })
    }

    /// What goes on like the dumped one ([`Calibration::levels`]).
    pub fn restore(levels: impl IntoIterator<Item = (Level, Errors)>) -> Calibration {
        Calibration { levels: levels.into_iter().collect() }
    }
}

impl Errors {
    /// One more.
    pub fn tell(&mut self, predicted: Span, runtime: Span) {
        let error = i128::from(predicted.0) - i128::from(runtime.0);
        self.jobs += 1;
        self.absolute += error.unsigned_abs();
        self.signed += error;
        self.runtimes += runtime.0.max(0) as u128;
        self.within += u64::from(error >= 0);
    }
}

#[cfg(test)]
mod tests {
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
            runtimes.tell(&of(executable, user, group), Span(runtime));
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
    fn each_estimator_says_what_it_is_called() {
        let mut runtimes = Runtimes::new(settings(4, 1));
        [1000, 2, 4, 6, 9].iter().for_each(|runtime| runtimes.tell(&of(1, 1, 1), Span(*runtime)));
        let check = |estimator, expected| {
            let found = runtimes.predict(&of(1, 1, 1), Level::User, estimator).unwrap();
            assert_eq!((found.runtime, found.deviation), (Span(expected), Span(398)), "{estimator:?}");
        };
        check(Estimator::Mean, 204);
        check(Estimator::RecentMean, 5);
        check(Estimator::Quantile(Choice::new(0.5, 1.0).unwrap()), 4);
        check(Estimator::Quantile(Choice::new(0.8, 1.5).unwrap()), 14);
        let mut short = Runtimes::new(settings(4, 1));
        short.tell(&of(1, 1, 1), Span(0));
        assert_eq!(short.predict(&of(1, 1, 1), Level::All, Estimator::Mean).unwrap().runtime, Span(1));
    }

    #[test]
    fn errors_are_counted_by_level() {
        let mut calibration = Calibration::default();
        let mut tell = |predicted, level, runtime| {
            let predicted = Predicted { runtime: Span(predicted), deviation: Span(0), level, jobs: 1 };
            calibration.tell(&predicted, Span(runtime));
        };
        tell(10, Level::User, 4);
        tell(10, Level::User, 10);
        tell(10, Level::All, 30);
        let user = Errors { jobs: 2, absolute: 6, signed: 6, runtimes: 14, within: 2 };
        let all = Errors { jobs: 1, absolute: 20, signed: -20, runtimes: 30, within: 0 };
        let levels: Vec<_> = calibration.levels().collect();
        assert_eq!(levels, [(Level::User, user), (Level::All, all)]);
        assert_eq!(calibration.all(), Errors { jobs: 3, absolute: 26, signed: -14, runtimes: 44, within: 2 });
        assert_eq!(Calibration::restore(levels), calibration);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Against looking through all that was told for every question, also after a restart.
        #[test]
        fn equals_the_slow_version(
            window in 1..20_usize,
            least in 1..5_usize,
            told in prop::collection::vec((-1..3_i32, -1..3_i32, -1..2_i32, 0..10_000_i64), 1..80),
            asked in (-1..4_i32, -1..4_i32, -1..3_i32),
            from in 0..4_usize,
            restored_at in 0..80_usize,
        ) {
            let settings = settings(window, least);
            let mut runtimes = Runtimes::new(settings);
            for (number, (executable, user, group, runtime)) in told.iter().enumerate() {
                runtimes.tell(&of(*executable, *user, *group), Span(*runtime));
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
                let of: Vec<i64> = told.iter().filter(|one| same(one)).map(|one| one.3).collect();
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
            let mut sorted = recent;
            sorted.sort_unstable();
            let median = Estimator::Quantile(Choice::new(0.5, 1.0).unwrap());
            let expected = Span(sorted[(sorted.len() - 1) / 2].max(1));
            prop_assert_eq!(runtimes.predict(&asked, from, median).unwrap().runtime, expected);
        }
    }
}
