//! The files that a job left: listed and downloaded.

use std::fmt::Write;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, header};
use pliant_staging::ResultName;
use pliant_wire::Download;
use serde::Serialize;
use tokio_stream::StreamExt;
use utoipa::ToSchema;

use super::Json;
use crate::extract::{JobId, PathOf};
use crate::problem::Problem;
use crate::state::Web;

/// What a download may do if a browser shows it after all: nothing.
const SANDBOX: &str = "default-src 'none'; sandbox";

/// The files of a job.
#[derive(Serialize, ToSchema)]
pub(super) struct FilesView {
    /// What can be downloaded.
    files: Vec<FileView>,
    /// The first files that cannot be, and why.
    left_out: Vec<LeftOutView>,
    /// The number of files that cannot be downloaded.
    left_out_count: u64,
    /// True if the job wrote more on standard output than was kept.
    stdout_cut: bool,
    /// The same of standard error.
    stderr_cut: bool,
}

/// A file of a job.
#[derive(Serialize, ToSchema)]
pub(super) struct FileView {
    /// Its name: `stdout`, `stderr`, or `work/` and a path.
    name: String,
    /// Its size in bytes.
    bytes: u64,
    /// Its checksum (SHA-256).
    sha256: String,
}

/// A file that cannot be downloaded.
#[derive(Serialize, ToSchema)]
pub(super) struct LeftOutView {
    /// Its name.
    name: String,
    /// Why not.
    why: String,
}

/// The files that a job left; of a job that has ended.
#[utoipa::path(get, path = "/jobs/{id}/files", tag = "jobs", params(("id" = String, Path, description = "The job ID.")),
    responses(
        (status = 200, body = FilesView),
        (status = 404, body = Problem, description = "There is no such job, or it is another user's."),
        (status = 422, body = Problem, description = "The job has not ended."),
    ))]
pub(super) async fn files(
    State(web): State<Arc<Web>>,
    JobId(handle): JobId,
) -> Result<Json<FilesView>, Problem> {
    let results = web.follower.client().results(&handle).await?;
    let file = |file: &pliant_wire::Fetchable| FileView {
        name: file.name.to_string(),
        bytes: file.size,
        sha256: file.sha256.to_string(),
    };
    let left =
        |left: &pliant_wire::OmittedFile| LeftOutView { name: left.name.clone(), why: left.why.clone() };
    Ok(Json(FilesView {
        files: results.files.iter().map(file).collect(),
        left_out: results.left_out.iter().map(left).collect(),
        left_out_count: results.left_out_count,
        stdout_cut: results.stdout_cut,
        stderr_cut: results.stderr_cut,
    }))
}

/// A file that a job left, as a download.
#[utoipa::path(get, path = "/jobs/{id}/files/{name}", tag = "jobs",
    params(
        ("id" = String, Path, description = "The job ID."),
        ("name" = String, Path, description = "The name of the file; its slashes are those of the path."),
    ),
    responses(
        (status = 200, content_type = "application/octet-stream", description = "The bytes."),
        (status = 400, body = Problem, description = "The name leads out of the folder of the job, or is none."),
        (status = 404, body = Problem, description = "There is no such job or file, or it is another user's."),
    ))]
pub(super) async fn file(
    State(web): State<Arc<Web>>,
    JobId(handle): JobId,
    PathOf((_, name)): PathOf<(String, String)>,
) -> Result<Response, Problem> {
    // The type refuses names that lead out of the folder, and the server checks again.
    let name: ResultName = name.parse().map_err(Problem::bad_request)?;
    let headers = download("application/octet-stream", &name.to_string());
    let wanted = Download { handle, name, offset: 0, follow: false, run: None };
    let mut pieces = Box::pin(web.follower.client().pieces(&wanted).await?);
    // Servers refuse in place of the first piece; after it a failure can only break the download off.
    let first = pieces.next().await.transpose()?;
    let pieces = tokio_stream::iter(first.map(Ok)).chain(pieces);
    Ok((headers, Body::from_stream(pieces)).into_response())
}

/// The headers of a download, which a browser stores under the last part of that name.
pub(super) fn download(kind: &'static str, name: &str) -> [(HeaderName, HeaderValue); 3] {
    [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_DISPOSITION, disposition(name)),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX)),
    ]
}

/// A header that has a browser store a file under the last part of its name (RFC 6266).
fn disposition(name: &str) -> HeaderValue {
    let last = name.rsplit('/').next().unwrap_or_default();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let encoded = last.bytes().fold(String::new(), |mut text, byte| {
        if plain(byte) {
            text.push(char::from(byte));
        } else {
            // A string takes everything.
            let _ = write!(text, "%{byte:02X}");
        }
        text
    });
    let value = HeaderValue::try_from(format!("attachment; filename*=UTF-8''{encoded}"));
    // It has letters, digits and percent signs alone.
    value.unwrap_or_else(|_| HeaderValue::from_static("attachment"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_file_name_stays_a_name() {
        let check = |name: &str, expected: &str| {
            assert_eq!(disposition(name), format!("attachment; filename*=UTF-8''{expected}"), "{name}");
        };
        check("work/out.csv", "out.csv");
        check("work/a\"; filename=\"b.html", "a%22%3B%20filename%3D%22b.html");
        check("work/é\n", "%C3%A9%0A");
    }
}
