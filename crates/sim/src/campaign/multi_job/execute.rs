//! Running a campaign of multi-jobs: logs are read or generated and divided once, then every experiment is run.

use std::path::Path;
use std::sync::Arc;

use pliant_model::{Span, Time, rng::stream_seed};
use pliant_policy::runtimes::Choice;
use pliant_policy::runtimes::{Estimator, Level, Runtimes};
use pliant_trace::generate::grid_log;
use pliant_trace::{LoadOptions, Workload};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::results::{self, ErrorRow, ExperimentRow, LogRow, Results};
use super::{Log, LogSource, MultiJobCampaign, arriving, frozen};
use crate::campaign::{CampaignError, execute::checked};
use crate::multi_job::{Background, background, errors};

/// A log that was divided into clusters, and what the whole of it teaches.
pub(super) struct Divided<'a> {
    pub(super) log: &'a Log,
    pub(super) background: Background,
    pub(super) whole: Arc<Runtimes<i32>>,
}

/// Runs a campaign into `dir`, with that many threads (0: one per core).
pub fn run(campaign: &MultiJobCampaign, dir: &Path, threads: usize) -> Result<Results, CampaignError> {
    if campaign.logs.is_empty() {
        return Err(CampaignError::NoWorkload);
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(checked(threads)?)
        .build()
        .map_err(|error| CampaignError::Threads(error.to_string()))?;
    let results = pool.install(|| {
        let logs: Vec<Divided<'_>> =
            campaign.logs.par_iter().map(|log| divide(campaign, log)).collect::<Result<_, _>>()?;
        let experiments = experiments(campaign, &logs)?;
        let frozen = campaign.frozen.iter().flat_map(|one| frozen::run(campaign, one, &logs)).collect();
        let mut arriving = (Vec::new(), Vec::new());
        for one in &campaign.arriving {
            let (cells, ratios) = arriving::run(campaign, one, &logs)?;
            arriving.0.extend(cells);
            arriving.1.extend(ratios);
        }
        let errors = logs.par_iter().flat_map_iter(|log| error_rows(campaign, log)).collect();
        let rows = logs.iter().map(log_row).collect();
        Ok::<_, CampaignError>(Results::new(campaign, rows, experiments, frozen, arriving, errors))
    })?;
    results::write(&results, dir)?;
    Ok(results)
}

pub(super) fn failed(key: &str, problem: impl ToString) -> CampaignError {
    CampaignError::Measure { key: key.to_owned(), problem: problem.to_string() }
}

/// The experiments on the logs that they are of; an error where there is no moment to start from.
fn experiments(
    campaign: &MultiJobCampaign,
    logs: &[Divided<'_>],
) -> Result<Vec<ExperimentRow>, CampaignError> {
    let row = |name: &String, log: &Divided<'_>, processors: &[u32], starts: usize, delays: &[Span]| {
        let longest = longest(delays);
        let within = range(log, longest);
        if within <= Span::ZERO {
            let key = format!("{name} on {}", log.log.name);
            return Err(CampaignError::NoStart { key, delay: longest, span: log.background.span });
        }
        Ok(ExperimentRow {
            experiment: name.clone(),
            log: log.log.name.clone(),
            processors: processors.to_vec(),
            starts,
            within_s: within.0,
            longest_delay_s: longest.0,
        })
    };
    let frozen = campaign.frozen.iter().flat_map(|one| {
        one.logs.iter().map(move |log| row(&one.name, &logs[*log], &[1], one.starts, &one.delays))
    });
    let arriving = campaign.arriving.iter().flat_map(|one| {
        one.logs.iter().map(move |log| row(&one.name, &logs[*log], &one.processors, one.starts, &one.delays))
    });
    frozen.chain(arriving).collect()
}

fn longest(delays: &[Span]) -> Span {
    delays.iter().copied().max().unwrap_or(Span::ZERO)
}

/// How far into a log a start may be, so that what comes before a multi-job still fits; not more than nothing if nowhere.
fn range(log: &Divided<'_>, longest_delay: Span) -> Span {
    // In the last tenth nobody would come after the multi-job.
    Span(log.background.span.0 * 9 / 10) - longest_delay
}

/// Moments of a log, drawn uniformly from [`range`]: the same ones for every delay, so that cells differ in nothing else.
pub(super) fn starts(
    campaign: &MultiJobCampaign,
    key: &str,
    log: &Divided<'_>,
    count: usize,
    delays: &[Span],
) -> Vec<Time> {
    let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(campaign.seed, &format!("{key} starts")));
    let last = range(log, longest(delays)).0.max(0);
    let mut all: Vec<Time> = (0..count).map(|_| Time(rng.random_range(0..=last))).collect();
    all.sort_unstable();
    all
}

fn divide<'a>(campaign: &MultiJobCampaign, log: &'a Log) -> Result<Divided<'a>, CampaignError> {
    let workload: Workload = match &log.source {
        LogSource::File { path, .. } => {
            let path = campaign.path(path)?;
            pliant_trace::load(&path, &LoadOptions::default())?
        }
        LogSource::Generated(what) => grid_log(what, campaign.seed),
    };
    let background = background(&workload, log.division).map_err(|error| failed(&log.name, error))?;
    let whole = Arc::new(background.whole(campaign.settings));
    Ok(Divided { log, background, whole })
}

fn log_row(log: &Divided<'_>) -> LogRow {
    let background = &log.background;
    let mut work = vec![0.0; background.clusters];
    for job in &background.jobs {
        work[job.cluster] += job.runtime.0 as f64 / background.span.0 as f64;
    }
    let [executables, users, groups] = background.categories;
    LogRow {
        log: log.log.name.clone(),
        jobs: background.jobs.len(),
        span_s: background.span.0,
        executables,
        users,
        groups,
        busy_processors: work,
    }
}

/// How far each estimator is off on a log, learning as jobs end.
fn error_rows(campaign: &MultiJobCampaign, log: &Divided<'_>) -> Vec<ErrorRow> {
    let quantile = |quantile| Choice::new(quantile, 1.0).map(Estimator::Quantile);
    let mut estimators = vec![("mean", Estimator::Mean), ("recent-mean", Estimator::RecentMean)];
    estimators.extend(quantile(0.5).map(|median| ("quantile 0.5", median)));
    estimators.extend(quantile(0.8).map(|quantile| ("quantile 0.8", quantile)));
    estimators.extend(quantile(0.95).map(|quantile| ("quantile 0.95", quantile)));
    let mut asked = Vec::new();
    let mut names = Vec::new();
    for level in Level::ALL {
        for (name, estimator) in &estimators {
            asked.push((*level, *estimator));
            names.push((*level, *name));
        }
    }
    let found = errors(&log.background, campaign.settings, &asked);
    let row = |((level, estimator), calibration): ((Level, &str), _)| {
        ErrorRow::of(&log.log.name, level, estimator, &calibration)
    };
    names.into_iter().zip(found).map(row).collect()
}
