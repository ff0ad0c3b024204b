//! The job numbers that a server has used.
//!
//! A server whose journal was made anew would give numbers again that stand for other jobs: in what users have noted, and
//! in the archives of the agents. Before it takes jobs it asks its agent, which passes the question on: the root knows
//! the jobs of every server, wherever that was attached. On the way down each agent adds what it knows itself.

use pliant_control::agent::Agent;
use pliant_control::names::Name;
use pliant_journal::Archive;
use pliant_wire::FromParent;
use tonic::Status;

use super::child_connection::stopped;
use super::child_connections::ChildConnections;
use super::reports::ReportedJobs;
use crate::host::Mailbox;
use crate::host::{SharedArchive, archived};
use crate::uplink::Upward;

/// What it takes to answer.
#[derive(Clone)]
pub(super) struct Numbers {
    pub(super) mailbox: Mailbox<Agent>,
    pub(super) archive: SharedArchive,
    pub(super) connections: ChildConnections,
    pub(super) reported: ReportedJobs,
    /// The way to the parent; none at the root.
    pub(super) upward: Option<Upward>,
}

impl Numbers {
    /// A child asks, for itself or for a server below it.
    pub(super) async fn asked(&self, child: &Name, server: Name) {
        match &self.upward {
            Some(upward) => upward.unnumbered(server),
            None => self.notify(child, server, 0).await,
        }
    }

    /// The parent has answered: up to there, as far as it knows.
    pub(super) async fn answered(&self, server: Name, highest: u32) {
        let wanted = server.clone();
        let way = move |agent: &mut Agent, _| {
            let mut servers = agent.servers().filter(|(info, _, attached)| *attached && info.name == wanted);
            servers.next().map(|(_, child, _)| child.clone())
        };
        // One that has gone meanwhile asks again when it is back.
        if let Ok(Some(child)) = self.mailbox.ask(way).await {
            self.notify(&child, server, highest).await;
        }
    }

    async fn notify(&self, child: &Name, server: Name, highest: u32) {
        // What cannot be looked up now is asked again.
        let Ok(own) = self.highest(server.clone()).await else { return };
        self.connections.send(child, &FromParent::Numbered { server, highest: highest.max(own) });
    }

    /// The highest number that is known here; 0 if none is.
    pub(super) async fn highest(&self, server: Name) -> Result<u32, Status> {
        let wanted = server.clone();
        let present = move |agent: &mut Agent, _| agent.last_number(&wanted);
        // In this order: what leaves the memory is in the archive by then.
        let present = self.mailbox.ask(present).await.map_err(|_| stopped())?;
        let look = move |archive: &mut dyn Archive| archive.last_number(server.as_str());
        Ok(present.max(archived(&self.archive, look).await?).unwrap_or(0))
    }
}
