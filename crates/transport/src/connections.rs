//! Connections to daemons that stay open until a call fails.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pliant_control::names::Name;
use serde::{Deserialize, Serialize};
use tonic::transport::Channel;

use super::{ClientTls, Identity, NameError, Role, Timeouts, channel};

/// An agent to connect to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentAddress {
    /// Its name, which its certificate must say.
    pub name: Name,
    /// Where it listens, `host:port`.
    pub address: String,
}

/// One of several masters side by side.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MasterAddress {
    /// Its name, which its certificate must say, and by which users are assigned to it.
    pub name: Name,
    /// Where it listens, `host:port`.
    pub address: String,
    /// Agents that take over when it fails, in the order in which they are tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub standby: Vec<AgentAddress>,
}

impl MasterAddress {
    /// The agents that are this master, in the order in which they are tried.
    pub fn agents(&self) -> impl Iterator<Item = AgentAddress> {
        let own = AgentAddress { name: self.name.clone(), address: self.address.clone() };
        std::iter::once(own).chain(self.standby.iter().cloned())
    }

    /// What is wrong with the masters of a file, if there are any.
    ///
    /// # Errors
    /// A name is there twice.
    pub fn check(masters: &[MasterAddress]) -> Result<(), String> {
        let agents: Vec<AgentAddress> = masters.iter().flat_map(MasterAddress::agents).collect();
        let twice = agents
            .iter()
            .enumerate()
            .find(|(at, one)| agents[..*at].iter().any(|other| other.name == one.name));
        match twice {
            None => Ok(()),
            Some((_, twice)) => Err(format!("expected each agent once, found {} twice", twice.name)),
        }
    }
}

/// Connections to daemons of one role, each opened when it is first wanted.
#[derive(Clone)]
pub struct Connections {
    role: Role,
    tls: Arc<ClientTls>,
    /// By name and address.
    open: Arc<Mutex<HashMap<(Name, String), Channel>>>,
}

impl Connections {
    /// None yet, to daemons of this role.
    pub fn new(role: Role, tls: Arc<ClientTls>) -> Connections {
        Connections { role, tls, open: Arc::default() }
    }

    /// The connection to a daemon.
    ///
    /// # Errors
    /// A certificate has no such name.
    pub fn to(&self, name: &Name, address: &str) -> Result<Channel, NameError> {
        let key = (name.clone(), address.to_owned());
        let mut open = self.open.lock();
        if let Some(known) = open.get(&key) {
            return Ok(known.clone());
        }
        let identity = Identity::new(self.role, name.as_str())?;
        let channel = channel(address, &identity, self.tls.clone(), &Timeouts::default());
        open.insert(key, channel.clone());
        Ok(channel)
    }

    /// The known connection to a daemon, at any address.
    pub fn known(&self, name: &Name) -> Option<Channel> {
        let open = self.open.lock();
        open.iter().find(|((known, _), _)| known == name).map(|(_, channel)| channel.clone())
    }

    /// The next call of a daemon opens a new connection.
    pub fn forget(&self, name: &Name) {
        self.open.lock().retain(|(known, _), _| known != name);
    }
}
