//! A whole federation on this machine: an agent, three servers of different size and speed with embedded batch
//! systems, and their own certificates, all on loopback. `pliant up` and the demo start it.
//!
//! The three clusters share this machine's cores: each of their processors is worth a share of a real one, so that
//! together they are no more than the machine has, and a fast cluster is faster than a slow one indeed
//! (`cpu_share`, docs/reference/files/server.md).

mod calibrate;
mod files;
mod processes;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

pub(crate) use files::{WorkUnit, server_infos};
pub(crate) use processes::{StartReport, StopReport, bring_up, running, start, stop};

/// One of the clusters.
pub(crate) struct Cluster {
    /// Its name.
    pub(crate) name: &'static str,
    /// Processors.
    pub(crate) procs: u32,
    /// How fast they are.
    pub(crate) speed: f64,
}

/// The clusters: named and sped like those of paper 000, section 4.3.1, and much smaller.
pub(crate) const CLUSTERS: [Cluster; 3] = [
    Cluster { name: "bordeaux", procs: 4, speed: 1.0 },
    Cluster { name: "lyon", procs: 2, speed: 1.2 },
    Cluster { name: "toulouse", procs: 3, speed: 1.4 },
];

/// The share of this machine's cores that the clusters take together when all are busy.
const SHARE: f64 = 0.85;

/// What `pliant up` has started, in the folder's `federation.json`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Federation {
    /// Its daemons.
    pub(crate) daemons: Vec<Daemon>,
}

/// A daemon that was started.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Daemon {
    /// Its name.
    pub(crate) name: String,
    /// The verb: agent or server.
    pub(crate) verb: String,
    /// Its process.
    pub(crate) pid: i32,
    /// When the process was started, by the kernel's count: with the number it names one process for good.
    pub(crate) started_ticks: u64,
    /// Where it listens.
    pub(crate) address: String,
    /// Where its metrics and health are.
    pub(crate) http: String,
}

/// The folder of a federation on this machine.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// That folder, or the default one of this user.
    pub(crate) fn of(chosen: Option<&Path>) -> Result<Folder, Failure> {
        match chosen {
            Some(path) => {
                let path = std::path::absolute(path).map_err(|error| Failure::io(path, "use", &error))?;
                Ok(Folder(path))
            }
            None => Ok(Folder(default_folder()?)),
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The file of a user's client.
    pub(crate) fn client(&self, user: &str) -> PathBuf {
        self.user(user).join(files::CLIENT)
    }

    /// The client file of its operator.
    pub(crate) fn own_client(&self) -> PathBuf {
        self.0.join(files::CLIENT)
    }

    /// The folder of the agent's journal.
    pub(crate) fn agent_state(&self) -> PathBuf {
        self.daemon(files::AGENT).join("state")
    }

    fn users(&self) -> PathBuf {
        self.0.join("users")
    }

    fn user(&self, name: &str) -> PathBuf {
        self.users().join(name)
    }

    fn record(&self) -> PathBuf {
        self.0.join("federation.json")
    }

    fn daemon(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

fn default_folder() -> Result<PathBuf, Failure> {
    state_folder().map(|state| state.join("up")).map_err(|failure| failure.hint("choose a folder with --dir"))
}

/// `$XDG_STATE_HOME/pliant`, or the same under `~/.local/state`.
pub(crate) fn state_folder() -> Result<PathBuf, Failure> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let state = state.or_else(home).filter(|path| path.is_absolute());
    let state = state.ok_or_else(|| Failure::input("no home folder (HOME)"))?;
    Ok(state.join("pliant"))
}

/// Share of a core that a processor of speed 1 is worth.
fn reference_share() -> f64 {
    let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
    let worth: f64 = CLUSTERS.iter().map(|cluster| f64::from(cluster.procs) * cluster.speed).sum();
    let fastest = CLUSTERS.iter().map(|cluster| cluster.speed).fold(1.0, f64::max);
    (SHARE * cores / worth).min(1.0 / fastest)
}
