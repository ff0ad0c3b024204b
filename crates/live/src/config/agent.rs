//! The file of an agent.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use pliant_control::names::Name;
use pliant_model::Span;
use serde::{Deserialize, Serialize};

use super::{AgentAddress, ConfigError, HttpFile, LimitsFile, beside, credentials_beside, read};
use crate::identity::Credentials;

const HINT: &str = "an agent's file has name, listen, state and [tls] with ca, cert and key";

/// What an agent is told at its start.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentFile {
    /// Its name; its certificate must say the same.
    pub name: Name,
    /// Where it listens.
    pub listen: SocketAddr,
    /// The folder of its journal (SQLite).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<PathBuf>,
    /// Its journal in PostgreSQL instead, as a connection string: a second agent with the same one stands by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postgres: Option<String>,
    /// Its parents: the first one that answers is taken. None: it is the master.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parent: Vec<AgentAddress>,
    /// How long servers may take to answer a discovery, in seconds.
    #[serde(default = "patience_s")]
    pub patience_s: i64,
    /// How many days of history the journal keeps for replays.
    #[serde(default = "history_days")]
    pub history_days: u32,
    /// Its certificate.
    pub tls: Credentials,
    /// Metrics and health.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpFile>,
    /// Limits on its users.
    #[serde(default)]
    pub limits: LimitsFile,
}

fn patience_s() -> i64 {
    3
}

pub(super) fn history_days() -> u32 {
    30
}

impl AgentFile {
    /// Reads and checks the file.
    pub fn read(path: &Path) -> Result<AgentFile, ConfigError> {
        let (mut file, _): (AgentFile, _) = read(path, HINT)?;
        credentials_beside(path, &mut file.tls);
        if let Some(state) = &mut file.state {
            beside(path, state);
        }
        let wrong = |key, message: String| ConfigError::Value { path: path.to_owned(), key, message };
        if !(1..=60).contains(&file.patience_s) {
            let message = format!("expected 1 to 60 seconds, found {}", file.patience_s);
            return Err(wrong("patience_s", message));
        }
        if file.state.is_some() == file.postgres.is_some() {
            let message =
                "expected either a folder for the journal (state) or a connection string (postgres)";
            return Err(wrong("state", message.to_owned()));
        }
        Ok(file)
    }

    /// How long children may take.
    pub fn patience(&self) -> Span {
        Span(self.patience_s)
    }
}
