//! How fast the link to another server is: one of two servers is asked by an agent ([`Prober`](pliant_control::coallocation::Prober)
//! says when), connects to the other one as servers do, and sends and receives bytes that mean nothing. The receiver
//! measures ([`meter`]).
//!
//! What that costs is bounded on both sides: so many bytes and so long each way as the agent says, within the bounds of the
//! protocol, and one measurement at a time at each server. The connection begins at the address on which this server
//! listens, since its tasks communicate from there: a machine may be in several networks.

mod meter;

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pliant_control::handoff::Peer;
use pliant_transport::{ClientTls, Identity, Role, Timeouts, channel_from};
use pliant_wire::proto::links_client::LinksClient;
use pliant_wire::{DownloadProbe, LinkMeasurement, LinkProbe, proto};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;
use tokio_stream::Stream;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use self::meter::{Meter, ballast};
use crate::gate;

/// How long anything but bytes may take.
const CALL: Duration = Duration::from_secs(10);
/// How often the time of a question and its answer is taken; the least of them counts.
const ECHOES: u32 = 5;

/// The service that agents and other servers call.
#[derive(Clone)]
pub(super) struct Service {
    tls: Arc<ClientTls>,
    /// Where connections begin; none if the server listens on every address.
    from: Option<IpAddr>,
    turn: Arc<Semaphore>,
}

impl Service {
    /// Of a server that listens there.
    pub(super) fn new(tls: Arc<ClientTls>, listens: IpAddr) -> Service {
        let from = (!listens.is_unspecified()).then_some(listens);
        Service { tls, from, turn: Arc::new(Semaphore::new(1)) }
    }

    /// The right to take part in a measurement, as long as it is kept.
    fn turn(&self) -> Result<OwnedSemaphorePermit, Status> {
        let turn = self.turn.clone().try_acquire_owned();
        turn.map_err(|_| Status::resource_exhausted("another measurement of a link is under way here"))
    }

    async fn measure(&self, order: &LinkProbe) -> Result<LinkMeasurement, Status> {
        let LinkProbe { server: Peer { name, address }, bytes, limit } = order;
        let identity = Identity::new(Role::Server, name.as_str())
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let channel = channel_from(self.from, address, &identity, self.tls.clone(), &Timeouts::default());
        let mut other = LinksClient::new(channel);
        let round_trip = in_time(CALL, round_trip(&mut other)).await?;
        let sent = ballast(*bytes, *limit, ());
        let taken = in_time(*limit + CALL, other.take(Request::new(sent))).await?.into_inner();
        let there_mbps = LinkMeasurement::mbps("there", taken.mbps)?;
        let wanted = proto::GiveRequest::from(&DownloadProbe { bytes: *bytes, limit: *limit });
        let given = in_time(CALL, other.give(wanted)).await?.into_inner();
        let back_mbps = received(given, Meter::default(), *limit).await?;
        Ok(LinkMeasurement { there_mbps, back_mbps, round_trip })
    }
}

/// What is to be there in time.
async fn in_time<T>(limit: Duration, call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let late = |_| Status::deadline_exceeded(format!("no answer within {} s", limit.as_secs()));
    timeout(limit, call).await.map_err(late)?
}

/// The least time from a question to its answer. The first one makes the connection.
async fn round_trip(other: &mut LinksClient<Channel>) -> Result<Duration, Status> {
    let mut least = Duration::MAX;
    other.echo(proto::EchoRequest {}).await?;
    for _ in 0..ECHOES {
        let begun = Instant::now();
        other.echo(proto::EchoRequest {}).await?;
        least = least.min(begun.elapsed());
    }
    Ok(least)
}

/// How fast bytes came, in Mb/s: all of them, or those that came in time.
async fn received(
    mut bytes: Streaming<proto::Ballast>,
    mut meter: Meter,
    limit: Duration,
) -> Result<f64, Status> {
    let all = async {
        while let Some(piece) = bytes.message().await? {
            meter.arrived(piece.bytes.len());
        }
        Ok::<(), Status>(())
    };
    // Those that come later are not waited for.
    if let Ok(failed) = timeout(limit, all).await {
        failed?;
    }
    meter.mbps().ok_or_else(|| Status::aborted("expected more bytes within the time that there was"))
}

#[tonic::async_trait]
impl proto::links_server::Links for Service {
    async fn probe(
        &self,
        request: Request<proto::ProbeRequest>,
    ) -> Result<Response<proto::ProbeReply>, Status> {
        let (_, _pass) = gate::daemon(&request, &[Role::Agent])?;
        let order = LinkProbe::try_from(request.into_inner())?;
        let _lock = self.turn()?;
        let to = &order.server.name;
        let probed = self.measure(&order).await.map_err(|status| {
            tracing::info!(server = %to, why = status.message(), "a link cannot be measured");
            Status::new(status.code(), format!("{to}: {}", status.message()))
        })?;
        let LinkMeasurement { there_mbps, back_mbps, round_trip } = &probed;
        tracing::info!(server = %to, there_mbps, back_mbps, ?round_trip, "measured a link");
        Ok(Response::new((&probed).into()))
    }

    async fn echo(&self, request: Request<proto::EchoRequest>) -> Result<Response<proto::EchoReply>, Status> {
        let (_, _pass) = gate::daemon(&request, &[Role::Server])?;
        Ok(Response::new(proto::EchoReply {}))
    }

    async fn take(
        &self,
        request: Request<Streaming<proto::Ballast>>,
    ) -> Result<Response<proto::Taken>, Status> {
        let (_, _pass) = gate::daemon(&request, &[Role::Server])?;
        let _lock = self.turn()?;
        let mut bytes = request.into_inner();
        let first = in_time(CALL, bytes.message()).await?;
        let limit = DownloadProbe::limit(first.map_or(0, |first| first.limit_ms))?;
        let mbps = received(bytes, Meter::default(), limit).await?;
        Ok(Response::new(proto::Taken { mbps: LinkMeasurement::written(mbps) }))
    }

    type GiveStream = Pin<Box<dyn Stream<Item = Result<proto::Ballast, Status>> + Send>>;

    async fn give(&self, request: Request<proto::GiveRequest>) -> Result<Response<Self::GiveStream>, Status> {
        let (_, pass) = gate::daemon(&request, &[Role::Server])?;
        let DownloadProbe { bytes, limit } = request.into_inner().try_into()?;
        let turn = self.turn()?;
        let (kept, ended) = oneshot::channel::<Infallible>();
        // A receiver that takes nothing is not waited for: sending ends with the bytes, or with the time for them.
        tokio::spawn(async move {
            let _ = timeout(limit + CALL, ended).await;
            drop((turn, pass));
        });
        let given = tokio_stream::StreamExt::map(ballast(bytes, limit, kept), Ok);
        Ok(Response::new(Box::pin(given)))
    }
}
