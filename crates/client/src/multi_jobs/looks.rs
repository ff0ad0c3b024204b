//! A look at the servers: what instances may expect of each.

use std::collections::BTreeMap;

use pliant_control::multi_job::Prospects;
use pliant_control::names::Name;
use pliant_control::reason::Cause;
use pliant_wire::{self as wire, Declined, PackedCall, ProspectsQuery, proto};
use tokio::task::JoinSet;

use crate::{Client, ClientError, Sweep, Unreachable};

/// How many servers are asked at a time.
const AT_ONCE: usize = 32;

/// What servers are asked about.
#[derive(Clone, Debug)]
pub(super) struct ProspectsRequest {
    service: String,
    arguments: BTreeMap<String, String>,
    varied: Vec<String>,
    others: Vec<PackedCall>,
}

impl ProspectsRequest {
    /// About the first of these instances, and by others about all.
    pub(super) fn about(service: &str, sweep: &Sweep, first: u32, others: Vec<u32>) -> ProspectsRequest {
        ProspectsRequest {
            service: service.to_owned(),
            arguments: sweep.arguments(first),
            varied: sweep.names().map(str::to_owned).collect(),
            others: calls(sweep, &others),
        }
    }
}

/// How instances with these numbers call.
pub(super) fn calls(sweep: &Sweep, numbers: &[u32]) -> Vec<PackedCall> {
    numbers.iter().map(|number| PackedCall { number: *number, values: sweep.values(*number) }).collect()
}

/// What a look at the servers found.
#[derive(Clone, Default, Debug)]
pub(super) struct ProspectsFound {
    /// Those that take instances.
    pub(super) found: Vec<(Name, Prospects)>,
    /// Where they are reached.
    pub(super) addresses: BTreeMap<Name, String>,
    /// Those that do not.
    pub(super) others: Vec<Unreachable>,
}

impl ProspectsFound {
    /// Of the instances that were to stand for all: those that nobody takes, and why one of those who were asked does not.
    pub(super) fn refused_by_all(&self) -> Vec<(u32, String)> {
        let Some(((_, first), others)) = self.found.split_first() else { return Vec::new() };
        let refuses =
            |prospects: &Prospects, number| prospects.refused.iter().any(|(other, _)| *other == number);
        let refused = first.refused.iter();
        refused
            .filter(|(number, _)| others.iter().all(|(_, other)| refuses(other, *number)))
            .cloned()
            .collect()
    }

    /// True if somebody refused the very instance that was asked about, and may take others.
    pub(super) fn is_of_instance(&self) -> bool {
        self.others.iter().any(|one| matches!(one.reason.cause, Cause::Invalid | Cause::TooLong))
    }
}

impl Client {
    /// What instances of a service may expect of a server, as if those of our jobs that wait and are left out were not
    /// there; or why it does not run them.
    pub async fn prospects(
        &self,
        server: &Name,
        address: &str,
        query: &ProspectsQuery,
    ) -> Result<Result<Prospects, Declined>, ClientError> {
        let request = self.request(proto::ProspectsRequest::from(query));
        let reply = self.server(server, address)?.prospects(request).await;
        let reply = reply.map_err(|status| ClientError::call(format!("server {server}"), &status))?;
        wire::prospects_answer(reply.into_inner()).map_err(ClientError::protocol)
    }

    /// Asks all servers that are there what instances like that may expect of them, without those jobs.
    pub(super) async fn look(
        &self,
        asked: &ProspectsRequest,
        mut without: BTreeMap<Name, Vec<u32>>,
    ) -> Result<ProspectsFound, ClientError> {
        let ProspectsRequest { service, arguments, varied, others } = asked;
        let mut servers = self.servers().await?.servers;
        servers.retain(|server| server.attached);
        let offers =
            |server: &pliant_wire::ServerStatus| server.info.services.iter().any(|(name, _)| name == service);
        // Services for some users only are in no list: then everybody is asked.
        if servers.iter().any(offers) {
            servers.retain(offers);
        }
        let elsewhere = self.expectation(service).await.unwrap_or_else(|error| {
            // Servers know something all the same.
            tracing::debug!(%error, service, "the agent cannot be asked how long it takes");
            None
        });
        let mut looked = ProspectsFound::default();
        let (mut waiting, mut open) = (servers.into_iter(), JoinSet::new());
        loop {
            while open.len() < AT_ONCE
                && let Some(server) = waiting.next()
            {
                let (client, info) = (self.clone(), server.info);
                let query = ProspectsQuery {
                    service: service.clone(),
                    arguments: arguments.clone(),
                    varied: varied.clone(),
                    others: others.clone(),
                    without: without.remove(&info.name).unwrap_or_default(),
                    elsewhere,
                };
                open.spawn(async move {
                    let answer = client.prospects(&info.name, &info.address, &query).await;
                    (info, answer)
                });
            }
            let Some(answered) = open.join_next().await else { break };
            let Ok((info, answer)) = answered else { continue };
            let refused = match answer {
                Ok(Ok(prospects)) => {
                    looked.addresses.insert(info.name.clone(), info.address);
                    looked.found.push((info.name, prospects));
                    continue;
                }
                Ok(Err(Declined { cause, why, .. })) => cause.because(why),
                Err(error) => Cause::Silent.because(error.to_string()),
            };
            looked.others.push(Unreachable { server: info.name, reason: refused });
        }
        // Whatever the order in which they answered.
        looked.found.sort_by(|one, other| one.0.cmp(&other.0));
        looked.others.sort_by(|one, other| one.server.cmp(&other.server));
        Ok(looked)
    }
}
