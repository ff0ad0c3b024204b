//! What daemons and clients read at their start: one TOML file each. Unknown keys are errors; relative paths are
//! relative to the file.

mod accounts;
mod agent;
mod job_limits;
mod node;
mod optional;
mod parents;
mod probes;
mod server;
mod stored_data;
mod summaries;

use std::net::SocketAddr;
use std::path::Path;

use pliant_config::ConfigError;
use pliant_control::shared_folder::SharedFileSystems;
use pliant_transport::Credentials;
use serde::{Deserialize, Serialize};

pub use accounts::{AccountMap, AccountsFile};
pub use agent::{AgentFile, ReallocationFile};
pub use job_limits::{DiskQuota, JobLimitsFile};
pub use node::NodeFile;
pub use optional::{OptionalFile, OrderFile};
pub(crate) use parents::Parents;
pub use pliant_control::priority_file::{ClassFile, GroupFile, PriorityFile};
pub use probes::ProbesFile;
pub use server::{ClusterFile, ServerFile};
pub use stored_data::StoredDataFile;
pub use summaries::SummariesFile;

/// A key with what is wrong with it.
type WrongKey = (&'static str, String);

/// The table that says as whom jobs run.
const ACCOUNTS: &str = "accounts";
/// The key of the address that others use.
const ADVERTISE: &str = "advertise";

/// The HTTP pages for machines: metrics and health.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpFile {
    /// Where to listen: a loopback address.
    #[serde(deserialize_with = "socket_address")]
    pub listen: SocketAddr,
    /// Whether a server shows metrics of each user, with the user's name: every user of the host can read them.
    #[serde(default)]
    pub user_metrics: bool,
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
    /// Bytes of submissions and launches of one user in a day, in the long run: the journal keeps them for `history_days`.
    pub submitted_bytes_per_day: u64,
}

impl Default for LimitsFile {
    fn default() -> LimitsFile {
        LimitsFile {
            open_requests: 256,
            requests_per_second: 2_000.0,
            burst: 4_000,
            connections: 4_096,
            message_bytes: 2 << 20,
            submitted_bytes_per_day: 1 << 30,
        }
    }
}

/// A configuration with which certificates cannot be revoked: what to say about it.
pub(crate) fn without_list(tls: &Credentials) -> Option<String> {
    tls.crl.is_none().then(|| {
        "tls.crl: expected the file of a revocation list, found none: revoked certificates are accepted"
            .to_owned()
    })
}

/// Reads the key of an address to listen at.
pub(crate) fn socket_address<'de, D: serde::Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(|_| {
        serde::de::Error::custom(format!(
            "expected an IP address and a port, such as 127.0.0.1:7710, found `{}`",
            text.escape_debug()
        ))
    })
}

/// Others must be able to go where they are sent; otherwise, which key is wrong and why.
fn check_advertised(address: &str) -> Result<(), (&'static str, String)> {
    let address = pliant_wire::address_of(address)
        .map_err(|error| (ADVERTISE, format!("expected {}, found {}", error.expected, error.found)))?;
    let nowhere = address.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_unspecified());
    if nowhere || address.ends_with(":0") {
        let message = format!("expected an address that others can connect to, found `{address}`");
        return Err((ADVERTISE, message));
    }
    Ok(())
}

/// Paths of shared file systems are those of the machine.
fn check_shared(shared: &SharedFileSystems) -> Result<(), WrongKey> {
    match shared.misplaced() {
        None => Ok(()),
        Some(path) => Err((
            "shared",
            format!("expected absolute paths without `..`, found {:?}", path.display().to_string()),
        )),
    }
}

/// A value that cannot be used.
pub(crate) fn wrong_value(path: &Path, key: &'static str, message: String) -> ConfigError {
    let hint = match key {
        ADVERTISE => Some("set `advertise` to the address at which others reach this daemon"),
        ACCOUNTS => Some(
            "`map = \"shared\"` in a table [accounts] runs all jobs as the server's own user; `map = \"name\"` runs \
             each as its user's account of the same name",
        ),
        "accounts.launcher" => Some("install it as root: `chown root:pliant` and `chmod 4750`"),
        _ => None,
    };
    ConfigError::Value { path: path.to_owned(), key, message, hint }
}
