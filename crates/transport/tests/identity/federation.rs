//! An authority, those that it knows, and a daemon that says who is calling.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use http::uri::PathAndQuery;
use parking_lot::Mutex;
use pliant_model::Time;
use pliant_transport::{
    Authority, Caller, CertificateRequest, ClientTls, ConnectError, ConnectReason, Credentials, Identity,
    Limits, Role, ServerTls, Timeouts, channel, guard, incoming, not_sent,
};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::server::{NamedService, UnaryService};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::Service;

pub(crate) const DAY_S: i64 = 86_400;

pub(crate) fn now() -> Time {
    let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Time(i64::try_from(elapsed.as_secs()).unwrap())
}

/// An authority and the folders of those that it knows.
pub(crate) struct Federation {
    pub(crate) dir: TempDir,
    pub(crate) authority: Authority,
}

impl Federation {
    pub(crate) fn new() -> Federation {
        Federation::named("test")
    }

    pub(crate) fn named(name: &str) -> Federation {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::init(&dir.path().join("ca"), name, now()).unwrap();
        Federation { dir, authority }
    }

    pub(crate) fn issue_at(&self, role: Role, name: &str, at: Time, days: u32) -> Credentials {
        let order = CertificateRequest {
            days,
            renew: true,
            ..CertificateRequest::new(Identity::new(role, name).unwrap())
        };
        let number = self.authority.list().unwrap().len();
        let dir = self.dir.path().join(number.to_string());
        let (_, files) = self.authority.issue_into(&dir, &order, at).unwrap();
        // The list that the authority writes, not the copy of the moment.
        Credentials { crl: Some(self.authority.crl_path()), ..files }
    }

    pub(crate) fn issue(&self, role: Role, name: &str) -> Credentials {
        self.issue_at(role, name, now(), 30)
    }

    pub(crate) fn expired(&self, role: Role, name: &str) -> Credentials {
        self.issue_at(role, name, Time(now().0 - 40 * DAY_S), 30)
    }

    pub(crate) fn revoked(&self, role: Role, name: &str) -> Credentials {
        let files = self.issue(role, name);
        self.revoke(&files);
        files
    }

    pub(crate) fn revoke(&self, files: &Credentials) {
        let serial = ClientTls::load(files).unwrap().own().serial.clone();
        self.authority.revoke(serial.as_str(), now()).unwrap();
    }

    /// The certificate of another federation, whose holder takes this one's authority for good.
    pub(crate) fn stranger(&self, other: &Federation, role: Role, name: &str) -> Credentials {
        let files = other.issue(role, name);
        Credentials { ca: self.authority.ca_path(), crl: Some(self.authority.crl_path()), ..files }
    }
}

/// Answers with the caller's role, name and serial.
#[derive(Clone)]
pub(crate) struct WhoAmI;

impl NamedService for WhoAmI {
    const NAME: &'static str = "test.WhoAmI";
}

impl UnaryService<()> for WhoAmI {
    type Response = String;
    type Future = Ready<Result<Response<String>, Status>>;

    fn call(&mut self, request: Request<()>) -> Self::Future {
        let Caller { peer, address } = request.extensions().get::<Caller>().unwrap();
        assert!(address.ip().is_loopback());
        ready(Ok(Response::new(format!("{peer} {}", peer.serial))))
    }
}

impl Service<http::Request<Body>> for WhoAmI {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let mut answers = tonic::server::Grpc::new(ProstCodec::<String, ()>::default());
        Box::pin(async move { Ok(answers.unary(WhoAmI, request).await) })
    }
}

pub(crate) async fn ask(channel: &Channel) -> Result<String, Status> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.map_err(|error| Status::from_error(error.into()))?;
    let path = PathAndQuery::from_static("/test.WhoAmI/Ask");
    let answer = client.unary(Request::new(()), path, ProstCodec::<(), String>::default()).await;
    answer.map(Response::into_inner)
}

/// A daemon that ends with the value.
pub(crate) struct Daemon {
    pub(crate) address: SocketAddr,
    pub(crate) task: JoinHandle<()>,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Daemon {
    pub(crate) async fn start(files: &Credentials, limits: Limits) -> Daemon {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls = Arc::new(ServerTls::load(files).unwrap());
        let connections = incoming(listener, tls.clone(), limits);
        let service = InterceptedService::new(WhoAmI, guard(tls));
        let serving = Server::builder().add_service(service).serve_with_incoming(connections);
        Daemon { address, task: tokio::spawn(async move { serving.await.unwrap() }) }
    }

    /// A channel to the server that the tests expect here.
    pub(crate) fn channel(&self, files: &Credentials) -> Channel {
        let tls = Arc::new(ClientTls::load(files).unwrap());
        let expected = Identity::new(Role::Server, "alpha").unwrap();
        channel(&self.address.to_string(), &expected, tls, &patient())
    }

    pub(crate) async fn ask(&self, files: &Credentials) -> Result<String, Status> {
        ask(&self.channel(files)).await
    }
}

/// No test waits for a timeout to pass.
pub(crate) fn patient() -> Timeouts {
    Timeouts { connect: Duration::from_secs(300), ..Timeouts::default() }
}

pub(crate) fn long() -> Limits {
    Limits { handshake: Duration::from_secs(3_600), ..Limits::default() }
}

/// The text of what is logged on this thread from now on.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn start() -> (Log, tracing::subscriber::DefaultGuard) {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::WARN)
            .with_writer(move || writer.clone());
        let guard = tracing::subscriber::set_default(subscriber.finish());
        (log, guard)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The failure, which must be one before anything was sent.
pub(crate) fn unsent(answer: Result<String, Status>) -> (String, &'static str) {
    let status = answer.expect_err("a refusal");
    let error: &ConnectError = not_sent(&status).unwrap_or_else(|| panic!("may have been sent: {status:?}"));
    let name = match error.reason {
        ConnectReason::Unreachable(_) => "unreachable",
        ConnectReason::Timeout { .. } => "slow",
        ConnectReason::Untrusted(_) => "untrusted",
        ConnectReason::ConnectionRefusal(_) => "refused",
        ConnectReason::Identity(_) => "identity",
        ConnectReason::Other { .. } => "other",
        ConnectReason::Own(_) => "own",
    };
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    (error.to_string(), name)
}
