//! What the file allows is done, as the account and completely.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use pliant_launcher::{Action, Request, Signal};
use pliant_testing::{Needed, skip};

use crate::requests::{can_be, make, run, signal};
use crate::site::{BASE, Site, configure, finish, group, job, outcome, path, shell};

pub(crate) fn check(site: &Site) {
    folders_are_made(site);
    a_program_is_run(site);
    a_program_has_a_keyring_of_its_own(site);
    limits_are_set(site);
    processes_are_signalled(site);
    a_job_cannot_signal_the_launcher_that_signals_it(site);
    lists_of_accounts(site);
}

fn done(site: &Site, request: &Request) -> String {
    let (code, stdout, stderr) = outcome(&site.ask(request));
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{request:?}");
    stdout
}

fn folders_are_made(site: &Site) {
    assert_eq!(done(site, &can_be("ptl-alice")), "");
    let about = |name: &str| shell(&format!("stat -c '%U:%G %a' {name}"));
    done(site, &make("ptl-alice", job("1")));
    assert_eq!(about("spool/1"), "ptl-alice:ptl-alice 700\n");
    // Again, with something in it, and after its owner has opened it to others.
    shell("touch spool/1/keep; chmod 777 spool/1");
    done(site, &make("ptl-alice", job("1")));
    assert_eq!(
        (about("spool/1").as_str(), path("spool/1/keep").exists()),
        ("ptl-alice:ptl-alice 700\n", true)
    );
    // Also if its owner can do nothing in it.
    shell("chmod 000 spool/1");
    done(site, &make("ptl-alice", job("1")));
    assert_eq!(about("spool/1"), "ptl-alice:ptl-alice 700\n");
    // In a folder of root's.
    done(site, &make("ptl-bob", path("roots/rennes.7-a_b")));
    assert_eq!(about("roots/rennes.7-a_b"), "ptl-bob:ptl-bob 700\n");
    // Its server may remove it once it is empty.
    done(site, &make("ptl-alice", job("2")));
    assert_eq!(outcome(&site.call("rmdir spool/2; exit $? # $LAUNCHER", b"")).0, Some(0));
    // Its parent hands on its group and the bit that does so: the folder has neither.
    shell("chgrp ptl-project spool; chmod 2711 spool");
    done(site, &make("ptl-alice", job("4")));
    assert_eq!(about("spool/4"), "ptl-alice:ptl-alice 700\n");
    shell("rmdir spool/4; chgrp root spool; chmod 711 spool; chmod g-s spool");
    // A folder that a link of root's leads to.
    shell("mv roots elsewhere; ln -s elsewhere roots");
    done(site, &make("ptl-alice", path("roots/3")));
    shell("rm roots; mv elsewhere roots");
}

fn a_program_is_run(site: &Site) {
    let (alice, project) = (site.alice, group("ptl-project"));
    let gid = group("ptl-alice");
    let report = "id -u; id -ru; id -g; id -G; pwd; umask; echo $*; env | sort; cat; exit 7";
    let mut request =
        run("ptl-alice", &["/bin/sh", "-c", report, "name", "a b", "c"], path("home/ptl-alice"));
    if let Action::Run { environment, .. } = &mut request.action {
        environment.extend(
            [("PLIANT_JOB", "rennes.7"), ("EMPTY", "")].map(|(name, value)| (name.into(), value.into())),
        );
    }
    let home = format!("{BASE}/home/ptl-alice");
    let expected = format!(
        "{alice}\n{alice}\n{gid}\n{gid} {project}\n{home}\n0077\na b c\n\
         EMPTY=\nHOME={home}\nLOGNAME=ptl-alice\nPATH=/usr/local/bin:/usr/bin:/bin\nPLIANT_JOB=rennes.7\nPWD={home}\nSHELL=/bin/sh\nUSER=ptl-alice\n"
    );
    assert_eq!(outcome(&site.ask(&request)), (Some(7), expected.clone(), String::new()));
    // The rest of the input is the program's, to its last byte.
    let Action::Run { environment, .. } = &mut request.action else { unreachable!("a run") };
    // What is asked for comes before what is set for everybody.
    environment.extend(
        [("PATH", "/opt/bin:/usr/bin:/bin"), ("SHELL", "/bin/bash")]
            .map(|(name, value)| (name.into(), value.into())),
    );
    let rest: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
    let output = site.call("", &[request.encode(), rest.clone()].concat());
    let expected = expected
        .replace("/usr/local/bin:/usr/bin:/bin", "/opt/bin:/usr/bin:/bin")
        .replace("SHELL=/bin/sh", "SHELL=/bin/bash");
    assert_eq!(output.stdout, [expected.into_bytes(), rest].concat());
    // It is the process that the caller has started, in a session of its own, and its end is the program's.
    let child = site.start("ptl-caller", "", Stdio::piped());
    let id = child.id().to_string();
    let request = run("ptl-alice", &["/bin/sh", "-c", "echo $$; ps -o sid=,pgid= -p $$; kill -TERM $$"], "/");
    let (code, stdout, stderr) = outcome(&finish(child, &request.encode()));
    assert_eq!((code, stderr.as_str()), (Some(-15), ""));
    assert_eq!(stdout.split_whitespace().collect::<Vec<_>>(), [&id, &id, &id]);
}

