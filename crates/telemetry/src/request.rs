//! Request IDs: created by the client, passed along every call as metadata, contained in every log line.

use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::task::JoinHandle;
use tonic::metadata::MetadataMap;
use tracing::{Instrument, Span};

/// The metadata key (an HTTP header on the wire) that carries a [`RequestId`].
pub const REQUEST_HEADER: HeaderName = HeaderName::from_static("x-pliant-request");

/// Digits of an id.
const DIGITS: usize = 16;

/// Connects the log lines that one request caused on the client, on agents and on servers. Only people who read logs use
/// it: no decision depends on it, and duplicates are harmless.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestId(u64);

impl RequestId {
    /// A new ID, unique with overwhelming probability.
    pub fn fresh() -> RequestId {
        // Each `RandomState` has its own keys: the hash of nothing is another number every time.
        RequestId(RandomState::new().hash_one(()))
    }

    /// The ID in the headers of a call; none if it is missing or not 16 hexadecimal digits in lower case, since anything
    /// else that a caller sends must not appear in logs.
    pub fn from_headers(headers: &HeaderMap) -> Option<RequestId> {
        headers.get(REQUEST_HEADER)?.to_str().ok()?.parse().ok()
    }

    /// The ID in the metadata of a gRPC call, or a new one.
    pub fn of_call(metadata: &MetadataMap) -> RequestId {
        RequestId::from_headers(metadata.as_ref()).unwrap_or_else(RequestId::fresh)
    }

    /// Adds the id to the headers of a call, in place of any other.
    pub fn add_to_headers(self, headers: &mut HeaderMap) {
        headers.insert(REQUEST_HEADER, self.header_value());
    }

    /// Adds the id to the metadata of a gRPC call, in place of any other.
    pub fn add_to_call(self, metadata: &mut MetadataMap) {
        let mut headers = std::mem::take(metadata).into_headers();
        self.add_to_headers(&mut headers);
        *metadata = MetadataMap::from_headers(headers);
    }

    /// A span whose field `request` is in every log line written inside.
    pub fn span(self) -> Span {
        // At level error, so that every filter that passes a line keeps the ID.
        tracing::error_span!("call", request = %self)
    }

    /// The ID as a number.
    pub fn number(self) -> u64 {
        self.0
    }

    fn header_value(self) -> HeaderValue {
        HeaderValue::try_from(self.to_string()).expect("hexadecimal digits are a header value")
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0width$x}", self.0, width = DIGITS)
    }
}

/// Spawns a task whose log lines have the ID of the present call.
pub fn spawn_of_call<F>(task: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    tokio::spawn(task.in_current_span())
}

/// A text that is not 16 hexadecimal digits in lower case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected a request id, {DIGITS} hexadecimal digits in lower case")]
pub struct RequestIdError;

impl FromStr for RequestId {
    type Err = RequestIdError;

    fn from_str(text: &str) -> Result<RequestId, RequestIdError> {
        let digits =
            text.len() == DIGITS && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        if !digits {
            return Err(RequestIdError);
        }
        u64::from_str_radix(text, 16).map(RequestId).map_err(|_| RequestIdError)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn only_sixteen_digits_are_taken_from_a_caller() {
        let check = |text: &[u8], expected: Option<u64>| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_HEADER, HeaderValue::from_bytes(text).unwrap());
            assert_eq!(RequestId::from_headers(&headers), expected.map(RequestId), "{}", text.escape_ascii());
        };
        check(b"00000000000000ff", Some(255));
        check(b"ffffffffffffffff", Some(u64::MAX));
        check(b"", None);
        check(b"ff", None);
        check(b"00000000000000FF", None);
        check(b"+0000000000000ff", None);
        check(b"00000000000000ff0", None);
        check(b"request=evil    ", None);
        check(b"\xff\xfe\xfd\xfc00000000000", None);
        assert_eq!(RequestId::from_headers(&HeaderMap::new()), None);
    }

    #[test]
    fn an_id_survives_the_call_and_replaces_another() {
        let (first, second) = (RequestId::fresh(), RequestId::fresh());
        let mut metadata = MetadataMap::new();
        metadata.insert("other", "kept".parse().unwrap());
        first.add_to_call(&mut metadata);
        second.add_to_call(&mut metadata);
        assert_eq!(RequestId::of_call(&metadata), second);
        assert_eq!(metadata.get_all(REQUEST_HEADER.as_str()).iter().count(), 1);
        assert_eq!(metadata.get("other").unwrap(), "kept");
        assert_eq!(second.to_string().parse(), Ok(second));
    }

    #[test]
    fn fresh_ids_differ_and_a_call_without_one_gets_one() {
        let ids: BTreeSet<String> = (0..1000).map(|_| RequestId::fresh().to_string()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.len() == DIGITS));
        assert_ne!(RequestId::of_call(&MetadataMap::new()), RequestId::of_call(&MetadataMap::new()));
    }
}
