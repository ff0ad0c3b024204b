//! Launches: lists, one launch, its end.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path, State};
use http::StatusCode;
use http::request::Parts;
use pliant_control::coallocation::LaunchId;
use pliant_wire::{LaunchesQuery, bounds};
use serde::Deserialize;
use utoipa::IntoParams;

use super::Json;
use crate::extract::QueryOf;
use crate::problem::Problem;
use crate::state::Web;
use crate::types::{LaunchView, LaunchesView, LinksView};

/// The ID of a launch in a path.
pub(super) struct PathLaunch(LaunchId);

impl<S: Send + Sync> FromRequestParts<S> for PathLaunch {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<PathLaunch, Problem> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((agent, key)) = path.map_err(Problem::bad_request)?;
        let id = format!("{agent}/{key}").parse();
        id.map(PathLaunch).map_err(|error| Problem::new(StatusCode::NOT_FOUND, error))
    }
}

/// How many launches are listed.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LastLaunches {
    /// How many at most, 1 to 1000.
    #[serde(default = "default_launches")]
    last: u32,
}

fn default_launches() -> u32 {
    bounds::JOBS_DEFAULT
}

/// Launches, the newest first: your own, or for operators those of all users.
#[utoipa::path(get, path = "/launches", tag = "launches", params(LastLaunches),
    responses((status = 200, body = LaunchesView), (status = 503, body = Problem, description = "The agent does not answer.")))]
pub(super) async fn launches(
    State(web): State<Arc<Web>>,
    QueryOf(query): QueryOf<LastLaunches>,
) -> Result<Json<LaunchesView>, Problem> {
    let client = web.follower.client();
    let limit = query.last.clamp(1, bounds::JOBS_MAX as u32);
    let launches = client.launches(&LaunchesQuery { all: client.is_operator(), limit }).await?;
    Ok(Json(LaunchesView { launches: launches.iter().map(Into::into).collect() }))
}

/// The links between servers, as they were measured.
#[utoipa::path(get, path = "/links", tag = "launches",
    responses((status = 200, body = LinksView), (status = 503, body = Problem, description = "The agent does not answer.")))]
pub(super) async fn links(State(web): State<Arc<Web>>) -> Result<Json<LinksView>, Problem> {
    let links = web.follower.client().links().await?;
    Ok(Json(LinksView { links: links.iter().map(Into::into).collect() }))
}

/// A launch with its tasks and the machines that they are mapped to.
#[utoipa::path(get, path = "/launches/{agent}/{key}", tag = "launches",
    params(
        ("agent" = String, Path, description = "The agent that leads it: the first part of its ID."),
        ("key" = String, Path, description = "Its key: the second part of its ID."),
    ),
    responses(
        (status = 200, body = LaunchView),
        (status = 404, body = Problem, description = "There is no such launch, or it is another user's."),
        (status = 503, body = Problem, description = "The agent does not answer."),
    ))]
pub(super) async fn launch(
    State(web): State<Arc<Web>>,
    PathLaunch(id): PathLaunch,
) -> Result<Json<LaunchView>, Problem> {
    let record = web.follower.client().find_launch(&id).await?;
    Ok(Json((&record).into()))
}

/// Ends a launch, with all of its tasks.
#[utoipa::path(post, path = "/launches/{agent}/{key}/cancel", tag = "launches",
    params(
        ("agent" = String, Path, description = "The agent that leads it: the first part of its ID."),
        ("key" = String, Path, description = "Its key: the second part of its ID."),
    ),
    responses(
        (status = 200, body = LaunchView),
        (status = 403, body = Problem, description = "The request lacks the token of the session."),
        (status = 404, body = Problem, description = "There is no such launch, or it is another user's."),
        (status = 503, body = Problem, description = "The agent does not answer."),
    ))]
pub(super) async fn cancel_launch(
    State(web): State<Arc<Web>>,
    PathLaunch(id): PathLaunch,
) -> Result<Json<LaunchView>, Problem> {
    let record = web.follower.client().cancel_launch(&id).await?;
    Ok(Json((&record).into()))
}
