//! What the verbs of campaigns warn of: records that cannot be used, and workloads that do not fit their platform.

use std::collections::BTreeMap;

use pliant_sim::campaign::multi_job::ExperimentRow;
use pliant_sim::campaign::{DamagedLine, FolderContents, SimulationResults, SkippedWorkload};

use crate::table::{counted, grouped};

/// How many warnings of one kind are printed.
const SHOWN: usize = 5;
/// Refused jobs are worth a warning from one in so many.
const WARN_FROM: f64 = 10.0;

/// Warnings of a verb, printed on standard error as they come and kept for `--format json`.
#[derive(Default)]
pub(crate) struct Warnings(Vec<String>);

impl Warnings {
    /// All of them, each a sentence.
    pub(crate) fn all(&self) -> &[String] {
        &self.0
    }

    /// Optional workloads whose file is absent.
    pub(crate) fn skipped(&mut self, skipped: &[SkippedWorkload]) {
        self.add(skipped.iter().map(|SkippedWorkload { workload, file }| {
            format!(
                "workload `{workload}` is skipped: no file {} in the folder of the campaign file or in PLIANT_TRACES",
                file.display()
            )
        }));
    }

    /// Records that cannot be used, and the handling of their runs.
    pub(crate) fn damaged(&mut self, damaged: &[DamagedLine], consequence: &str) {
        self.add(damaged.iter().map(|damage| format!("{damage}; {consequence}")));
    }

    /// Results that are not of all runs.
    pub(crate) fn missing(&mut self, contents: &FolderContents) {
        let count = contents.missing.len() as u64;
        self.add((count > 0).then(|| {
            let planned = counted(contents.planned as u64, "run");
            format!("{} of {planned} are missing: the results are of the others", grouped(count))
        }));
    }

    /// Workloads of which much is refused.
    pub(crate) fn refused(&mut self, results: &SimulationResults) {
        self.add(fits(results).into_iter().filter_map(|((workload, platform), fit)| {
            let what = format!("workload `{workload}` on platform `{platform}`");
            if fit.without_jobs > 0 {
                let (none, runs) = (fit.without_jobs, counted(fit.runs as u64, "run"));
                return Some(format!("{what}: no job ran in {none} of {runs}, all were refused"));
            }
            (fit.refused * WARN_FROM > fit.jobs).then(|| {
                format!(
                    "{what}: up to {} of {} are refused; the results cover the other jobs only",
                    grouped(fit.refused as u64),
                    counted(fit.jobs as u64, "job")
                )
            })
        }));
    }

    /// Experiments with multi-jobs whose starts lie so close together that they are hardly more than one.
    pub(crate) fn close_starts(&mut self, experiments: &[ExperimentRow]) {
        self.add(experiments.iter().filter(|row| row.starts_overlap()).map(|row| {
            let ExperimentRow { experiment, log, starts, within_s, longest_delay_s, .. } = row;
            format!(
                "experiment `{experiment}` on `{log}`: all {starts} starts lie within {} s, less than the {} s for which the log \
                 runs after each, so that they have mostly the same jobs; shorten `delays_s`, or cut it into fewer `stretches`",
                grouped(*within_s as u64),
                grouped(*longest_delay_s as u64),
            )
        }));
    }

    fn add(&mut self, warnings: impl IntoIterator<Item = String>) {
        let before = self.0.len();
        self.0.extend(warnings);
        for warning in self.0[before..].iter().take(SHOWN) {
            stderr_line!("warning: {warning}");
        }
        let more = (self.0.len() - before).saturating_sub(SHOWN);
        if more > 0 {
            stderr_line!("warning: {more} more like this");
        }
    }
}

/// True if there are runs and no job ran in any: the platforms are impossible.
pub(crate) fn nothing_ran(results: &SimulationResults) -> bool {
    let fits = fits(results);
    !fits.is_empty() && fits.values().all(|fit| fit.without_jobs == fit.runs)
}

/// How a workload fits its platform.
#[derive(Default)]
struct WorkloadFit {
    runs: usize,
    /// Runs in which every job was refused.
    without_jobs: usize,
    /// Refused jobs of the run that refused most, and all its jobs.
    refused: f64,
    jobs: f64,
}

/// By workload and platform.
fn fits(results: &SimulationResults) -> BTreeMap<(&str, &str), WorkloadFit> {
    let mut fits: BTreeMap<(&str, &str), WorkloadFit> = BTreeMap::new();
    for run in &results.runs {
        let metric = |name: &str| run.metrics.get(name).copied().unwrap_or(0.0);
        let (ran, refused) = (metric("jobs"), metric("refused"));
        let fit = fits.entry((&run.workload, &run.platform)).or_default();
        fit.runs += 1;
        fit.without_jobs += usize::from(ran == 0.0 && refused > 0.0);
        if refused > fit.refused {
            (fit.refused, fit.jobs) = (refused, ran + refused);
        }
    }
    fits
}
