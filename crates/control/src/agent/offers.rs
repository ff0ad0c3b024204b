//! Servers for explorations (paper 004, section 4.1.2): which of those below offer a service, and have cores for it.
//!
//! Nothing is asked of them: optional requests are wanted wherever there is room, so a client takes all servers that it
//! can use, and an estimate of each would tell it nothing. Of which it is told, if there are more than it can use,
//! [`draw_servers`] decides.

use std::collections::BTreeMap;

use pliant_policy::optional::draw_servers;

use super::Agent;
use crate::names::{Key, Name};
use crate::server_info::ServerInfo;

/// A server that takes the requests of explorations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExplorationServer {
    /// Its name.
    pub server: Name,
    /// Where it is reached.
    pub address: String,
    /// Its cores for them.
    pub cores: u32,
    /// How many optional requests of a user it takes for each of them; 0 if it does not say.
    pub per_core: u32,
}

impl Agent {
    /// At most so many of the servers that are there and offer a service for explorations.
    pub fn offers(&self, service: &str, most: usize, exploration: Key) -> Vec<ExplorationServer> {
        let offers = |info: &ServerInfo| {
            info.optional_cores > 0 && info.services.iter().any(|(name, _)| name == service)
        };
        let found: BTreeMap<&Name, &ServerInfo> = self
            .servers()
            .filter(|(info, _, attached)| *attached && offers(info))
            .map(|(info, ..)| (&info.name, info))
            .collect();
        let found = found.into_values().collect();
        let drawn = draw_servers(found, most, &exploration.to_string(), |info| info.name.as_str());
        let offering = |info: &ServerInfo| ExplorationServer {
            server: info.name.clone(),
            address: info.address.clone(),
            cores: info.optional_cores,
            per_core: info.optional_per_core,
        };
        drawn.into_iter().map(offering).collect()
    }
}
