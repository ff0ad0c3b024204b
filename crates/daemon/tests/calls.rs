//! Calls whose messages do not come: over real connections, with callers that send what they like.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use parking_lot::Mutex;
use pliant_daemon::config::LimitsFile;
use pliant_daemon::gate::{ArrivalLayer, Gate};
use pliant_model::Time;
use pliant_telemetry::{LogFormat, REQUEST_HEADER, subscriber};
use pliant_transport::{Caller, Peer, Role, Serial};
use pliant_wire::proto::JobRequest;
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::body::Body;
use tonic::server::{ClientStreamingService, NamedService, UnaryService};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::{Service, ServiceExt};

/// Longer than any test takes.
const HOUR: Duration = Duration::from_secs(3_600);

/// Answers every call with the handle that it is asked about, and logs it.
#[derive(Clone)]
struct Echo {
    gate: Gate,
}

impl NamedService for Echo {
    const NAME: &'static str = "pliant.v1.Server";
}

impl UnaryService<JobRequest> for Echo {
    type Response = JobRequest;
    type Future = Ready<Result<Response<JobRequest>, Status>>;

    fn call(&mut self, request: Request<JobRequest>) -> Self::Future {
        let _pass = match self.gate.user(&request) {
            Ok((_, pass)) => pass,
            Err(status) => return ready(Err(status)),
        };
        let asked = request.into_inner();
        tracing::info!(job = %asked.handle, "asked");
        ready(Ok(Response::new(asked)))
    }
}

impl ClientStreamingService<JobRequest> for Echo {
    type Response = JobRequest;
    type Future = Pin<Box<dyn Future<Output = Result<Response<JobRequest>, Status>> + Send>>;

    fn call(&mut self, request: Request<Streaming<JobRequest>>) -> Self::Future {
        Box::pin(async move { Ok(Response::new(request.into_inner().message().await?.unwrap())) })
    }
}

impl Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let (echo, serial) = (self.clone(), Serial::from_bytes(&[7]));
        let peer = Peer { role: Role::User, name: "alice".to_owned(), serial, not_after: Time(0) };
        request.extensions_mut().insert(Caller { peer, address: ([127, 0, 0, 1], 1).into() });
        let mut answers = tonic::server::Grpc::new(ProstCodec::<JobRequest, JobRequest>::default());
        Box::pin(async move {
            Ok(match request.uri().path() {
                "/pliant.v1.Server/Upload" => answers.client_streaming(echo, request).await,
                _ => answers.unary(echo, request).await,
            })
        })
    }
}

/// A daemon whose calls must be there within `limit`.
async fn served(limit: Duration) -> (Channel, tokio::task::JoinHandle<()>) {
    let (address, task) = bounded(ArrivalLayer::new(limit, HOUR), LimitsFile::default()).await;
    (Endpoint::from_shared(address).unwrap().connect().await.unwrap(), task)
}

/// A daemon with these limits, and its address.
async fn bounded(layer: ArrivalLayer, limits: LimitsFile) -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let serving = Server::builder()
        .layer(layer)
        .add_service(Echo { gate: Gate::new(limits) })
        .serve_with_incoming(TcpListenerStream::new(listener));
    let task = tokio::spawn(async move { serving.await.unwrap() });
    (format!("http://{address}"), task)
}

