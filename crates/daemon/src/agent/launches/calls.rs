//! Calls of servers about launches: what machines they have, and what is to become of their subjobs.
//!
//! The machine repeats what is not answered, so a call that fails is only logged. No two calls of the same kind
//! about the same subjob are under way at once.

use std::convert::Infallible;
use std::time::Duration;

use pliant_control::agent::Agent;
use pliant_control::coallocation::{
    Call, Coordinator, Event, LaunchId, Machine, Site, SubjobDecision, SubjobId, SubjobState,
};
use pliant_control::handoff::Peer;
use pliant_control::job::Exit;
use pliant_control::names::{Key, Name};
use pliant_transport::Connections;
use pliant_wire::proto::subjobs_client::SubjobsClient;
use pliant_wire::{DecidedSubjob, listed_machines, proto};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use crate::calling::{UnderWay, timed};
use crate::host::Mailbox;

/// How long a server may take to say what machines it has: the machine asks all of them again after twice as long.
const LIST_MACHINES: Duration = Duration::from_secs(5);
/// The longest answer, in bytes: more than that of a server with very many machines.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// The way to servers.
#[derive(Clone)]
pub(super) struct Calls {
    /// Who knows which servers there are.
    pub(super) agent: Mailbox<Agent>,
    pub(super) coordinator: Mailbox<Coordinator>,
    pub(super) runtime: Handle,
    pub(super) servers: Connections,
    pub(super) listings: UnderWay<(Key, u32)>,
    pub(super) calls: UnderWay<SubjobId>,
}

fn step(call: &Call) -> &'static str {
    match call {
        Call::Prepare(_) => "prepare-subjob",
        Call::Decide(SubjobDecision::Commit { .. }) => "commit-subjob",
        Call::Decide(_) => "end-subjob",
    }
}

impl Calls {
    /// Asks every server that is there what machines it has, unless that is being asked. Those that say nothing in time are
    /// left out.
    pub(super) fn list_machines(&self, launch: LaunchId, group: u32) {
        let own = self.clone();
        self.runtime.spawn(async move {
            let asked = async { Ok::<_, Infallible>(own.sites().await) };
            let Some(Ok(sites)) = own.listings.once(&(launch.key, group), "list-machines", asked).await else {
                return;
            };
            let machines: usize = sites.iter().map(|site| site.machines.len()).sum();
            tracing::info!(%launch, group, servers = sites.len(), machines, "the servers below have reported their machines");
            // An agent that has stopped asks again when it starts.
            let _ = own.coordinator.send(Event::MachinesListed { launch, group, sites });
        });
    }

    /// The servers that are there, with the local agents that they hang on.
    pub(super) async fn known(&self) -> Vec<(Peer, Option<Name>)> {
        let known = |agent: &mut Agent, _| -> Vec<(Peer, Option<Name>)> {
            let there = agent.servers().filter(|(_, _, attached)| *attached);
            let peer = |(info, via, _): (&pliant_control::server_info::ServerInfo, &Name, bool)| {
                let below = (*via != info.name).then(|| via.clone());
                (Peer { name: info.name.clone(), address: info.address.clone() }, below)
            };
            there.map(peer).collect()
        };
        // An agent that has stopped knows no servers.
        self.agent.ask(known).await.unwrap_or_default()
    }

    /// What the servers that are there say of their machines, in the order of the servers' names.
    async fn sites(&self) -> Vec<Site> {
        let mut open = JoinSet::new();
        for (server, below) in self.known().await {
            let own = self.clone();
            open.spawn(async move {
                let machines = own.machines(&server).await;
                (server, below, machines)
            });
        }
        let mut sites = Vec::new();
        while let Some(answered) = open.join_next().await {
            match answered {
                Ok((server, below, Ok(machines))) => {
                    sites.push(Site { server, local_agent: below, machines })
                }
                Ok((server, _, Err(why))) => {
                    tracing::warn!(server = %server.name, why, "a server does not say what machines it has");
                    self.servers.forget(&server.name);
                }
                Err(error) => tracing::error!(%error, "asking a server for its machines failed"),
            }
        }
        sites.sort_by(|one, other| one.server.name.cmp(&other.server.name));
        sites
    }