/// A program finds no key that its caller has put into the own session keyring.
fn a_program_has_a_keyring_of_its_own(site: &Site) {
    const SEARCH: &str = "my ($keyctl, $add) = `uname -m` =~ /x86_64/ ? (250, 248) : (219, 217); \
        my ($type, $name, $value) = qw(user ptl-secret 1); $| = 1; \
        sub search { print syscall($keyctl, 10, -3, $type, $name, 0) > 0 ? qq(found\\n) : qq(none\\n) }";
    let add = "syscall($keyctl, 1, 0) > 0 and syscall($add, $type, $name, $value, 1, -3) > 0 or print qq(no keyrings\\n)";
    let caller = format!("exec perl -e '{SEARCH}; {add}; search(); exec $ARGV[0]' \"$LAUNCHER\"");
    let program =
        run("ptl-alice", &["/bin/sh", "-c", "exec perl -e \"$0\"", &format!("{SEARCH}; search()")], "/");
    let (code, stdout, stderr) = outcome(&site.call(&caller, &program.encode()));
    if stdout.starts_with("no keyrings") {
        return skip(Needed::Program, "session keyrings (not in this kernel or container)");
    }
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), "found\nnone\n", ""));
}

fn limits_are_set(site: &Site) {
    let report = "ulimit -H -u; ulimit -H -c";
    let mut request = run("ptl-alice", &["/usr/bin/env", "bash", "-c", report], "/");
    configure("caller = 'ptl-caller'\nprograms = ['/usr/bin/env']\n");
    let Action::Run { processes_max, .. } = &mut request.action else { unreachable!("a run") };
    *processes_max = Some(77);
    assert_eq!(done(site, &request), "77\n0\n");
    // One above the caller's is the caller's.
    let (code, stdout, _) = outcome(&site.call("ulimit -c unlimited; ulimit -u 50", &request.encode()));
    assert_eq!((code, stdout.as_str()), (Some(0), "50\n0\n"));
    // What the launcher has more of while it looks up the account.
    let report = "ulimit -S -v; ulimit -S -d; ulimit -S -n; ulimit -H -n";
    let request = run("ptl-alice", &["/usr/bin/env", "bash", "-c", report], "/").encode();
    let prelude = "ulimit -S -n 60; ulimit -H -n 1000; ulimit -S -v 900000; ulimit -S -d 800000";
    let (code, stdout, _) = outcome(&site.call(prelude, &request));
    assert_eq!((code, stdout.as_str()), (Some(0), "900000\n800000\n60\n1000\n"));
    let (code, stdout, stderr) = outcome(&site.call("ulimit -S -n 60; ulimit -H -n 70", &request));
    match rustix::thread::capabilities(None).unwrap().effective {
        own if own.contains(rustix::thread::CapabilitySet::SYS_RESOURCE) => {
            assert_eq!((code, stdout.lines().skip(2).collect()), (Some(0), vec!["60", "70"]), "{stderr}")
        }
        _ => assert!(code == Some(125) && stderr.contains("have enough for accounts"), "{code:?} {stderr}"),
    }
    // No set-user-id program helps it, if the file says so.
    let request = run("ptl-alice", &["/usr/bin/env", "grep", "NoNewPrivs", "/proc/self/status"], "/");
    assert_eq!(done(site, &request), "NoNewPrivs:\t0\n");
    configure("caller = 'ptl-caller'\nprograms = ['/usr/bin/env']\nno_new_privs = true\n");
    assert_eq!(done(site, &request), "NoNewPrivs:\t1\n");
    configure(crate::site::CONFIG);
}

