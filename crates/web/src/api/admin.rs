//! Acts of operators. Servers and agents check the certificate: the page asks for no rights of its own.

use std::sync::Arc;

use axum::extract::State;
use pliant_client::{Client, ClientError};
use pliant_control::names::{Handle, Name, User};
use pliant_control::server::{LimitChange, LimitKey};
use pliant_wire::{AdminOrder, JobAdminOrder, LimitOrder, PriorityOrder, UserAdminOrder, bounds};
use serde::Deserialize;
use utoipa::IntoParams;

use super::Json;
use crate::extract::{JobId, JsonBody, QueryOf};
use crate::problem::Problem;
use crate::several::each;
use crate::state::Web;
use crate::types::{
    AuditEntryView, AuditView, BanBody, DrainBody, JobView, LimitBody, LimitsView, PriorityBody,
    ReallocationBody, ReallocationView, ServerActView, ServerActsView, SilentView, TrialView, WhyBody,
    limit_words,
};

/// The most records of the audit trail in an answer.
const AUDIT_LAST_MAX: usize = 1000;

/// A reason of one line.
fn reason(why: &str) -> Result<String, Problem> {
    let why = why.trim();
    if (1..=bounds::TEXT_BYTES_MAX).contains(&why.len()) && !why.contains(char::is_control) {
        return Ok(why.to_owned());
    }
    let most = bounds::TEXT_BYTES_MAX;
    Err(Problem::bad_request(format!("why: expected a reason of one line and 1 to {most} bytes")))
}

/// Named servers, or all that the agent knows.
async fn servers(client: &Client, named: &[String]) -> Result<Vec<Name>, Problem> {
    if named.is_empty() {
        let federation = client.servers().await?;
        return Ok(federation.servers.into_iter().map(|server| server.info.name).collect());
    }
    let parsed = named.iter().map(|name| name.parse()).collect::<Result<_, _>>();
    parsed.map_err(|error| Problem::bad_request(format!("servers: {error}")))
}

/// The answers that came, and the servers that gave none.
struct Divided<A> {
    came: Vec<(Name, A)>,
    silent: Vec<SilentView>,
}

impl<A> Divided<A> {
    /// Divides answers. If none came, that is an error, as that of the last server.
    fn of(answers: Vec<(Name, Result<A, ClientError>)>) -> Result<Divided<A>, Problem> {
        let (mut came, mut silent, mut last) = (Vec::new(), Vec::new(), None);
        for (server, answer) in answers {
            match answer {
                Ok(answer) => came.push((server, answer)),
                Err(error) => {
                    silent.push(SilentView { server: server.to_string(), why: error.to_string() });
                    last = Some(error);
                }
            }
        }
        match last {
            Some(error) if came.is_empty() => Err(error.into()),
            _ => Ok(Divided { came, silent }),
        }
    }
}

/// Has a server accept no new jobs, or accept jobs again. For operators.
#[utoipa::path(post, path = "/admin/drains", tag = "administration", request_body = DrainBody,
    responses(
        (status = 200, body = ServerActView),
        (status = 400, body = Problem, description = "The body is wrong."),
        (status = 403, body = Problem, description = "You are no operator, or the request lacks the token of the session."),
    ))]
pub(super) async fn drain(
    State(web): State<Arc<Web>>,
    JsonBody(DrainBody { server, drained, why }): JsonBody<DrainBody>,
) -> Result<Json<ServerActView>, Problem> {
    let name: Name = server.parse().map_err(|error| Problem::bad_request(format!("server: {error}")))?;
    let order = AdminOrder { why: reason(&why)? };
    let client = web.follower.client();
    let act = match drained {
        true => client.drain(&name, &order).await?,
        false => client.resume(&name, &order).await?,
    };
    Ok(Json(ServerActView { server, act: act.map(Into::into) }))
}

/// Has servers accept nothing of a user, or ends that. For operators.
#[utoipa::path(post, path = "/admin/bans", tag = "administration", request_body = BanBody,
    responses(
        (status = 200, body = ServerActsView),
        (status = 400, body = Problem, description = "The body is wrong."),
        (status = 403, body = Problem, description = "You are no operator, or the request lacks the token of the session."),
    ))]
