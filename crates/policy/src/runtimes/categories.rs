//! How long the next job of a category will run, judging by those that have finished (paper 002, sections 3 and 5; spec A.2.2).
//!
//! A job belongs to the category of its executable, of its user and of its group, and to the one of all jobs. What is
//! asked of one level falls back to the next broader one while too few jobs of the category are known. The means are
//! over all jobs that were told, the paper's; the quantiles and recent means over a window of the last ones.
//!
//! What the past is, is for the caller to say: jobs told as they finish make a *causal* estimator; a whole log told
//! before its first job is predicted gives the paper's figures, which see the future. Telling a job costs
//! O(log categories + window), a prediction O(log categories).

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use pliant_model::Span;

use super::choice::Choice;
use super::window::Window;

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

impl Settings {
    /// What servers and agents count of the jobs of a federation: of a category the last 200 for what is recent, and at least 3.
    pub const FEDERATION: Settings = Settings {
        window: NonZeroUsize::new(200).expect("more than none"),
        least: NonZeroUsize::new(3).expect("more than none"),
    };
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
        match estimator {
            Estimator::Mean => mean(self.sum, u128::from(self.jobs)),
            Estimator::RecentMean => mean(self.recent_sum, self.recent.len() as u128),
            Estimator::Quantile(choice) => choice.with_margin(choice.of(&self.recent).unwrap_or(0) as f64),
        }
    }

    /// The mean of the last ones that ran longer than that.
    fn longer_than(&self, seconds: u64) -> Option<u64> {
        let longer = self.recent.above(seconds);
        let sum = longer.iter().map(|runtime| u128::from(*runtime)).sum();
        (!longer.is_empty()).then(|| mean(sum, longer.len() as u128))
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
    pub fn record(&mut self, of: &Categories<Key>, runtime: Span) {
        self.record_scaled(of, runtime, runtime);
    }

    /// The same of a job of an executable that takes longer or shorter by what it is asked for: of `unit`, its runtime divided
    /// by that, only its executable is told, as such units of several executables have nothing in common.
    pub fn record_scaled(&mut self, of: &Categories<Key>, unit: Span, runtime: Span) {
        for level in Level::ALL.iter().copied() {
            let Some(category) = of.at(level) else { continue };
            let told = if level == Level::Executable { unit } else { runtime };
            let seconds = told.0.max(0) as u64;
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
        let (level, category) = self.first_with_samples(of, from)?;
        Some(category.predicted(level, estimator))
    }

    /// The first category from a level on that has enough jobs.
    fn first_with_samples(&self, of: &Categories<Key>, from: Level) -> Option<(Level, &Category)> {
        let broader = Level::ALL.iter().copied().filter(|level| *level >= from);
        let found = broader.filter_map(|level| {
            let category = self.categories.get(&of.at(level)?)?;
            let enough = level == Level::All || category.jobs >= self.least();
            enough.then_some((level, category))
        });
        { found }.next()
    }

    /// How long a job will run in all that has been running for so long: as in [`Runtimes::predict`] by their mean, or as the
    /// mean of those of the last ones that ran longer than it has, whichever is more. One that has outlived all of that is
    /// like none of them: it is expected to run as long again as it has.
    pub fn predict_running(&self, of: &Categories<Key>, from: Level, elapsed: Span) -> Option<Predicted> {
        let (level, category) = self.first_with_samples(of, from)?;
        let predicted = category.predicted(level, Estimator::Mean);
        if elapsed <= Span::ZERO {
            return Some(predicted);
        }
        let longer = category.longer_than(elapsed.0 as u64).map_or(Span::ZERO, span);
        let like_others = predicted.runtime.max(longer);
        let again = Span(elapsed.0.saturating_mul(2)).min(Span::MAX);
        let runtime = if like_others > elapsed { like_others } else { again };
        Some(Predicted { runtime, ..predicted })
    }

    /// What the jobs of one category say, however few; none if none was told.
    pub fn of_category(&self, level: Level, key: Option<&Key>, estimator: Estimator) -> Option<Predicted> {
        Some(self.categories.get(&(level, key.cloned()))?.predicted(level, estimator))
    }

    /// A category with fewer jobs says nothing.
    pub(super) fn least(&self) -> u64 {
        self.settings.least.get() as u64
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
            recent: category.recent.values().collect(),
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
