//! Requests that the file does not allow.

use std::path::Path;

use pliant_launcher::{Action, Request, Signal};

use crate::refused;
use crate::site::{BASE, SPOOL, Site, job};

/// A program's call as an account.
pub(crate) fn run(account: &str, program: &[&str], folder: impl AsRef<Path>) -> Request {
    let action = Action::Run {
        program: program.iter().map(Into::into).collect(),
        environment: Vec::new(),
        folder: folder.as_ref().to_owned(),
        processes_max: None,
    };
    Request { account: account.into(), action }
}

/// The same as root over the account's subordinate users.
fn run_with_subordinates(account: &str, program: &[&str], folder: impl AsRef<Path>) -> Request {
    let program = program.iter().map(Into::into).collect();
    let action = Action::RunWithSubordinates { program, folder: folder.as_ref().to_owned() };
    Request { account: account.into(), action }
}

pub(crate) fn make(account: &str, folder: impl AsRef<Path>) -> Request {
    let action = Action::MakeFolder { folder: folder.as_ref().to_owned() };
    Request { account: account.into(), action }
}

pub(crate) fn can_be(account: &str) -> Request {
    Request { account: account.into(), action: Action::Check }
}

pub(crate) fn signal(account: &str, signal: Signal, processes: &[i32]) -> Request {
    let action = Action::Signal { signal, processes: processes.into() };
    Request { account: account.into(), action }
}

/// The number of calls.
pub(crate) fn check(site: &Site) -> usize {
    accounts(site) + folders(site) + programs(site) + subordinates(site) + signals(site)
}

fn accounts(site: &Site) -> usize {
    let uid = site.alice.to_string();
    let long = "a".repeat(257);
    let letters = "account: expected letters, digits";
    let group = "neither root nor in its group";
    let rows: &[(&str, &str)] = &[
        ("", letters),
        ("root", group),
        ("ptl-toor", group),
        ("ptl-wheel", group),
        ("ptl-staff", "outside the group of root"),
        ("0", letters),
        (&uid, letters),
        ("ptl-alice\n", letters),
        ("ptl-alice:x", letters),
        ("ptl-alice\0", letters),
        ("ptl-alice ", letters),
        ("../ptl-alice", letters),
        ("-ptl-alice", letters),
        ("+ptl-alice", letters),
        ("ptl-älice", letters),
        (&long, letters),
        ("PTL-ALICE", "one that exists"),
        ("ptl-unknown", "one that exists"),
        ("ptl-system", "one with a uid from 1000"),
        ("ptl-caller", "another one than the caller's own"),
        ("nobody", "one of a person"),
        ("ptl-banned", "does not ban"),
        ("ptl-alias", "does not ban"),
    ];
    for (account, expected) in rows {
        refused(
            site,
            &format!("account {account:?}, run"),
            &run(account, &["/bin/sh", "-c", "id"], "/"),
            expected,
        );
        let as_root = run_with_subordinates(account, &["/bin/sh", "-c", "id"], "/");
        refused(site, &format!("account {account:?}, run with subordinates"), &as_root, expected);
        refused(site, &format!("account {account:?}, check"), &can_be(account), expected);
        refused(site, &format!("account {account:?}, make"), &make(account, job("new")), expected);
        let kill = signal(account, Signal::Kill, &[std::process::id().cast_signed()]);
        refused(site, &format!("account {account:?}, signal"), &kill, expected);
    }
    5 * rows.len()
}

fn folders(site: &Site) -> usize {
    let outside = "folder: expected one of `folders`";
    let long = format!("{SPOOL}/{}", "a".repeat(256));
    let in_spool = |rest: &str| format!("{SPOOL}{rest}");
    let names = [
        "",
        "/",
        "/..",
        "/../new",
        "/.",
        "/./new",
        "//new",
        "/new/",
        "/a/b",
        "/.new",
        "/-rf",
        "/a b",
        "/a\nb",
        "/to-root/new",
        "/ü",
    ];
    let others = [
        "",
        "new",
        "spool/new",
        "/",
        "/new",
        "/etc/new",
        "/tmp/new",
        "/root",
        BASE,
        "/proc/self/cwd/spool/new",
        &long,
    ];
    let paths: Vec<String> =
        names.iter().map(|rest| in_spool(rest)).chain(others.map(str::to_owned)).collect();
    for path in &paths {
        refused(site, &format!("make {path:?}"), &make("ptl-alice", path), outside);
    }
    // In an allowed place, but not the account's, or no folder.
    let alices = "a folder that belongs to \"ptl-alice\"";
    let rows: &[(&str, &str)] = &[
        ("of-root", alices),
        ("of-bob", alices),
        ("of-caller", alices),
        ("to-root", "has to be a folder"),
        ("to-home", "has to be a folder"),
        ("link", "has to be a folder"),
        ("file", "has to be a folder"),
    ];
    for (name, expected) in rows {
        refused(site, &format!("make {name}"), &make("ptl-alice", job(name)), expected);
    }
    crate::site::shell("chmod 755 spool/of-bob");
    refused(site, "make a readable folder of bob's", &make("ptl-alice", job("of-bob")), alices);
    crate::site::shell("chmod 700 spool/of-bob");
    let writable = "writable by its group or by others";
    let open = format!("{BASE}/open/new");
    refused(site, "a parent that all can write", &make("ptl-alice", open), writable);
    refused(site, "a parent of bob's", &make("ptl-alice", format!("{BASE}/of-bob/new")), "belongs to uid");
    let link = format!("{BASE}/link-of-caller/inner/new");
    refused(
        site,
        "a parent behind a link of the caller's",
        &make("ptl-alice", link),
        "does not belong to root",
    );
    paths.len() + rows.len() + 4
}

