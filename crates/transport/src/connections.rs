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
