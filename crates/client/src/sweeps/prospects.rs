//! Asks servers for their prospects: what instances may expect there.

use std::collections::BTreeMap;

use pliant_control::multi_job::InstanceProspects;
use pliant_control::names::Name;
use pliant_control::reason::Cause;
use pliant_wire::{self as wire, Executable, InstanceCall, ProspectsQuery, SubmissionRefusal, proto};
use tokio::task::JoinSet;

use crate::{Client, ClientError, ParameterSpace, ServerRefusal};

/// How many servers are asked at a time.
const AT_ONCE: usize = 32;

/// What agents are asked about for a script: they know runtimes by the names of services, and those of all jobs of the user. No service
/// has this name.
const OF_SCRIPTS: &str = "script:";

/// The sample instances that servers are asked about.
#[derive(Clone, Debug)]
pub(super) struct ProspectsRequest {
    executable: Executable,
    arguments: BTreeMap<String, String>,
    varied: Vec<String>,
    others: Vec<InstanceCall>,
    /// The only server that is asked; all if there is none.
    only: Option<Name>,
}

impl ProspectsRequest {
    /// A request about the instance `first`, with other samples.
    pub(super) fn about(
        executable: &Executable,
        parameters: &ParameterSpace,
        first: u32,
        others: Vec<u32>,
        only: Option<&Name>,
    ) -> ProspectsRequest {
        ProspectsRequest {
            executable: executable.head(),
            arguments: parameters.arguments(first),
            varied: parameters.names().map(str::to_owned).collect(),
            others: calls(parameters, &others),
            only: only.cloned(),
        }
    }
}

/// The calls of instances.
pub(super) fn calls(parameters: &ParameterSpace, numbers: &[u32]) -> Vec<InstanceCall> {
    numbers
        .iter()
        .map(|number| InstanceCall { number: *number, values: parameters.values(*number) })
        .collect()
}

/// The prospects of all servers.
#[derive(Clone, Default, Debug)]
pub(super) struct ProspectsFound {
    /// The servers that take instances.
    pub(super) found: Vec<(Name, InstanceProspects)>,
    /// The addresses of these servers.
    pub(super) addresses: BTreeMap<Name, String>,
    /// The servers that take none.
    pub(super) others: Vec<ServerRefusal>,
    /// How many servers that may offer it are down.
    pub(super) down: usize,
}

impl ProspectsFound {
    /// The samples that no server takes, and why one server does not.
    pub(super) fn refused_by_all(&self) -> Vec<(u32, String)> {
        let Some(((_, first), others)) = self.found.split_first() else { return Vec::new() };
        let refuses = |prospects: &InstanceProspects, number| {
            prospects.refused.iter().any(|(other, _)| *other == number)
        };
        let refused = first.refused.iter();
        refused
            .filter(|(number, _)| others.iter().all(|(_, other)| refuses(other, *number)))
            .cloned()
            .collect()
    }

    /// The servers that would complete no instance by the deadline, and why.
    pub(super) fn late(&self) -> impl Iterator<Item = (Name, String)> {
        let late = self.others.iter().filter(|one| one.reason.cause == Cause::Deadline);
        late.map(|one| (one.server.clone(), one.reason.why.clone()))
    }

    /// True if a server would take instances and complete none by the deadline.
    pub(super) fn is_of_deadline(&self) -> bool {
        self.late().next().is_some()
    }

    /// True if a server that gives no answer, or takes nothing at the moment, may take instances later.
    pub(super) fn are_some_away(&self) -> bool {
        self.down > 0 || self.others.iter().any(|one| one.reason.cause.may_pass())
    }

    /// True if a server refused the first sample and may take other instances.
    pub(super) fn is_of_instance(&self) -> bool {
        self.others.iter().any(|one| matches!(one.reason.cause, Cause::Invalid | Cause::TooLong))
    }
}

