//! Recorded jobs as a workload: who is compared, who is load, and what is left out.
//!
//! Times count from the beginning of the window. What ran then is submitted there first, in the shape it had, with what
//! was left of its run and its limit: on an empty cluster it starts at once, as it was. What waited then comes next, in the
//! order of its submission. What had not ended when the record was read is load that runs to its limit, or for a day if it
//! has none: nothing better is known of it.

use std::collections::BTreeMap;

use pliant_control::batch::external::WITHOUT_LIMIT;
use pliant_control::job::JobRecord;
use pliant_control::local::LocalJob;
use pliant_control::names::Name;
use pliant_model::{
    ClusterId, Estimate, Job, JobId, JobOutcome, MapReason, Procs, Reason, Span, Speedup, Time,
};
use pliant_policy::nodes::Shape;

use super::TwinCluster;
use crate::SimJob;
use crate::recorded::{ran, sim_job, user};

/// How long a job runs of which neither its end nor its limit is known.
const A_DAY: Span = Span(86_400);

/// What went into a replay, and what did not.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Jobs of the federation that are compared: submitted in the window, and run.
    pub compared: u32,
    /// Jobs of the federation that are load alone, because they were submitted before the window.
    pub before: u32,
    /// Jobs of the federation that are load alone, because they had not ended.
    pub unfinished: u32,
    /// Jobs of the federation that are left out, because they never ran.
    pub never_ran: u32,
    /// Jobs of the federation that are left out, because their server told nothing.
    pub elsewhere: u32,
    /// Jobs of local users, load as they are.
    pub locals: u32,
}

/// The workload of a replay.
pub(super) struct Workload {
    pub(super) jobs: Vec<SimJob>,
    pub(super) shapes: BTreeMap<JobId, Shape>,
    pub(super) measured: Vec<JobOutcome>,
    pub(super) counts: Counts,
}

/// A job on its way into the workload.
struct Entry {
    /// When it comes: those that ran at the beginning first, by their starts, then those that waited.
    at: (Time, bool, Time),
    job: SimJob,
    shape: Option<Shape>,
    was: Option<JobOutcome>,
}

/// The workload of what was recorded from `since` on.
pub(super) fn of(clusters: &[TwinCluster], records: &[JobRecord], since: Time) -> Workload {
    let mut counts = Counts::default();
    let places: BTreeMap<&Name, ClusterId> =
        clusters.iter().zip(0..).map(|(cluster, number)| (&cluster.info.name, ClusterId(number))).collect();
    let mut records: Vec<&JobRecord> = records.iter().collect();
    records.sort_by(|a, b| (a.submitted, &a.handle).cmp(&(b.submitted, &b.handle)));
    let mut entries: Vec<Entry> =
        records.into_iter().filter_map(|record| federated(record, &places, since, &mut counts)).collect();
    for (cluster, number) in clusters.iter().zip(0..) {
        entries.extend(cluster.locals.iter().filter_map(|one| local(one, ClusterId(number), since)));
    }
    counts.locals = entries.iter().filter(|entry| entry.shape.is_some()).count() as u32;
    // A stable sort: of one second, the federation's jobs come first, in the order of their handles.
    entries.sort_by_key(|entry| entry.at);
    let mut workload = Workload { jobs: Vec::new(), shapes: BTreeMap::new(), measured: Vec::new(), counts };
    for (mut entry, number) in entries.into_iter().zip(0..) {
        entry.job.job.log_id = u64::from(number) + 1;
        workload.measured.extend(entry.was.map(|was| JobOutcome { log_id: entry.job.job.log_id, ..was }));
        workload.shapes.extend(entry.shape.map(|shape| (JobId(number), shape)));
        workload.jobs.push(entry.job);
    }
    workload
}

