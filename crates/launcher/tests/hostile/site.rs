//! A machine with the launcher, set-user-id, and accounts of the test's own; all of it is removed at the end.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use pliant_launcher::Request;
use pliant_testing::{Needed, skip};

/// The folder of everything, which is known to the launcher under test.
pub(crate) const BASE: &str = "/var/lib/pliant-launcher-under-test";
/// The launcher.
pub(crate) const LAUNCHER: &str = "/var/lib/pliant-launcher-under-test/bin/pliant-launcher";
/// The folder of jobs, which belongs to the caller.
pub(crate) const SPOOL: &str = "/var/lib/pliant-launcher-under-test/spool";
/// The launcher's file, as most calls find it.
pub(crate) const CONFIG: &str = "\
caller = 'ptl-caller'
deny = ['ptl-banned', 'ptl-ghost']
folders = [
    '/var/lib/pliant-launcher-under-test/spool',
    '/var/lib/pliant-launcher-under-test/roots',
    '/var/lib/pliant-launcher-under-test/open',
    '/var/lib/pliant-launcher-under-test/of-bob',
    '/var/lib/pliant-launcher-under-test/link-of-caller/inner',
]
programs = [
    '/bin/sh',
    '/var/lib/pliant-launcher-under-test/programs/writable',
    '/var/lib/pliant-launcher-under-test/programs/of-caller',
    '/var/lib/pliant-launcher-under-test/programs/folder',
    '/var/lib/pliant-launcher-under-test/programs/missing',
    '/var/lib/pliant-launcher-under-test/programs/not-executable',
    '/var/lib/pliant-launcher-under-test/spool/link',
    '/var/lib/pliant-launcher-under-test/open/program',
]
";

/// Accounts: name, what `useradd` is told beside, in this order.
const ACCOUNTS: &[(&str, &[&str])] = &[
    ("ptl-caller", &["--system", "--user-group"]),
    (
        "ptl-alice",
        &[
            "-U",
            "-G",
            "ptl-project",
            "-s",
            "/bin/sh",
            "-d",
            "/var/lib/pliant-launcher-under-test/home/ptl-alice",
        ],
    ),
    ("ptl-bob", &["-U", "-G", "ptl-project", "-d", "/var/lib/pliant-launcher-under-test/home/ptl-bob"]),
    ("ptl-mallory", &["-U", "-G", "ptl-caller"]),
    ("ptl-banned", &["-U"]),
    ("ptl-system", &["--system", "--user-group"]),
    ("ptl-toor", &["-o", "-u", "0", "-g", "ptl-project"]),
    ("ptl-wheel", &["-g", "root"]),
    ("ptl-staff", &["-U", "-G", "root"]),
];
const GROUP: &str = "ptl-project";
/// A second name of the account `ptl-banned`.
const ALIAS: &str = "ptl-alias";

/// The machine.
pub(crate) struct Site {
    pub(crate) caller: u32,
    pub(crate) alice: u32,
    pub(crate) bob: u32,
    _lock: fs::File,
}

impl Drop for Site {
    fn drop(&mut self) {
        clean();
    }
}

impl Site {
    /// The machine; none, with a note, where it cannot be.
    pub(crate) fn new() -> Option<Site> {
        let is_there = |name: &str| Command::new(name).arg("--help").output().is_ok();
        if !rustix::process::geteuid().is_root()
            || !["useradd", "userdel", "bash", "perl", "setpriv"].iter().all(|name| is_there(name))
        {
            skip(Needed::Program, "the launcher set-user-id (needs root, useradd, bash, perl and setpriv)");
            return None;
        }
        let flags = rustix::fs::statvfs("/var/lib").unwrap().f_flag;
        if flags.intersects(rustix::fs::StatVfsMountFlags::NOSUID | rustix::fs::StatVfsMountFlags::NOEXEC) {
            skip(Needed::Program, "the launcher set-user-id (/var/lib has no set-user-id programs)");
            return None;
        }
        // Accounts and paths are the same for every test.
        let lock = fs::File::create("/run/pliant-launcher-under-test.lock").unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
        clean();
        done(Command::new("groupadd").arg(GROUP));
        for (name, options) in ACCOUNTS {
            done(Command::new("useradd").arg("-M").args(*options).arg(name));
        }
        let banned = id("ptl-banned").to_string();
        done(Command::new("useradd").args(["-M", "-o", "-u", &banned, "-g", GROUP, ALIAS]));
        let site = Site { caller: id("ptl-caller"), alice: id("ptl-alice"), bob: id("ptl-bob"), _lock: lock };
        site.fill();
        Some(site)
    }

