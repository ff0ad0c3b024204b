//! Ends that a job tries to hinder: what is left of it, and what it leaves in memory.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use pliant_control::job::{Exit, JobState};
use rustix::process::{Pid, Signal, kill_process};

use super::site::{ALICE, BOB, LYON, Mounted, Site, base, done, uid};
use super::works::files_of;
use crate::harness::*;

/// Leaves a file in memory and a process, and closes the folder of the job to its account.
const LEAVES: &str =
    "head -c 100000 /dev/zero > /dev/shm/pliant-accounts-ends; sleep 1000 & chmod 000 $PWD/..";

/// How much an account has in `/dev/shm`, and its processes.
fn left(account: &str) -> (usize, String) {
    let entries = fs::read_dir("/dev/shm").unwrap().flatten();
    let files = entries.filter(|entry| entry.metadata().is_ok_and(|found| found.uid() == uid(account)));
    let processes = Command::new("ps").args(["-o", "state=,pid=", "-U", account]).output().unwrap();
    let processes = String::from_utf8(processes.stdout).unwrap();
    // What a container's first process has not waited for has ended as well.
    (
        files.count(),
        processes.lines().filter(|line| !line.starts_with('Z')).map(|line| format!("{line}\n")).collect(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_closes_its_folder_does_not_outlive_its_supervisor() {
    let Some(site) = Site::new() else { return };
    let federation = site.federation(&site.cluster("")).await;
    let alice = federation.client(ALICE);
    let job = submit(&alice, &order(rigid(&format!("{LEAVES}; sleep 1000"), 1, 600))).await;
    let folder = files_of(&job.handle);
    let is_closed = || fs::metadata(&folder).is_ok_and(|found| found.mode() & 0o777 == 0);
    until("a closed folder", async || is_closed().then_some(())).await;
    assert_eq!(left(ALICE).0, 1);
    let lock = fs::read_to_string(federation.job_folder(&job.handle).join("lock")).unwrap();
    kill_process(Pid::from_raw(lock.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    let ended = alice.wait(&job.handle, |_| {}).await.unwrap();
    assert!(matches!(ended.exit, Some(Exit::Lost(_))), "{ended:?}");
    assert_eq!(left(ALICE), (0, String::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_closes_or_hides_its_folder_leaves_nothing_in_memory() {
    let Some(site) = Site::new() else { return };
    let federation = site.federation(&site.cluster("")).await;
    let alice = federation.client(ALICE);
    let ended = run(&alice, &order(rigid(&format!("{LEAVES}; exit 3"), 1, 60))).await;
    assert_eq!(ended.exit, Some(Exit::Code(3)), "{ended:?}");
    assert_eq!(left(ALICE), (0, String::new()));
    // As a file system in user space, which `fusermount` mounts for users.
    let gate = federation.path().join("gate");
    let script = format!("echo > /dev/shm/pliant-accounts-ends; {}; exit 4", waiting_for(&gate));
    let job = submit(&alice, &order(rigid(&script, 1, 600))).await;
    federation.reaches(&alice, &job.handle, JobState::Active).await;
    until("a file in memory", async || (left(ALICE).0 == 1).then_some(())).await;
    let Some(_mounted) = Mounted::new(&files_of(&job.handle), uid(BOB), 0o700) else { return };
    fs::write(&gate, "").unwrap();
    let ended = alice.wait(&job.handle, |_| {}).await.unwrap();
    assert_eq!(ended.exit, Some(Exit::Code(4)), "{ended:?}");
    assert_eq!(left(ALICE), (0, String::new()));
}

/// A program that becomes another user: the account of the job may not signal it.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_its_account_cannot_end_is_over_at_its_walltime() {
    let Some(site) = Site::new() else { return };
    let federation = site.federation(&site.cluster("")).await;
    let alice = federation.client(ALICE);
    let (perl, script) = (base("bin/perl-of-bob"), base("bin/hold.pl"));
    let found = done(Command::new("sh").args(["-c", "readlink -f $(command -v perl)"]));
    fs::copy(found.trim(), &perl).unwrap();
    chown(&perl, Some(uid(BOB)), None).unwrap();
    fs::set_permissions(&perl, fs::Permissions::from_mode(0o4755)).unwrap();
    fs::write(&script, "$< = $>; $SIG{TERM} = 'IGNORE'; sleep 1000;").unwrap();
    let run =
        |walltime_s| order(rigid(&format!("exec {} {}", perl.display(), script.display()), 1, walltime_s));
    let job = submit(&alice, &run(2)).await;
    let ended = alice.wait(&job.handle, |_| {}).await.unwrap();
    assert_eq!(ended.exit, Some(Exit::OverWalltime), "{ended:?}");
    is_named(&federation, &federation.job_folder(&job.handle)).await;
    // So does one that is cancelled.
    let job = submit(&alice, &run(600)).await;
    until("the program", async || left(BOB).1.lines().nth(1).map(drop)).await;
    alice.cancel(&job.handle).await.unwrap();
    let ended = alice.wait(&job.handle, |_| {}).await.unwrap();
    assert_eq!(ended.exit, Some(Exit::Cancelled), "{ended:?}");
    is_named(&federation, &federation.job_folder(&job.handle)).await;
}

/// What is left is named in the records of the job and in the server's log, and the supervisor has not filled the disk with complaints.
async fn is_named(federation: &Federation, records: &Path) {
    let exit = fs::read_to_string(records.join("exit.json")).unwrap();
    let exit: serde_json::Value = serde_json::from_str(&exit).unwrap();
    let left = exit["left"][0].as_str().unwrap_or_else(|| panic!("{exit}"));
    let bob = uid(BOB);
    assert!(left.contains(&format!("(uids [{bob}, {bob}, {bob}, {bob}])")), "{left}");
    let pid = left.split_once(' ').unwrap().0;
    federation.logged(LYON, &["a job has ended with processes that its user may not signal", pid]).await;
    let log = fs::read_to_string(records.join("supervisor.log")).unwrap();
    assert!((1..=8).contains(&log.lines().count()), "{log}");
    assert!(log.contains("not permitted"), "{log}");
}
