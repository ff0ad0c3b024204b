//! What a hostile caller prepares before it calls.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use pliant_launcher::REFUSED;

use crate::Case;
use crate::requests::{make, run};
use crate::site::{BASE, LAUNCHER, SPOOL, Site, finish, job, outcome, path, shell, snapshot};

/// The number of calls.
pub(crate) fn check(site: &Site) -> usize {
    refusals(site) + starved(site) + users(site) + no_effect(site) + interrupted(site)
}

/// Calls that are refused for what the caller did before.
fn refusals(site: &Site) -> usize {
    let request = || run("ptl-alice", &["/bin/sh", "-c", "id"], "/").encode();
    let long = [&u32::MAX.to_le_bytes(), request().as_slice()].concat();
    let cut = request()[..20].to_vec();
    let excess = [&[9, 0, 0, 0], b"\x05\0\0\0hello".as_slice()].concat();
    let traced = "perl -e '
        if (!(my $pid = fork)) { syscall(101, 0, 0, 0, 0); exec $ENV{LAUNCHER} }
        else { waitpid($pid, 0); syscall(101, 7, $pid, 0, 0); waitpid($pid, 0); exit($? >> 8) }'; exit $? # $LAUNCHER";
    let setuid = "to belong to root and to have mode 4750";
    let rows: &[(&str, &str, Vec<u8>, &str)] = &[
        ("no input", "", Vec::new(), "no request on standard input"),
        ("closed input", "exec 0<&-", request(), "no request on standard input"),
        ("input for writing", "exec 0>/dev/null", request(), "no request on standard input"),
        ("a folder as input", "exec 0</", request(), "no request on standard input"),
        ("zeros as input", "exec 0</dev/zero", request(), "the field `verb` is missing"),
        ("too long a request", "", long, "expected at most 4194304 bytes"),
        ("half a request", "", cut, "no request on standard input"),
        ("a word as request", "", excess, "the field `account` is missing"),
        ("closed descriptors", "exec 0<&- 1>&- 3>&2", request(), "no request on standard input"),
        ("no new privileges", "exec setpriv --no-new-privs \"$LAUNCHER\"", request(), setuid),
        (
            "leader of a process group",
            "exec perl -e 'setpgrp; exec $ENV{LAUNCHER}'",
            request(),
            "begin a session",
        ),
        (
            "leader of a session",
            "exec perl -e 'use POSIX; fork and wait and exit($? >> 8); POSIX::setsid(); exec $ENV{LAUNCHER}'",
            request(),
            "begin a session",
        ),
        ("a copy", "cp -p bin/pliant-launcher spool/copy; exec spool/copy # $LAUNCHER", request(), setuid),
        (
            "a user namespace",
            "exec unshare --user --map-root-user \"$LAUNCHER\"",
            request(),
            "pliant-launcher: ",
        ),
        ("traced", traced, request(), setuid),
    ];
    let mut calls = 0;
    for (name, prelude, input, expected) in rows {
        let is_left_out = match *name {
            // The number of the call is that of this architecture.
            "traced" => !cfg!(target_arch = "x86_64"),
            "a user namespace" => !unshares(site),
            _ => false,
        };
        if *name == "a copy" {
            // It is made before the look at what changes.
            site.call("cp bin/pliant-launcher spool/copy 2>&1; exit # $LAUNCHER", b"");
            let input = input.clone();
            Case { name, prelude: "exec spool/copy # $LAUNCHER", input, expected }.check(site);
        } else if !is_left_out {
            Case { name, prelude, input: input.clone(), expected }.check(site);
        }
        calls += usize::from(!is_left_out);
    }
    calls
}

/// Limits under which it cannot do its work: it ends, in whatever way, and nothing has changed but a folder that is there as a whole.
fn starved(site: &Site) -> usize {
    let preludes = [
        "ulimit -n 0",
        "ulimit -n 3",
        "ulimit -n 4",
        "ulimit -n 5",
        "ulimit -v 1000",
        "ulimit -v 3000",
        "ulimit -s 8",
        "ulimit -d 0",
    ];
    for prelude in preludes {
        let before = snapshot();
        let (code, stdout, stderr) =
            outcome(&site.call(prelude, &make("ptl-alice", job("starved")).encode()));
        match code {
            Some(0) => assert_eq!(
                shell("stat -c '%U %a' spool/starved; rmdir spool/starved"),
                "ptl-alice 700\n",
                "{prelude}"
            ),
            _ => assert_eq!((stdout.as_str(), &before), ("", &snapshot()), "{prelude}: {stderr}"),
        }
    }
    preludes.len()
}

/// Whether an ordinary user can have a user namespace of its own here.
fn unshares(site: &Site) -> bool {
    outcome(&site.call("unshare --user --map-root-user true; exit $? # $LAUNCHER", b"")).0 == Some(0)
}