    fn fill(&self) {
        for folder in ["", "bin", "etc", "home", "programs", "programs/folder", "roots"] {
            make(&Path::new(BASE).join(folder), 0, 0o755);
        }
        make(Path::new(SPOOL), self.caller, 0o711);
        make(&path("server"), self.caller, 0o700);
        make(&path("open"), 0, 0o1777);
        make(&path("of-bob"), self.bob, 0o755);
        make(&path("root-only"), 0, 0o700);
        for (name, uid) in [("ptl-alice", self.alice), ("ptl-bob", self.bob)] {
            make(&path("home").join(name), uid, 0o700);
            write(&path("home").join(name).join("keep"), name, uid, 0o600);
        }
        write(&path("server/key.pem"), "secret", self.caller, 0o600);
        write(&path("root-only/secret"), "secret", 0, 0o600);
        for (name, uid, mode) in
            [("writable", 0, 0o757), ("of-caller", self.caller, 0o755), ("not-executable", 0, 0o644)]
        {
            write(&path("programs").join(name), "#!/bin/sh\nid\n", uid, mode);
        }
        write(&path("open/program"), "#!/bin/sh\nid\n", 0, 0o755);
        // The caller may put anything into its own folder, links included.
        for (target, link) in [
            ("/bin/sh", "spool/link"),
            (BASE, "spool/to-base"),
            ("../root-only", "spool/to-root"),
            ("../home/ptl-alice", "spool/to-home"),
        ] {
            std::os::unix::fs::symlink(target, path(link)).unwrap();
            lchown(path(link), Some(self.caller), None).unwrap();
        }
        std::os::unix::fs::symlink("/tmp", path("link-of-caller")).unwrap();
        lchown(path("link-of-caller"), Some(self.caller), None).unwrap();
        write(&path("spool/file"), "file", self.alice, 0o600);
        for (name, uid) in
            [("of-alice", self.alice), ("of-bob", self.bob), ("of-caller", self.caller), ("of-root", 0)]
        {
            make(&Path::new(SPOOL).join(name), uid, 0o700);
            write(&Path::new(SPOOL).join(name).join("keep"), name, uid, 0o600);
        }
        configure(CONFIG);
        fs::copy(env!("CARGO_BIN_EXE_pliant-launcher-under-test"), LAUNCHER).unwrap();
        chown(LAUNCHER, Some(0), Some(group("ptl-caller"))).unwrap();
        fs::set_permissions(LAUNCHER, fs::Permissions::from_mode(0o4750)).unwrap();
    }

    /// Calls the launcher as the server's user, after some lines of shell in the same process if there are any, with that input.
    pub(crate) fn call(&self, prelude: &str, input: &[u8]) -> Output {
        finish(self.start("ptl-caller", prelude, Stdio::piped()), input)
    }

    /// Makes a request.
    pub(crate) fn ask(&self, request: &Request) -> Output {
        self.call("", &request.encode())
    }

