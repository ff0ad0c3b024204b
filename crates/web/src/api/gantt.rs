//! The next hours of all clusters: running jobs and planned ones on their processors.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use pliant_control::coallocation::LaunchRecord;
use pliant_control::names::Handle;
use pliant_model::{Procs, Time};
use pliant_report::timeline::{Bar, place};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Json;
use crate::extract::QueryOf;
use crate::plans::{PLANS_MAX, Plan};
use crate::problem::Problem;
use crate::state::Web;
use crate::types::{ClustersView, JobView, StateView, now};

/// The most jobs that are drawn, the first to start of all clusters.
const JOBS_MAX: usize = 5_000;
/// The longest time that is drawn, in hours.
const HOURS_MAX: u32 = 24 * 14;

/// Which time is drawn.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct GanttQuery {
    /// How many hours from now on, 1 to 336.
    #[serde(default = "default_hours")]
    hours: u32,
}

fn default_hours() -> u32 {
    12
}

/// The jobs of the next hours on the processors of clusters.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct GanttView {
    /// The present.
    now_s: i64,
    /// The end of the drawn time.
    until_s: i64,
    /// The clusters, by name.
    lanes: Vec<LaneView>,
    /// How many more jobs there are in this time than are drawn.
    left_out: usize,
}

/// The jobs of a cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct LaneView {
    /// The name of its server.
    server: String,
    /// The number of its processors.
    procs: u32,
    /// The processors that no job uses, neither of the federation nor of local users; none if that is not known.
    free_procs: Option<u32>,
    /// Jobs by their start.
    jobs: Vec<BarView>,
}

/// A job on processors of a cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct BarView {
    /// The job ID; none of a subjob of a launch.
    job_id: Option<String>,
    /// The ID of the launch of which it is a subjob; none of a job.
    launch: Option<String>,
    /// Its name, or that of the launch.
    name: String,
    /// Its owner.
    owner: String,
    /// True if it is yours.
    mine: bool,
    /// True if it runs.
    running: bool,
    /// True if it waits and is drawn as its server plans it now; false if it is drawn as its server promised when it accepted it. A subjob that
    /// waits or is prepared is drawn from now on.
    planned: bool,
    /// Its start. One that has passed for a waiting job is drawn from now on.
    start_s: i64,
    /// The end by its walltime.
    end_s: i64,
    /// Its processors.
    procs: u32,
    /// Where it is drawn: the first processor and the number, for each gap that it fills. Which processors a job has is not known.
    pieces: Vec<(u32, u32)>,
}

/// Running and waiting jobs of the next hours and the subjobs of launches, for a Gantt chart. The first 64 waiting jobs are drawn as their servers plan them now,
/// others as they were promised; jobs of other users are there for operators only. Of launches the
/// newest 100 are considered.
#[utoipa::path(get, path = "/gantt", tag = "federation", params(GanttQuery),
    responses((status = 200, body = GanttView), (status = 503, body = Problem, description = "The agent does not answer.")))]
pub(super) async fn gantt(
    State(web): State<Arc<Web>>,
    QueryOf(query): QueryOf<GanttQuery>,
) -> Result<Json<GanttView>, Problem> {
    let until_s = now().0 + i64::from(query.hours.clamp(1, HOURS_MAX)) * 3600;
    let clusters = web.follower.clusters().await?;
    let me = web.follower.client().user();
    let waiting = web.follower.with_jobs(|jobs| first_to_start(jobs.open())).await?;
    let plans = web.plans.of(&web.follower, waiting).await;
    let launches = web.launches.of(web.follower.client()).await;
    let now_s = now().0;
    let view = web.follower.with_jobs(|jobs| {
        let drawn_job = |job: &JobView| bar(job, plans.get(&job.job_id), &me, now_s);
        let bars = jobs.open().filter_map(|job| Some((job.server.as_str(), drawn_job(job)?)));
        drawn(
            &clusters,
            bars.chain(launches.iter().flat_map(|launch| subjobs(launch, &me, now_s))),
            now_s,
            until_s,
        )
    });
    Ok(Json(view.await?))
}

