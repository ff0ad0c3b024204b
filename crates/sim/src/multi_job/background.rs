//! The background jobs of a multi-job: a log divided into clusters.
//!
//! Each partition of the log is a cluster. A log with few partitions is also cut into equal periods: each period of each
//! partition becomes one cluster, and all clusters start together. The paper makes 20 clusters of the five partitions of
//! DAS-2 in this way. Clusters are ordered by their work, the busiest first.

use std::collections::BTreeMap;
use std::fmt;

use pliant_model::{Span, Time};
use pliant_policy::runtimes::predicted::categories;
use pliant_policy::runtimes::{Categories, Level, Runtimes, Settings};
use pliant_trace::Workload;

/// A background job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackgroundJob {
    /// Its submission, from the start of the log.
    pub submit: Time,
    /// Its cluster.
    pub cluster: usize,
    /// Its runtime.
    pub runtime: Span,
    /// Its executable, user and group.
    pub categories: Categories<i32>,
}

/// The background jobs of some clusters.
#[derive(Clone, PartialEq, Debug)]
pub struct Background {
    /// The number of clusters.
    pub clusters: usize,
    /// The jobs, by submission.
    pub jobs: Vec<BackgroundJob>,
    /// The time from the first submission to the last.
    pub span: Span,
    /// The numbers of executables, users and groups of the whole log.
    pub categories: [usize; 3],
}

/// How a log is divided into clusters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Division {
    /// The number of periods into which each partition is cut.
    pub stretches: u32,
    /// The number of busiest clusters to leave out.
    pub skipped: usize,
    /// The number of clusters to take after them.
    pub clusters: usize,
}

/// A log with fewer clusters than requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooFewClusters {
    /// The requested number, with those to leave out.
    pub expected: usize,
    /// The number of clusters with jobs.
    pub found: usize,
}

impl fmt::Display for TooFewClusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { expected, found } = self;
        write!(
            f,
            "expected a log of {expected} clusters (partitions, or stretches of them), found {found} with jobs"
        )
    }
}

impl std::error::Error for TooFewClusters {}

/// Divides a log.
pub fn background(log: &Workload, division: Division) -> Result<Background, TooFewClusters> {
    let stretches = i64::from(division.stretches.max(1));
    let length = (log.last_submit().0 / stretches + 1).max(1);
    let mut work: BTreeMap<(i32, i64), i64> = BTreeMap::new();
    for (job, partition) in log.jobs.iter().zip(&log.partitions) {
        *work.entry((*partition, job.submit.0 / length)).or_default() += job.runtime.0;
    }
    let mut by_work: Vec<((i32, i64), i64)> = work.into_iter().collect();
    by_work.sort_by_key(|(group, work)| (-work, *group));
    let expected = division.skipped + division.clusters;
    if by_work.len() < expected {
        return Err(TooFewClusters { expected, found: by_work.len() });
    }
    let taken = by_work[division.skipped..expected].iter().enumerate();
    let clusters: BTreeMap<(i32, i64), usize> = taken.map(|(at, (group, _))| (*group, at)).collect();
    let mut jobs = Vec::new();
    let mut known: [std::collections::BTreeSet<i32>; 3] = Default::default();
    for (job, partition) in log.jobs.iter().zip(&log.partitions) {
        let ids = [job.executable, job.user, job.group];
        known.iter_mut().zip(ids).filter(|(_, id)| *id >= 0).for_each(|(known, id)| {
            known.insert(id);
        });
        if let Some(cluster) = clusters.get(&(*partition, job.submit.0 / length)) {
            jobs.push(BackgroundJob {
                submit: Time(job.submit.0 % length),
                cluster: *cluster,
                runtime: job.runtime,
                categories: categories(job),
            });
        }
    }
    jobs.sort_by_key(|job| job.submit);
    let categories = known.map(|known| known.len());
    Ok(Background { clusters: division.clusters, jobs, span: Span(length), categories })
}

impl Background {
    /// The index of the first job submitted from `start` on.
    pub(super) fn from(&self, start: Time) -> usize {
        self.jobs.partition_point(|job| job.submit < start)
    }

    /// The runtime statistics of the whole log, including the future.
    pub fn whole(&self, settings: Settings) -> Runtimes<i32> {
        self.statistics_of(settings, |_| true)
    }

    /// The runtime statistics of the jobs that would have ended by then if started at once.
    pub fn ended_by(&self, settings: Settings, now: Time) -> Runtimes<i32> {
        self.statistics_of(settings, |job| job.submit + job.runtime <= now)
    }

    fn statistics_of(
        &self,
        settings: Settings,
        is_counted: impl Fn(&BackgroundJob) -> bool,
    ) -> Runtimes<i32> {
        let mut runtimes = Runtimes::new(settings);
        let mut ended: Vec<&BackgroundJob> = self.jobs.iter().filter(|job| is_counted(job)).collect();
        ended.sort_by_key(|job| job.submit + job.runtime);
        ended.iter().for_each(|job| runtimes.record(&job.categories, job.runtime));
        runtimes
    }

    /// The category of a level with the `rank`-th most jobs (from 1), and the runtimes of these jobs.
    pub fn category(&self, level: Level, rank: usize) -> Option<(Categories<i32>, Vec<Span>)> {
        let alike = |of: &Categories<i32>| match level {
            Level::Executable => Categories { user: of.user, group: of.group, executable: of.executable },
            Level::User => Categories { user: of.user, group: of.group, executable: None },
            Level::Group => Categories { group: of.group, user: None, executable: None },
            Level::All => Categories::default(),
        };
        let key = |of: &Categories<i32>| {
            let of = alike(of);
            (of.group, of.user, of.executable)
        };
        let known = |of: &Categories<i32>| match level {
            Level::Executable => of.executable.is_some(),
            Level::User => of.user.is_some(),
            Level::Group => of.group.is_some(),
            Level::All => true,
        };
        let mut all: BTreeMap<_, Vec<&BackgroundJob>> = BTreeMap::new();
        for job in self.jobs.iter().filter(|job| known(&job.categories)) {
            all.entry(key(&job.categories)).or_default().push(job);
        }
        let mut all: Vec<Vec<&BackgroundJob>> = all.into_values().collect();
        all.sort_by_key(|jobs| std::cmp::Reverse(jobs.len()));
        let jobs = all.get(rank.checked_sub(1)?)?;
        Some((alike(&jobs.first()?.categories), jobs.iter().map(|job| job.runtime).collect()))
    }
}
