//! What a server says of itself.

use pliant_model::{Procs, Speed};
use serde::{Deserialize, Serialize};

use crate::names::Name;

/// A server of the federation, as it describes itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ServerInfo {
    /// Its name.
    pub name: Name,
    /// Where clients reach it, `host:port`.
    pub address: String,
    /// Decides between equal completions.
    pub rank: u32,
    /// Processors of its cluster.
    pub procs: Procs,
    /// How fast they are.
    pub speed: Speed,
    /// Its local batch policy.
    pub policy: String,
    /// What it offers: name and summary.
    pub services: Vec<(String, String)>,
    /// Whether it runs users' own scripts.
    pub scripts: bool,
    /// Cores for the requests of explorations, one on each; 0 if it takes none.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub optional_cores: u32,
    /// How many optional requests of a user it takes for each of these; 0 if it does not say.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub optional_per_core: u32,
}