fn processes_are_signalled(site: &Site) {
    let start = || {
        let child = site.start("ptl-caller", "", Stdio::piped());
        let id = child.id().cast_signed();
        let program = run("ptl-alice", &["/bin/sh", "-c", "sleep 600 & sleep 600; wait"], "/").encode();
        (id, std::thread::spawn(move || outcome(&finish(child, &program))))
    };
    let state = |id: i32| shell(&format!("ps -o state= -p {id} || true")).trim().to_owned();
    let wait = |id: i32, expected: &[&str]| {
        (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            expected.contains(&state(id).as_str())
        })
    };
    let (id, process) = start();
    // It has become the account when it sleeps below a shell.
    assert!((0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        shell(&format!("pgrep -s {id} sleep | wc -l")) == "2\n"
    }));
    done(site, &signal("ptl-alice", Signal::Stop, &[id]));
    assert!(wait(id, &["T"]));
    done(site, &signal("ptl-alice", Signal::Cont, &[id]));
    assert!(wait(id, &["S"]));
    // The group, and processes that have ended long ago.
    done(site, &signal("ptl-alice", Signal::Kill, &[i32::MAX, -id]));
    assert_eq!(process.join().unwrap().0, Some(-9));
    assert!((0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        // One that nobody has waited for yet has ended, too.
        shell(&format!("ps -o state= -s {id} | grep -vc Z || true")) == "0\n"
    }));
    done(site, &signal("ptl-alice", Signal::Term, &[]));
}

/// A job that kills, or stops, all processes of its user again and again. It does not signal itself.
fn a_job_cannot_signal_the_launcher_that_signals_it(site: &Site) {
    let unused = "4294967280";
    if !Command::new("setpriv").args(["--reuid", unused, "true"]).status().unwrap().success() {
        return skip(
            Needed::Program,
            "signals to a job that signals all processes (uids of a user namespace)",
        );
    }
    for (number, name) in [("9", "killed"), ("19", "stopped")] {
        let child = site.start("ptl-caller", "", Stdio::piped());
        let id = child.id().cast_signed();
        let begun = path("home/ptl-alice/begun");
        let script = format!("echo > {}; exec perl -e 'kill {number}, -1 while 1'", begun.display());
        let request = run("ptl-alice", &["/bin/sh", "-c", &script], "/").encode();
        let process = std::thread::spawn(move || outcome(&finish(child, &request)));
        assert!((0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            begun.exists()
        }));
        for _ in 0..200 {
            done(site, &signal("ptl-alice", Signal::Cont, &[id]));
        }
        for count in 0..100 {
            done(site, &make("ptl-alice", path(&format!("spool/{name}-{count}"))));
        }
        done(site, &signal("ptl-alice", Signal::Kill, &[-id]));
        assert_eq!(process.join().unwrap().0, Some(-9));
        fs::remove_file(&begun).unwrap();
        shell(&format!("rm -r spool/{name}-*"));
    }
}

fn lists_of_accounts(site: &Site) {
    let lines = "caller = 'ptl-caller'\nprograms = ['/bin/sh']\nfolders = []\n";
    let check = |more: &str, account: &str| {
        configure(&format!("{lines}{more}\n"));
        assert_eq!(done(site, &run(account, &["/bin/sh", "-c", "id -un"], "/")), format!("{account}\n"));
    };
    check("allow = ['ptl-bob', 'ptl-alice']", "ptl-alice");
    check("deny = ['ptl-bob']", "ptl-alice");
    check("uid_min = 1\nallow = ['ptl-system']", "ptl-system");
    check("end_only = ['ptl-bob']", "ptl-alice");
    for more in ["end_only = ['ptl-alice']", "allow = []\nend_only = ['ptl-alice']"] {
        configure(&format!("{lines}{more}\n"));
        for any in [Signal::Term, Signal::Kill, Signal::Stop, Signal::Cont] {
            done(site, &signal("ptl-alice", any, &[i32::MAX]));
        }
    }
    configure(crate::site::CONFIG);
}
