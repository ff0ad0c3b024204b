//! Errors as problem documents (RFC 9457).

use std::fmt;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use pliant_client::ClientError;
use serde::Serialize;
use utoipa::ToSchema;

/// The media type of problem documents.
pub(crate) const PROBLEM_TYPE: &str = "application/problem+json";

/// Why a request was refused or failed, as in RFC 9457.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct Problem {
    /// The kind of problem: `about:blank`, so the status says it.
    #[serde(rename = "type")]
    #[schema(example = "about:blank")]
    kind: &'static str,
    /// The meaning of the status.
    title: &'static str,
    /// The status of the answer.
    status: u16,
    /// What was expected and what was found.
    detail: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// Why servers refuse a submission, in the words of `pliant submit`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<String>,
}

impl Problem {
    /// A problem with that status.
    pub(crate) fn new(status: StatusCode, detail: impl fmt::Display) -> Problem {
        Problem {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: detail.to_string(),
            hint: None,
            causes: Vec::new(),
        }
    }

    /// The request is wrong.
    pub(crate) fn bad_request(detail: impl fmt::Display) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }

    /// What is asked for cannot be done.
    pub fn unprocessable(detail: impl fmt::Display) -> Problem {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    /// The same with what to do about it.
    #[must_use]
    pub fn hint(self, hint: impl fmt::Display) -> Problem {
        Problem { hint: Some(hint.to_string()), ..self }
    }

    /// The status.
    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// What was expected and what was found.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// What to do about it.
    pub(crate) fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// A call to the federation that failed.
impl From<ClientError> for Problem {
    fn from(error: ClientError) -> Problem {
        let status = if error.is_missing() {
            StatusCode::NOT_FOUND
        } else if error.is_denied() {
            StatusCode::FORBIDDEN
        } else if error.may_pass() {
            StatusCode::SERVICE_UNAVAILABLE
        } else if error.is_input() {
            StatusCode::UNPROCESSABLE_ENTITY
        } else {
            StatusCode::BAD_GATEWAY
        };
        Problem {
            hint: error.hint().map(str::to_owned),
            causes: error.causes().iter().map(|cause| cause.word().to_owned()).collect(),
            ..Problem::new(status, &error)
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // A problem has strings and numbers only, which are JSON.
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (self.status(), body).into_response();
        let kind = HeaderValue::from_static(PROBLEM_TYPE);
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        if self.status() == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.status() == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }
}
