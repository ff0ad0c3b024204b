//! What a job writes on its standard output and error.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use pliant_client::{Client, ClientError};
use pliant_control::job::JobState;
use pliant_staging::ResultName;
use pliant_wire::Download;
use serde::Deserialize;
use tokio_stream::StreamExt;
use utoipa::{IntoParams, ToSchema};

use crate::extract::{JobId, QueryOf};
use crate::problem::Problem;
use crate::state::Web;

/// The most bytes of one answer.
const PIECE_BYTES_MAX: usize = 256 << 10;

/// The header with the offset of what follows.
const NEXT_OFFSET: HeaderName = HeaderName::from_static("x-next-offset");

/// What a job writes to.
#[derive(Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum LogStream {
    /// Standard output.
    #[default]
    Stdout,
    /// Standard error.
    Stderr,
}

/// Which part of a log.
#[derive(Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LogQuery {
    /// Standard output or standard error.
    #[param(inline)]
    stream: LogStream,
    /// Where to begin, in bytes.
    offset: u64,
}

/// A part of the log of a job, at most 256 KiB, as it is now. The header `x-next-offset` says where the next part begins.
#[utoipa::path(get, path = "/jobs/{id}/log", tag = "jobs",
    params(("id" = String, Path, description = "The job ID."), LogQuery),
    responses(
        (status = 200, content_type = "application/octet-stream", description = "The bytes.",
            headers(("x-next-offset" = u64, description = "Where the next part begins."))),
        (status = 404, body = Problem, description = "There is no such job, or it is another user's."),
        (status = 422, body = Problem, description = "The job has not started."),
    ))]
pub(super) async fn log(
    State(web): State<Arc<Web>>,
    JobId(handle): JobId,
    QueryOf(query): QueryOf<LogQuery>,
) -> Result<Response, Problem> {
    let name = match query.stream {
        LogStream::Stdout => ResultName::Stdout,
        LogStream::Stderr => ResultName::Stderr,
    };
    let client = web.follower.client();
    let wanted = Download { handle, name, offset: query.offset, follow: false, run: None };
    let bytes = match part(client, &wanted).await {
        // In the first moment of a run its output is not there yet.
        Err(error) if error.is_missing() => match client.job(&wanted.handle).await?.state {
            JobState::Active => Vec::new(),
            _ => return Err(error.into()),
        },
        found => found?,
    };
    let next = query.offset.saturating_add(bytes.len() as u64);
    let kind = HeaderValue::from_static("application/octet-stream");
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, kind), (NEXT_OFFSET, next.into())], bytes).into_response())
}

/// What there is from an offset on, up to the most of one answer.
async fn part(client: &Client, wanted: &Download) -> Result<Vec<u8>, ClientError> {
    let mut pieces = std::pin::pin!(client.pieces(wanted).await?);
    let mut bytes = Vec::new();
    while bytes.len() < PIECE_BYTES_MAX
        && let Some(piece) = pieces.next().await
    {
        bytes.extend(piece?);
    }
    bytes.truncate(PIECE_BYTES_MAX);
    Ok(bytes)
}
