//! The file of a client.

use std::path::Path;

use pliant_config::{ConfigError, read};
use pliant_control::shared_folder::SharedFileSystems;
use pliant_transport::{AgentAddress, Credentials, MasterAddress};
use serde::{Deserialize, Serialize};

const HINT: &str = "a client's file has [[agent]] with name and address, and [tls] with ca, cert and key";

/// The configuration of a client.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientFile {
    /// The agents, in the order in which they are tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agent: Vec<AgentAddress>,
    /// Masters side by side, in place of these: the one of the user is tried first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub master: Vec<MasterAddress>,
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
        let wrong =
            |key, message: String| ConfigError::Value { path: path.to_owned(), key, message, hint: None };
        match (file.agent.is_empty(), file.master.is_empty()) {
            (true, true) => {
                let message = "expected at least one [[agent]] with name and address, found none";
                return Err(wrong("agent", message.to_owned()));
            }
            (false, false) => {
                return Err(wrong("agent", "expected either [[agent]] or [[master]], found both".to_owned()));
            }
            _ => MasterAddress::check(&file.master).map_err(|why| wrong("master", why))?,
        }
        if let Some(misplaced) = file.shared.misplaced() {
            let message =
                format!("expected absolute paths without `..`, found {:?}", misplaced.display().to_string());
            return Err(ConfigError::Value { path: path.to_owned(), key: "shared", message, hint: None });
        }
        Ok(file)
    }
}
