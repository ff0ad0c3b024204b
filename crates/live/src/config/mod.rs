//! What daemons and clients read at their start: one TOML file each. Unknown keys are errors; relative paths are
//! relative to the file.

mod agent;
mod client;
mod optional;
mod probes;
mod server;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use pliant_control::names::Name;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::identity::Credentials;
use crate::services::{self, Source};
use crate::wire;

pub use agent::{AgentFile, ReallocationFile};
pub use client::ClientFile;
pub use optional::{OptionalFile, OrderFile};
pub use probes::ProbesFile;
pub use server::{ClusterFile, ServerFile};

/// The key of the address that others are told.
const ADVERTISE: &str = "advertise";

/// An agent to connect to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentAddress {
    /// Its name, which its certificate must say.
    pub name: Name,
    /// Where it listens, `host:port`.
    pub address: String,
}

/// The HTTP pages for machines: metrics and health.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpFile {
    /// Where to listen: a loopback address.
    pub listen: SocketAddr,
}

/// What one user may do at a time, and how much of anything is taken.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsFile {
    /// Open requests of one user.
    pub open_requests: u32,
    /// Requests per second of one user, in the long run.
    pub requests_per_second: f64,
    /// Requests that a user may make at once after a pause.
    pub burst: u32,
    /// Connections of all together.
    pub connections: usize,
    /// The largest message, in bytes.
    pub message_bytes: usize,
}

impl Default for LimitsFile {
    fn default() -> LimitsFile {
        LimitsFile {
            open_requests: 256,
            requests_per_second: 2_000.0,
            burst: 4_000,
            connections: 4_096,
            message_bytes: 2 << 20,
        }
    }
}

/// A file that cannot be used.
#[derive(Debug)]
pub enum ConfigError {
    /// It cannot be read.
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not what is expected there.
    Content(services::ConfigError),
    /// A value cannot be.
    Value {
        /// The file.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// What was expected and found.
        message: String,
    },
}

impl ConfigError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Content(error) => Some(&error.hint),
            Self::Value { key: ADVERTISE, .. } => {
                Some("set `advertise` to the address at which others reach this daemon")
            }
            Self::Io { .. } | Self::Value { .. } => None,
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, source } => write!(f, "cannot read {}: {source}", path.display()),
            Self::Content(error) => write!(f, "{error}"),
            Self::Value { path, key, message } => write!(f, "{}: {key}: {message}", path.display()),
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Content(error) => Some(error),
            Self::Value { .. } => None,
        }
    }
}

/// Reads a file of that kind.
fn read<T: DeserializeOwned>(path: &Path, hint: &str) -> Result<(T, Source), ConfigError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ConfigError::Io { path: path.to_owned(), source })?;
    let source = Source::new(path, text);
    let file = source.parse(hint).map_err(ConfigError::Content)?;
    Ok((file, source))
}

/// Makes a path, relative to the folder of the file that names it, one that means the same in every working folder: batch systems
/// have others than this process.
fn beside(file: &Path, path: &mut PathBuf) {
    if let Some(folder) = file.parent() {
        *path = folder.join(&path);
    }
    // Fails only if the own working folder is gone; then whoever opens it says so.
    if let Ok(absolute) = std::path::absolute(&path) {
        *path = absolute;
    }
}

/// Others must be able to go where they are sent; otherwise, which key is wrong and why.
fn check_advertised(address: &str) -> Result<(), (&'static str, String)> {
    let address = wire::address_of(address)
        .map_err(|error| (ADVERTISE, format!("expected {}, found {}", error.expected, error.found)))?;
    let nowhere = address.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_unspecified());
    if nowhere || address.ends_with(":0") {
        let message = format!("expected an address that others can connect to, found `{address}`");
        return Err((ADVERTISE, message));
    }
    Ok(())
}

fn credentials_beside(file: &Path, tls: &mut Credentials) {
    let Credentials { ca, cert, key, crl } = tls;
    for path in [Some(ca), Some(cert), Some(key), crl.as_mut()].into_iter().flatten() {
        beside(file, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_beside_the_file_from_wherever_it_is_named() {
        let beside = |file: &str, path: &str| {
            let mut path = PathBuf::from(path);
            beside(Path::new(file), &mut path);
            path
        };
        let here = std::env::current_dir().unwrap();
        assert_eq!(beside("server.toml", "state"), here.join("state"));
        assert_eq!(beside("etc/server.toml", "state"), here.join("etc/state"));
        assert_eq!(beside("/etc/server.toml", "state"), Path::new("/etc/state"));
        assert_eq!(beside("server.toml", "/var/state"), Path::new("/var/state"));
    }
}
