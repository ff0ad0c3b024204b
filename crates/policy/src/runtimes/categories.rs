//! Predicts the runtime of a job from finished jobs of its category (paper 002, sections 3 and 5).
//!
//! A job belongs to the categories of its executable, its user, its group and all jobs. A prediction at one level falls back
//! to the next broader level while its category has too few jobs. Means are over all recorded jobs, as in the paper;
//! quantiles and recent means are over a window of the last ones.
//!
//! The caller decides what is past: recording jobs as they finish gives a *causal* estimator; recording a whole log
//! before the first prediction gives the paper's figures, which see the future. Recording costs O(log categories +
//! window), a prediction O(log categories).

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use pliant_model::Span;

use super::choice::Choice;
use super::window::Window;

crate::named_enum! {
    /// What the jobs of a category share, from the narrowest to the broadest.
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

/// The known categories of a job.
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
    /// The key of the job's category at a level, if known.
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

/// An estimator of the runtime of a category.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Estimator {
    /// Mean of all jobs.
    Mean,
    /// Mean of the recent jobs.
    RecentMean,
    /// An order statistic of the recent jobs, with a margin.
    Quantile(Choice),
}

/// A predicted runtime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Predicted {
    /// The runtime, at least 1 s.
    pub runtime: Span,
    /// The standard deviation of the category's runtimes.
    pub deviation: Span,
    /// The level of the category.
    pub level: Level,
    /// The number of jobs in the category.
    pub jobs: u64,
}

/// Settings of the statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Settings {
    /// Number of recent jobs per category for quantiles and recent means.
    pub window: NonZeroUsize,
    /// A category with fewer jobs is not used; its next broader one is.
    pub least: NonZeroUsize,
}

impl Settings {
    /// The settings of servers and agents: 200 recent jobs per category, at least 3.
    pub const FEDERATION: Settings = Settings {
        window: NonZeroUsize::new(200).expect("more than none"),
        least: NonZeroUsize::new(3).expect("more than none"),
    };
}

/// Statistics of runtimes by category.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Runtimes<Key> {
    settings: Settings,
    categories: BTreeMap<(Level, Option<Key>), Category>,
}

/// The jobs of a category: sums over all jobs, and the recent runtimes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Category {
    jobs: u64,
    sum: u128,
    squares: u128,
    recent: Window<u64>,
    recent_sum: u128,
}

/// A category as data.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CategoryDump<Key> {
    /// Its level.
    pub level: Level,
    /// The key of the category at this level; none for all jobs.
    pub key: Option<Key>,
    /// Number of recorded jobs.
    pub jobs: u64,
    /// Sum of runtimes, s.
    pub sum: u128,
    /// Sum of squared runtimes.
    pub squares: u128,
    /// Recent runtimes in the order of recording.
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

    /// The mean of the recent runtimes above `seconds`.
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
    /// Empty statistics.
    pub fn new(settings: Settings) -> Runtimes<Key> {
        Runtimes { settings, categories: BTreeMap::new() }
    }

    /// Records the runtime of a finished job.
    pub fn record(&mut self, of: &Categories<Key>, runtime: Span) {
        self.record_scaled(of, runtime, runtime);
    }

    /// Records a finished job whose runtime scales with its arguments. `unit` is its runtime divided by that scale; only the
    /// category of its executable gets it, since units of different executables are not comparable.
    pub fn record_scaled(&mut self, of: &Categories<Key>, unit: Span, runtime: Span) {
        for level in Level::ALL.iter().copied() {
            let Some(category) = of.at(level) else { continue };
            let sample = if level == Level::Executable { unit } else { runtime };
            let seconds = sample.0.max(0) as u64;
            let category = self.categories.entry(category).or_default();
            category.jobs += 1;
            category.sum += u128::from(seconds);
            let square = u128::from(seconds) * u128::from(seconds);
            category.squares = category.squares.saturating_add(square);
            category.push(seconds, self.settings.window.get());
        }
    }

    /// Predicts the runtime of a job from level `from` or the next broader level with enough jobs; from all jobs, however
    /// few. None if no job was recorded.
    pub fn predict(&self, of: &Categories<Key>, from: Level, estimator: Estimator) -> Option<Predicted> {
        let (level, category) = self.first_with_samples(of, from)?;
        Some(category.predicted(level, estimator))
    }

    /// The first category from level `from` on with enough jobs.
    fn first_with_samples(&self, of: &Categories<Key>, from: Level) -> Option<(Level, &Category)> {
        let broader = Level::ALL.iter().copied().filter(|level| *level >= from);
        let found = broader.filter_map(|level| {
            let category = self.categories.get(&of.at(level)?)?;
            let enough = level == Level::All || category.jobs >= self.least();
            enough.then_some((level, category))
        });
        { found }.next()
    }

    /// Predicts the total runtime of a job that has been running for `elapsed`: the larger of the mean as in
    /// [`Runtimes::predict`] and the mean of the recent jobs that ran longer than `elapsed`. If `elapsed` exceeds all of them,
    /// twice `elapsed`.
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

    /// The prediction from one category, however few its jobs; none if it has none.
    pub fn of_category(&self, level: Level, key: Option<&Key>, estimator: Estimator) -> Option<Predicted> {
        Some(self.categories.get(&(level, key.cloned()))?.predicted(level, estimator))
    }

    /// Categories with fewer jobs are not used.
    pub(super) fn least(&self) -> u64 {
        self.settings.least.get() as u64
    }

    /// Every category with jobs, the narrowest level first.
    pub fn known(&self) -> impl Iterator<Item = (Level, Option<&Key>)> {
        self.categories.keys().map(|(level, key)| (*level, key.as_ref()))
    }

    /// Number of categories of a level.
    pub fn categories(&self, level: Level) -> usize {
        self.categories.keys().filter(|(other, _)| *other == level).count()
    }

    /// The state as data, by level and category.
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

    /// Restores dumped statistics. A smaller window keeps the last runtimes.
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
