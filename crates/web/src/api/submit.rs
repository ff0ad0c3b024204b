//! Services, estimates and submissions.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use pliant_client::{Client, SubmitOrder};
use pliant_control::job::JobRecord;
use pliant_control::names::{Key, Name};
use pliant_wire::{JobsQuery, SubmittedWork, bounds};
use tempfile::TempDir;

use super::calls::{self, TypedValues};
use super::submitted::EarlierInputs;
use super::{Json, sent_files};
use crate::extract::JsonBody;
use crate::problem::Problem;
use crate::script::{ReadScript, TypedScript};
use crate::secret::Secret;
use crate::several::each;
use crate::state::Web;
use crate::types::{EstimatesView, FileBody, JobView, ServicesView, SubmissionBody, WorkBody, now};

/// The most servers that are asked for their services.
const ASKED_MAX: usize = 1000;

/// The services of all servers, with their arguments.
#[utoipa::path(get, path = "/services", tag = "submission",
    responses((status = 200, body = ServicesView), (status = 503, body = Problem, description = "The agent does not answer.")))]
pub(super) async fn services(State(web): State<Arc<Web>>) -> Result<Json<ServicesView>, Problem> {
    let client = web.follower.client();
    let mut servers = client.servers().await?.servers;
    servers.sort_by(|one, other| one.info.name.cmp(&other.info.name));
    let known =
        servers.into_iter().map(|server| (server.info.name, server.info.address)).take(ASKED_MAX).collect();
    let ask =
        |client: Client, (name, address): (Name, String)| async move { client.offer(&name, &address).await };
    let answers = each(client, known, ask).await.into_iter();
    let offers = answers.map(|((name, _), offer)| (name, offer.map_err(|error| error.to_string())));
    Ok(Json(ServicesView::of(offers.collect())))
}

/// The estimates of all servers for some work; nothing is submitted.
#[utoipa::path(post, path = "/estimates", tag = "submission", request_body = SubmissionBody,
    responses(
        (status = 200, body = EstimatesView),
        (status = 400, body = Problem, description = "The work is wrong."),
        (status = 403, body = Problem, description = "The request lacks the token of the session."),
        (status = 503, body = Problem, description = "The agent does not answer."),
    ))]
pub(super) async fn estimates(
    State(web): State<Arc<Web>>,
    JsonBody(body): JsonBody<SubmissionBody>,
) -> Result<Json<EstimatesView>, Problem> {
    let command = command(&body);
    let inputs = earlier_inputs(&web, &body).await?;
    let wanted = order(&web, body, inputs.as_ref()).await?;
    let found = web.follower.client().estimates(&wanted.order).await?;
    Ok(Json(EstimatesView::of(&found, now().0, command)))
}

/// Submits work to the federation, which chooses the server, the processors and the walltime.
#[utoipa::path(post, path = "/jobs", tag = "submission", request_body = SubmissionBody,
    responses(
        (status = 201, body = JobView, description = "The job, accepted now or before with the same key.",
            headers(("location" = String, description = "The job in this API."))),
        (status = 400, body = Problem, description = "The work is wrong."),
        (status = 403, body = Problem, description = "The request lacks the token of the session."),
        (status = 422, body = Problem, description = "No server takes the work; `causes` says why. Or an input file of the earlier job is not there any more."),
        (status = 502, body = Problem, description = "A server may have accepted the work: submit it again with the same key."),
        (status = 503, body = Problem, description = "No server answers."),
    ))]
pub(super) async fn submit(
    State(web): State<Arc<Web>>,
    JsonBody(body): JsonBody<SubmissionBody>,
) -> Result<Response, Problem> {
    if let Some(record) = accepted_before(&web, &body).await? {
        return Ok(accepted(&web, &record));
    }
    let inputs = earlier_inputs(&web, &body).await?;
    let Wanted { mut order, files, arguments: _arguments } = order(&web, body, inputs.as_ref()).await?;
    let _sent = sent_files::add_to(files, &mut order).await?;
    let _copies = match &inputs {
        Some(inputs) => inputs.add_to(&web, &mut order).await?,
        None => None,
    };
    let record = web.follower.client().submit(&order, |_| Ok(())).await.map_err(|error| {
        let key = order.key;
        let problem = Problem::from(error);
        // Only the same key can show whether the job was accepted.
        if problem.status() == StatusCode::BAD_GATEWAY {
            problem.hint(format!("submit again with the key {key}"))
        } else {
            problem
        }
    })?;
    Ok(accepted(&web, &record))
}