/// Waiting jobs, the first to start by what was promised.
fn first_to_start<'a>(open: impl Iterator<Item = &'a JobView>) -> Vec<Handle> {
    let mut waiting: Vec<&JobView> = open.filter(|job| job.state != StateView::Active).collect();
    waiting.sort_by_key(|job| (job.expected.start_s, job.submitted_s));
    waiting.into_iter().take(PLANS_MAX).filter_map(|job| job.job_id.parse().ok()).collect()
}

/// The jobs between now and then.
fn drawn<'a>(
    clusters: &ClustersView,
    bars: impl Iterator<Item = (&'a str, BarView)>,
    now_s: i64,
    until_s: i64,
) -> GanttView {
    let mut bars: Vec<(&str, BarView)> = bars.filter(|(_, bar)| bar.start_s < until_s).collect();
    let order = |bar: &BarView| (bar.start_s, bar.job_id.clone(), bar.launch.clone());
    bars.sort_by_cached_key(|(_, bar)| order(bar));
    let left_out = bars.len().saturating_sub(JOBS_MAX);
    bars.truncate(JOBS_MAX);
    let mut of_servers: BTreeMap<&str, Vec<BarView>> = BTreeMap::new();
    bars.into_iter().for_each(|(server, bar)| of_servers.entry(server).or_default().push(bar));
    let lanes = clusters.clusters.iter().map(|cluster| {
        let mut jobs = of_servers.remove(cluster.server.as_str()).unwrap_or_default();
        let shapes: Vec<Bar> = jobs
            .iter()
            .map(|job| Bar { start: Time(job.start_s), end: Time(job.end_s), procs: Procs(job.procs) })
            .collect();
        for (job, pieces) in jobs.iter_mut().zip(place(&shapes, Procs(cluster.procs)).iter()) {
            job.pieces = pieces.iter().map(|piece| (piece.first, piece.count)).collect();
        }
        let (server, procs, free_procs) = (cluster.server.clone(), cluster.procs, cluster.free_procs);
        LaneView { server, procs, free_procs, jobs }
    });
    GanttView { now_s, until_s, lanes: lanes.collect(), left_out }
}

/// A job as it is drawn; a waiting one by its present plan, if that is known. One without a planned start is not drawn.
fn bar(job: &JobView, plan: Option<&Plan>, me: &str, now_s: i64) -> Option<BarView> {
    let running = job.state == StateView::Active;
    let plan = match plan.filter(|_| !running) {
        Some(Plan::Start(plan)) => Some(plan),
        Some(Plan::None) => return None,
        None => None,
    };
    let expected = plan.unwrap_or(&job.expected);
    let start_s = if running { job.start() } else { expected.start_s.max(now_s) };
    // A job over its walltime is being ended.
    let end_s = if running { job.end().max(now_s + 1) } else { start_s.saturating_add(expected.walltime_s) };
    Some(BarView {
        job_id: Some(job.job_id.clone()),
        launch: None,
        name: job.name.clone(),
        owner: job.owner.clone(),
        mine: job.owner == me,
        running,
        planned: plan.is_some(),
        start_s,
        end_s,
        procs: plan.map_or(job.procs, |plan| plan.procs),
        pieces: Vec::new(),
    })
}

/// The subjobs of a launch as they are drawn, each with its server.
fn subjobs<'a>(
    launch: &'a LaunchRecord,
    me: &'a str,
    now_s: i64,
) -> impl Iterator<Item = (&'a str, BarView)> {
    launch.open_subjobs.iter().map(move |subjob| {
        // When one that waits starts is not known.
        let start_s = subjob.committed.map_or(now_s, |at| at.0);
        let bar = BarView {
            job_id: None,
            launch: Some(launch.id.to_string()),
            name: launch.name.clone(),
            owner: launch.owner.to_string(),
            mine: launch.owner.as_str() == me,
            running: subjob.committed.is_some(),
            planned: false,
            start_s,
            end_s: start_s.saturating_add(subjob.walltime.0).max(now_s + 1),
            procs: subjob.procs.0,
            pieces: Vec::new(),
        };
        (subjob.server.as_str(), bar)
    })
}

