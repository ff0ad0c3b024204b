//! Builds the workload of a what-if replay: compared jobs, load, and jobs that are left out.
//!
//! Times count from the start of the window. Jobs that ran then are submitted first, in their shapes, with the rest of their
//! runtimes and time limits: on an empty cluster they start at once. Jobs that waited then follow in the order of
//! submission. A job that had not ended when the records were read is load that runs to its time limit, or for a day without
//! one.
//!
//! A job with a begin time counts as submitted at that time: until then it is in no queue of the live federation either.

use std::collections::BTreeMap;

use pliant_control::batch::external::WITHOUT_LIMIT;
use pliant_control::job::JobRecord;
use pliant_control::local::LocalJob;
use pliant_control::names::Name;
use pliant_model::{
    ClusterId, Estimate, Job, JobId, JobOutcome, LoggedMemory, MapReason, Procs, Reason, Span, Speedup, Time,
};
use pliant_policy::nodes::Shape;

use super::WhatIfCluster;
use crate::SimJob;
use crate::recorded::{ran, sim_job, user};

/// The assumed runtime of a job without an end and without a time limit.
const DEFAULT_RUNTIME: Span = Span(86_400);

/// The counts of jobs that are in a replay or left out.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Compared jobs of the federation: submitted in the window, or with a begin time in it, and run.
    pub compared: u32,
    /// Jobs of the federation that are only load because they were submitted before the window.
    pub before: u32,
    /// Jobs of the federation that are only load because they had not ended.
    pub unfinished: u32,
    /// Jobs of the federation that are left out because they never ran.
    pub never_ran: u32,
    /// Jobs of the federation that are left out because their server did not answer.
    pub elsewhere: u32,
    /// Jobs of local users, which are load.
    pub locals: u32,
    /// Jobs of the federation that ask for memory, GPUs, licences, nodes or disk space: only their processors are replayed.
    pub with_resources: u32,
    /// Jobs of the federation with a nice value: they are replayed in the order of submission.
    pub with_nice: u32,
    /// Jobs of the federation that ran again after a failure: their last run is replayed alone.
    pub requeued: u32,
    /// Compared jobs with a deadline.
    pub with_deadline: u32,
}

impl Counts {
    /// Counts what a job in the replay asks for.
    fn add_needs(&mut self, record: &JobRecord) {
        let JobRecord { work, requeues, .. } = record;
        let is_gpu_table = matches!(work.speedup, Speedup::GpuTable(_));
        self.with_resources += u32::from(work.resources.is_some() || is_gpu_table);
        self.with_nice += u32::from(work.nice > 0);
        self.requeued += u32::from(*requeues > 0);
    }
}

/// The workload of a replay.
pub(super) struct Workload {
    pub(super) jobs: Vec<SimJob>,
    pub(super) shapes: BTreeMap<JobId, Shape>,
    pub(super) measured: Vec<JobOutcome>,
    /// The deadlines of these, counted from the start of the window.
    pub(super) deadlines: Vec<Option<Time>>,
    pub(super) counts: Counts,
}

/// A job of the workload before it is numbered.
struct WorkloadEntry {
    /// The sort key: jobs that ran at the start first, by their starts, then waiting ones.
    at: (Time, bool, Time),
    job: SimJob,
    shape: Option<Shape>,
    live_outcome: Option<JobOutcome>,
    deadline: Option<Time>,
}

/// Builds the workload of the records from `since` on.
pub(super) fn of(clusters: &[WhatIfCluster], records: &[JobRecord], since: Time) -> Workload {
    let mut counts = Counts::default();
    let cluster_ids: BTreeMap<&Name, ClusterId> =
        clusters.iter().zip(0..).map(|(cluster, number)| (&cluster.info.name, ClusterId(number))).collect();
    let mut records: Vec<&JobRecord> = records.iter().collect();
    records.sort_by(|a, b| (a.eligible(), &a.handle).cmp(&(b.eligible(), &b.handle)));
    let mut entries: Vec<WorkloadEntry> = records
        .into_iter()
        .filter_map(|record| federated(record, &cluster_ids, since, &mut counts))
        .collect();
    for (cluster, number) in clusters.iter().zip(0..) {
        entries.extend(cluster.locals.iter().filter_map(|one| local(one, ClusterId(number), since)));
    }
    counts.locals = entries.iter().filter(|entry| entry.shape.is_some()).count() as u32;
    // A stable sort: within one second the federation's jobs come first, in the order of their handles.
    entries.sort_by_key(|entry| entry.at);
    let (jobs, shapes, measured, deadlines) = (Vec::new(), BTreeMap::new(), Vec::new(), Vec::new());
    let mut workload = Workload { jobs, shapes, measured, deadlines, counts };
    for (mut entry, number) in entries.into_iter().zip(0..) {
        entry.job.job.log_id = u64::from(number) + 1;
        if let Some(live_outcome) = entry.live_outcome {
            workload.measured.push(JobOutcome { log_id: entry.job.job.log_id, ..live_outcome });
            workload.deadlines.push(entry.deadline);
        }
        workload.shapes.extend(entry.shape.map(|shape| (JobId(number), shape)));
        workload.jobs.push(entry.job);
    }
    workload
}

