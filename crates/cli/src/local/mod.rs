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

use pliant_request::local_federation::{self, default_folder};
pub(crate) use pliant_request::local_federation::{Daemon, Federation, state_folder};

use crate::failure::Failure;

pub(crate) use files::{WorkUnit, server_infos};
pub(crate) use processes::{StartReport, StopReport, bring_up, start, stop};

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

/// The one whose server counts memory and GPUs.
const WITH_NODE: &str = "bordeaux";

/// The share of this machine's cores that the clusters take together when all are busy.
const SHARE: f64 = 0.85;

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
        self.0.join(local_federation::RECORD)
    }

    fn daemon(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// Share of a core that a processor of speed 1 is worth.
fn reference_share() -> f64 {
    let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
    let worth: f64 = CLUSTERS.iter().map(|cluster| f64::from(cluster.procs) * cluster.speed).sum();
    let fastest = CLUSTERS.iter().map(|cluster| cluster.speed).fold(1.0, f64::max);
    (SHARE * cores / worth).min(1.0 / fastest)
}