/// The answer to a submission that was accepted, now or before.
fn accepted(web: &Web, record: &JobRecord) -> Response {
    web.follower.learn(record);
    let job = JobView::from(record);
    let location = HeaderValue::try_from(format!("/api/v1/jobs/{}", job.job_id));
    let mut response = (StatusCode::CREATED, Json(job)).into_response();
    if let Ok(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// The caller's job that has the key of a submission with input files of an earlier job. Those files may be lost since the
/// submission was accepted, and then sending them again would fail.
async fn accepted_before(web: &Web, body: &SubmissionBody) -> Result<Option<JobRecord>, Problem> {
    let (Some(key), Some(_)) = (&body.key, body.inputs_of.as_deref().filter(|job| !job.is_empty())) else {
        return Ok(None);
    };
    let key = key_of(key)?;
    let query = JobsQuery::of_caller(Vec::new(), bounds::JOBS_MAX as u32);
    let page = web.follower.client().jobs(&query).await?;
    Ok(page.jobs.into_iter().find(|record| record.key == key))
}

fn key_of(key: &str) -> Result<Key, Problem> {
    key.parse().map_err(|error| Problem::bad_request(format!("key: {error}")))
}

/// The input files of the earlier job that is named, but for those that others replace.
async fn earlier_inputs(web: &Web, body: &SubmissionBody) -> Result<Option<EarlierInputs>, Problem> {
    match body.inputs_of.as_deref().filter(|job| !job.is_empty()) {
        Some(job) => {
            let inputs = EarlierInputs::of(web, job).await?;
            Ok(Some(inputs.without(&sent_files::names(&body.files)?)))
        }
        None => Ok(None),
    }
}

/// What is submitted.
struct Wanted {
    /// The order, without the files that came with it and those of an earlier job.
    order: SubmitOrder,
    /// The files that came with it.
    files: Vec<FileBody>,
    /// The folder of a file with the arguments of a call, which has to exist until the submission is over.
    arguments: Option<TempDir>,
}

/// What is submitted by a body.
async fn order(web: &Web, body: SubmissionBody, earlier: Option<&EarlierInputs>) -> Result<Wanted, Problem> {
    let key = match &body.key {
        Some(key) => key_of(key)?,
        None => drawn()?,
    };
    let named = |server: String| {
        server.parse::<Name>().map_err(|error| Problem::bad_request(format!("server: {error}")))
    };
    let only = body.server.filter(|server| !server.is_empty()).map(named).transpose()?;
    let mut inputs = sent_files::names(&body.files)?;
    inputs.extend(earlier.into_iter().flat_map(EarlierInputs::names));
    let mut folder = None;
    let order = match body.work {
        WorkBody::Service { name, arguments } => {
            check_service(&name, &arguments)?;
            SubmitOrder { only, ..SubmitOrder::new(key, SubmittedWork::Service { name, arguments }) }
        }
        WorkBody::Script { name, text, options, arguments } => {
            let ReadScript { script, server, timeout } =
                web.scripts.read(&TypedScript { name, text, options, arguments, inputs })?;
            let what = SubmittedWork::Script(script);
            SubmitOrder { only: only.or(server), timeout, ..SubmitOrder::new(key, what) }
        }
        WorkBody::Call { name, signature, values } => {
            check_service(&name, &BTreeMap::new())?;
            let (order, arguments) =
                TypedValues { name, signature, values }.order(key, only, &inputs).await?;
            folder = arguments;
            order
        }
    };
    Ok(Wanted { order, files: body.files, arguments: folder })
}

/// The bounds of a call of a service, which servers have too; what the values mean is theirs to check.
fn check_service(name: &str, arguments: &BTreeMap<String, String>) -> Result<(), Problem> {
    if name.parse::<Name>().is_err() {
        let shown: String = name.chars().take(80).flat_map(char::escape_debug).collect();
        return Err(Problem::bad_request(format!("name: expected the name of a service, found `{shown}`")));
    }
    if arguments.len() > bounds::ARGUMENTS_MAX {
        let (most, found) = (bounds::ARGUMENTS_MAX, arguments.len());
        return Err(Problem::bad_request(format!("arguments: expected at most {most}, found {found}")));
    }
    for (key, value) in arguments {
        let is_word = (1..=bounds::NAME_BYTES_MAX).contains(&key.len()) && !key.contains(char::is_control);
        if !is_word || value.len() > bounds::ARGUMENT_BYTES_MAX {
            let key = key.escape_debug();
            let most = bounds::ARGUMENT_BYTES_MAX;
            return Err(Problem::bad_request(format!(
                "arguments.{key}: expected a value of at most {most} bytes"
            )));
        }
    }
    Ok(())
}

/// A random key.
fn drawn() -> Result<Key, Problem> {
    let failed =
        |error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot draw a key: {error}"));
    let secret = Secret::draw().map_err(failed)?.hex();
    secret[..32].parse().map_err(Problem::bad_request)
}

/// The same submission on the command line.
fn command(body: &SubmissionBody) -> String {
    let is_call = matches!(body.work, WorkBody::Call { .. });
    let mut words = vec!["pliant".to_owned(), if is_call { "call" } else { "submit" }.to_owned()];
    let mut assignments = Vec::new();
    if let Some(server) = body.server.as_ref().filter(|server| !server.is_empty()) {
        words.extend(["--server".to_owned(), server.clone()]);
    }
    for file in body.files.iter().filter(|_| !is_call) {
        words.extend(["--in".to_owned(), file.name.clone()]);
    }
    match &body.work {
        WorkBody::Service { name, arguments } => {
            words.push(name.clone());
            assignments = arguments.iter().map(|(key, value)| assignment(key, value)).collect();
        }
        WorkBody::Script { name, options, arguments, .. } => {
            words.extend(options.iter().cloned());
            words.extend(["--script".to_owned(), name.clone()]);
            if !arguments.is_empty() {
                words.push("--".to_owned());
                words.extend(arguments.iter().cloned());
            }
        }
        WorkBody::Call { name, signature, values } => {
            words.push(name.clone());
            let values = calls::assignments(signature, values).into_iter();
            let files = body.files.iter().map(|file| (file.name.clone(), file.name.clone()));
            assignments = values.chain(files).map(|(key, value)| assignment(&key, &value)).collect();
        }
    }
    words.iter().map(|word| quoted(word)).chain(assignments).collect::<Vec<_>>().join(" ")
}

/// A word as a shell takes it. One with a NUL byte is refused by the submission itself.
fn quoted(word: &str) -> String {
    shlex::try_quote(word).unwrap_or_default().into_owned()
}

/// `KEY=VALUE`, without quotes where none are needed.
fn assignment(key: &str, value: &str) -> String {
    let is_plain = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if is_plain { format!("{key}={}", quoted(value)) } else { quoted(&format!("{key}={value}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(json: serde_json::Value) -> SubmissionBody {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn the_command_line_says_the_same_and_runs_nothing_else() {
        let check = |json: serde_json::Value, expected: &str| assert_eq!(command(&body(json)), expected);
        let service = serde_json::json!({
            "work": { "kind": "service", "name": "pi", "arguments": { "samples": "10", "text": "a b; rm -rf $HOME" } },
            "server": "lyon",
            "files": [{ "name": "a b.txt", "base64": "aGkK" }],
        });
        let expected = "pliant submit --server lyon --in 'a b.txt' pi samples=10 text='a b; rm -rf $HOME'";
        check(service, expected);
        let odd =
            serde_json::json!({ "work": { "kind": "service", "name": "pi", "arguments": { "a b": "c" } } });
        check(odd, "pliant submit pi 'a b=c'");
        let script = serde_json::json!({
            "work": {
                "kind": "script", "name": "job.sh", "text": "#!/bin/sh\n",
                "options": ["--time", "1h"], "arguments": ["-x", "a b"],
            },
        });
        check(script, "pliant submit --time 1h --script job.sh -- -x 'a b'");
        let call = serde_json::json!({
            "work": {
                "kind": "call", "name": "f", "signature": "in int n, in double a[n], in long l[n], in string s, in file data",
                "values": { "n": " 2 ", "a": "1\n2\n", "s": "a  b; rm", "l": "7 ".repeat(101) },
            },
            "files": [{ "name": "data" }],
        });
        check(call, "pliant call f a='1 2' l=@l.txt n=2 s='a  b; rm' data=data");
    }

    #[test]
    fn calls_of_services_are_bounded() {
        let refused = |name: &str, key: &str, value: &str| {
            check_service(name, &BTreeMap::from([(key.to_owned(), value.to_owned())])).is_err()
        };
        assert!(!refused("pi", "samples", "10"));
        assert!(
            refused("", "samples", "10") && refused("pi", "", "10") && refused("p\u{0}i", "samples", "10")
        );
        assert!(refused("pi", "samples", &"1".repeat(bounds::ARGUMENT_BYTES_MAX + 1)));
        let many = (0..=bounds::ARGUMENTS_MAX).map(|number| (number.to_string(), String::new()));
        assert!(check_service("pi", &many.collect()).is_err());
    }
}