/// A call whose body is what is sent to it, piece by piece. Gives its status and its answer.
async fn call(
    channel: &Channel,
    method: &str,
) -> (mpsc::Sender<Bytes>, tokio::task::JoinHandle<http::Response<Body>>) {
    let (pieces, body) = mpsc::channel(4);
    let body = tokio_stream::StreamExt::map(ReceiverStream::new(body), Ok::<Bytes, Infallible>);
    let request = http::Request::post(format!("http://localhost/pliant.v1.Server/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header(REQUEST_HEADER, "4be1c09a77d2f035")
        .body(Body::new(axum::body::Body::from_stream(body)))
        .unwrap();
    let mut channel = channel.clone();
    let answered = async move { channel.ready().await.unwrap().call(request).await.unwrap() };
    (pieces, tokio::spawn(answered))
}

/// A message as gRPC frames it, in two halves.
fn halves() -> (Bytes, Bytes) {
    let message = JobRequest { handle: "lyon.17".to_owned() }.encode_to_vec();
    let mut frame = vec![0];
    frame.extend((message.len() as u32).to_be_bytes());
    frame.extend(message);
    let mut first = Bytes::from(frame);
    let second = first.split_off(8);
    (first, second)
}

fn status(answer: &http::Response<Body>) -> Option<&str> {
    answer.headers().get("grpc-status").map(|status| status.to_str().unwrap())
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn start() -> (Log, tracing::subscriber::DefaultGuard) {
        let log = Log::default();
        let writer = log.clone();
        let dispatch = subscriber(LogFormat::Json, "info", move || writer.clone()).unwrap();
        (log, tracing::dispatcher::set_default(&dispatch))
    }

    fn line(&self, message: &str) -> serde_json::Value {
        let text = String::from_utf8(self.0.lock().clone()).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let mut found = lines.filter(|line| line["message"] == message);
        found.next().unwrap_or_else(|| panic!("{text}"))
    }
}

#[tokio::test]
async fn a_call_whose_message_does_not_come_is_cut_off() {
    let (log, _guard) = Log::start();
    let (channel, daemon) = served(Duration::from_millis(20)).await;
    let (first, second) = halves();
    // A stream may take its time: it begins before the others and goes on after they were cut off.
    let (stream, streamed) = call(&channel, "Upload").await;
    stream.send(first.clone()).await.unwrap();
    for pieces in [vec![], vec![first.clone()], vec![first.clone(), second.clone()]] {
        // Nothing, half a message, and a message without an end.
        let (sender, answered) = call(&channel, "Job").await;
        for piece in pieces {
            sender.send(piece).await.unwrap();
        }
        let answer = answered.await.unwrap();
        assert_eq!(status(&answer), Some("4"), "{answer:?}");
    }
    stream.send(second).await.unwrap();
    let answer = streamed.await.unwrap();
    assert_eq!(status(&answer), None, "its status follows the answer: {answer:?}");
    let line = log.line("call cut off");
    assert_eq!(line["call"], "/pliant.v1.Server/Job");
    assert_eq!(line["reason"], "expected the whole message within 0.02 s");
    assert_eq!(line["spans"][0]["request"], "4be1c09a77d2f035");
    daemon.abort();
}

#[tokio::test]
async fn each_line_of_a_call_has_its_id() {
    let (log, _guard) = Log::start();
    let (channel, daemon) = served(HOUR).await;
    let (first, second) = halves();
    let (sender, answered) = call(&channel, "Job").await;
    sender.send(first).await.unwrap();
    sender.send(second).await.unwrap();
    drop(sender);
    assert_eq!(status(&answered.await.unwrap()), None);
    assert_eq!(log.line("asked")["spans"][0]["request"], "4be1c09a77d2f035");
    // A caller that says nothing gets one.
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/pliant.v1.Server/Job");
    let asked = Request::new(JobRequest { handle: "lyon.18".to_owned() });
    let codec = ProstCodec::<JobRequest, JobRequest>::default();
    let answer: Result<Response<JobRequest>, Status> = client.unary(asked, path, codec).await;
    assert_eq!(answer.unwrap().into_inner().handle, "lyon.18");
    let lines = String::from_utf8(log.0.lock().clone()).unwrap();
    let line: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!(line["spans"][0]["request"].as_str().unwrap().len(), 16, "{line}");
    daemon.abort();
}

/// Asks about a job with a long handle, whose answer does not fit in a closed window.
async fn ask(channel: &Channel) -> http::Response<Body> {
    let message = JobRequest { handle: "x".repeat(100_000) }.encode_to_vec();
    let mut frame = vec![0];
    frame.extend((message.len() as u32).to_be_bytes());
    frame.extend(message);
    let (sender, answered) = call(channel, "Job").await;
    sender.send(frame.into()).await.unwrap();
    drop(sender);
    answered.await.unwrap()
}

#[tokio::test]
async fn answers_that_are_not_taken_are_open_requests() {
    let limits = LimitsFile { open_requests: 3, ..LimitsFile::default() };
    let (address, daemon) = bounded(ArrivalLayer::new(HOUR, HOUR), limits).await;
    let endpoint = Endpoint::from_shared(address).unwrap();
    // Their streams have no window: nothing of an answer can be sent.
    let closed = endpoint.clone().initial_stream_window_size(0);
    let (one, other) = (closed.connect().await.unwrap(), closed.connect().await.unwrap());
    let mut untaken = Vec::new();
    for channel in [&one, &other, &one] {
        let answer = ask(channel).await;
        assert_eq!(status(&answer), None, "its status follows the answer: {answer:?}");
        untaken.push(answer);
    }
    let open = endpoint.connect().await.unwrap();
    for channel in [&one, &other, &open] {
        let refused = ask(channel).await;
        assert_eq!(status(&refused), Some("8"), "{refused:?}");
        let message = refused.headers()["grpc-message"].to_str().unwrap();
        assert!(message.starts_with("3%20requests"), "{message}");
    }
    // They are closed once their callers reset them.
    drop(untaken);
    loop {
        let answer = ask(&open).await;
        if status(&answer).is_none() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    daemon.abort();
}
