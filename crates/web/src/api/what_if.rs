//! Replays of the recorded history under other policies: asked for, followed, cancelled, drawn. For operators.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use pliant_model::{Procs, Time};
use pliant_report::timeline::{Bar, place};

use super::Json;
use crate::extract::{JsonBody, PathOf};
use crate::problem::Problem;
use crate::state::Web;
use crate::types::{
    ReplayCluster, ReplayDocument, ReplayJob, ReplaySchedule, ScheduleJobView, ScheduleLaneView,
    ScheduleView, WhatIfBody, WhatIfView,
};
use crate::what_if::{ReplayState, WhatIf};

/// The most policies of a replay.
const POLICIES_MAX: usize = 4;
/// The most bytes of the words of a policy.
const POLICY_BYTES_MAX: usize = 200;
/// The longest period: three months.
const HOURS_MAX: u32 = 24 * 92;
/// The most jobs that are drawn of a schedule, the first to start.
const JOBS_MAX: usize = 5_000;

/// What runs replays. Servers and agents check the certificate again.
fn replays(web: &Web) -> Result<&Arc<WhatIf>, Problem> {
    if !web.follower.client().is_operator() {
        let problem = "only an operator may read the history of all users";
        return Err(Problem::new(StatusCode::FORBIDDEN, problem));
    }
    web.what_if.as_ref().ok_or_else(|| {
        Problem::new(StatusCode::NOT_FOUND, "expected pages that can replay the history, found others")
    })
}

fn view(what_if: &WhatIf) -> WhatIfView {
    what_if.with_last(|last| {
        let Some(replay) = last else {
            return WhatIfView { state: "none", asked: None, began_s: None, problem: None, report: None };
        };
        let (state, problem, report) = match &replay.state {
            ReplayState::Running => ("running", None, None),
            ReplayState::Done(document) => ("done", None, Some(document.report.clone())),
            ReplayState::Failed(why) => ("failed", Some(why.clone()), None),
            ReplayState::Cancelled => ("cancelled", None, None),
        };
        WhatIfView { state, asked: Some(replay.body.clone()), began_s: Some(replay.began.0), problem, report }
    })
}

/// The last replay: running, or with its results. For operators.
#[utoipa::path(get, path = "/what-if", tag = "what if",
    responses(
        (status = 200, body = WhatIfView),
        (status = 403, body = Problem, description = "You are no operator."),
    ))]
pub(super) async fn what_if(State(web): State<Arc<Web>>) -> Result<Json<WhatIfView>, Problem> {
    Ok(Json(view(replays(&web)?)))
}

/// Replays the recorded history under other policies. One replay runs at a time, for at most 10 minutes and in at most 2 GiB of memory.
/// For operators.
#[utoipa::path(post, path = "/what-if", tag = "what if", request_body = WhatIfBody,
    responses(
        (status = 200, body = WhatIfView),
        (status = 400, body = Problem, description = "The body is wrong."),
        (status = 403, body = Problem, description = "You are no operator, or the request lacks the token of the session."),
        (status = 409, body = Problem, description = "A replay runs already."),
    ))]
pub(super) async fn start(
    State(web): State<Arc<Web>>,
    JsonBody(body): JsonBody<WhatIfBody>,
) -> Result<Json<WhatIfView>, Problem> {
    let what_if = replays(&web)?;
    if !(1..=HOURS_MAX).contains(&body.hours) {
        let found = body.hours;
        return Err(Problem::bad_request(format!("hours: expected 1 to {HOURS_MAX}, found {found}")));
    }
    if body.policies.len() > POLICIES_MAX {
        let found = body.policies.len();
        return Err(Problem::bad_request(format!(
            "policies: expected at most {POLICIES_MAX}, found {found}"
        )));
    }
    let is_word =
        |words: &String| (1..=POLICY_BYTES_MAX).contains(&words.len()) && !words.contains(char::is_control);
    if !body.policies.iter().all(is_word) {
        let problem =
            format!("policies: expected words of 1 to {POLICY_BYTES_MAX} bytes, such as regular/minmin");
        return Err(Problem::bad_request(problem));
    }
    what_if.start(body)?;
    Ok(Json(view(what_if)))
}

/// Ends the replay that runs. For operators.
#[utoipa::path(post, path = "/what-if/cancel", tag = "what if",
    responses(
        (status = 200, body = WhatIfView),
        (status = 403, body = Problem, description = "You are no operator, or the request lacks the token of the session."),
    ))]
pub(super) async fn cancel(State(web): State<Arc<Web>>) -> Result<Json<WhatIfView>, Problem> {
    let what_if = replays(&web)?;
    what_if.cancel();
    Ok(Json(view(what_if)))
}

