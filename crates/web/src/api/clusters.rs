//! Who asks, the clusters, and how well promises were kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use pliant_wire::{AccuracyQuery, bounds};
use serde::Deserialize;
use utoipa::IntoParams;

use super::Json;
use crate::extract::QueryOf;
use crate::problem::Problem;
use crate::state::Web;
use crate::types::{
    AccuracyView, ClustersView, ErrorsView, HealthView, JobView, MoveView, MovesView, PromisesView,
    SessionView, now,
};

const DAY_S: i64 = 86_400;
/// How many days promises are shown for: four weeks.
const DAYS: u32 = 28;

/// The user of this session.
#[utoipa::path(get, path = "/session", tag = "federation", responses((status = 200, body = SessionView)))]
pub(super) async fn session(State(web): State<Arc<Web>>) -> Json<SessionView> {
    Json(web.session_view())
}

/// The clusters of the federation.
#[utoipa::path(get, path = "/clusters", tag = "federation",
    responses((status = 200, body = ClustersView), (status = 503, body = Problem, description = "The agent does not answer.")))]
pub(super) async fn clusters(State(web): State<Arc<Web>>) -> Result<Json<ClustersView>, Problem> {
    Ok(Json(web.follower.clusters().await?))
}

/// Whether the agent answers, and what is not as it should be.
#[utoipa::path(get, path = "/health", tag = "federation", responses((status = 200, body = HealthView)))]
pub(super) async fn health(State(web): State<Arc<Web>>) -> Json<HealthView> {
    Json(web.follower.health().await)
}

/// How well promised starts and completions were kept, by server.
#[utoipa::path(get, path = "/promises", tag = "federation",
    responses((status = 200, body = PromisesView), (status = 503, body = Problem, description = "The agent does not answer.")))]
pub(super) async fn promises(State(web): State<Arc<Web>>) -> Result<Json<PromisesView>, Problem> {
    let accuracy = web
        .follower
        .client()
        .accuracy(AccuracyQuery { last: bounds::ACCURACY_JOBS_DEFAULT, days: DAYS })
        .await?;
    let at = now().0;
    let (day, four_weeks) = web
        .follower
        .with_jobs(|jobs| {
            (accuracy_since(jobs.all(), at - DAY_S), accuracy_since(jobs.all(), at - 28 * DAY_S))
        })
        .await?;
    let days = accuracy.iter().filter(|one| !one.days.is_empty()).map(Into::into).collect();
    // Servers whose jobs are in the days only.
    let with_jobs = accuracy.iter().filter(|one| one.jobs > 0);
    Ok(Json(PromisesView { federation: with_jobs.map(Into::into).collect(), day, four_weeks, days }))
}

/// The errors of promises of the jobs that ran and ended at that time or later, by server.
fn accuracy_since<'a>(jobs: impl Iterator<Item = &'a JobView>, since_s: i64) -> Vec<AccuracyView> {
    let mut errors: BTreeMap<&str, (Vec<i64>, Vec<i64>)> = BTreeMap::new();
    for job in jobs.filter(|job| job.ended_s.is_some_and(|ended| ended >= since_s)) {
        if let (Some(start), Some(completion)) = (job.start_error_s, job.completion_error_s) {
            let (starts, completions) = errors.entry(&job.server).or_default();
            starts.push(start);
            completions.push(completion);
        }
    }
    let view = |(server, (starts, completions)): (&str, (Vec<i64>, Vec<i64>))| AccuracyView {
        server: server.to_owned(),
        jobs: starts.len(),
        start: ErrorsView::of(starts),
        completion: ErrorsView::of(completions),
    };
    errors.into_iter().map(view).collect()
}

/// Which moves are listed.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct MovesQuery {
    /// How many at most, 1 to 1000.
    #[serde(default = "default_moves")]
    last: u32,
}

fn default_moves() -> u32 {
    20
}

/// Moves of waiting jobs to other servers, the newest first.
#[utoipa::path(get, path = "/moves", tag = "federation", params(MovesQuery),
    responses((status = 200, body = MovesView), (status = 503, body = Problem, description = "The agent does not answer.")))]
pub(super) async fn moves(
    State(web): State<Arc<Web>>,
    QueryOf(query): QueryOf<MovesQuery>,
) -> Result<Json<MovesView>, Problem> {
    let client = web.follower.client();
    let moves = client.moves(client.is_operator(), query.last.clamp(1, bounds::MOVES_MAX as u32)).await?;
    Ok(Json(MovesView { moves: moves.iter().map(MoveView::from).collect() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::follow::tests::record;

    #[test]
    fn promises_of_a_window_are_those_of_jobs_that_ended_in_it() {
        let ended = |server: &str, number, late: i64, ended: i64| {
            let mut job = JobView::from(&record(server, number, ended - 100));
            (job.ended_s, job.start_error_s, job.completion_error_s) =
                (Some(ended), Some(late), Some(2 * late));
            job
        };
        let mut cancelled = ended("lyon", 9, 0, 1000);
        cancelled.completion_error_s = None;
        let jobs = [
            ended("lyon", 1, 10, 500),
            ended("lyon", 2, 20, 501),
            ended("lyon", 3, 30, 900),
            ended("nice", 4, -5, 900),
            cancelled,
        ];
        let found = accuracy_since(jobs.iter(), 501);
        assert_eq!(
            found.iter().map(|one| (one.server.as_str(), one.jobs)).collect::<Vec<_>>(),
            [("lyon", 2), ("nice", 1)]
        );
        assert_eq!(found[0].start, ErrorsView::of(vec![30, 20]));
        assert_eq!(found[1].completion, ErrorsView::of(vec![-10]));
        assert_eq!(accuracy_since(jobs.iter(), 2000), []);
    }
}
