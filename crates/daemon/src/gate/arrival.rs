//! What every call passes before its service sees it: it gets a request id, which is in each log line of the call,
//! and its message has so long to arrive. Calls that send many messages take as long as they like; their handlers
//! look after them. What answers pass after their services is in [`super::answer`].

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

use super::answer::{Answer, PassSlot};

/// The calls whose callers send many messages.
const STREAMED: [&str; 4] = [
    "/pliant.v1.Agent/Attach",
    "/pliant.v1.Server/Upload",
    "/pliant.v1.Server/Explore",
    "/pliant.v1.Links/Take",
];

/// The calls that bound by themselves how long nothing of their answers is taken.
const BOUNDED: [&str; 1] = ["/pliant.v1.Server/Download"];

/// Puts every call through [`Arrival`].
#[derive(Clone, Copy, Debug)]
pub struct ArrivalLayer {
    message_within: Duration,
    answer_within: Duration,
}

impl ArrivalLayer {
    /// The one message of a call must be there so long after its headers, and something of its answer must be taken at least once within
    /// `answer_within`.
    pub fn new(message_within: Duration, answer_within: Duration) -> ArrivalLayer {
        ArrivalLayer { message_within, answer_within }
    }
}

impl<S> Layer<S> for ArrivalLayer {
    type Service = Arrival<S>;

    fn layer(&self, inner: S) -> Arrival<S> {
        Arrival { inner, layer: *self }
    }
}

/// A service that calls arrive at.
#[derive(Clone, Debug)]
pub struct Arrival<S> {
    inner: S,
    layer: ArrivalLayer,
}

impl<S> Service<http::Request<Body>> for Arrival<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let id = RequestId::from_headers(request.headers()).unwrap_or_else(RequestId::fresh);
        // One that was made up here is the same for everybody who asks for it.
        id.add_to_headers(request.headers_mut());
        let (call, slot) = (Call::of(&request), PassSlot::default());
        request.extensions_mut().insert(slot.clone());
        let ArrivalLayer { message_within: limit, answer_within } = self.layer;
        if !STREAMED.contains(&call.path.as_str()) {
            let (deadline, call) = (Box::pin(sleep(limit)), call.clone());
            request = request.map(|body| Body::new(Timely { body, limit, deadline, call }));
        }
        let span = id.span();
        let answered = span.in_scope(|| self.inner.call(request));
        let answered = async move {
            let answer = answered.await?;
            Ok(match BOUNDED.contains(&call.path.as_str()) {
                true => answer,
                false => answer.map(|body| Answer::wrap(body, &slot, answer_within, call)),
            })
        };
        Box::pin(answered.instrument(span))
    }
}

/// What a log line says of a call.
#[derive(Clone)]
#[cfg_attr(test, derive(Default))]
pub(super) struct Call {
    path: String,
    caller: Option<Caller>,
}

impl Call {
    fn of(request: &http::Request<Body>) -> Call {
        Call { path: request.uri().path().to_owned(), caller: request.extensions().get().cloned() }
    }

    /// Logs that it is cut off, and why.
    pub(super) fn cut_off(&self, why: &str) {
        let Call { path, caller } = self;
        let (remote, peer) = (caller.as_ref().map(|caller| caller.address), caller.as_ref());
        let peer = peer.map(|caller| tracing::field::display(&caller.peer));
        tracing::warn!(remote = remote.map(tracing::field::display), peer, call = %path, reason = %why, "call cut off");
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
        self.call.cut_off(&why);
        Poll::Ready(Some(Err(Status::deadline_exceeded(why))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
