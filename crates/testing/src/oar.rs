//! An OAR cluster of a test's own, on loopback, set up by the project's script (`deploy/test-clusters/oar.sh`).
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{Needed, skip};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/test-clusters/oar.sh");
/// The exit code of the script if a cluster cannot be started on this machine.
const IMPOSSIBLE: i32 = 3;

/// A cluster that runs. Dropped, it is stopped.
pub struct OarCluster {
    folder: TempDir,
    /// The folder of its commands.
    pub commands: PathBuf,
    /// The user whose jobs it takes: it takes none of root's.
    pub user: User,
}

/// A user of this machine.
#[derive(Clone, Debug)]
pub struct User {
    /// The name.
    pub name: String,
    /// The number.
    pub uid: u32,
    /// The number of the first group.
    pub gid: u32,
}

impl OarCluster {
    /// Starts a cluster, installing OAR if need be. None, and a note of what was left out, if this machine cannot have
    /// it: without root, without Debian, without its packages.
    pub fn start(nodes: u32, cpus: u32) -> Option<OarCluster> {
        let folder = tempfile::Builder::new().prefix("oar-").tempdir().unwrap();
        // Jobs of other users get there, too.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = script("start", &folder.path().join("c"));
        command.args(["--nodes", &nodes.to_string(), "--cpus", &cpus.to_string()]);
        // Stopped whatever comes: some of it may run already when the rest fails.
        let nobody = User { name: String::new(), uid: 0, gid: 0 };
        let mut started = OarCluster { folder, commands: PathBuf::new(), user: nobody };
        let output = command.output().unwrap();
        let (stdout, stderr) = texts(&output);
        if output.status.code() == Some(IMPOSSIBLE) {
            skip(Needed::Program, &format!("no OAR cluster: {}", stderr.trim().replace('\n', "; ")));
            return None;
        }
        assert!(output.status.success(), "{}: {stdout}{stderr}", output.status);
        // `2/2 /folder/c/bin name`
        let words: Vec<&str> = stdout.trim().split(' ').collect();
        let &[_, commands, name] = words.as_slice() else { panic!("expected three words: {stdout}") };
        started.commands = commands.into();
        started.user = user(name);
        Some(started)
    }

    /// Starts again what has died of it, and waits until all nodes can be used.
    pub fn restart(&self) {
        let output = script("start", &self.folder.path().join("c")).output().unwrap();
        assert!(output.status.success(), "{:?}", texts(&output));
    }

    /// A command of OAR's, as the user would call it.
    pub fn command(&self, name: &str) -> Command {
        let User { uid, gid, .. } = &self.user;
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={uid}"), format!("--regid={gid}")]).arg("--clear-groups");
        command.arg(self.commands.join(name)).env("LC_ALL", "C").current_dir("/");
        command
    }

    /// Runs a command of OAR's, as the user. Gives what it printed.
    ///
    /// # Panics
    /// If it fails.
    pub fn run(&self, words: &[&str]) -> String {
        let output = self.command(words[0]).args(&words[1..]).output().unwrap();
        let (stdout, stderr) = texts(&output);
        assert!(output.status.success(), "{words:?}: {stdout}{stderr}");
        stdout.trim_end().to_owned()
    }

    /// Submits a job, as a local user does. Gives its id.
    ///
    /// # Panics
    /// If it is not taken.
    pub fn submit(&self, options: &[&str], line: &str) -> String {
        let words = ["oarsub", "--directory=/", "--stdout=/dev/null", "--stderr=/dev/null"];
        let printed = self.run(&[&words, options, &[line]].concat());
        let id = printed.lines().find_map(|line| line.strip_prefix("OAR_JOB_ID="));
        id.unwrap_or_else(|| panic!("no id: {printed}")).to_owned()
    }

    /// Sends a signal to OAR's server, or to its database: `almighty`, `database`.
    pub fn signal(&self, daemon: &str, signal: Signal) {
        let recorded = fs::read_to_string(self.folder.path().join("c/run").join(daemon)).unwrap();
        let pid = recorded.split(' ').next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
        kill_process(pid.unwrap(), signal).unwrap();
    }
}

impl Drop for OarCluster {
    fn drop(&mut self) {
        let output = script("stop", &self.folder.path().join("c")).output();
        // No second panic while one is under way.
        let stopped = output.as_ref().is_ok_and(|output| output.status.success());
        if !stopped && !self.user.name.is_empty() && !std::thread::panicking() {
            panic!("the cluster was not stopped: {output:?}");
        }
    }
}

fn user(name: &str) -> User {
    let line = fs::read_to_string("/etc/passwd").unwrap();
    let line = line.lines().find(|line| line.split(':').next() == Some(name)).unwrap().to_owned();
    let number = |field: usize| line.split(':').nth(field).unwrap().parse().unwrap();
    User { name: name.to_owned(), uid: number(2), gid: number(3) }
}

fn script(verb: &str, folder: &Path) -> Command {
    let mut command = Command::new("bash");
    command.arg(SCRIPT).arg(verb).arg(folder);
    command
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}