/// A schedule of the last replay, for a Gantt chart. For operators.
#[utoipa::path(get, path = "/what-if/schedules/{index}", tag = "what if",
    params(("index" = usize, Path, description = "0 for what happened, 1 for the replay under the policy in force, then the others.")),
    responses(
        (status = 200, body = ScheduleView),
        (status = 403, body = Problem, description = "You are no operator."),
        (status = 404, body = Problem, description = "No replay has ended, or it has no such schedule."),
    ))]
pub(super) async fn schedule(
    State(web): State<Arc<Web>>,
    PathOf(index): PathOf<usize>,
) -> Result<Json<ScheduleView>, Problem> {
    let done = replays(&web)?.with_last(|last| match last.map(|replay| &replay.state) {
        Some(ReplayState::Done(document)) => Some(document.clone()),
        _ => None,
    });
    let missing =
        || Problem::new(StatusCode::NOT_FOUND, "expected a schedule of a replay that has ended, found none");
    let document = done.ok_or_else(missing)?;
    document.schedules.get(index).map(|one| Json(drawn(&document, one))).ok_or_else(missing)
}

/// A schedule on the processors of its clusters.
fn drawn(document: &ReplayDocument, schedule: &ReplaySchedule) -> ScheduleView {
    let all = || document.schedules.iter().flat_map(|schedule| &schedule.jobs);
    let mut jobs: Vec<&ReplayJob> = schedule.jobs.iter().collect();
    jobs.sort_by_key(|job| (job.started_s, job.number));
    let left_out = jobs.len().saturating_sub(JOBS_MAX);
    jobs.truncate(JOBS_MAX);
    let lane = |ReplayCluster { server, procs }: &ReplayCluster| {
        let own: Vec<&ReplayJob> = jobs.iter().copied().filter(|job| job.server == *server).collect();
        let bar = |job: &&ReplayJob| Bar {
            start: Time(job.started_s),
            end: Time(job.ended_s),
            procs: Procs(job.procs),
        };
        let placed = place(&own.iter().map(bar).collect::<Vec<_>>(), Procs(*procs));
        let job = |(job, pieces): (&&ReplayJob, &[pliant_report::timeline::Piece])| ScheduleJobView {
            number: job.number,
            submitted_s: job.submitted_s,
            start_s: job.started_s,
            end_s: job.ended_s,
            procs: job.procs,
            moves: job.moves,
            pieces: pieces.iter().map(|piece| (piece.first, piece.count)).collect(),
        };
        ScheduleLaneView {
            server: server.clone(),
            procs: *procs,
            jobs: own.iter().zip(placed.iter()).map(job).collect(),
        }
    };
    ScheduleView {
        name: schedule.name.clone(),
        from_s: all().map(|job| job.submitted_s).min().unwrap_or(document.report.since_s),
        until_s: all().map(|job| job.ended_s).max().unwrap_or(document.report.until_s),
        lanes: document.clusters.iter().map(lane).collect(),
        left_out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_drawn_on_the_same_time_without_overlap() {
        let job = |number, server: &str, started_s, ended_s| {
            serde_json::json!({
                "number": number, "server": server, "submitted_s": 100, "started_s": started_s, "ended_s": ended_s,
                "procs": 2, "moves": 0,
            })
        };
        let measures = serde_json::json!({
            "jobs": 2, "mean_response_s": 1.0, "median_response_s": 1.0, "mean_bounded_slowdown": 1.0, "moves": 0,
        });
        let document = serde_json::json!({
            "schema": "pliant.what-if/1", "since_s": 90, "until_s": 900, "silent": [], "happened": measures,
            "jobs": { "compared": 2, "before": 0, "unfinished": 0, "never_ran": 0, "elsewhere": 0, "local": 0,
                "with_resources": 0, "with_nice": 0, "requeued": 0, "with_deadline": 0 },
            "calibration": null, "replayed": [],
            "clusters": [{ "server": "lyon", "procs": 4 }, { "server": "nice", "procs": 2 }],
            "schedules": [
                { "name": "recorded", "jobs": [job(0, "lyon", 120, 200), job(1, "lyon", 110, 210)] },
                { "name": "none", "jobs": [job(0, "nice", 100, 180), job(1, "nice", 180, 400)] },
            ],
        });
        let document: ReplayDocument = serde_json::from_value(document).unwrap();
        let recorded = drawn(&document, &document.schedules[0]);
        assert_eq!((recorded.from_s, recorded.until_s), (100, 400), "all schedules have the same axis");
        let of_lyon: Vec<_> =
            recorded.lanes[0].jobs.iter().map(|job| (job.number, job.pieces.clone())).collect();
        assert_eq!(of_lyon, [(1, vec![(0, 2)]), (0, vec![(2, 2)])]);
        let none = drawn(&document, &document.schedules[1]);
        assert_eq!((none.name.as_str(), none.lanes[0].jobs.len(), none.lanes[1].jobs.len()), ("none", 0, 2));
    }
}
