//! Runs a campaign of multi-jobs: logs are read or generated and divided once, then every experiment is run.

use std::sync::Arc;
use std::time::Instant;

use pliant_model::campaign::Results;
use pliant_model::{Span, Time, rng::stream_seed};
use pliant_policy::runtimes::{Calibration, Choice, Estimator, Level, Runtimes};
use pliant_trace::generate::grid_log;
use pliant_trace::{LoadOptions, Workload};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::results::{self, Plan, Record};
use super::{Arriving, ErrorRow, Frozen, Log, LogRow, LogSource, MultiJobCampaign, arriving, frozen};
use crate::campaign::experiment::{Experiment, Files, RecordSink, Shared};
use crate::campaign::{CampaignError, Fingerprint, Kind};
use crate::multi_job::{Background, background, errors};

/// A campaign of multi-jobs in execution.
pub(in crate::campaign) struct MultiJobs<'a> {
    campaign: &'a MultiJobCampaign,
    groups: Vec<Group<'a>>,
    logs: Vec<Shared<Divided<'a>>>,
}

/// The cells that share expensive inputs.
enum Group<'a> {
    /// A log: one cell.
    Log(usize),
    /// The pending work of a log after a delay: a cell for each distribution and number of instances.
    Frozen { frozen: &'a Frozen, log: usize, job_time: Option<Span>, delay: Span },
    /// A start in a log: a cell for each delay.
    Arriving { arriving: &'a Arriving, log: usize, start: usize },
}

/// A log divided into clusters, with the runtime statistics of the whole log.
pub(super) struct Divided<'a> {
    pub(super) log: &'a Log,
    pub(super) background: Background,
    pub(super) whole: Arc<Runtimes<i32>>,
}

impl<'a> MultiJobs<'a> {
    pub(in crate::campaign) fn new(campaign: &'a MultiJobCampaign) -> MultiJobs<'a> {
        let mut groups: Vec<Group<'_>> = (0..campaign.logs.len()).map(Group::Log).collect();
        for frozen in &campaign.frozen {
            for log in frozen.logs.iter().copied() {
                for job_time in frozen.job_times.iter().copied() {
                    let delays = frozen.delays.iter().copied();
                    groups.extend(delays.map(|delay| Group::Frozen { frozen, log, job_time, delay }));
                }
            }
        }
        for arriving in &campaign.arriving {
            for log in arriving.logs.iter().copied() {
                groups.extend((0..arriving.starts).map(|start| Group::Arriving { arriving, log, start }));
            }
        }
        MultiJobs { campaign, groups, logs: campaign.logs.iter().map(|_| Shared::new()).collect() }
    }

    fn log(&self, at: usize) -> Result<&Divided<'a>, CampaignError> {
        self.logs[at].get(|| divide(self.campaign, at))
    }
}

impl Group<'_> {
    /// The keys of its cells.
    fn keys(&self, logs: &[Log]) -> Vec<String> {
        match self {
            Self::Log(log) => vec![format!("log_{}", logs[*log].name)],
            Self::Frozen { frozen, log, job_time, delay } => {
                let jobs = job_time.map_or("log".to_owned(), |time| time.0.to_string());
                let prefix =
                    format!("frozen_{}_{}_jobs-{jobs}_delay-{}", frozen.name, logs[*log].name, delay.0);
                let key = |(law, instances)| format!("{prefix}_{}_{instances}", super::law_name(law));
                frozen::cells(frozen).map(key).collect()
            }
            Self::Arriving { arriving, log, start } => {
                let prefix = format!("arriving_{}_{}_start-{}", arriving.name, logs[*log].name, start + 1);
                arriving.delays.iter().map(|delay| format!("{prefix}_delay-{}", delay.0)).collect()
            }
        }
    }
}

