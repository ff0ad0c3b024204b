//! Has servers measure the links between them, now and then: `Prober` of `pliant_control` says which one is next, the
//! coordinator's journal keeps what was found. One measurement goes on at a time, with a pause between two of them.

use std::time::Duration;

use pliant_control::coallocation::{Coordinator, Event, Link, Probe, ProbeOutcome, Prober, server_pair};
use pliant_control::handoff::Peer;
use pliant_control::names::Name;
use pliant_model::Time;
use pliant_telemetry::names;
use pliant_wire::proto::links_client::LinksClient;
use pliant_wire::{LinkMeasurement, LinkProbe, proto};
use tonic::{Code, Request, Status};

use super::calls::Calls;
use crate::config::ProbesFile;

/// The pause after nothing was found to be measured.
const POLL_PERIOD: Duration = Duration::from_secs(5);
/// How long a server may take for all that is not bytes: to connect to the other one, and to answer.
const AROUND: Duration = Duration::from_secs(45);

/// What measures.
pub(super) struct Probing {
    pub(super) calls: Calls,
    pub(super) file: ProbesFile,
}

impl Probing {
    /// Goes on until the coordinator has stopped.
    pub(super) async fn run(self) {
        let mut prober = Prober::new(self.file.every());
        let Ok(before) = self.calls.coordinator.ask(known).await else { return };
        before.iter().for_each(observe);
        loop {
            let servers: Vec<Peer> = self.calls.known().await.into_iter().map(|(server, _)| server).collect();
            let there: Vec<Name> = servers.iter().map(|server| server.name.clone()).collect();
            let looked = self.calls.coordinator.ask(move |coordinator, now| {
                let probe = prober.next(now, &there, coordinator.links());
                (prober, probe)
            });
            let Ok((looked_with, probe)) = looked.await else { return };
            prober = looked_with;
            let pause = match probe {
                None => POLL_PERIOD,
                Some(probe) => {
                    let tried = self.tried(&probe, &servers).await;
                    metrics::counter!(names::PROBES, "outcome" => outcome(tried)).increment(1);
                    let link = server_pair(&probe.by, &probe.to);
                    let present =
                        move |coordinator: &mut Coordinator, now| (now, coordinator.links().get(&link));
                    let Ok((now, link)) = self.calls.coordinator.ask(present).await else { return };
                    link.iter().for_each(observe);
                    prober.done(now, &probe, tried);
                    self.file.pause()
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Has a link measured, and notifies the coordinator.
    async fn tried(&self, probe: &Probe, servers: &[Peer]) -> ProbeOutcome {
        let Probe { by, to } = probe;
        let peer = |name: &Name| servers.iter().find(|server| server.name == *name);
        let (Some(asked), Some(other)) = (peer(by), peer(to)) else { return ProbeOutcome::Failed };
        match self.ask(asked, other).await {
            Ok(LinkMeasurement { there_mbps, back_mbps, round_trip }) => {
                tracing::info!(by = %by, to = %to, there_mbps, back_mbps, ?round_trip, "a link was measured");
                let mbps = rounded(there_mbps.min(back_mbps));
                let round_trip_us = u32::try_from(round_trip.as_micros()).unwrap_or(u32::MAX);
                let between = [by.clone(), to.clone()];
                let measured = Event::Measured { between, mbps, round_trip_us };
                match self.calls.coordinator.send(measured) {
                    Ok(()) => ProbeOutcome::Measured,
                    Err(_) => ProbeOutcome::Failed,
                }
            }
            Err(status) if status.code() == Code::ResourceExhausted => ProbeOutcome::Busy,
            Err(status) => {
                tracing::info!(by = %by, to = %to, why = status.message(), "a link could not be measured");
                self.calls.servers.forget(&asked.name);
                ProbeOutcome::Failed
            }
        }
    }

    async fn ask(&self, asked: &Peer, other: &Peer) -> Result<LinkMeasurement, Status> {
        let order = LinkProbe { server: other.clone(), bytes: self.file.bytes, limit: self.file.limit() };
        let mut links = LinksClient::new(self.calls.channel(asked).map_err(Status::unavailable)?);
        let mut request = Request::new(proto::ProbeRequest::from(&order));
        let within = 2 * self.file.limit() + AROUND;
        request.set_timeout(within);
        let reply = tokio::time::timeout(within, links.probe(request)).await;
        let reply = reply.map_err(|_| Status::deadline_exceeded("no answer in time"))??;
        Ok(LinkMeasurement::try_from(reply.into_inner())?)
    }
}

fn outcome(tried: ProbeOutcome) -> &'static str {
    match tried {
        ProbeOutcome::Measured => "measured",
        ProbeOutcome::Failed => "failed",
        ProbeOutcome::Busy => "busy",
    }
}

/// A bandwidth in figures that mean something: so few that the journal, whose numbers are decimal, gives it back as it was.
fn rounded(mbps: f64) -> f64 {
    (mbps * 100.0).round().max(1.0) / 100.0
}

/// Tells how fast a link is.
fn observe(link: &Link) {
    let Link { between: (one, other), mbps, .. } = link;
    let labels = [("one", one.to_string()), ("other", other.to_string())];
    metrics::gauge!(names::LINK_BITS_PER_SECOND, &labels).set(mbps * 1e6);
}

/// The links that are known now.
pub(super) fn known(coordinator: &mut Coordinator, _now: Time) -> Vec<Link> {
    coordinator.links().known().collect()
}