pub(super) async fn ban(
    State(web): State<Arc<Web>>,
    JsonBody(BanBody { user, banned, why, servers: named }): JsonBody<BanBody>,
) -> Result<Json<ServerActsView>, Problem> {
    let order = UserAdminOrder { user: parsed_user(&user)?, why: reason(&why)? };
    let client = web.follower.client();
    let answers = each(client, servers(client, &named).await?, |client, server| {
        let order = order.clone();
        async move { if banned { client.ban(&server, &order).await } else { client.unban(&server, &order).await } }
    });
    let Divided { came, silent } = Divided::of(answers.await)?;
    let act = |(server, act): (Name, Option<_>)| ServerActView {
        server: server.to_string(),
        act: act.map(Into::into),
    };
    Ok(Json(ServerActsView { servers: came.into_iter().map(act).collect(), silent }))
}

fn parsed_user(user: &str) -> Result<User, Problem> {
    user.parse().map_err(|error| Problem::bad_request(format!("user: {error}")))
}

/// The limits of users at servers, and the banned users. For operators.
#[utoipa::path(get, path = "/admin/limits", tag = "administration",
    responses((status = 200, body = LimitsView), (status = 403, body = Problem, description = "You are no operator.")))]
pub(super) async fn limits(State(web): State<Arc<Web>>) -> Result<Json<LimitsView>, Problem> {
    let client = web.follower.client();
    let ask = |client: Client, server: Name| async move { client.limits(&server).await };
    let Divided { came, silent } = Divided::of(each(client, servers(client, &[]).await?, ask).await)?;
    Ok(Json(LimitsView::of(came, silent)))
}

/// Limits what a user may have running and waiting at servers. For operators.
#[utoipa::path(post, path = "/admin/limits", tag = "administration", request_body = LimitBody,
    responses(
        (status = 200, body = LimitsView, description = "The limits of that user."),
        (status = 400, body = Problem, description = "The body is wrong."),
        (status = 403, body = Problem, description = "You are no operator, or the request lacks the token of the session."),
    ))]
pub(super) async fn limit(
    State(web): State<Arc<Web>>,
    JsonBody(body): JsonBody<LimitBody>,
) -> Result<Json<LimitsView>, Problem> {
    let change = |(word, value): (&String, &Option<u64>)| match LimitKey::from_word(word) {
        Some(key) => Ok(LimitChange { key, value: *value }),
        None => {
            let found = word.escape_debug();
            Err(Problem::bad_request(format!("limits: expected {}, found `{found}`", limit_words())))
        }
    };
    let changes = body.limits.iter().map(change).collect::<Result<Vec<_>, _>>()?;
    if changes.is_empty() {
        return Err(Problem::bad_request(format!("limits: expected one of {}, found none", limit_words())));
    }
    let order = LimitOrder { user: parsed_user(&body.user)?, why: reason(&body.why)?, changes };
    let client = web.follower.client();
    let answers = each(client, servers(client, &body.servers).await?, |client, server| {
        let order = order.clone();
        async move { client.limit(&server, &order).await }
    });
    let Divided { came, silent } = Divided::of(answers.await)?;
    Ok(Json(LimitsView::of(came, silent)))
}

/// Keeps a waiting job from starting. For operators.
#[utoipa::path(post, path = "/jobs/{id}/hold", tag = "administration", request_body = WhyBody,
    params(("id" = String, Path, description = "The job ID.")),
    responses(
        (status = 200, body = JobView),
        (status = 403, body = Problem, description = "You are no operator, or the request lacks the token of the session."),
    ))]
pub(super) async fn hold(
    State(web): State<Arc<Web>>,
    JobId(job): JobId,
    JsonBody(WhyBody { why }): JsonBody<WhyBody>,
) -> Result<Json<JobView>, Problem> {
    let record = web.follower.client().hold(&job_order(job, &why)?).await?;
    web.follower.learn(&record);
    Ok(Json((&record).into()))
}

/// Lets a held job start again. For operators.
#[utoipa::path(post, path = "/jobs/{id}/release", tag = "administration", request_body = WhyBody,
    params(("id" = String, Path, description = "The job ID.")),
    responses(
        (status = 200, body = JobView),
        (status = 403, body = Problem, description = "You are no operator, or the request lacks the token of the session."),
    ))]
pub(super) async fn release(
    State(web): State<Arc<Web>>,
    JobId(job): JobId,
    JsonBody(WhyBody { why }): JsonBody<WhyBody>,
) -> Result<Json<JobView>, Problem> {
    let record = web.follower.client().release(&job_order(job, &why)?).await?;
    web.follower.learn(&record);
    Ok(Json((&record).into()))
}

fn job_order(job: Handle, why: &str) -> Result<JobAdminOrder, Problem> {
    Ok(JobAdminOrder { job, why: reason(why)? })
}