impl Experiment for MultiJobs<'_> {
    type Record = Record;
    type Plan = Plan;

    const KIND: Kind = Kind::MultiJob;

    fn name(&self) -> &str {
        &self.campaign.name
    }

    fn check(&self) -> Result<(), CampaignError> {
        if self.campaign.logs.is_empty() { Err(CampaignError::NoWorkload) } else { Ok(()) }
    }

    fn identify(&self, fingerprint: &mut Fingerprint) -> Result<(), CampaignError> {
        // The name, the folder of the file and whether a log is optional do not change results.
        let (name, base, log_dirs) = Default::default();
        let mut campaign = MultiJobCampaign { name, base, log_dirs, ..self.campaign.clone() };
        for log in &mut campaign.logs {
            if let LogSource::File { path, optional } = &mut log.source {
                *optional = false;
                fingerprint.file(&self.campaign.path(path)?)?;
            }
        }
        fingerprint.add(&campaign);
        Ok(())
    }

    fn plan(&self) -> Plan {
        Plan::of(self.campaign)
    }

    fn groups(&self) -> Vec<Vec<String>> {
        self.groups.iter().map(|group| group.keys(&self.campaign.logs)).collect()
    }

    fn run(&self, group: usize, cells: &[usize], keep: &RecordSink<'_, Record>) -> Result<(), CampaignError> {
        let Self { campaign, groups, .. } = self;
        let started = Instant::now();
        match groups[group] {
            Group::Log(log) => {
                let log = self.log(log)?;
                let record = Record::Log { log: log_row(log), errors: error_rows(campaign, log) };
                keep(0, record, started.elapsed().as_secs_f64())
            }
            Group::Frozen { frozen, log, job_time, delay } => {
                frozen::run(campaign, frozen, self.log(log)?, (job_time, delay), cells, keep)
            }
            Group::Arriving { arriving, log, start } => {
                arriving::run(campaign, arriving, self.log(log)?, start, cells, keep)
            }
        }
    }

    fn collect(name: String, plan: Plan, _: usize, records: Vec<Record>) -> (Results, Files) {
        (Results::MultiJob(results::collect(name, &plan, records)), Vec::new())
    }
}

pub(super) fn failed(key: &str, problem: impl ToString) -> CampaignError {
    CampaignError::Measure { key: key.to_owned(), problem: problem.to_string() }
}

pub(super) fn longest(delays: &[Span]) -> Span {
    delays.iter().copied().max().unwrap_or(Span::ZERO)
}

/// The latest start in a log of that span that leaves room for the delay before a multi-job; not positive if there is none.
pub(super) fn range(span: Span, longest_delay: Span) -> Span {
    // In the last tenth no background jobs would follow the multi-job.
    Span(span.0 * 9 / 10) - longest_delay
}

/// Draws starts uniformly from [`range`]: the same ones for every delay, so that cells differ only in the delay.
pub(super) fn starts(
    campaign: &MultiJobCampaign,
    key: &str,
    log: &Divided<'_>,
    count: usize,
    delays: &[Span],
) -> Vec<Time> {
    let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(campaign.seed, &format!("{key} starts")));
    let last = range(log.background.span, longest(delays)).0.max(0);
    let mut all: Vec<Time> = (0..count).map(|_| Time(rng.random_range(0..=last))).collect();
    all.sort_unstable();
    all
}

/// Reads or generates a log and divides it; an error if it is too short for an experiment.
fn divide(campaign: &MultiJobCampaign, at: usize) -> Result<Divided<'_>, CampaignError> {
    let log = &campaign.logs[at];
    let workload: Workload = match &log.source {
        LogSource::File { path, .. } => {
            let path = campaign.path(path)?;
            pliant_trace::load(&path, &LoadOptions::default())?
        }
        LogSource::Generated(what) => grid_log(what, campaign.seed),
    };
    let background = background(&workload, log.division).map_err(|error| failed(&log.name, error))?;
    let whole = Arc::new(background.whole(campaign.settings));
    let frozen = campaign.frozen.iter().map(|one| (&one.name, &one.logs, &one.delays));
    let arriving = campaign.arriving.iter().map(|one| (&one.name, &one.logs, &one.delays));
    for (name, _, delays) in frozen.chain(arriving).filter(|(_, logs, _)| logs.contains(&at)) {
        let delay = longest(delays);
        if range(background.span, delay) <= Span::ZERO {
            let key = format!("{name} on {}", log.name);
            return Err(CampaignError::NoStart { key, delay, span: background.span });
        }
    }
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

/// The prediction errors of each estimator on a log.
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
        error_row(&log.log.name, level, estimator, &calibration)
    };
    names.into_iter().zip(found).map(row).collect()
}

fn error_row(log: &str, level: Level, estimator: &str, found: &Calibration) -> ErrorRow {
    let all = found.all();
    let (jobs, runtimes) = (all.jobs.max(1) as f64, (all.runtimes as f64).max(1.0));
    let at_level = found.levels().find(|(at, _)| *at == level).map_or(0, |(_, errors)| errors.jobs);
    ErrorRow {
        log: log.to_owned(),
        level: level.name().to_owned(),
        estimator: estimator.to_owned(),
        jobs: all.jobs,
        at_level_percent: 100.0 * at_level as f64 / jobs,
        relative_error: all.absolute as f64 / runtimes,
        relative_bias: all.signed as f64 / runtimes,
        within_percent: 100.0 * all.within as f64 / jobs,
    }
}
