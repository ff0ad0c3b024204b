//! Slurm clusters of a test's own, on loopback, set up by the project's script (`deploy/test-clusters/slurm.sh`).
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{Needed, skip};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/test-clusters/slurm.sh");
/// The exit code of the script if clusters cannot be started on this machine.
const IMPOSSIBLE: i32 = 3;

/// What the clusters are to be.
#[derive(Clone, Copy, Default, Debug)]
pub struct Wanted {
    /// How many clusters.
    pub clusters: u32,
    /// Nodes of each.
    pub nodes: u32,
    /// Cores of each node.
    pub cpus: u32,
    /// Whether they keep accounts (sacct); that takes a database, and longer to start.
    pub accounts: bool,
    /// Whether they hand out memory (1,000 MiB of each node, 100 for each core of a job that does not say), two GPUs of each node that do
    /// not exist (`a100`), a feature (`fast`) and two units of a licence (`matlab`).
    pub resources: bool,
}

/// Clusters that run. Dropped, they are stopped.
pub struct SlurmClusters {
    folder: TempDir,
    clusters: Vec<SlurmCluster>,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct SlurmCluster {
    /// Its name. Its nodes are called so with a number behind.
    pub name: String,
    /// Its slurm.conf.
    pub conf: PathBuf,
    pids: PathBuf,
}

impl SlurmClusters {
    /// Starts clusters, installing Slurm if need be. None, and a note of what was left out, if this machine cannot have
    /// them: without root, without Debian, without its packages.
    pub fn start(wanted: Wanted) -> Option<SlurmClusters> {
        let folder = tempfile::Builder::new().prefix("slurm-").tempdir().unwrap();
        // Jobs of other users get there, too.
        fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let path = folder.path().join("c");
        let mut command = script("start", &path);
        let Wanted { clusters, nodes, cpus, accounts, resources } = wanted;
        for (option, value) in [("--clusters", clusters), ("--nodes", nodes), ("--cpus", cpus)] {
            command.arg(option).arg(value.to_string());
        }
        if accounts {
            command.arg("--accounting");
        }
        if resources {
            command.arg("--resources");
        }
        // Stopped whatever comes: some of it may run already when the rest fails.
        let mut started = SlurmClusters { folder, clusters: Vec::new() };
        let output = command.output().unwrap();
        let (stdout, stderr) = texts(&output);
        if output.status.code() == Some(IMPOSSIBLE) {
            skip(Needed::Program, &format!("no Slurm clusters: {}", stderr.trim().replace('\n', "; ")));
            return None;
        }
        assert!(output.status.success(), "{}: {stdout}{stderr}", output.status);
        started.clusters = stdout.lines().map(|line| cluster(line, &path)).collect();
        Some(started)
    }

    /// The clusters.
    pub fn clusters(&self) -> &[SlurmCluster] {
        &self.clusters
    }

    /// Starts again what has died of them, and waits until all nodes can be used.
    pub fn restart(&self) {
        let output = script("start", &self.folder.path().join("c")).output().unwrap();
        assert!(output.status.success(), "{:?}", texts(&output));
    }
}

impl Drop for SlurmClusters {
    fn drop(&mut self) {
        let output = script("stop", &self.folder.path().join("c")).output();
        // No second panic while one is under way.
        let stopped = output.as_ref().is_ok_and(|output| output.status.success());
        if !stopped && !self.clusters.is_empty() && !std::thread::panicking() {
            panic!("the clusters were not stopped: {output:?}");
        }
    }
}

impl SlurmCluster {
    /// Runs a command of Slurm's, as a local user would. Gives what it printed.
    ///
    /// # Panics
    /// If it fails.
    pub fn run(&self, words: &[&str]) -> String {
        let output = self.command(words[0]).args(&words[1..]).output().unwrap();
        let (stdout, stderr) = texts(&output);
        assert!(output.status.success(), "{words:?}: {stdout}{stderr}");
        stdout.trim_end().to_owned()
    }

    /// A command of Slurm's for this cluster.
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.env("SLURM_CONF", &self.conf).env("LC_ALL", "C").current_dir("/");
        command
    }

    /// Sends a signal to the controller.
    pub fn signal_controller(&self, signal: Signal) {
        signal_recorded(&self.pids.join(&self.name), signal);
    }

    /// Sends a signal to the daemon of a node, counted from 1.
    pub fn signal_node(&self, node: u32, signal: Signal) {
        signal_recorded(&self.pids.join(format!("{}{node}", self.name)), signal);
    }
}

fn script(verb: &str, folder: &Path) -> Command {
    let mut command = Command::new("bash");
    command.arg(SCRIPT).arg(verb).arg(folder);
    command
}

/// Reads `alpha 4/4 /folder/alpha/slurm.conf`.
fn cluster(line: &str, folder: &Path) -> SlurmCluster {
    let words: Vec<&str> = line.split(' ').collect();
    let &[name, _, conf] = words.as_slice() else { panic!("expected a name, nodes and a file: {line}") };
    SlurmCluster { name: name.to_owned(), conf: conf.into(), pids: folder.join("run") }
}

fn signal_recorded(path: &Path, signal: Signal) {
    let recorded = fs::read_to_string(path).unwrap();
    let pid = recorded.split(' ').next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    kill_process(pid.unwrap(), signal).unwrap();
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}
