//! Measures prediction errors on a log: each job is predicted at its submission from the jobs ended by then (as if started at
//! once), and compared at its end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pliant_model::Time;
use pliant_policy::runtimes::{Calibration, Estimator, Level, Predicted, Runtimes, Settings};

use super::{Background, BackgroundJob};

/// The errors of estimators that learn as jobs end, each from a category level on. O(jobs (log jobs + window)).
pub fn errors(
    background: &Background,
    settings: Settings,
    estimators: &[(Level, Estimator)],
) -> Vec<Calibration> {
    let mut runtimes: Runtimes<i32> = Runtimes::new(settings);
    let mut calibrations = vec![Calibration::default(); estimators.len()];
    let mut predictions: Vec<Vec<Option<Predicted>>> = vec![Vec::new(); background.jobs.len()];
    let mut ends: BinaryHeap<Reverse<(Time, usize)>> = BinaryHeap::new();
    let mut end = |runtimes: &mut Runtimes<i32>, predicted: &[Option<Predicted>], job: &BackgroundJob| {
        runtimes.record(&job.categories, job.runtime);
        for (calibration, predicted) in calibrations.iter_mut().zip(predicted) {
            predicted.iter().for_each(|predicted| calibration.record(predicted, job.runtime));
        }
    };
    for (at, job) in background.jobs.iter().enumerate() {
        while let Some(Reverse((_, ended))) =
            ends.peek().copied().filter(|Reverse((when, _))| *when <= job.submit)
        {
            ends.pop();
            end(&mut runtimes, &std::mem::take(&mut predictions[ended]), &background.jobs[ended]);
        }
        let predict =
            |(level, estimator): &(Level, Estimator)| runtimes.predict(&job.categories, *level, *estimator);
        predictions[at] = estimators.iter().map(predict).collect();
        ends.push(Reverse((job.submit + job.runtime, at)));
    }
    while let Some(Reverse((_, ended))) = ends.pop() {
        end(&mut runtimes, &std::mem::take(&mut predictions[ended]), &background.jobs[ended]);
    }
    calibrations
}
