//! Sweeps and explorations in the user's folders: the list, one of them, its results.

use std::path::Path;
use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use pliant_client::{Client, WorkView};
use pliant_control::names::Name;
use pliant_policy::optional::Share;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Json;
use crate::extract::{PathOf, QueryOf};
use crate::problem::Problem;
use crate::several::each;
use crate::state::Web;
use crate::types::{
    FairShareView, FairSharesView, PointsView, SilentView, WorkDetailView, WorkFoldersView, WorkRowsView,
};
use crate::work_rows::{Column, RowFilter, points, rows};
use crate::works::Works;

/// The most rows of a page.
const PER_PAGE_MAX: usize = 1000;
/// How many rows a page has if nothing else is asked for.
const PER_PAGE: usize = 100;

/// Reads folders, off the threads that answer requests.
async fn reading<A: Send + 'static>(
    web: &Web,
    read: impl FnOnce(&Works) -> Result<A, Problem> + Send + 'static,
) -> Result<A, Problem> {
    let Some(works) = web.works.clone() else {
        let problem = "expected the pages of a user's own `pliant web`, which can read the user's folders";
        return Err(Problem::new(StatusCode::NOT_FOUND, problem));
    };
    let read = tokio::task::spawn_blocking(move || read(&works)).await;
    read.map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error))?
}

/// The same about one folder.
async fn reading_one<A: Send + 'static>(
    web: &Web,
    id: String,
    read: impl FnOnce(&str, &Path, &WorkView) -> Result<A, Problem> + Send + 'static,
) -> Result<Json<A>, Problem> {
    let found = reading(web, move |works| {
        let (dir, work) = works.find(&id)?;
        let work = work.lock();
        read(&id, &dir, &work)
    });
    Ok(Json(found.await?))
}

/// Sweeps, arrays and explorations that commands of yours have begun on this machine.
#[utoipa::path(get, path = "/work", tag = "sweeps and explorations",
    responses((status = 200, body = WorkFoldersView)))]
pub(super) async fn work(State(web): State<Arc<Web>>) -> Result<Json<WorkFoldersView>, Problem> {
    Ok(Json(reading(&web, Works::list).await?))
}

/// A sweep or an exploration, with what each server did.
#[utoipa::path(get, path = "/work/{id}", tag = "sweeps and explorations",
    params(("id" = String, Path, description = "The ID of the folder.")),
    responses(
        (status = 200, body = WorkDetailView),
        (status = 404, body = Problem, description = "There is no such folder, or it cannot be read."),
    ))]
pub(super) async fn one(
    State(web): State<Arc<Web>>,
    PathOf(id): PathOf<String>,
) -> Result<Json<WorkDetailView>, Problem> {
    reading_one(&web, id, |id, dir, work| Ok(WorkDetailView::of(id, dir, work))).await
}

/// Which results are listed, and how.
#[derive(Deserialize, IntoParams, Default)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct RowsQuery {
    /// States, separated by commas: `completed,failed`. Every state without it.
    state: String,
    /// Only results with that text in an argument or in the name of the server.
    text: String,
    /// The key of a column; `number` without it.
    sort: String,
    /// `true` for the smallest first.
    ascending: bool,
    /// The number of the page, from 1.
    page: Option<usize>,
    /// How many rows a page has, 1 to 1000.
    per_page: Option<usize>,
}

/// The instances of a sweep or the requests of an exploration, a page at a time.
#[utoipa::path(get, path = "/work/{id}/rows", tag = "sweeps and explorations",
    params(("id" = String, Path, description = "The ID of the folder."), RowsQuery),
    responses(
        (status = 200, body = WorkRowsView),
        (status = 400, body = Problem, description = "The query is wrong."),
        (status = 404, body = Problem, description = "There is no such folder, or it cannot be read."),
    ))]