    /// Starts the launcher as some user who is in the group of the server's user.
    pub(crate) fn start(&self, user: &str, prelude: &str, input: Stdio) -> Child {
        let mut command = match prelude {
            "" => Command::new(LAUNCHER),
            _ => {
                let mut command = Command::new("bash");
                let exec = if prelude.contains("$LAUNCHER") { "" } else { "\nexec \"$LAUNCHER\"" };
                command.arg("-c").arg(format!("{prelude}{exec}"));
                command
            }
        };
        command.env("LAUNCHER", LAUNCHER).uid(id(user)).gid(group("ptl-caller")).current_dir(BASE);
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

/// Writes the input and waits for the end.
pub(crate) fn finish(mut child: Child, input: &[u8]) -> Output {
    let mut stdin = child.stdin.take();
    let input = input.to_vec();
    // A launcher that refuses does not read everything.
    let writer = std::thread::spawn(move || stdin.as_mut().map(|stdin| stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join();
    output
}

/// What a call said and how it ended.
pub(crate) fn outcome(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().or(output.status.signal().map(|signal| -signal));
    (code, text(&output.stdout), text(&output.stderr))
}

/// Everything below the test's folder: owner, group, mode, time of change and content.
pub(crate) fn snapshot() -> BTreeMap<PathBuf, String> {
    fn add(path: &Path, found: &mut BTreeMap<PathBuf, String>) {
        let Ok(metadata) = fs::symlink_metadata(path) else { return };
        let content = if metadata.is_file() { fs::read(path).map_or(0, |bytes| bytes.len()) } else { 0 };
        let (uid, gid, mode) = (metadata.uid(), metadata.gid(), metadata.mode());
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        found.insert(path.to_owned(), format!("{uid}:{gid} {mode:o} {changed:?} {content}"));
        if metadata.is_dir() {
            fs::read_dir(path).unwrap().for_each(|entry| add(&entry.unwrap().path(), found));
        }
    }
    let mut found = BTreeMap::new();
    add(Path::new(BASE), &mut found);
    found
}

/// Replaces the launcher's file.
pub(crate) fn configure(text: &str) {
    let _ = fs::remove_file(path("etc/launcher.toml"));
    write(&path("etc/launcher.toml"), text, 0, 0o644);
}

/// Lines of shell, as root, in the test's folder.
pub(crate) fn shell(lines: &str) -> String {
    done(Command::new("bash").arg("-ec").arg(lines).current_dir(BASE))
}

pub(crate) fn path(relative: &str) -> PathBuf {
    Path::new(BASE).join(relative)
}

/// The folder of a job.
pub(crate) fn job(name: &str) -> PathBuf {
    Path::new(SPOOL).join(name)
}

pub(crate) fn id(user: &str) -> u32 {
    done(Command::new("id").args(["-u", user])).trim().parse().unwrap()
}

pub(crate) fn group(name: &str) -> u32 {
    let entry = done(Command::new("getent").args(["group", name]));
    entry.split(':').nth(2).unwrap().parse().unwrap()
}

fn make(folder: &Path, uid: u32, mode: u32) {
    fs::create_dir_all(folder).unwrap();
    chown(folder, Some(uid), Some(uid)).unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
}

fn write(file: &Path, text: &str, uid: u32, mode: u32) {
    fs::write(file, text).unwrap();
    chown(file, Some(uid), Some(uid)).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
}

/// Standard output of a command that succeeds.
fn done(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (code, stdout, stderr) = outcome(&output);
    assert_eq!(code, Some(0), "{command:?}: {stdout}{stderr}");
    stdout
}

fn clean() {
    let _ = fs::remove_dir_all(BASE);
    let quietly = |program: &str, arguments: &[&str]| drop(Command::new(program).args(arguments).output());
    for name in ACCOUNTS.iter().map(|(name, _)| *name).chain([ALIAS]) {
        if Command::new("getent").args(["passwd", name]).output().is_ok_and(|output| output.status.success())
        {
            quietly("userdel", &["--force", name]);
        }
        quietly("groupdel", &[name]);
    }
    quietly("groupdel", &[GROUP]);
}
