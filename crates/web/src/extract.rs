//! What handlers take from a request; what is wrong with it is a problem document.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use bytes::Bytes;
use http::request::Parts;
use http::{StatusCode, header};
use http_body::Body as _;
use pliant_control::names::Handle;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::problem::Problem;

/// The most bytes of a body: more than the longest script as JSON.
const BODY_BYTES_MAX: usize = 4 << 20;

/// How long a body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// A body of JSON.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;
    async fn from_request(request: Request<Body>, _: &S) -> Result<JsonBody<T>, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        // A form of another site cannot have this type without asking first.
        if !kind.is_some_and(is_json) {
            let found = kind.unwrap_or("none").escape_debug().to_string();
            let problem = format!("expected a body of type application/json, found {found}");
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, problem));
        }
        let bytes = whole(request.into_body(), BODY_TIMEOUT).await?;
        serde_json::from_slice(&bytes).map(JsonBody).map_err(Problem::bad_request)
    }
}

/// True of the media type of JSON, with parameters or without.
fn is_json(kind: &str) -> bool {
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// The bytes of a body, if they come in that time. A body that is declared too long is not waited for.
async fn whole(body: Body, within: Duration) -> Result<Bytes, Problem> {
    let too_large = || {
        let problem = format!("expected a body of at most {BODY_BYTES_MAX} bytes that comes whole");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, problem)
    };
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(too_large());
    }
    let read = timeout(within, to_bytes(body, BODY_BYTES_MAX)).await.map_err(|_| {
        let problem = format!("expected a body that comes within {} s, found a slower one", within.as_secs());
        Problem::new(StatusCode::REQUEST_TIMEOUT, problem)
    })?;
    read.map_err(|_| too_large())
}

/// The query of a URL.
pub(crate) struct QueryOf<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryOf<T> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<QueryOf<T>, Problem> {
        Query::try_from_uri(&parts.uri)
            .map(|Query(query)| QueryOf(query))
            .map_err(|rejection| Problem::bad_request(rejection.body_text()))
    }
}

/// The variable parts of a path; those that are no text or no number lead nowhere.
pub(crate) struct PathOf<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathOf<T> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<PathOf<T>, Problem> {
        let path = Path::from_request_parts(parts, state).await;
        path.map(|Path(path)| PathOf(path))
            .map_err(|rejection| Problem::new(StatusCode::NOT_FOUND, rejection.body_text()))
    }
}

/// The ID of a job in a path.
pub(crate) struct JobId(pub(crate) Handle);

impl<S: Send + Sync> FromRequestParts<S> for JobId {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<JobId, Problem> {
        // Other parts of the path belong to the handler.
        let PathOf(params): PathOf<Vec<(String, String)>> = PathOf::from_request_parts(parts, state).await?;
        let id = params.iter().find(|(name, _)| name == "id").map_or("", |(_, id)| id.as_str());
        id.parse().map(JobId).map_err(|error| Problem::new(StatusCode::NOT_FOUND, error))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[tokio::test]
    async fn a_body_that_does_not_come_is_given_up() {
        let body = || Body::from_stream(tokio_stream::pending::<Result<Bytes, Infallible>>());
        let refused = whole(body(), Duration::from_millis(1)).await.unwrap_err();
        assert_eq!(refused.status(), StatusCode::REQUEST_TIMEOUT);
        assert_eq!(whole(Body::from("{}"), BODY_TIMEOUT).await.unwrap(), "{}");
    }
}