impl Client {
    /// The prospects of a server without some waiting jobs of the caller, or why it does not run the instances.
    pub async fn prospects(
        &self,
        server: &Name,
        address: &str,
        query: &ProspectsQuery,
    ) -> Result<Result<InstanceProspects, SubmissionRefusal>, ClientError> {
        let request = self.request(proto::ProspectsRequest::from(query));
        let reply = self.server(server, address)?.prospects(request).await;
        let reply = reply.map_err(|status| ClientError::call(format!("server {server}"), &status))?;
        wire::prospects_answer(reply.into_inner()).map_err(ClientError::protocol)
    }

    /// Asks all servers that are up for their prospects without those jobs.
    pub(super) async fn all_prospects(
        &self,
        asked: &ProspectsRequest,
        mut without: BTreeMap<Name, Vec<u32>>,
    ) -> Result<ProspectsFound, ClientError> {
        let ProspectsRequest { executable, arguments, varied, others, only } = asked;
        let mut servers = self.servers().await?.servers;
        let mut answers = ProspectsFound::default();
        if let Some(only) = only {
            servers.retain(|server| server.info.name == *only);
            match servers.first() {
                None => return Err(ClientError::missing(format!("the federation has no server {only}"))),
                Some(server) if !server.attached => {
                    let reason = Cause::NotConnected.because("is not connected");
                    answers.others.push(ServerRefusal { server: only.clone(), reason });
                }
                Some(_) => {}
            }
        }
        let offered = executable.offered();
        let offers = |server: &pliant_wire::ServerStatus| server.info.offers(&offered);
        let (mut servers, mut down): (Vec<_>, Vec<_>) =
            servers.into_iter().partition(|server| server.attached);
        if servers.iter().chain(&down).any(offers) {
            down.retain(offers);
        }
        answers.down = down.len();
        // Services for some users only are not listed: then all servers are asked.
        if servers.iter().any(offers) {
            servers.retain(offers);
        }
        let name = match executable {
            Executable::Service(name) => name,
            Executable::Script(_) => OF_SCRIPTS,
        };
        let elsewhere = self.expectation(name).await.unwrap_or_else(|error| {
            // Servers have statistics of their own.
            tracing::debug!(%error, name, "the agent cannot be asked how long it takes");
            None
        });
        let (mut waiting, mut open) = (servers.into_iter(), JoinSet::new());
        loop {
            while open.len() < AT_ONCE
                && let Some(server) = waiting.next()
            {
                let (client, info) = (self.clone(), server.info);
                let query = ProspectsQuery {
                    executable: executable.clone(),
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
                    answers.addresses.insert(info.name.clone(), info.address);
                    answers.found.push((info.name, prospects));
                    continue;
                }
                Ok(Err(SubmissionRefusal { cause, why, .. })) => cause.because(why),
                Err(error) => Cause::NoAnswer.because(error.to_string()),
            };
            answers.others.push(ServerRefusal { server: info.name, reason: refused });
        }
        // The order of the answers does not matter.
        answers.found.sort_by(|one, other| one.0.cmp(&other.0));
        answers.others.sort_by(|one, other| one.server.cmp(&other.server));
        Ok(answers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instances are given up for their deadline only if every server that may run them has said so.
    #[test]
    fn servers_without_an_answer_may_take_instances_later() {
        let check = |causes: &[Cause], down: usize, expected: bool| {
            let refusal = |cause: &Cause| ServerRefusal {
                server: "lyon".parse().unwrap(),
                reason: cause.because("a reason"),
            };
            let others = causes.iter().map(refusal).collect();
            let found = ProspectsFound { others, down, ..ProspectsFound::default() };
            assert_eq!(found.are_some_away(), expected, "{causes:?} {down}");
        };
        check(&[Cause::Deadline], 0, false);
        check(&[Cause::Deadline, Cause::NotOffered], 0, false);
        check(&[Cause::Deadline], 1, true);
        for cause in [Cause::NoAnswer, Cause::Stopping, Cause::Drained, Cause::NotConnected] {
            check(&[Cause::Deadline, cause], 0, true);
        }
    }
}
