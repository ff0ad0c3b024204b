//! How far predictions were off, and statistics that measure that as they learn.

use std::collections::BTreeMap;

use pliant_model::Span;

use super::categories::{Categories, CategoryDump, Estimator, Level, Predicted, Runtimes, Settings};
use super::choice::Choice;

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
    pub fn record(&mut self, predicted: &Predicted, runtime: Span) {
        self.levels.entry(predicted.level).or_default().record(predicted.runtime, runtime);
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
    pub fn record(&mut self, predicted: Span, runtime: Span) {
        let error = i128::from(predicted.0) - i128::from(runtime.0);
        self.jobs += 1;
        self.absolute += error.unsigned_abs();
        self.signed += error;
        self.runtimes += runtime.0.max(0) as u128;
        self.within += u64::from(error >= 0);
    }
}

/// The share of jobs that are to run no longer than what is predicted as the quantile of that share.
pub const CALIBRATED: f64 = 0.8;

/// Statistics of runtimes that compare each job with what they would have predicted for it, before they learn from it.
#[derive(Clone, Debug)]
pub struct CalibratedRuntimes {
    runtimes: Runtimes<String>,
    /// Of the mean.
    mean: Calibration,
    /// Of the [`CALIBRATED`] quantile.
    quantile: Calibration,
}

/// The same as data.
#[derive(Clone, PartialEq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CalibratedDump {
    categories: Vec<CategoryDump<String>>,
    errors: Vec<(Level, Errors)>,
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    quantile: Vec<(Level, Errors)>,
}

impl CalibratedDump {
    /// True if nothing was learned.
    pub fn is_nothing(&self) -> bool {
        self.categories.is_empty()
    }
}

/// What is known of the jobs of a category.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// The category's level.
    pub level: Level,
    /// Which of that level; none of all jobs.
    pub key: Option<String>,
    /// How many were told.
    pub jobs: u64,
    /// Their mean runtime.
    pub mean: Span,
    /// The standard deviation.
    pub deviation: Span,
    /// What half of the last ones took at most.
    pub median: Span,
    /// What 95 % of the last ones took at most.
    pub p95: Span,
}

impl CalibratedRuntimes {
    /// Nothing is known yet.
    pub fn new(settings: Settings) -> CalibratedRuntimes {
        CalibratedRuntimes::restore(settings, CalibratedDump::default())
    }

    /// Statistics that go on like the dumped ones.
    pub fn restore(settings: Settings, dump: CalibratedDump) -> CalibratedRuntimes {
        let CalibratedDump { categories, errors, quantile } = dump;
        CalibratedRuntimes {
            runtimes: Runtimes::restore(settings, &categories),
            mean: Calibration::restore(errors),
            quantile: Calibration::restore(quantile),
        }
    }

    /// The state, as data.
    pub fn dump(&self) -> CalibratedDump {
        CalibratedDump {
            categories: self.runtimes.dump(),
            errors: self.mean.levels().collect(),
            quantile: self.quantile.levels().collect(),
        }
    }

    /// A job has ended that took `runtime`, `unit` of it for each unit of its executable ([`Runtimes::record_scaled`]).
    pub fn record(&mut self, of: &Categories<String>, unit: Span, runtime: Span) {
        let truth = |level| if level == Level::Executable { unit } else { runtime };
        if let Some(predicted) = self.expected(of) {
            self.mean.record(&predicted, truth(predicted.level));
        }
        let quantile = Choice::new(CALIBRATED, 1.0).ok().map(Estimator::Quantile);
        let predicted = quantile.and_then(|quantile| self.runtimes.predict(of, Level::Executable, quantile));
        if let Some(predicted) = predicted {
            self.quantile.record(&predicted, truth(predicted.level));
        }
        self.runtimes.record_scaled(of, unit, runtime);
    }

    /// How long a job of these categories is expected to run; none if nothing was told.
    pub fn expected(&self, of: &Categories<String>) -> Option<Predicted> {
        self.runtimes.predict(of, Level::Executable, Estimator::Mean)
    }

    /// What is known by category: of executables, users and groups those with the most jobs, `most` of each.
    pub fn summaries(&self, most: usize) -> Vec<Summary> {
        let quantile = |share| Choice::new(share, 1.0).ok().map(Estimator::Quantile);
        let (median, p95) = (quantile(0.5), quantile(0.95));
        let mut known: Vec<Summary> = Vec::new();
        for (level, key) in self.runtimes.known() {
            let told = |estimator| self.runtimes.of_category(level, key, estimator);
            let (Some(mean), Some(median), Some(p95)) =
                (told(Estimator::Mean), median.and_then(told), p95.and_then(told))
            else {
                continue;
            };
            known.push(Summary {
                level,
                key: key.cloned(),
                jobs: mean.jobs,
                mean: mean.runtime,
                deviation: mean.deviation,
                median: median.runtime,
                p95: p95.runtime,
            });
        }
        known.sort_by_key(|one| (one.level, std::cmp::Reverse(one.jobs)));
        let mut counts: BTreeMap<Level, usize> = BTreeMap::new();
        known.retain(|one| {
            let count = counts.entry(one.level).or_default();
            *count += 1;
            *count <= most
        });
        known
    }

    /// How far means were off.
    pub fn mean_errors(&self) -> Errors {
        self.mean.all()
    }

    /// How far [`CALIBRATED`] quantiles were off: the share of jobs within them is to be that.
    pub fn quantile_errors(&self) -> Errors {
        self.quantile.all()
    }
}
