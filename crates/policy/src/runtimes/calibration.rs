//! Prediction errors, and statistics of runtimes that measure their own errors.

use std::collections::BTreeMap;

use pliant_model::Span;

use super::categories::{Categories, CategoryDump, Estimator, Level, Predicted, Runtimes, Settings};
use super::choice::Choice;

/// Prediction errors by level.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Calibration {
    levels: BTreeMap<Level, Errors>,
}

/// Sums over predictions with known runtimes. Divided by `jobs` they give the mean absolute error, the bias and the
/// coverage: the share of jobs that ran no longer than predicted, which equals the quantile if that is calibrated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Errors {
    /// Number of jobs.
    pub jobs: u64,
    /// Sum of absolute errors, s.
    pub absolute: u128,
    /// Sum of predicted minus actual runtimes, s.
    pub signed: i128,
    /// Sum of actual runtimes, s.
    pub runtimes: u128,
    /// Number of jobs that ran no longer than predicted.
    pub within: u64,
}

impl Calibration {
    /// Records a finished job with its prediction.
    pub fn record(&mut self, predicted: &Predicted, runtime: Span) {
        self.levels.entry(predicted.level).or_default().record(predicted.runtime, runtime);
    }

    /// The errors of each level.
    pub fn levels(&self) -> impl Iterator<Item = (Level, Errors)> {
        self.levels.iter().map(|(level, errors)| (*level, *errors))
    }

    /// The errors over all levels.
    pub fn all(&self) -> Errors {
        self.levels.values().fold(Errors::default(), |sum, errors| Errors {
            jobs: sum.jobs + errors.jobs,
            absolute: sum.absolute + errors.absolute,
            signed: sum.signed + errors.signed,
            runtimes: sum.runtimes + errors.runtimes,
            within: sum.within + errors.within,
        })
    }

    /// Restores a calibration from its levels ([`Calibration::levels`]).
    pub fn restore(levels: impl IntoIterator<Item = (Level, Errors)>) -> Calibration {
        Calibration { levels: levels.into_iter().collect() }
    }
}

impl Errors {
    /// Records one prediction.
    pub fn record(&mut self, predicted: Span, runtime: Span) {
        let error = i128::from(predicted.0) - i128::from(runtime.0);
        self.jobs += 1;
        self.absolute += error.unsigned_abs();
        self.signed += error;
        self.runtimes += runtime.0.max(0) as u128;
        self.within += u64::from(error >= 0);
    }
}

/// The quantile that is calibrated.
pub const CALIBRATED: f64 = 0.8;

/// Statistics of runtimes that compare each finished job with its prediction before they learn from it.
#[derive(Clone, Debug)]
pub struct CalibratedRuntimes {
    runtimes: Runtimes<String>,
    /// Errors of the mean.
    mean: Calibration,
    /// Errors of the [`CALIBRATED`] quantile.
    quantile: Calibration,
}

/// Calibrated statistics as data.
#[derive(Clone, PartialEq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CalibratedDump {
    categories: Vec<CategoryDump<String>>,
    errors: Vec<(Level, Errors)>,
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    quantile: Vec<(Level, Errors)>,
}

impl CalibratedDump {
    /// True if no job was recorded.
    pub fn is_nothing(&self) -> bool {
        self.categories.is_empty()
    }
}

/// A summary of the recorded jobs of a category.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// The category's level.
    pub level: Level,
    /// The key of the category at this level; none for all jobs.
    pub key: Option<String>,
    /// Number of recorded jobs.
    pub jobs: u64,
    /// Their mean runtime.
    pub mean: Span,
    /// The standard deviation.
    pub deviation: Span,
    /// Median of the recent runtimes.
    pub median: Span,
    /// 95th percentile of the recent runtimes.
    pub p95: Span,
}

impl CalibratedRuntimes {
    /// Empty statistics.
    pub fn new(settings: Settings) -> CalibratedRuntimes {
        CalibratedRuntimes::restore(settings, CalibratedDump::default())
    }

    /// Restores dumped statistics.
    pub fn restore(settings: Settings, dump: CalibratedDump) -> CalibratedRuntimes {
        let CalibratedDump { categories, errors, quantile } = dump;
        CalibratedRuntimes {
            runtimes: Runtimes::restore(settings, &categories),
            mean: Calibration::restore(errors),
            quantile: Calibration::restore(quantile),
        }
    }

    /// The state as data.
    pub fn dump(&self) -> CalibratedDump {
        CalibratedDump {
            categories: self.runtimes.dump(),
            errors: self.mean.levels().collect(),
            quantile: self.quantile.levels().collect(),
        }
    }

    /// Records a job that took `runtime`; `unit` is its runtime per unit of its executable ([`Runtimes::record_scaled`]).
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

    /// The expected runtime of a job of these categories; none if no job was recorded.
    pub fn expected(&self, of: &Categories<String>) -> Option<Predicted> {
        self.runtimes.predict(of, Level::Executable, Estimator::Mean)
    }

    /// Summaries of categories: of executables, users and groups the `most` with the most jobs.
    pub fn summaries(&self, most: usize) -> Vec<Summary> {
        let quantile = |share| Choice::new(share, 1.0).ok().map(Estimator::Quantile);
        let (median, p95) = (quantile(0.5), quantile(0.95));
        let mut known: Vec<Summary> = Vec::new();
        for (level, key) in self.runtimes.known() {
            let estimate = |estimator| self.runtimes.of_category(level, key, estimator);
            let (Some(mean), Some(median), Some(p95)) =
                (estimate(Estimator::Mean), median.and_then(estimate), p95.and_then(estimate))
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

    /// Errors of predicted means.
    pub fn mean_errors(&self) -> Errors {
        self.mean.all()
    }

    /// Errors of predicted [`CALIBRATED`] quantiles.
    pub fn quantile_errors(&self) -> Errors {
        self.quantile.all()
    }
}