/// Users who are not the one in the file.
fn users(site: &Site) -> usize {
    let request = make("ptl-alice", job("new")).encode();
    let before = snapshot();
    let check = |name: &str, output: std::process::Output, code: i32, expected: &str| {
        let (found, _, stderr) = outcome(&output);
        assert_eq!(found, Some(code), "{name}: {stderr}");
        assert!(stderr.contains(expected), "{name}: {stderr}");
        assert_eq!(before, snapshot(), "{name}");
    };
    let refused = REFUSED.into();
    let mallory = finish(site.start("ptl-mallory", "", Stdio::piped()), &request);
    check("another user in the group", mallory, refused, "expected a call by the user \"ptl-caller\"");
    let alice = finish(site.start("ptl-alice", "", Stdio::piped()), &request);
    check("the account itself, in the group", alice, refused, "expected a call by the user \"ptl-caller\"");
    let root = finish(site.start("root", "", Stdio::piped()), &request);
    check("root", root, refused, "by a user other than root");
    // With a shell between: `setpriv` itself still has root's capabilities when it runs a program.
    let bob = ["--reuid", "ptl-bob", "--regid", "ptl-bob", "--clear-groups", "bash", "-c", LAUNCHER];
    let bob = Command::new("setpriv").args(bob).output().unwrap();
    check("a user outside the group", bob, 126, "Permission denied");
    4
}

/// What the program that is run says about itself.
const REPORT: &str = "
    id -u; id -g; umask; pwd; env | sort; ls /proc/self/fd | tr '\\n' ' '; echo; ulimit -c
    grep -E '^(Sig(Blk|Ign)|Cap(Inh|Prm|Eff|Amb)|Groups)' /proc/self/status";

/// Preparations that change nothing of what the program gets.
fn no_effect(site: &Site) -> usize {
    let request = run("ptl-alice", &["/bin/sh", "-c", REPORT], "/").encode();
    let plain = outcome(&site.call("", &request));
    assert_eq!(plain.0, Some(0), "{plain:?}");
    for zeros in [
        "SigBlk:\t0000000000000000",
        "CapPrm:\t0000000000000000",
        "CapEff:\t0000000000000000",
        "CapInh:\t0000000000000000",
    ] {
        assert!(plain.1.contains(zeros), "{plain:?}");
    }
    // Signals 32 and 33 are the C library's own: it refuses to set them for others.
    let ignored =
        plain.1.split("SigIgn:\t").nth(1).and_then(|rest| u64::from_str_radix(&rest[..16], 16).ok());
    assert_eq!(ignored.map(|signals| signals & !(0b11 << 31)), Some(0), "{plain:?}");
    let rows: &[(&str, &str)] = &[
        ("preloaded library", "export LD_PRELOAD=/tmp/x.so LD_LIBRARY_PATH=/tmp LD_AUDIT=/tmp/x.so"),
        (
            "tunables",
            "export GLIBC_TUNABLES=glibc.malloc.check=3 MALLOC_CHECK_=3 RES_OPTIONS=debug HOSTALIASES=/etc/shadow",
        ),
        (
            "name service",
            "export NSS_WRAPPER_PASSWD=/tmp/p NIS_PATH=/tmp LOCPATH=/tmp GCONV_PATH=/tmp TMPDIR=/tmp",
        ),
        (
            "path and separators",
            "export PATH=/tmp IFS=/ ENV=/tmp/x BASH_ENV=/tmp/x SHELLOPTS=xtrace 2>/dev/null",
        ),
        ("another file by the environment", "export PLIANT_LAUNCHER_CONFIG=/tmp/x PLIANT_CONFIG=/tmp/x"),
        ("another home", "export HOME=/root USER=root LOGNAME=root SHELL=/tmp/x"),
        ("backtraces", "export RUST_BACKTRACE=full RUST_MIN_STACK=1"),
        ("arguments", "exec \"$LAUNCHER\" --config /tmp/x -c id root"),
        ("another name", "exec -a /bin/su \"$LAUNCHER\""),
        ("an empty name", "exec -a '' \"$LAUNCHER\""),
        ("umask", "umask 0"),
        ("umask of everything", "umask 777"),
        ("open descriptors", "exec 3</etc/passwd 7>/dev/null 9<server 250</dev/zero"),
        ("key left open", "exec 5<server/key.pem 6<>server/key.pem"),
        ("core dumps", "ulimit -c unlimited"),
        ("ignored signals", "trap '' HUP INT QUIT TERM CHLD USR1 USR2 ALRM TSTP TTIN TTOU CONT"),
        ("ignored SIGCHLD", "trap '' CHLD"),
        (
            "blocked signals",
            "exec perl -MPOSIX -e 'my $s = POSIX::SigSet->new; $s->fillset; sigprocmask(SIG_SETMASK, $s); exec $ENV{LAUNCHER}'",
        ),
        ("another folder", "cd server"),
        ("a folder that is gone", "mkdir spool/gone; cd spool/gone; rmdir ../gone"),
        ("lowered priority", "renice -n 5 $$ >/dev/null"),
        (
            "a hard link",
            "ln bin/pliant-launcher spool/hard 2>/dev/null && exec spool/hard; exec \"$LAUNCHER\"",
        ),
        ("another personality", "exec setarch -R \"$LAUNCHER\""),
    ];
    for (name, prelude) in rows {
        assert_eq!(outcome(&site.call(prelude, &request)), plain, "{name}");
    }
    // The folder that is made is the same, too.
    for prelude in ["umask 0", "umask 777", "exec 1>&- 2>&-"] {
        let (code, _, stderr) = outcome(&site.call(prelude, &make("ptl-alice", job("masked")).encode()));
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{prelude}");
        assert_eq!(
            shell("stat -c '%U:%G %a' spool/masked; rmdir spool/masked"),
            "ptl-alice:ptl-alice 700\n",
            "{prelude}"
        );
    }
    // Limits of the caller's bind the program, which has no more rights than the caller to raise them.
    let request = run("ptl-alice", &["/bin/sh", "-c", "ulimit -H -f"], "/").encode();
    assert_eq!(outcome(&site.call("ulimit -f 0", &request)).1, "0\n");
    rows.len() + 4
}

