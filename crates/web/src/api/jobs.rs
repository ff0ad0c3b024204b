//! Jobs: lists, groups, one job, cancellation.

use std::sync::Arc;

use axum::extract::State;
use pliant_client::Client;
use pliant_control::job::JobState;
use pliant_control::names::Handle;
use pliant_wire::bounds;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Json;
use crate::extract::{JobId, JsonBody, QueryOf};
use crate::follow::{GroupKey, JobFilter, JobOrder, SortKey};
use crate::problem::Problem;
use crate::several::each;
use crate::state::Web;
use crate::types::{
    GroupsView, JobDetailView, JobView, JobsView, StateView, SweepId, SweepPartView, SweepsView,
};

/// The most jobs of a page.
const PER_PAGE_MAX: usize = 1000;
/// The most sweeps of an answer.
const SWEEPS_MAX: usize = 100;
/// The most groups of an answer.
const GROUPS_MAX: usize = 500;

/// Which jobs are listed.
#[derive(Deserialize, IntoParams, Default)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct FilterQuery {
    /// States, separated by commas: `QUEUED,ACTIVE`. Every state without it.
    state: String,
    /// Only the jobs of that server.
    server: String,
    /// Only the jobs of that user.
    owner: String,
    /// Only the jobs of that name.
    name: String,
    /// Only the jobs of that sweep, by its ID in `/sweeps`.
    sweep: String,
    /// Only jobs with that text in their ID, name, owner or server.
    text: String,
}

/// The order of a list, and the page of it.
#[derive(Deserialize, IntoParams, Default)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct PageQuery {
    /// What the list is sorted by.
    #[param(inline)]
    sort: SortKey,
    /// `true` for the smallest or the oldest first.
    ascending: bool,
    /// The number of the page, from 1.
    page: Option<usize>,
    /// How many jobs a page has, 1 to 1000.
    per_page: Option<usize>,
}

impl FilterQuery {
    fn filter(&self) -> Result<JobFilter, Problem> {
        let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let state = |word: &str| {
            let known = JobState::from_word(&word.to_uppercase());
            known.map(StateView::from).ok_or_else(|| {
                let found = word.escape_debug();
                Problem::bad_request(format!("state: expected a state such as QUEUED, found `{found}`"))
            })
        };
        let words = self.state.split(',').filter(|word| !word.is_empty());
        Ok(JobFilter {
            states: words.map(state).collect::<Result<_, _>>()?,
            server: given(&self.server),
            owner: given(&self.owner),
            name: given(&self.name),
            sweep: given(&self.sweep).map(|id| id.parse()).transpose().map_err(Problem::bad_request)?,
            text: given(&self.text),
        })
    }
}

/// Jobs, a page at a time: your own, or for operators those of all users.
#[utoipa::path(get, path = "/jobs", tag = "jobs", params(FilterQuery, PageQuery),
    responses(
        (status = 200, body = JobsView),
        (status = 400, body = Problem, description = "The query is wrong."),
        (status = 503, body = Problem, description = "The agent does not answer."),
    ))]
pub(super) async fn jobs(
    State(web): State<Arc<Web>>,
    QueryOf(filter): QueryOf<FilterQuery>,
    QueryOf(wanted): QueryOf<PageQuery>,
) -> Result<Json<JobsView>, Problem> {
    let filter = filter.filter()?;
    let order = JobOrder { by: wanted.sort, ascending: wanted.ascending };
    let page = wanted.page.unwrap_or(1).max(1);
    let per_page = wanted.per_page.unwrap_or(bounds::JOBS_DEFAULT as usize).clamp(1, PER_PAGE_MAX);
    let view = web.follower.with_jobs(|jobs| {
        let found = jobs.select(&filter, order, (page - 1).saturating_mul(per_page), per_page);
        JobsView {
            jobs: found.jobs,
            matching: found.matching,
            states: found.states,
            page,
            per_page,
            complete: jobs.is_complete(),
            cut: jobs.is_cut(),
        }
    });
    Ok(Json(view.await?))
}

/// Which groups are listed.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct GroupsQuery {
    /// What the jobs are grouped by.
    #[param(inline)]
    by: GroupKey,
}

/// Jobs in groups, the largest first. The filters are those of `/jobs`.
#[utoipa::path(get, path = "/jobs/groups", tag = "jobs", params(GroupsQuery, FilterQuery),
    responses(
        (status = 200, body = GroupsView),
        (status = 400, body = Problem, description = "The query is wrong."),
        (status = 503, body = Problem, description = "The agent does not answer."),
    ))]
pub(super) async fn groups(
    State(web): State<Arc<Web>>,
    QueryOf(GroupsQuery { by }): QueryOf<GroupsQuery>,
    QueryOf(filter): QueryOf<FilterQuery>,
) -> Result<Json<GroupsView>, Problem> {
    let filter = filter.filter()?;
    let groups = web.follower.with_jobs(|jobs| jobs.groups(&filter, by));
    let mut groups = groups.await?;
    let total = groups.len();
    groups.truncate(GROUPS_MAX);
    Ok(Json(GroupsView { groups, total }))
}