#[cfg(test)]
mod tests {
    use pliant_control::coallocation::{LaunchId, LaunchState, OpenSubjob};
    use pliant_control::names::Key;
    use pliant_model::Span;

    use super::*;
    use crate::follow::tests::{cluster, record};
    use crate::plans::PlanTable;
    use crate::types::EstimateView;

    #[test]
    fn jobs_are_drawn_from_now_on_without_overlap() {
        let clusters = ClustersView {
            clusters: vec![cluster("lyon", 4), cluster("nice", 2)],
            ..ClustersView::default()
        };
        let job = |number, start: i64, running: bool| {
            let mut job = JobView::from(&record("lyon", number, 0));
            (job.procs, job.expected.start_s, job.expected.walltime_s, job.walltime_s) = (2, start, 60, 60);
            if running {
                (job.state, job.started_s) = (StateView::Active, Some(start));
            }
            job
        };
        let mut other = job(4, 2_000, false);
        other.owner = "bob".to_owned();
        // The plan of the other one is earlier than what it was promised.
        let plan = EstimateView { procs: 2, walltime_s: 50, start_s: 1_500, completion_s: 1_550 };
        let plan = Plan::Start(plan);
        let plans = [("lyon.4", plan), ("lyon.1", plan), ("lyon.5", Plan::None)];
        let plans: PlanTable = plans.map(|(job, plan)| (job.to_owned(), plan)).into();
        // The last one is held: what it was promised is no longer true.
        let open = [job(1, 990, true), job(2, 500, false), job(3, 100_000, false), other, job(5, 500, false)];
        let one = |job: &JobView| bar(job, plans.get(&job.job_id), "alice", 1_000);
        let bars = open.iter().filter_map(|job| Some((job.server.as_str(), one(job)?)));
        let view = drawn(&clusters, bars, 1_000, 5_000);
        assert_eq!(view.lanes.iter().map(|lane| lane.jobs.len()).collect::<Vec<_>>(), [3, 0]);
        let bars: Vec<_> =
            view.lanes[0].jobs.iter().map(|job| (job.start_s, job.end_s, job.mine, job.running)).collect();
        assert_eq!(bars, [(990, 1050, true, true), (1_000, 1060, true, false), (1_500, 1_550, false, false)]);
        assert_eq!(
            view.lanes[0].jobs.iter().map(|job| job.pieces.clone()).collect::<Vec<_>>(),
            [[(0, 2)], [(2, 2)], [(0, 2)]]
        );
    }

    #[test]
    fn subjobs_are_drawn_at_their_servers() {
        let subjob = |server: &str, committed| OpenSubjob {
            server: server.parse().unwrap(),
            procs: Procs(2),
            walltime: Span(100),
            committed,
        };
        let launch = LaunchRecord {
            id: LaunchId { agent: "master".parse().unwrap(), key: Key([1; 16]) },
            owner: "alice".parse().unwrap(),
            name: "row".to_owned(),
            submitted: Time(900),
            state: LaunchState::Running,
            end: None,
            tasks: Vec::new(),
            unacknowledged: Vec::new(),
            open_subjobs: vec![subjob("lyon", Some(Time(950))), subjob("nice", None)],
        };
        let clusters = ClustersView {
            clusters: vec![cluster("lyon", 4), cluster("nice", 2)],
            ..ClustersView::default()
        };
        let view = drawn(&clusters, subjobs(&launch, "bob", 1_000), 1_000, 5_000);
        let found: Vec<_> = view
            .lanes
            .iter()
            .flat_map(|lane| &lane.jobs)
            .map(|bar| (bar.start_s, bar.end_s, bar.running, bar.mine, bar.pieces.clone()))
            .collect();
        assert_eq!(
            found,
            [(950, 1050, true, false, vec![(0, 2)]), (1_000, 1_100, false, false, vec![(0, 2)])]
        );
        let lyon = &view.lanes[0].jobs[0];
        assert_eq!((lyon.job_id.as_deref(), lyon.launch.clone()), (None, Some(launch.id.to_string())));
    }
}
