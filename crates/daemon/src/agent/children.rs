//! A local agent as the child of its parent.

use std::sync::Arc;

use pliant_control::agent::{Agent, ChildKind, DiscoveryQuery, Event, Requester};
use pliant_control::names::{Handle, Name};
use pliant_control::server_info::ServerInfo;
use pliant_journal::Filter;
use pliant_model::{Procs, Time};
use pliant_policy::discovery::Summary;
use pliant_telemetry::RequestId;
use pliant_transport::ClientTls;
use tonic::Status;

use super::child_connection::stopped;
use super::child_connections::ChildConnections;
use super::driver::ParentRequests;
use super::numbers::Numbers;
use crate::call_log::log_call;
use crate::host::Mailbox;
use crate::uplink::{Child, JobsInMemory};

/// What is attached to the parent: this agent and all below it.
pub(super) struct AgentChild {
    pub(super) name: Name,
    pub(super) journal: u64,
    pub(super) mailbox: Mailbox<Agent>,
    pub(super) parent_requests: ParentRequests,
    pub(super) numbers: Numbers,
    pub(super) connections: ChildConnections,
    pub(super) tls: Arc<ClientTls>,
}

impl Child for AgentChild {
    fn name(&self) -> Name {
        self.name.clone()
    }

    fn kind(&self) -> ChildKind {
        ChildKind::Agent
    }

    fn journal(&self) -> u64 {
        self.journal
    }

    async fn servers(&self) -> Vec<ServerInfo> {
        let servers = |agent: &mut Agent, _| {
            agent.servers().filter(|(_, _, attached)| *attached).map(|(server, ..)| server.clone()).collect()
        };
        // An agent that has stopped has none.
        self.mailbox.ask(servers).await.unwrap_or_default()
    }

    async fn asked(&self, discovery: u64, ask: DiscoveryQuery, request: RequestId) {
        request
            .span()
            .in_scope(|| log_call!(info, ask.caller.user, user = %ask.caller.user, "asked by the parent"));
        self.parent_requests.note(discovery, request);
        // An agent that has stopped does not answer; the parent's question times out.
        let _ = self
            .mailbox
            .send(Event::Queried { requester: Requester::Parent(discovery), query: Box::new(ask) });
    }

    fn free(&self) -> Vec<(Name, Procs)> {
        self.connections.servers().free.into_iter().collect()
    }

    fn drained(&self) -> Vec<Name> {
        self.connections.servers().drained.into_iter().collect()
    }

    async fn summary(&self) -> Option<Summary> {
        self.mailbox.ask(|agent, _| agent.summary()).await.ok()
    }

    fn certificates(&self) -> (Option<Time>, Vec<(Name, Time)>) {
        (Some(self.tls.own().not_after), self.connections.certificates().servers.into_iter().collect())
    }

    fn acknowledged(&self, sequence: u64) {
        self.mailbox.acknowledged(sequence);
    }

    async fn jobs_after(&self, after: Option<Handle>, limit: usize) -> Result<JobsInMemory, Status> {
        let jobs = move |agent: &mut Agent, _| {
            let jobs: Vec<_> = agent.jobs_after(after.as_ref()).take(limit).cloned().collect();
            let last = jobs.last().map(|last| last.handle.clone());
            JobsInMemory { jobs, last }
        };
        self.mailbox.ask(jobs).await.map_err(|_| stopped())
    }

    fn archived_jobs(&self) -> Filter {
        Filter::default()
    }

    fn unnumbered(&self) -> Option<Name> {
        None
    }

    async fn numbered(&self, server: Name, highest: u32) {
        self.numbers.answered(server, highest).await;
    }
}