    async fn machines(&self, server: &Peer) -> Result<Vec<Machine>, String> {
        let mut subjobs = self.server(server)?;
        let mut request = Request::new(proto::ListMachinesRequest {});
        request.set_timeout(LIST_MACHINES);
        let asked = tokio::time::timeout(LIST_MACHINES, subjobs.list_machines(request)).await;
        let reply = asked.map_err(|_| "no answer in time".to_owned())?;
        let reply = reply.map_err(|status| status.message().to_owned())?.into_inner();
        let machines = listed_machines(reply).map_err(|malformed| malformed.to_string())?;
        Ok(machines.into_iter().map(rounded).collect())
    }

    /// Makes a call about a subjob, unless the same one is under way. The answer is sent to the machine.
    pub(super) fn call(&self, to: Peer, id: SubjobId, call: Call) {
        let (own, step) = (self.clone(), step(&call));
        self.runtime.spawn(async move {
            match own.calls.once(&id, step, own.make(&to, &id, call)).await {
                Some(Ok(state)) => {
                    tracing::info!(subjob = %id, server = %to.name, step, answer = state.word(), "launch");
                    // An agent that has stopped asks again when it starts.
                    let _ =
                        own.coordinator.send(Event::SubjobStatus { from: to.name, id, state, reply: None });
                }
                Some(Err(why)) => {
                    tracing::warn!(subjob = %id, server = %to.name, step, why, "launch: no answer");
                    own.servers.forget(&to.name);
                }
                None => {}
            }
        });
    }

    async fn make(&self, to: &Peer, id: &SubjobId, call: Call) -> Result<SubjobState, String> {
        let mut subjobs = self.server(to)?;
        let reply = match call {
            Call::Prepare(subjob) => match subjobs.prepare(timed(proto::PrepareSubjob::from(&*subjob))).await
            {
                Err(status) if is_lasting(&status) => {
                    // It has taken nothing in, and never will: no other answer is to be waited for.
                    let exit = Exit::NotStarted(status.message().to_owned());
                    return Ok(SubjobState::Over { ended: Default::default(), exit });
                }
                reply => reply,
            },
            Call::Decide(decision) => {
                let decided = (id.clone(), DecidedSubjob { decision, end_acknowledged: false });
                subjobs.decide(timed((&decided).into())).await
            }
        };
        let state = reply.map_err(|status| status.message().to_owned())?.into_inner();
        SubjobState::try_from(state).map_err(|malformed| malformed.to_string())
    }

    fn server(&self, to: &Peer) -> Result<SubjobsClient<Channel>, String> {
        Ok(SubjobsClient::new(self.channel(to)?).max_decoding_message_size(ANSWER_BYTES_MAX))
    }

    /// The way to a server.
    pub(super) fn channel(&self, to: &Peer) -> Result<Channel, String> {
        self.servers.to(&to.name, &to.address).map_err(|error| error.to_string())
    }
}

/// A machine in figures that mean something: so few that the journal, whose numbers are decimal, gives them back as they
/// were, and the same mapping with them.
fn rounded(machine: Machine) -> Machine {
    let power_mflops = (machine.power_mflops * 10.0).round().max(1.0) / 10.0;
    Machine { power_mflops, load: (machine.load * 1e4).floor() / 1e4, ..machine }
}

/// True if a server that was asked to take a subjob in would say the same again.
fn is_lasting(status: &Status) -> bool {
    use std::error::Error;
    // What broke off on its way may have been done.
    status.source().is_none()
        && matches!(
            status.code(),
            Code::InvalidArgument
                | Code::FailedPrecondition
                | Code::PermissionDenied
                | Code::Unimplemented
                | Code::OutOfRange
        )
}