/// Launchers that are stopped, continued, ended and asked many things at once.
fn interrupted(site: &Site) -> usize {
    let request = run("ptl-alice", &["/bin/sh", "-c", "cat; id -un"], "/");
    let bytes = [request.encode(), b"rest\n".to_vec()].concat();
    let as_caller = |line: &str| site.call(&format!("{line}; exit # $LAUNCHER"), b"");
    // Half a request, a stop and a continuation by the caller; then the other half.
    let mut child = site.start("ptl-caller", "", Stdio::piped());
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&bytes[..10]).unwrap();
    as_caller(&format!("kill -STOP {0}; sleep 0.2; kill -CONT {0}", child.id()));
    stdin.write_all(&bytes[10..]).unwrap();
    drop(stdin);
    assert_eq!(outcome(&finish(child, b"")), (Some(0), "rest\nptl-alice\n".into(), String::new()));
    // While it waits: its memory, its files and its debugger are out of reach, and its end leaves no core.
    let mut child = site.start("ptl-caller", "ulimit -c unlimited", Stdio::piped());
    child.stdin.as_mut().unwrap().write_all(&bytes[..10]).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let id = child.id();
    let attempts = format!(
        "cat /proc/{id}/mem /proc/{id}/environ; ls -l /proc/{id}/fd /proc/{id}/root/; : >/proc/{id}/mem; \
         perl -e 'exit(syscall(101, 16, {id}, 0, 0) == -1 ? 0 : 1)' || echo traced"
    );
    let (_, stdout, stderr) = outcome(&as_caller(&attempts));
    assert_eq!(stdout, "", "{stderr}");
    as_caller(&format!("kill -ABRT {id}"));
    assert_eq!(outcome(&finish(child, b"")).0, Some(-6));
    assert!(!shell("ls . spool /").contains("core\n"));
    // Many calls for two accounts and one folder: one gets it.
    let calls: Vec<_> = (0..24)
        .map(|number| {
            let account = if number % 2 == 0 { "ptl-alice" } else { "ptl-bob" };
            (account, site.start("ptl-caller", "", Stdio::piped()), make(account, job("race")).encode())
        })
        .collect();
    let outcomes: Vec<_> =
        calls.into_iter().map(|(account, call, input)| (account, outcome(&finish(call, &input)).0)).collect();
    let owner = shell("stat -c %U spool/race; rmdir spool/race");
    for (account, code) in outcomes {
        let expected = if account == owner.trim() { 0 } else { REFUSED.into() };
        assert_eq!(code, Some(expected), "{account}, and the folder is {owner}");
    }
    // A program that dumps its core has no core, unless that was asked for.
    fs::create_dir(path("home/ptl-alice/crash")).unwrap();
    shell("chown ptl-alice home/ptl-alice/crash");
    let crash = run("ptl-alice", &["/bin/sh", "-c", "kill -SEGV $$"], path("home/ptl-alice/crash")).encode();
    let (code, ..) = outcome(&site.call("ulimit -c unlimited", &crash));
    assert_eq!(
        (code, shell("ls home/ptl-alice/crash; rmdir home/ptl-alice/crash")),
        (Some(-11), String::new())
    );
    assert!(fs::metadata(SPOOL).is_ok() && fs::metadata(BASE).is_ok());
    28
}
