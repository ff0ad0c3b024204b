//! The description that a server gives of itself.

use pliant_model::{Procs, Speed};
use serde::{Deserialize, Serialize};

use crate::names::Name;

/// A server of the federation, as it describes itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ServerInfo {
    /// Its name.
    pub name: Name,
    /// The server's address, `host:port`.
    pub address: String,
    /// The lower rank comes first among equal completions.
    pub rank: u32,
    /// The number of processors of its cluster.
    pub procs: Procs,
    /// The speed of its processors.
    pub speed: Speed,
    /// Its local batch policy.
    pub policy: String,
    /// Its services: name and summary.
    pub services: Vec<(String, String)>,
    /// True if it runs users' own scripts.
    pub scripts: bool,
    /// Cores for the requests of explorations, one request on each; 0 if it takes none.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub optional_cores: u32,
    /// The number of optional requests of a user that it takes for each of these cores; 0 if unknown.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub optional_per_core: u32,
}

/// What a server may offer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OfferedWork {
    /// A service, by its name.
    Service(String),
    /// To run users' own scripts.
    Scripts,
}

impl ServerInfo {
    /// True if the server offers that to everyone.
    pub fn offers(&self, offered: &OfferedWork) -> bool {
        match offered {
            OfferedWork::Service(wanted) => self.services.iter().any(|(name, _)| name == wanted),
            OfferedWork::Scripts => self.scripts,
        }
    }
}