pub(super) async fn work_rows(
    State(web): State<Arc<Web>>,
    PathOf(id): PathOf<String>,
    QueryOf(query): QueryOf<RowsQuery>,
) -> Result<Json<WorkRowsView>, Problem> {
    reading_one(&web, id, move |_, _, work| {
        let key = if query.sort.is_empty() { "number" } else { &query.sort };
        let filter = RowFilter {
            text: query.text.clone(),
            states: query.state.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect(),
            sort: column("sort", key, work)?,
            ascending: query.ascending,
            page: query.page.unwrap_or(1).max(1),
            per_page: query.per_page.unwrap_or(PER_PAGE).clamp(1, PER_PAGE_MAX),
        };
        rows(work, &filter).map_err(|error| Problem::new(StatusCode::NOT_FOUND, error))
    })
    .await
}

/// Which numbers are plotted.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PointsQuery {
    /// The key of the column from left to right.
    x: String,
    /// The key of the column from bottom to top.
    y: String,
}

/// Two numbers of each result, for a plot.
#[utoipa::path(get, path = "/work/{id}/points", tag = "sweeps and explorations",
    params(("id" = String, Path, description = "The ID of the folder."), PointsQuery),
    responses(
        (status = 200, body = PointsView),
        (status = 400, body = Problem, description = "The query is wrong."),
        (status = 404, body = Problem, description = "There is no such folder, or it cannot be read."),
    ))]
pub(super) async fn work_points(
    State(web): State<Arc<Web>>,
    PathOf(id): PathOf<String>,
    QueryOf(query): QueryOf<PointsQuery>,
) -> Result<Json<PointsView>, Problem> {
    reading_one(&web, id, move |_, _, work| {
        Ok(points(work, &column("x", &query.x, work)?, &column("y", &query.y, work)?))
    })
    .await
}

fn column(what: &str, key: &str, work: &WorkView) -> Result<Column, Problem> {
    Column::of(key, work).ok_or_else(|| {
        let found: String = key.chars().take(80).flat_map(char::escape_debug).collect();
        Problem::bad_request(format!("{what}: expected the key of a column of this work, found `{found}`"))
    })
}

/// Your use and your fair share of the cores for explorations, server by server.
#[utoipa::path(get, path = "/shares", tag = "sweeps and explorations",
    responses(
        (status = 200, body = FairSharesView),
        (status = 503, body = Problem, description = "The agent does not answer."),
    ))]
pub(super) async fn shares(State(web): State<Arc<Web>>) -> Result<Json<FairSharesView>, Problem> {
    let client = web.follower.client();
    let federation = client.servers().await?;
    let with_cores = federation.servers.into_iter().filter(|one| one.attached && one.info.optional_cores > 0);
    let asked: Vec<(Name, String)> = with_cores.map(|one| (one.info.name, one.info.address)).collect();
    let ask =
        |client: Client, (name, address): (Name, String)| async move { client.users(&name, &address).await };
    let me = client.user();
    let (mut servers, mut silent) = (Vec::new(), Vec::new());
    let (mut sum, mut cores) = (Share::default(), 0);
    for ((name, _), answer) in each(client, asked, ask).await {
        match answer {
            Ok(found) => {
                // Operators get the lines of all users.
                let own = found.users.iter().find(|user| user.user.as_str() == me);
                let share = own.map(|user| user.share).unwrap_or_default();
                (sum, cores) = (sum + share, cores + found.cores);
                servers.push(fair_share(Some(name.to_string()), found.cores, &share));
            }
            Err(error) => silent.push(SilentView { server: name.to_string(), why: error.to_string() }),
        }
    }
    servers.sort_by(|one, other| one.server.cmp(&other.server));
    Ok(Json(FairSharesView { servers, together: fair_share(None, cores, &sum), silent }))
}

fn fair_share(server: Option<String>, cores: u32, share: &Share) -> FairShareView {
    FairShareView {
        server,
        cores,
        usage_s: share.usage.seconds(),
        fair_share_s: share.fair_share.seconds(),
        requests: share.requests,
        completed: share.completed,
        killed: share.killed,
    }
}
