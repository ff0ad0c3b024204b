//! A host with the launcher and accounts of the test's own, and a federation of one server there.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use pliant_testing::oar::User;
use pliant_testing::{Needed, skip};
use rustix::fs::{FlockOperation, StatVfsMountFlags, flock, statvfs};

use crate::harness::{Cluster, Federation};

/// The folder of everything that the launcher under test knows. Its own tests use it as well.
const BASE: &str = "/var/lib/pliant-launcher-under-test";
/// The user of the server.
pub(crate) const SERVER: &str = "pta-server";
/// The users, whose accounts have the same names.
pub(crate) const ALICE: &str = "pta-alice";
pub(crate) const BOB: &str = "pta-bob";
/// The name of the server.
pub(crate) const LYON: &str = "lyon";

/// The host.
pub(crate) struct Site {
    _lock: fs::File,
}

impl Drop for Site {
    fn drop(&mut self) {
        clean();
    }
}

impl Site {
    /// The host; none, with a note, where it cannot be.
    pub(crate) fn new() -> Option<Site> {
        Site::running(&[])
    }

    /// The same with a launcher that runs these programs of a batch system as well.
    pub(crate) fn running(programs: &[&Path]) -> Option<Site> {
        let is_there = |name: &str| Command::new(name).arg("--help").output().is_ok();
        let launcher = Path::new(env!("CARGO_BIN_EXE_pliant")).with_file_name("pliant-launcher-under-test");
        if !rustix::process::geteuid().is_root()
            || !["useradd", "userdel", "perl"].iter().all(|name| is_there(name))
        {
            skip(Needed::Program, "jobs under their users' accounts (needs root, useradd and perl)");
            return None;
        }
        if !launcher.exists() {
            skip(
                Needed::Program,
                "jobs under their users' accounts (needs `cargo build -p pliant-launcher`)",
            );
            return None;
        }
        let flags = statvfs("/var/lib").unwrap().f_flag;
        if flags.intersects(StatVfsMountFlags::NOSUID | StatVfsMountFlags::NOEXEC) {
            skip(Needed::Program, "jobs under their users' accounts (/var/lib has no set-user-id programs)");
            return None;
        }
        let lock = fs::File::create("/run/pliant-launcher-under-test.lock").unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        clean();
        done(Command::new("useradd").args(["--system", "--user-group", "--no-create-home", SERVER]));
        for name in [ALICE, BOB] {
            let home = base("home").join(name);
            done(Command::new("useradd").args(["-M", "-U", "-s", "/bin/sh", "-d"]).arg(home).arg(name));
        }
        let site = Site { _lock: lock };
        for folder in ["", "bin", "etc", "home"] {
            make(&base(folder), 0, 0o755);
        }
        make(&spool(), uid(SERVER), 0o711);
        for name in [ALICE, BOB] {
            make(&base("home").join(name), uid(name), 0o700);
        }
        let own = program();
        let all = programs.iter().copied().chain([own.as_path()]);
        let programs: Vec<String> = all.map(|program| format!("'{}'", program.display())).collect();
        let text = format!(
            "caller = '{SERVER}'\nfolders = ['{}']\nprograms = [{}]\n",
            spool().display(),
            programs.join(", ")
        );
        fs::write(base("etc/launcher.toml"), text).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_pliant"), program()).unwrap();
        fs::set_permissions(program(), fs::Permissions::from_mode(0o711)).unwrap();
        fs::copy(launcher, self::launcher()).unwrap();
        chown(self::launcher(), Some(0), Some(uid_of_group(SERVER))).unwrap();
        fs::set_permissions(self::launcher(), fs::Permissions::from_mode(0o4750)).unwrap();
        Some(site)
    }

    /// A cluster whose server runs as its own user, and jobs as those of the same names.
    pub(crate) fn cluster(&self, further: &str) -> Cluster {
        self.cluster_of(LYON, further)
    }

    /// The same of a server with that name.
    pub(crate) fn cluster_of(&self, name: &'static str, further: &str) -> Cluster {
        let accounts = format!(
            "[accounts]\nmap = \"name\"\nlauncher = \"{}\"\nfolder = \"{}\"\n",
            launcher().display(),
            spool().display()
        );
        let (user, plain) = (self.server(), Cluster::new(name, 4, 1.0));
        let tables = format!("{}{further}", plain.tables);
        Cluster { accounts, user: Some(user), tables, ..plain }
    }

    /// The user of the server.
    pub(crate) fn server(&self) -> User {
        User { name: SERVER.to_owned(), uid: uid(SERVER), gid: uid_of_group(SERVER) }
    }

    /// A federation whose servers run the program of the host.
    pub(crate) fn agent(&self) -> Federation {
        let mut federation = Federation::agent_only("");
        federation.installed = Some(program());
        federation.environment.push(("PLIANT_TEST_SECRET", "of the server".to_owned()));
        federation
    }

    /// A federation of that cluster.
    pub(crate) async fn federation(&self, cluster: &Cluster) -> Federation {
        let mut federation = self.agent();
        federation.add_server(cluster);
        federation.sized(1).await;
        federation
    }
}

/// A file system in memory at a folder, which is taken away at the end.
pub(crate) struct Mounted(PathBuf);

impl Mounted {
    /// The file system, with an owner and a mode; none, with a note, where it cannot be mounted.
    pub(crate) fn new(folder: &Path, owner: u32, mode: u32) -> Option<Mounted> {
        let options = format!("uid={owner},mode={mode:o},size=64m");
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &options, "pliant-test"]).arg(folder);
        if !command.output().is_ok_and(|output| output.status.success()) {
            skip(Needed::Program, "jobs' folders on another file system (needs the right to mount)");
            return None;
        }
        Some(Mounted(folder.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The daemons of the test may still have files in it.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}

/// A file or folder of the host.
pub(crate) fn base(relative: &str) -> PathBuf {
    if relative.is_empty() { PathBuf::from(BASE) } else { Path::new(BASE).join(relative) }
}

/// The folder of the jobs' folders.
pub(crate) fn spool() -> PathBuf {
    base("spool")
}

/// The launcher.
pub(crate) fn launcher() -> PathBuf {
    base("bin/pliant-launcher")
}

/// The program that servers and accounts run.
pub(crate) fn program() -> PathBuf {
    base("bin/pliant")
}

/// The number of an account.
pub(crate) fn uid(name: &str) -> u32 {
    done(Command::new("id").args(["-u", name])).trim().parse().unwrap()
}

fn uid_of_group(name: &str) -> u32 {
    done(Command::new("id").args(["-g", name])).trim().parse().unwrap()
}

fn make(folder: &Path, uid: u32, mode: u32) {
    fs::create_dir_all(folder).unwrap();
    chown(folder, Some(uid), Some(uid)).unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
}

/// Standard output of a command that succeeds.
pub(crate) fn done(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {stdout}{stderr}");
    stdout.into_owned()
}

fn clean() {
    let quietly = |program: &str, arguments: &[&str]| Command::new(program).args(arguments).output();
    for name in [ALICE, BOB, SERVER] {
        if quietly("id", &[name]).is_ok_and(|output| output.status.success()) {
            let _ = quietly("pkill", &["-KILL", "-U", name]);
            let _ = quietly("userdel", &["--force", name]);
        }
        let _ = quietly("groupdel", &[name]);
    }
    // What a victim of the tests has made and could not remove.
    let _ = quietly("ipcrm", &["-M", "0x70746131"]);
    let _ = fs::remove_dir_all(BASE);
}
