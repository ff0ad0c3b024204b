//! What every call passes before its service sees it: it gets a request id, which is in each log line of the call,
//! and its message has so long to arrive. Calls that send many messages take as long as they like; their handlers
//! look after them.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use pliant_telemetry::RequestId;
use pliant_transport::Caller;
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};
use tracing::Instrument;
use tracing::instrument::Instrumented;

/// The calls whose callers send many messages.
const STREAMED: [&str; 4] = [
    "/pliant.v1.Agent/Attach",
    "/pliant.v1.Server/Upload",
    "/pliant.v1.Server/Explore",
    "/pliant.v1.Links/Take",
];

/// Puts every call through [`Arrival`].
#[derive(Clone, Copy, Debug)]
pub struct ArrivalLayer {
    message_within: Duration,
}

impl ArrivalLayer {
    /// The one message of a call must be there so long after its headers.
    pub fn new(message_within: Duration) -> ArrivalLayer {
        ArrivalLayer { message_within }
    }
}

impl<S> Layer<S> for ArrivalLayer {
    type Service = Arrival<S>;

    fn layer(&self, inner: S) -> Arrival<S> {
        Arrival { inner, message_within: self.message_within }
    }
}

/// A service that calls arrive at.
#[derive(Clone, Debug)]
pub struct Arrival<S> {
    inner: S,
    message_within: Duration,
}

impl<S: Service<http::Request<Body>>> Service<http::Request<Body>> for Arrival<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = Instrumented<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let id = RequestId::from_headers(request.headers()).unwrap_or_else(RequestId::fresh);
        // One that was made up here is the same for everybody who asks for it.
        id.add_to_headers(request.headers_mut());
        if !STREAMED.contains(&request.uri().path()) {
            let call = Call::of(&request);
            let limit = self.message_within;
            request =
                request.map(|body| Body::new(Timely { body, limit, deadline: Box::pin(sleep(limit)), call }));
        }
        let span = id.span();
        span.in_scope(|| self.inner.call(request)).instrument(span.clone())
    }
}

/// What a log line says of a call.
struct Call {
    path: String,
    caller: Option<Caller>,
}

impl Call {
    fn of(request: &http::Request<Body>) -> Call {
        Call { path: request.uri().path().to_owned(), caller: request.extensions().get().cloned() }
    }
}

/// A message that must be there in time.
struct Timely {
    body: Body,
    limit: Duration,
    deadline: Pin<Box<Sleep>>,
    call: Call,
}

impl HttpBody for Timely {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        ready!(self.deadline.as_mut().poll(context));
        let why = format!("expected the whole message within {} s", self.limit.as_secs_f64());
        let Call { path, caller } = &self.call;
        let (remote, peer) = (caller.as_ref().map(|caller| caller.address), caller.as_ref());
        let peer = peer.map(|caller| tracing::field::display(&caller.peer));
        tracing::warn!(remote = remote.map(tracing::field::display), peer, call = %path, reason = %why, "call cut off");
        Poll::Ready(Some(Err(Status::deadline_exceeded(why))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