/// Sweeps and arrays by their jobs, the newest first: what the agent knows of them, whichever machine their commands run on. One that has
/// a single job is among the jobs only.
#[utoipa::path(get, path = "/sweeps", tag = "sweeps and explorations",
    responses(
        (status = 200, body = SweepsView),
        (status = 503, body = Problem, description = "The agent does not answer."),
    ))]
pub(super) async fn sweeps(State(web): State<Arc<Web>>) -> Result<Json<SweepsView>, Problem> {
    let found = web.follower.with_jobs(|jobs| (jobs.sweeps(SWEEPS_MAX), jobs.is_complete()));
    let ((sweeps, left_out), complete) = found.await?;
    Ok(Json(SweepsView { sweeps, left_out, complete }))
}

/// Everything that is known of a job: what was promised, what was compared, why it waits, its moves.
#[utoipa::path(get, path = "/jobs/{id}", tag = "jobs", params(("id" = String, Path, description = "The job ID.")),
    responses(
        (status = 200, body = JobDetailView),
        (status = 404, body = Problem, description = "There is no such job, or it is another user's."),
        (status = 503, body = Problem, description = "The agent does not answer."),
    ))]
pub(super) async fn job(
    State(web): State<Arc<Web>>,
    JobId(handle): JobId,
) -> Result<Json<JobDetailView>, Problem> {
    let explanation = web.follower.client().explain(&handle).await?;
    web.follower.learn(&explanation.record);
    let mut detail = JobDetailView::from(&explanation);
    let sweep = SweepId::of(explanation.record.key);
    let jobs = web.follower.with_known_jobs(|jobs| jobs.all().filter(|job| job.sweep == sweep).count());
    detail.sweep = (jobs >= 2).then(|| SweepPartView { id: sweep.to_string(), jobs });
    Ok(Json(detail))
}

/// Withdraws a waiting job, or ends a running one.
#[utoipa::path(post, path = "/jobs/{id}/cancel", tag = "jobs", params(("id" = String, Path, description = "The job ID.")),
    responses(
        (status = 200, body = JobView),
        (status = 403, body = Problem, description = "The request lacks the token of the session."),
        (status = 404, body = Problem, description = "There is no such job, or it is another user's."),
        (status = 503, body = Problem, description = "The server of the job does not answer."),
    ))]
pub(super) async fn cancel(
    State(web): State<Arc<Web>>,
    JobId(handle): JobId,
) -> Result<Json<JobView>, Problem> {
    let record = web.follower.client().cancel(&handle).await?;
    web.follower.learn(&record);
    Ok(Json((&record).into()))
}

/// Jobs to cancel.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CancelBody {
    /// The job IDs, 1 to 1000.
    #[schema(min_items = 1, max_items = 1000)]
    jobs: Vec<String>,
}

/// The answer to several cancellations.
#[derive(Serialize, ToSchema)]
pub(super) struct CancelledView {
    /// The jobs, as they are now.
    cancelled: Vec<JobView>,
    /// Those that could not be cancelled.
    failed: Vec<NotCancelledView>,
}

/// A job that could not be cancelled.
#[derive(Serialize, ToSchema)]
pub(super) struct NotCancelledView {
    /// The job ID.
    job_id: String,
    /// Why not.
    problem: Problem,
}

/// Cancels several jobs. The failure of one does not keep others.
#[utoipa::path(post, path = "/jobs/cancel", tag = "jobs", request_body = CancelBody,
    responses(
        (status = 200, body = CancelledView),
        (status = 400, body = Problem, description = "The body is wrong."),
        (status = 403, body = Problem, description = "The request lacks the token of the session."),
    ))]
pub(super) async fn cancel_several(
    State(web): State<Arc<Web>>,
    JsonBody(CancelBody { jobs }): JsonBody<CancelBody>,
) -> Result<Json<CancelledView>, Problem> {
    if !(1..=PER_PAGE_MAX).contains(&jobs.len()) {
        let found = jobs.len();
        return Err(Problem::bad_request(format!(
            "jobs: expected 1 to {PER_PAGE_MAX} job IDs, found {found}"
        )));
    }
    let handles = jobs.iter().map(|job| job.parse()).collect::<Result<Vec<Handle>, _>>();
    let handles = handles.map_err(Problem::bad_request)?;
    let ask = |client: Client, handle: Handle| async move { client.cancel(&handle).await };
    let mut view = CancelledView { cancelled: Vec::new(), failed: Vec::new() };
    for (handle, answer) in each(web.follower.client(), handles, ask).await {
        match answer {
            Ok(record) => {
                web.follower.learn(&record);
                view.cancelled.push((&record).into());
            }
            Err(error) => {
                view.failed.push(NotCancelledView { job_id: handle.to_string(), problem: error.into() });
            }
        }
    }
    Ok(Json(view))
}
