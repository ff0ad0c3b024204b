//! The file of a client.

use std::path::Path;

use pliant_config::{ConfigError, read};
use pliant_control::shared_folder::SharedFileSystems;
use pliant_transport::{AgentAddress, Credentials};
use serde::{Deserialize, Serialize};

const HINT: &str = "a client's file has [[agent]] with name and address, and [tls] with ca, cert and key";

/// The configuration of a client.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientFile {
    /// The agents, in the order in which they are tried.
    pub agent: Vec<AgentAddress>,
    /// The user's certificate.
    pub tls: Credentials,
    /// The file systems that this machine shares with clusters.
    #[serde(default, skip_serializing_if = "SharedFileSystems::is_empty")]
    pub shared: SharedFileSystems,
}

impl ClientFile {
    /// The text of the file.
    ///
    /// # Errors
    ///
    /// If a path is not UTF-8.
    pub fn to_toml(&self) -> Result<String, String> {
        toml::to_string(self).map_err(|error| error.to_string())
    }

    /// Reads and checks the file.
    pub fn read(path: &Path) -> Result<ClientFile, ConfigError> {
        let (mut file, _): (ClientFile, _) = read(path, HINT)?;
        file.tls.beside(path);
        if file.agent.is_empty() {
            let message = "expected at least one [[agent]] with name and address, found none".to_owned();
            return Err(ConfigError::Value { path: path.to_owned(), key: "agent", message, hint: None });
        }
        if let Some(misplaced) = file.shared.misplaced() {
            let message =
                format!("expected absolute paths without `..`, found {:?}", misplaced.display().to_string());
            return Err(ConfigError::Value { path: path.to_owned(), key: "shared", message, hint: None });
        }
        Ok(file)
    }
}