/// A job of the federation.
fn federated(
    record: &JobRecord,
    cluster_ids: &BTreeMap<&Name, ClusterId>,
    since: Time,
    counts: &mut Counts,
) -> Option<WorkloadEntry> {
    if record.ended.is_some_and(|ended| ended <= since) {
        return None;
    }
    if record.ended.is_some() && record.started.is_none() {
        counts.never_ran += 1;
        return None;
    }
    let Some(cluster) = cluster_ids.get(record.server()).copied() else {
        counts.elsewhere += 1;
        return None;
    };
    counts.add_needs(record);
    let origin = cluster_ids.get(&record.handle.server).copied();
    let (submitted, has_run) = (record.eligible(), ran(record));
    match (submitted >= since, has_run) {
        (true, true) => counts.compared += 1,
        (true, false) => counts.unfinished += 1,
        (false, _) => counts.before += 1,
    }
    if let Some(started) = record.started.filter(|started| *started < since) {
        let (job, at) = running(record.procs, record.walltime, started, record.ended, cluster, since);
        return Some(WorkloadEntry { at, job, shape: None, live_outcome: None, deadline: None });
    }
    let submit = Time((submitted - since).0.max(0));
    let mut job = if record.pinned {
        // In its queued shape: its user chose the cluster, and it does not move.
        let Estimate { procs, walltime, .. } = record.expected;
        let elapsed =
            record.ended.zip(record.started).map_or(record.walltime, |(ended, started)| ended - started);
        // A job ran folded if its time limit differs from the queued one.
        let share = i128::from(elapsed.0) * i128::from(walltime.0) / i128::from(record.walltime.0.max(1));
        let elapsed = Span(i64::try_from(share).unwrap_or(i64::MAX));
        let mut job = rigid(submit, procs, walltime, elapsed, cluster);
        job.job.user = user(record);
        job
    } else {
        sim_job(0, submit, record, origin)
    };
    if !has_run {
        job.job.runtime = job.job.walltime;
    }
    let live_outcome = (has_run && submitted >= since).then(|| outcome(record, cluster, since)).flatten();
    let deadline = record.work.deadline.map(|deadline| Time((deadline - since).0));
    counts.with_deadline += u32::from(live_outcome.is_some() && deadline.is_some());
    Some(WorkloadEntry { at: (submit, true, submitted), job, shape: None, live_outcome, deadline })
}

/// A job of a local user.
fn local(one: &LocalJob, cluster: ClusterId, since: Time) -> Option<WorkloadEntry> {
    let LocalJob { shape, walltime, submitted, started, ended, .. } = one;
    let limit = walltime.unwrap_or(WITHOUT_LIMIT);
    if ended.is_some_and(|ended| ended <= since) {
        return None;
    }
    let shape_of = Some(shape.clone());
    if let Some(started) = started.filter(|started| *started < since) {
        let ended = ended.or(walltime.is_none().then(|| started.max(since) + DEFAULT_RUNTIME));
        let (job, at) = running(shape.cores, limit, started, ended, cluster, since);
        return Some(WorkloadEntry { at, job, shape: shape_of, live_outcome: None, deadline: None });
    }
    let submit = Time((*submitted - since).0.max(0));
    let elapsed = ended.zip(*started).map(|(ended, started)| ended - started);
    let elapsed = elapsed.or(*walltime).unwrap_or(DEFAULT_RUNTIME);
    let job = rigid(submit, shape.cores, limit, elapsed, cluster);
    let at = (submit, true, *submitted);
    Some(WorkloadEntry { at, job, shape: shape_of, live_outcome: None, deadline: None })
}

/// A job that ran at the start of the window, with the rest of its runtime and time limit.
fn running(
    procs: Procs,
    walltime: Span,
    started: Time,
    ended: Option<Time>,
    cluster: ClusterId,
    since: Time,
) -> (SimJob, (Time, bool, Time)) {
    let left = Span((started + walltime - since).0.max(1));
    let elapsed = ended.map_or(left, |ended| ended - since);
    (rigid(Time::ZERO, procs, left, elapsed, cluster), (Time::ZERO, false, started))
}

/// A job of a fixed shape on its own cluster. If it ran longer than its time limit, as batch systems allow for a while, the
/// limit is extended to its runtime.
fn rigid(submit: Time, procs: Procs, walltime: Span, elapsed: Span, cluster: ClusterId) -> SimJob {
    let runtime = Span(elapsed.0.max(1));
    let job = Job {
        log_id: 0,
        submit,
        procs,
        walltime: walltime.max(runtime),
        runtime,
        user: -1,
        group: -1,
        executable: -1,
        origin: Some(cluster),
        memory: LoggedMemory::default(),
        resources: None,
    };
    SimJob { job, speedup: Speedup::Rigid, true_speedup: None, managed: false }
}

/// The live outcome of a job.
fn outcome(record: &JobRecord, cluster: ClusterId, since: Time) -> Option<JobOutcome> {
    let at = |time: Time| Time((time - since).0);
    let reason = if record.pinned { MapReason::Given } else { MapReason::EarliestCompletion };
    Some(JobOutcome {
        log_id: 0,
        cluster,
        submit: at(record.eligible()),
        start: at(record.started?),
        end: at(record.ended?),
        procs: record.procs,
        walltime: record.walltime,
        moves: record.hops.len() as u32,
        managed: true,
        reason: record.hops.last().map_or(Reason::Mapped(reason), |hop| Reason::Moved(hop.reason)),
    })
}
