//! Below which children a server is: an index of their lists of servers, which has as many entries as there are servers.

use std::collections::{BTreeMap, BTreeSet};

use crate::names::Name;
use crate::server_info::ServerInfo;

/// Children by the servers below them. A server that was moved to another agent is below both until the first one is connected again.
#[derive(Default)]
pub(super) struct ChildrenOfServers(BTreeMap<Name, BTreeSet<Name>>);

impl ChildrenOfServers {
    /// These servers are below a child.
    pub(super) fn add(&mut self, child: &Name, servers: &[ServerInfo]) {
        for server in servers {
            self.0.entry(server.name.clone()).or_default().insert(child.clone());
        }
    }

    /// These servers are not below a child any more.
    pub(super) fn remove<'a>(&mut self, child: &Name, servers: impl IntoIterator<Item = &'a ServerInfo>) {
        for server in servers {
            if let Some(children) = self.0.get_mut(&server.name) {
                children.remove(child);
                if children.is_empty() {
                    self.0.remove(&server.name);
                }
            }
        }
    }

    /// The children that a server is below, in order.
    pub(super) fn of(&self, server: &Name) -> impl Iterator<Item = &Name> {
        self.0.get(server).into_iter().flatten()
    }
}