/// Serves a waiting job before or after the others in the queue of its server. For operators.
#[utoipa::path(post, path = "/jobs/{id}/priority", tag = "administration", request_body = PriorityBody,
    params(("id" = String, Path, description = "The job ID.")),
    responses(
        (status = 200, body = JobView),
        (status = 400, body = Problem, description = "The body is wrong."),
        (status = 403, body = Problem, description = "You are no operator, or the request lacks the token of the session."),
    ))]
pub(super) async fn priority(
    State(web): State<Arc<Web>>,
    JobId(job): JobId,
    JsonBody(PriorityBody { why, priority }): JsonBody<PriorityBody>,
) -> Result<Json<JobView>, Problem> {
    if !bounds::JOB_PRIORITY.contains(&priority) {
        let (least, most) = (bounds::JOB_PRIORITY.start(), bounds::JOB_PRIORITY.end());
        return Err(Problem::bad_request(format!("priority: expected {least} to {most}, found {priority}")));
    }
    let order = PriorityOrder { job, why: reason(&why)?, priority };
    let record = web.follower.client().prioritise(&order).await?;
    web.follower.learn(&record);
    Ok(Json((&record).into()))
}

/// How many records of the audit trail.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditLast {
    /// How many at most, 1 to 1000.
    #[serde(default = "default_audit")]
    last: usize,
}

fn default_audit() -> usize {
    100
}

/// The last records of the audit trails of all servers that are up, and of the agents of the client's file. For operators.
#[utoipa::path(get, path = "/admin/audit", tag = "administration", params(AuditLast),
    responses((status = 200, body = AuditView), (status = 403, body = Problem, description = "You are no operator.")))]
pub(super) async fn audit(
    State(web): State<Arc<Web>>,
    QueryOf(AuditLast { last }): QueryOf<AuditLast>,
) -> Result<Json<AuditView>, Problem> {
    let client = web.follower.client();
    let last = last.clamp(1, AUDIT_LAST_MAX);
    let up = client.servers().await?.servers.into_iter().filter(|server| server.attached);
    let daemons = client.agents().cloned().chain(up.map(|server| server.info.name)).collect();
    let ask = |client: Client, daemon: Name| async move { client.audit_trail(&daemon, last).await };
    let Divided { came, silent } = Divided::of(each(client, daemons, ask).await)?;
    let all = came.into_iter().flat_map(|(daemon, entries)| {
        entries.into_iter().map(move |entry| AuditEntryView::of(&daemon, entry)).collect::<Vec<_>>()
    });
    let mut records: Vec<AuditEntryView> = all.collect();
    records.sort_by_cached_key(AuditEntryView::order);
    records.truncate(last);
    Ok(Json(AuditView { records, silent }))
}

/// The policy by which waiting jobs are moved.
#[utoipa::path(get, path = "/admin/reallocation", tag = "administration",
    responses((status = 200, body = ReallocationView), (status = 503, body = Problem, description = "The agent does not answer.")))]
pub(super) async fn reallocation(State(web): State<Arc<Web>>) -> Result<Json<ReallocationView>, Problem> {
    let policy = web.follower.client().moving().await?;
    Ok(Json(ReallocationView { policy: policy.as_ref().map(Into::into) }))
}

/// Changes how waiting jobs are moved. For operators.
#[utoipa::path(post, path = "/admin/reallocation", tag = "administration", request_body = ReallocationBody,
    responses(
        (status = 200, body = ReallocationView),
        (status = 400, body = Problem, description = "The policy is wrong."),
        (status = 403, body = Problem, description = "You are no operator, or the request lacks the token of the session."),
        (status = 503, body = Problem, description = "The agent does not answer."),
    ))]
pub(super) async fn change_reallocation(
    State(web): State<Arc<Web>>,
    JsonBody(body): JsonBody<ReallocationBody>,
) -> Result<Json<ReallocationView>, Problem> {
    let change = body.try_into().map_err(|error: String| Problem::bad_request(error))?;
    let policy = web.follower.client().change_moving(&change).await?;
    Ok(Json(ReallocationView { policy: policy.as_ref().map(Into::into) }))
}

/// What a reallocation cycle would do now; nothing is moved. For operators.
#[utoipa::path(post, path = "/admin/reallocation/trial", tag = "administration",
    responses(
        (status = 200, body = TrialView),
        (status = 403, body = Problem, description = "You are no operator, or the request lacks the token of the session."),
    ))]
pub(super) async fn trial(State(web): State<Arc<Web>>) -> Result<Json<TrialView>, Problem> {
    let report = web.follower.client().reallocate(true).await?;
    Ok(Json((&report).into()))
}