fn programs(site: &Site) -> usize {
    let unlisted = "program: expected one of `programs`";
    let in_base = |rest: &str| format!("{BASE}/{rest}");
    let rows: &[(&str, &str)] = &[
        ("", unlisted),
        ("sh", unlisted),
        ("./sh", unlisted),
        ("/bin/../bin/sh", unlisted),
        ("//bin/sh", unlisted),
        ("/bin/sh/", unlisted),
        ("/usr/bin/sh", unlisted),
        ("/usr/bin/id", unlisted),
        ("/usr/bin/sudo", unlisted),
        ("/proc/self/exe", unlisted),
        (&in_base("bin/pliant-launcher"), unlisted),
        (&in_base("programs/writable"), "writable by its group or by others"),
        (&in_base("programs/of-caller"), "has to belong to root"),
        (&in_base("programs/folder"), "expected a file"),
        (&in_base("programs/missing"), "No such file"),
        (&in_base("programs/not-executable"), "Permission denied"),
        (&in_base("spool/link"), "has to belong to root"),
        (&in_base("open/program"), "writable by its group or by others"),
    ];
    for (program, expected) in rows {
        refused(site, &format!("program {program:?}"), &run("ptl-alice", &[program], "/"), expected);
    }
    refused(site, "no program", &run("ptl-alice", &[], "/"), unlisted);
    let variables = [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "LD_AUDIT",
        "GLIBC_TUNABLES",
        "GCONV_PATH",
        "BASH_ENV",
        "ENV",
        "IFS",
        "PS4",
    ];
    for name in variables {
        let mut request = run("ptl-alice", &["/bin/sh", "-c", "id"], "/");
        if let Action::Run { environment, .. } = &mut request.action {
            environment.push((name.into(), "/tmp/x.so".into()));
        }
        refused(site, name, &request, "environment: expected no variable");
    }
    let folders = [
        ("relative", "absolute path"),
        ("", "absolute path"),
        ("/missing", "No such file"),
        (&in_base("root-only"), "Permission denied"),
        (&in_base("spool/of-bob"), "Permission denied"),
        (&in_base("spool/to-root"), "Permission denied"),
        (&in_base("server"), "Permission denied"),
        (&in_base("spool/file"), "Not a directory"),
    ];
    for (folder, expected) in folders {
        refused(
            site,
            &format!("run in {folder:?}"),
            &run("ptl-alice", &["/bin/sh", "-c", "id"], folder),
            expected,
        );
    }
    rows.len() + 1 + variables.len() + folders.len()
}

fn subordinates(site: &Site) -> usize {
    let calls = [("/usr/bin/id", "program: expected one of `programs`"), ("", "program: expected one of")];
    for (program, expected) in calls {
        let request = run_with_subordinates("ptl-alice", &[program], "/");
        refused(site, &format!("program {program:?} with subordinates"), &request, expected);
    }
    // An account has subordinate users in a file of root's; these may be others. They go with the account.
    if !Path::new("/etc/subuid").exists() || !Path::new("/etc/subgid").exists() {
        return calls.len();
    }
    let ranges = [("60000-60009", "60000:10"), ("900-909", "900:10"), ("1-4000000000", "1:4000000000")];
    for (range, shown) in ranges {
        crate::site::shell(&format!("usermod -v {range} -w {range} ptl-mallory"));
        let request = run_with_subordinates("ptl-mallory", &["/bin/sh", "-c", "id"], "/");
        let expected = format!("above 61183 (`uid_max`) and without the caller's uid (it has {shown})");
        refused(site, &format!("subordinates {range}"), &request, &expected);
        crate::site::shell(&format!("usermod -V {range} -W {range} ptl-mallory"));
    }
    calls.len() + ranges.len()
}

fn signals(site: &Site) -> usize {
    let sleep = |user: &str| {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid", user, "--regid", user, "--clear-groups", "setsid", "sleep", "600"]);
        command.spawn().unwrap()
    };
    let mut victims = ["ptl-bob", "ptl-caller", "root"].map(sleep);
    // Each is a session of its own by then.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let number = "processes: expected a process above 1";
    let mut rows = vec![(0, number), (1, number), (-1, number), (i32::MIN, number)];
    for victim in &victims {
        let id = victim.id().cast_signed();
        rows.extend([(id, "Operation not permitted"), (-id, "Operation not permitted")]);
    }
    rows.extend([
        (std::process::id().cast_signed(), "Operation not permitted"),
        (2, "Operation not permitted"),
    ]);
    for (process, expected) in &rows {
        for signal_ in [Signal::Kill, Signal::Stop] {
            let request = signal("ptl-alice", signal_, &[*process]);
            if *process == 2 && !Path::new("/proc/2").exists() {
                continue;
            }
            refused(site, &format!("{signal_:?} {process}"), &request, expected);
        }
    }
    for victim in &mut victims {
        assert_eq!(victim.try_wait().unwrap(), None, "a process of somebody else's was ended");
        victim.kill().unwrap();
        victim.wait().unwrap();
    }
    2 * rows.len()
}