/// A job of the federation.
fn federated(
    record: &JobRecord,
    places: &BTreeMap<&Name, ClusterId>,
    since: Time,
    counts: &mut Counts,
) -> Option<Entry> {
    if record.ended.is_some_and(|ended| ended <= since) {
        return None;
    }
    if record.ended.is_some() && record.started.is_none() {
        counts.never_ran += 1;
        return None;
    }
    let Some(place) = places.get(record.server()).copied() else {
        counts.elsewhere += 1;
        return None;
    };
    let origin = places.get(&record.handle.server).copied();
    let (submit, is_over) = (record.submitted - since, ran(record));
    match (record.submitted >= since, is_over) {
        (true, true) => counts.compared += 1,
        (true, false) => counts.unfinished += 1,
        (false, _) => counts.before += 1,
    }
    if let Some(started) = record.started.filter(|started| *started < since) {
        let (job, at) = running(record.procs, record.walltime, started, record.ended, place, since);
        return Some(Entry { at, job, shape: None, was: None });
    }
    let submit = Time(submit.0.max(0));
    let mut job = if record.pinned {
        // As it was queued: its user chose the cluster, and it is not moved.
        let Estimate { procs, walltime, .. } = record.expected;
        let took =
            record.ended.zip(record.started).map_or(record.walltime, |(ended, started)| ended - started);
        // It ran folded if its limit is not the one it was queued with.
        let share = i128::from(took.0) * i128::from(walltime.0) / i128::from(record.walltime.0.max(1));
        let took = Span(i64::try_from(share).unwrap_or(i64::MAX));
        let mut job = rigid(submit, procs, walltime, took, place);
        job.job.user = user(record);
        job
    } else {
        sim_job(0, submit, record, origin)
    };
    if !is_over {
        job.job.runtime = job.job.walltime;
    }
    let was = (is_over && record.submitted >= since).then(|| outcome(record, place, since)).flatten();
    Some(Entry { at: (submit, true, record.submitted), job, shape: None, was })
}

/// A job of a local user.
fn local(one: &LocalJob, place: ClusterId, since: Time) -> Option<Entry> {
    let LocalJob { shape, walltime, submitted, started, ended, .. } = one;
    let limit = walltime.unwrap_or(WITHOUT_LIMIT);
    if ended.is_some_and(|ended| ended <= since) {
        return None;
    }
    let shape_of = Some(*shape);
    if let Some(started) = started.filter(|started| *started < since) {
        let ended = ended.or(walltime.is_none().then(|| started.max(since) + A_DAY));
        let (job, at) = running(shape.cores, limit, started, ended, place, since);
        return Some(Entry { at, job, shape: shape_of, was: None });
    }
    let submit = Time((*submitted - since).0.max(0));
    let took = ended.zip(*started).map(|(ended, started)| ended - started);
    let took = took.or(*walltime).unwrap_or(A_DAY);
    let job = rigid(submit, shape.cores, limit, took, place);
    Some(Entry { at: (submit, true, *submitted), job, shape: shape_of, was: None })
}

/// A job that ran at the beginning of the window, with what was left of it.
fn running(
    procs: Procs,
    walltime: Span,
    started: Time,
    ended: Option<Time>,
    place: ClusterId,
    since: Time,
) -> (SimJob, (Time, bool, Time)) {
    let left = Span((started + walltime - since).0.max(1));
    let took = ended.map_or(left, |ended| ended - since);
    (rigid(Time::ZERO, procs, left, took, place), (Time::ZERO, false, started))
}

/// A job of a fixed shape on its own cluster. One that ran for longer than its limit, which batch systems allow for a
/// while, has a limit as long as that.
fn rigid(submit: Time, procs: Procs, walltime: Span, took: Span, place: ClusterId) -> SimJob {
    let runtime = Span(took.0.max(1));
    let job = Job {
        log_id: 0,
        submit,
        procs,
        walltime: walltime.max(runtime),
        runtime,
        user: -1,
        group: -1,
        executable: -1,
        origin: Some(place),
    };
    SimJob { job, speedup: Speedup::Rigid, true_speedup: None, managed: false }
}

/// What a job was live.
fn outcome(record: &JobRecord, cluster: ClusterId, since: Time) -> Option<JobOutcome> {
    let at = |time: Time| Time((time - since).0);
    let reason = if record.pinned { MapReason::Given } else { MapReason::EarliestCompletion };
    Some(JobOutcome {
        log_id: 0,
        cluster,
        submit: at(record.submitted),
        start: at(record.started?),
        end: at(record.ended?),
        procs: record.procs,
        walltime: record.walltime,
        moves: record.hops.len() as u32,
        managed: true,
        reason: record.hops.last().map_or(Reason::Mapped(reason), |hop| Reason::Moved(hop.reason)),
    })
}
