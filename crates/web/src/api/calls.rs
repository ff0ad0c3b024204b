//! Calls of typed services: their submission, their values, and what came back.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use pliant_calls::{Parameter, ParameterType, Signature, Value};
use pliant_client::SubmitOrder;
use pliant_client::calls::{CallEnd, CallError, CallOrder, TypedService};
use pliant_control::names::{Handle, Key, Name};
use pliant_staging::FileName;
use tempfile::TempDir;

use super::{Json, files};
use crate::extract::{JobId, PathOf};
use crate::problem::Problem;
use crate::state::Web;
use crate::types::{CallView, SubmittedWorkView};

/// The most bytes of a vector or a matrix that is a word of the same call on the command line.
const WORD_BYTES_MAX: usize = 200;

/// A typed service with the texts of the values for it.
pub(super) struct TypedValues {
    pub(super) name: String,
    pub(super) signature: String,
    pub(super) values: BTreeMap<String, String>,
}

impl TypedValues {
    /// The submission of the call, without its input files, and the folder of a local file that has to exist until it is over.
    /// `inputs` are the names of the input files.
    pub(super) async fn order(
        mut self,
        key: Key,
        server: Option<Name>,
        inputs: &[FileName],
    ) -> Result<(SubmitOrder, Option<TempDir>), Problem> {
        let signature: Signature =
            self.signature.parse().map_err(|error| Problem::bad_request(format!("signature: {error}")))?;
        for parameter in signature.parameters().iter().filter(|one| one.kind == ParameterType::File) {
            self.values.remove(&parameter.name);
        }
        for file in inputs {
            let takes = |parameter: &Parameter| {
                parameter.kind == ParameterType::File
                    && parameter.direction.is_input()
                    && parameter.name == file.as_str()
            };
            if !signature.parameters().iter().any(takes) {
                let name = file.as_str().escape_debug();
                let problem = format!("files: expected files of parameters of `{signature}`, found `{name}`");
                return Err(Problem::bad_request(problem));
            }
            self.values.insert(file.as_str().to_owned(), file.as_str().to_owned());
        }
        let wrong = |error: &dyn std::fmt::Display| Problem::bad_request(format!("values: {error}"));
        let values = signature.parse_arguments(&self.values).map_err(|error| wrong(&error))?;
        let service = TypedService { name: self.name, signature, servers: Vec::new() };
        let order = CallOrder { server, ..CallOrder::new(service, values) };
        Ok(order.submission(key).await?.into_parts())
    }
}

/// The values of a call, as `pliant call` takes them: long vectors and matrices are read from a file.
pub(super) fn assignments(signature: &str, values: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let signature: Signature = signature.parse().unwrap_or_default();
    let word = |(name, text): (&String, &String)| {
        let parameter = signature.position(name).map(|at| &signature.parameters()[at].kind);
        let word = match parameter {
            Some(ParameterType::Vector { .. } | ParameterType::Matrix { .. })
                if text.trim().len() > WORD_BYTES_MAX =>
            {
                format!("@{name}.txt")
            }
            Some(ParameterType::String { .. }) | None => text.clone(),
            Some(_) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        };
        (name.clone(), word)
    };
    values.iter().map(word).collect()
}

/// A call of a typed service, with its values and how it ended.
#[utoipa::path(get, path = "/jobs/{id}/call", tag = "jobs", params(("id" = String, Path, description = "The job ID.")),
    responses(
        (status = 200, body = CallView),
        (status = 404, body = Problem, description = "There is no such job, it is another user's, or what was submitted is not kept."),
        (status = 422, body = Problem, description = "The job is no call, or its service is not offered any more."),
        (status = 503, body = Problem, description = "The server of the job does not answer."),
    ))]
pub(super) async fn call(
    State(web): State<Arc<Web>>,
    JobId(handle): JobId,
) -> Result<Json<CallView>, Problem> {
    let client = web.follower.client();
    let earlier = client.call_of_job(&handle).await?;
    let end = client.probe_call(&earlier.call).await?;
    Ok(Json(CallView::of(&earlier, end.as_ref())))
}

/// A value that a call has returned, as text.
#[utoipa::path(get, path = "/jobs/{id}/call/{name}", tag = "jobs",
    params(
        ("id" = String, Path, description = "The job ID."),
        ("name" = String, Path, description = "The name of a parameter that comes back."),
    ),
    responses(
        (status = 200, content_type = "text/plain", description = "The value: the elements of a vector one to a line, those of a matrix one row to a line."),
        (status = 404, body = Problem, description = "There is no such job or value, or the job is another user's."),
        (status = 422, body = Problem, description = "The job is no call, or its service is not offered any more."),
    ))]
