//! Servers for explorations (paper 004, section 4.1.2): which servers below offer a service, or run scripts, and have cores for it.
//!
//! The agent does not query them. Optional requests can run on any free core, so a client uses all servers that it can, and
//! estimates would not help it choose. If there are more servers than the client can use, [`draw_servers`] chooses among
//! them.

use std::collections::BTreeMap;

use pliant_policy::optional::draw_servers;

use super::Agent;
use crate::names::{Key, Name};
use crate::server_info::{OfferedWork, ServerInfo};

/// A server that takes the requests of explorations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExplorationServer {
    /// The server's name.
    pub server: Name,
    /// The server's address, `host:port`.
    pub address: String,
    /// The server's cores for explorations.
    pub cores: u32,
    /// The number of optional requests of a user that the server takes for each core; 0 if unknown.
    pub per_core: u32,
}

impl Agent {
    /// At most `most` servers that are up and offer a service, or run scripts, for explorations.
    pub fn offers(&self, offered: &OfferedWork, most: usize, exploration: Key) -> Vec<ExplorationServer> {
        let offers = |info: &ServerInfo| info.optional_cores > 0 && info.offers(offered);
        let found: BTreeMap<&Name, &ServerInfo> = self
            .servers()
            .filter(|(info, _, attached)| *attached && offers(info))
            .map(|(info, ..)| (&info.name, info))
            .collect();
        let found = found.into_values().collect();
        let drawn = draw_servers(found, most, &exploration.to_string(), |info| info.name.as_str());
        drawn.into_iter().map(ExplorationServer::from).collect()
    }
}

impl From<&ServerInfo> for ExplorationServer {
    fn from(info: &ServerInfo) -> ExplorationServer {
        ExplorationServer {
            server: info.name.clone(),
            address: info.address.clone(),
            cores: info.optional_cores,
            per_core: info.optional_per_core,
        }
    }
}
