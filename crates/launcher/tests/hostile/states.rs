//! A file, a folder or a program of the launcher's that others than root could change, or that is not what it should be.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pliant_launcher::REFUSED;
use rustix::process::{Pid, Signal, kill_process};

use crate::Case;
use crate::requests::{make, run};
use crate::site::{CONFIG, Site, configure, finish, group, job, outcome, shell};

/// The number of calls.
pub(crate) fn check(site: &Site) -> usize {
    files(site) + permissions(site) + lists(site) + changes(site) + stopped(site)
}

/// What the file says.
fn files(site: &Site) -> usize {
    let long = format!("{CONFIG}{}", "# long\n".repeat(10_000));
    let rows: &[(&str, &str)] = &[
        ("", "launcher.toml:1: the key `caller` is missing"),
        ("caller = 'ptl-caller'\n[more]\n", "launcher.toml:2: expected a key, found '['"),
        ("caller = 'ptl-caller'\nprogram = ['/bin/sh']\n", "launcher.toml:2: unknown key `program`"),
        (
            "caller = 'ptl-caller'\ncaller = 'ptl-mallory'\n",
            "launcher.toml:2: the key `caller` is there twice",
        ),
        ("caller = 'ptl-caller'\nuid_min = 0\n", "launcher.toml:2: expected a uid from 1"),
        ("caller = 'ptl-caller'\nuid_min = -1\n", "launcher.toml:2: expected a number"),
        ("caller = 'ptl-caller'\nprograms = ['sh']\n", "launcher.toml:2: expected an absolute path"),
        ("caller = 'ptl-caller'\nfolders = ['/a/../b']\n", "launcher.toml:2: expected an absolute path"),
        ("caller = 'ptl-caller'\nallow = 'ptl-alice'\n", "launcher.toml:2: expected a list"),
        ("caller = 'ptl-caller'\nallow = [\"ptl-al\\u0069ce\"]\n", "launcher.toml:2: expected the quote"),
        ("caller = 'root'\n", "launcher.toml:1: expected the name of an account other than root"),
        ("caller = 'ptl-toor'\n", "caller: expected a user other than root"),
        ("caller = 'ptl-unknown'\n", "caller: expected a user other than root"),
        ("caller = 'ptl-mallory'\n", "expected a call by the user \"ptl-mallory\""),
        ("caller = 'ptl-caller'\n\0", "launcher.toml:2: expected a key"),
        (&long, "expected at most 65536 bytes"),
    ];
    for (text, expected) in rows {
        configure(text);
        let name = &text[..text.len().min(60)];
        Case { name, prelude: "", input: make("ptl-alice", job("new")).encode(), expected }.check(site);
    }
    configure(CONFIG);
    rows.len()
}

/// Who can change what the launcher relies on: shell that spoils it, shell that mends it, the refusal.
fn permissions(site: &Site) -> usize {
    let writable = "writable by its group or by others";
    let rows: &[(&str, &str, &str)] = &[
        ("rm etc/launcher.toml", "", "No such file"),
        ("chmod g+w etc/launcher.toml", "", writable),
        ("chmod o+w etc/launcher.toml", "", writable),
        ("chown ptl-caller etc/launcher.toml", "", "has to belong to root"),
        ("rm etc/launcher.toml; mkdir etc/launcher.toml", "rmdir etc/launcher.toml", "expected a file"),
        ("rm etc/launcher.toml; mkfifo etc/launcher.toml", "", "expected a file"),
        (
            "mv etc/launcher.toml etc/x; ln -s x etc/launcher.toml; chown -h ptl-caller etc/launcher.toml",
            "rm etc/launcher.toml etc/x",
            "does not belong to root",
        ),
        (
            "rm etc/launcher.toml; ln -s ../spool/file etc/launcher.toml",
            "rm etc/launcher.toml",
            "has to belong to root",
        ),
        ("ln -sfn launcher.toml etc/launcher.toml", "rm etc/launcher.toml", "link"),
        ("chmod o+w etc", "chmod o-w etc", writable),
        ("chmod 1777 etc", "chmod 755 etc", writable),
        ("chown ptl-caller etc", "chown root etc", "has to belong to root"),
        ("chmod g+w .", "chmod g-w .", writable),
        ("chown ptl-caller .", "chown root .", "has to belong to root"),
        ("chmod g+w spool", "chmod g-w spool", writable),
        ("chmod o+w spool", "chmod o-w spool", writable),
        ("chown ptl-bob spool", "chown ptl-caller spool", "has to belong to root or to uid"),
        ("chown ptl-alice spool", "chown ptl-caller spool", "has to belong to root or to uid"),
        ("mv spool s; touch spool", "rm spool; mv s spool", "expected a folder"),
        ("mv spool s", "mv s spool", "No such file"),
        (
            "mv spool s; ln -s s spool; chown -h ptl-caller spool",
            "rm spool; mv s spool",
            "does not belong to root",
        ),
    ];
    for (spoil, mend, expected) in rows {
        shell(spoil);
        let input = make("ptl-alice", job("new")).encode();
        Case { name: spoil, prelude: "", input, expected }.check(site);
        if !mend.is_empty() {
            shell(mend);
        }
        configure(CONFIG);
    }
    rows.len()
}