pub(super) async fn call_value(
    State(web): State<Arc<Web>>,
    JobId(handle): JobId,
    PathOf((_, name)): PathOf<(String, String)>,
) -> Result<Response, Problem> {
    let client = web.follower.client();
    let earlier = client.call_of_job(&handle).await?;
    let end = client.probe_call(&earlier.call).await?;
    let place = earlier.service.signature.position(&name);
    let found = match (&end, place) {
        (Some(CallEnd::Completed(values)), Some(at)) => values.get(at).and_then(Option::as_ref),
        _ => None,
    };
    let Some(value) = found else {
        let problem = format!("expected a value that {handle} has returned, found `{}`", name.escape_debug());
        return Err(Problem::new(StatusCode::NOT_FOUND, problem));
    };
    let headers = files::download("text/plain; charset=utf-8", &format!("{name}.txt"));
    Ok((headers, value.to_text()).into_response())
}

/// What was submitted as a call, in the form in which it can be submitted again.
pub(super) async fn submitted_call(web: &Web, handle: &Handle) -> Result<SubmittedWorkView, Problem> {
    let earlier = web.follower.client().call_of_job(handle).await?;
    let Some(arguments) = earlier.arguments else {
        return Err(Problem::unprocessable("its values are in a file or at a server"));
    };
    let signature = &earlier.service.signature;
    let text = |(parameter, value): (&Parameter, Option<Value>)| match value {
        None | Some(Value::File(_)) => None,
        Some(value) => Some((parameter.name.clone(), value.to_text())),
    };
    let values = signature.parameters().iter().zip(arguments).filter_map(text).collect();
    let (name, signature) = (earlier.service.name, signature.to_string());
    Ok(SubmittedWorkView::Call { name, signature, values })
}

/// A call that failed on the way.
impl From<CallError> for Problem {
    fn from(error: CallError) -> Problem {
        let hint = error.hint().map(str::to_owned);
        let problem = match error {
            CallError::Values(error) => Problem::bad_request(format!("values: {error}")),
            CallError::Encoding(error) => Problem::bad_request(format!("values: {error}")),
            CallError::NoData(error)
            | CallError::DataBounds(error)
            | CallError::Refused(error)
            | CallError::Unavailable(error)
            | CallError::Other(error) => return error.into(),
            error @ CallError::File { .. } => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error),
            error => Problem::unprocessable(error),
        };
        match hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn order(signature: &str, values: &[(&str, &str)], inputs: &[&str]) -> Result<SubmitOrder, String> {
        let values = values.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let typed = TypedValues { name: "f".to_owned(), signature: signature.to_owned(), values };
        let inputs: Vec<FileName> = inputs.iter().map(|name| name.parse().unwrap()).collect();
        let order = typed.order(Key([7; 16]), None, &inputs).await;
        order.map(|(order, _)| order).map_err(|problem| problem.detail().to_owned())
    }

    #[tokio::test]
    async fn texts_and_files_become_the_arguments_of_a_call() {
        let signature = "in int n, in double a[n], in file data, out double x";
        let accepted = order(signature, &[("n", "2"), ("a", "1 2")], &["data"]).await.unwrap();
        let pliant_wire::SubmittedWork::Call(call) = accepted.what else { panic!("{:?}", accepted.what) };
        let values = pliant_calls::decode(call.values.as_bytes()).unwrap();
        assert_eq!(
            (values[0].clone(), values[2].clone()),
            (Some(Value::Int(2)), Some(Value::File("data".to_owned())))
        );
        assert_eq!(call.arguments["n"], "2");
        let refused = async |values: &[(&str, &str)], inputs: &[&str], expected: &str| {
            assert_eq!(order(signature, values, inputs).await.unwrap_err(), expected);
        };
        let (n, a) = (("n", "2"), ("a", "1 2"));
        refused(&[n, a], &[], "values: `data`: expected in file data, found no value").await;
        refused(
            &[n, a, ("data", "/etc/passwd")],
            &[],
            "values: `data`: expected in file data, found no value",
        )
        .await;
        refused(&[n, ("a", "1 x")], &["data"], "values: `a`: expected a number of type double, found `x`")
            .await;
        refused(
            &[n, a],
            &["data", "more"],
            "files: expected files of parameters of `in int n, in double a[n], in file data, out double x`, found `more`",
        )
        .await;
    }
}