/// The lists of accounts.
fn lists(site: &Site) -> usize {
    let rows: &[(&str, &str, &str)] = &[
        ("allow = []", "ptl-alice", "one in `allow`"),
        ("allow = ['ptl-bob']", "ptl-alice", "one in `allow`"),
        ("allow = ['ptl-alic', 'ptl-alice2', 'PTL-ALICE']", "ptl-alice", "one in `allow`"),
        ("allow = ['ptl-alice']\ndeny = ['ptl-alice']", "ptl-alice", "does not ban"),
        ("allow = ['ptl-alias']\ndeny = ['ptl-banned']", "ptl-alias", "does not ban"),
        ("end_only = ['ptl-alice']", "ptl-alice", "`end_only`"),
        ("allow = ['ptl-alias']\nend_only = ['ptl-banned']", "ptl-alias", "`end_only`"),
        ("allow = []\nend_only = ['ptl-alice']", "ptl-alice", "one in `allow`"),
        ("allow = ['ptl-toor']", "ptl-toor", "neither root"),
        ("allow = ['nobody']\nuid_min = 1", "nobody", "one of a person"),
        ("allow = ['ptl-caller']\nuid_min = 1", "ptl-caller", "another one than the caller's own"),
        ("allow = ['ptl-system']", "ptl-system", "one with a uid from 1000"),
        ("uid_min = 1\nuid_max = 999", "ptl-alice", "one with a uid up to 999"),
        ("uid_min = 4294967295", "ptl-alice", "one with a uid from 4294967295"),
    ];
    for (lines, account, expected) in rows {
        configure(&format!("caller = 'ptl-caller'\nprograms = ['/bin/sh']\n{lines}\n"));
        let request = run(account, &["/bin/sh", "-c", "id"], "/");
        Case { name: lines, prelude: "", input: request.encode(), expected }.check(site);
    }
    configure(CONFIG);
    rows.len()
}

/// A file that changes between the beginning of a call and its request: what it says then counts.
fn changes(site: &Site) -> usize {
    let rows: &[(&str, &str)] = &[
        ("deny = ['ptl-alice']\nprograms = ['/bin/sh']", "does not ban"),
        ("allow = []\nprograms = ['/bin/sh']", "one in `allow`"),
        ("programs = []", "one of `programs`"),
    ];
    for (lines, expected) in rows {
        let begun = site.start("ptl-caller", "", Stdio::piped());
        waits_for_request(&begun);
        configure(&format!("caller = 'ptl-caller'\n{lines}\n"));
        let request = run("ptl-alice", &["/bin/sh", "-c", "id"], "/");
        let (code, stdout, stderr) = outcome(&finish(begun, &request.encode()));
        assert_eq!((code, stdout.as_str()), (Some(REFUSED.into()), ""), "{lines}: {stderr}");
        assert!(stderr.contains(expected), "{lines}: {stderr}");
        configure(CONFIG);
    }
    rows.len()
}

/// The caller stops the launcher at some moment of its work, and lets it go on when the account is banned: it stops nothing once the file was
/// read for the last time.
fn stopped(site: &Site) -> usize {
    // A process of the caller that stops the launcher.
    let stop = |pid: u32| {
        let lines = format!("exit(kill('STOP', {pid}) ? 0 : 1)");
        let mut perl = Command::new("perl");
        perl.arg("-e").arg(lines).uid(site.caller).gid(group("ptl-caller")).status().unwrap().success()
    };
    const CALLS: u64 = 60;
    let (mut early, mut late) = (0, 0);
    for call in 0..CALLS {
        let mut begun = site.start("ptl-caller", "", Stdio::piped());
        waits_for_request(&begun);
        let pid = begun.id();
        let request = run("ptl-alice", &["/bin/sh", "-c", "sleep 0.3; id"], "/").encode();
        let mut stdin = begun.stdin.take().unwrap();
        let is_stopped = std::thread::scope(|scope| {
            // A process takes some milliseconds to begin: the request is sent about when it does.
            let stopper = scope.spawn(move || stop(pid));
            std::thread::sleep(Duration::from_micros(call * 250));
            if call + 1 == CALLS {
                let stopped = stopper.join().unwrap();
                stdin.write_all(&request).unwrap();
                return stopped;
            }
            stdin.write_all(&request).unwrap();
            stopper.join().unwrap()
        });
        drop(stdin);
        configure("caller = 'ptl-caller'\ndeny = ['ptl-alice']\nprograms = ['/bin/sh']\n");
        let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::CONT);
        let (code, stdout, stderr) = outcome(&begun.wait_with_output().unwrap());
        configure(CONFIG);
        if is_stopped {
            early += 1;
            assert_eq!((code, stdout.as_str()), (Some(REFUSED.into()), ""), "{call}: {stderr}");
        } else {
            late += 1;
        }
    }
    println!("{early} launchers were stopped, {late} could not be stopped any more");
    assert!(early > 0, "the last one is stopped before its request");
    CALLS as usize
}

/// Waits until a call has read the file: then it reads its request with the rights of its caller.
fn waits_for_request(call: &Child) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let status = format!("/proc/{}/status", call.id());
    let is_waiting = || {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let uids = text.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
        let uids: Vec<&str> = uids.split_whitespace().collect();
        // As whom it acts, and as whom it could act again.
        text.contains("pliant-launcher") && uids.len() == 4 && uids[1] == uids[0] && uids[2] == "0"
    };
    while !is_waiting() {
        assert!(Instant::now() < deadline, "waited in vain for a call to read its request");
        std::thread::sleep(Duration::from_millis(5));
    }
}
