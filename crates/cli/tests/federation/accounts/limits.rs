//! Limits of jobs that run as accounts: a job that exceeds one ends with that reason, and the job of another user does not.

use pliant_control::job::{Exit, JobState};

use super::site::{ALICE, BOB, Site, done};
use crate::harness::*;

/// Each process starts two others, which leave the group; their parents do not wait for them. It stops at some thousand, so that a
/// failure of this test leaves a machine that can be used.
const BOMB: &str = r#"body='[ "$1" -gt 10 ] && exec sleep 600; trap "" TERM HUP; setsid sh -c "$body" bomb $(($1 + 1)) & setsid sh -c "$body" bomb $(($1 + 1)) & wait'
export body; setsid sh -c "$body" bomb 0 & sleep 1000"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_uses_more_than_it_may_ends_and_others_do_not() {
    let Some(site) = Site::new() else { return };
    let limits = "[cluster.limits]\nmemory_bytes_per_core = 67108864\nprocesses = 60\ndisk_bytes = 33554432\ndisk_files = 1000\n";
    let cluster = site.cluster("");
    let cluster = Cluster { tables: format!("{}\n{limits}", cluster.tables), ..cluster };
    let federation = site.federation(&cluster).await;
    let (alice, bob) = (federation.client(ALICE), federation.client(BOB));
    let gate = federation.path().join("gate");
    let other = submit(&bob, &order(rigid(&format!("{}; sleep 5", waiting_for(&gate)), 1, 600))).await;
    federation.reaches(&bob, &other.handle, JobState::Active).await;
    let memory = r#"half() { perl -e '$a = "x" x (48 << 20); sleep 1000'; }; trap '' TERM; half & half"#;
    let fills = "i=0; while :; do head -c 1000000 /dev/zero > f$i; i=$((i + 1)); sleep 0.02; done";
    let prints = "while :; do head -c 1000000 /dev/zero; sleep 0.02; done";
    let beside = "while :; do head -c 1000000 /dev/zero >> ../beside; sleep 0.02; done";
    let many = "mkdir many; i=0; while :; do : > many/$i; i=$((i + 1)); done";
    let shared = "in /dev/shm and other shared memory, 67108864 are allowed";
    let named = "head -c 100000000 /dev/zero > /dev/shm/pliant-accounts-limits; sleep 1000";
    let unnamed = r#"perl -MConfig -e 'my $call = $Config{archname} =~ /x86_64/ ? 319 : 279; my $name = "hoard\0";
my $file = syscall($call, $name, 0); open(my $out, ">&=", $file) or die; syswrite($out, "x" x (1 << 20)) for 1..96; sleep 1000'"#;
    for (text, what) in [
        (named, shared),
        (unnamed, shared),
        (memory, "bytes of memory, 67108864 are allowed"),
        (BOMB, "processes and threads, 60 are allowed"),
        (fills, "bytes of files, 33554432 are allowed"),
        (prints, "bytes of files, 33554432 are allowed"),
        (beside, "bytes of files, 33554432 are allowed"),
        (many, "files, 1000 are allowed"),
    ] {
        let ended = run(&alice, &order(rigid(text, 1, 300))).await;
        let Some(Exit::OverLimit(why)) = &ended.exit else { panic!("{what}: {ended:?}") };
        assert!(why.contains(what), "{why}");
        // It would count for later jobs of the account as well.
        assert!(!std::path::Path::new("/dev/shm/pliant-accounts-limits").exists(), "{what}");
        let left = std::process::Command::new("pgrep").args(["-U", ALICE]).output().unwrap();
        assert!(left.stdout.is_empty(), "processes of {what}: {left:?}");
    }
    // The kernel refuses more processes to the account than all of its jobs may have.
    let ended = run(
        &alice,
        &order(rigid("awk '/^Max processes/ { print $3, $4 }' /proc/self/limits; ulimit -c", 1, 60)),
    )
    .await;
    let found = fetched(&alice, &ended.handle).await;
    assert_eq!(String::from_utf8_lossy(&found["stdout"]), format!("{0} {0}\n0\n", 60 * 4 * 2));
    std::fs::write(&gate, "").unwrap();
    let ended = bob.wait(&other.handle, |_| {}).await.unwrap();
    assert_eq!(ended.exit, Some(Exit::Code(0)), "{ended:?}");
}

/// Files in `/dev/shm` and objects of System V go with the last job of their account, not before.
#[tokio::test(flavor = "multi_thread")]
async fn what_jobs_leave_in_memory_is_removed_with_the_last_of_their_account() {
    let Some(site) = Site::new() else { return };
    let federation = site.federation(&site.cluster("")).await;
    let (alice, bob) = (federation.client(ALICE), federation.client(BOB));
    let gate = federation.path().join("gate");
    let makes = |name: &str| {
        let folder = format!("/dev/shm/pliant-accounts-{name}");
        // A closed folder keeps nothing else.
        format!(
            "ipcmk -M 4096 -Q -S 1 && mkdir -p {folder}/deep && echo kept > {folder}/deep/file && chmod 0 {folder}"
        )
    };
    let first = submit(&alice, &order(rigid(&format!("{}; true", waiting_for(&gate)), 1, 600))).await;
    federation.reaches(&alice, &first.handle, JobState::Active).await;
    let second = run(&alice, &order(rigid(&makes("alice"), 1, 60))).await;
    assert_eq!(second.exit, Some(Exit::Code(0)), "{second:?}");
    assert_eq!(left_in_memory(ALICE), [1, 1, 1, 1], "another job of the account runs");
    let other = submit(&bob, &order(rigid(&format!("{}; sleep 1000", makes("bob")), 1, 600))).await;
    federation.reaches(&bob, &other.handle, JobState::Active).await;
    until("the objects of bob's job", async || (left_in_memory(BOB) == [1; 4]).then_some(())).await;
    std::fs::write(&gate, "").unwrap();
    let ended = alice.wait(&first.handle, |_| {}).await.unwrap();
    assert_eq!(ended.exit, Some(Exit::Code(0)), "{ended:?}");
    assert_eq!((left_in_memory(ALICE), left_in_memory(BOB)), ([0; 4], [1; 4]));
    bob.cancel(&other.handle).await.unwrap();
    bob.wait(&other.handle, |_| {}).await.unwrap();
    assert_eq!(left_in_memory(BOB), [0; 4]);
}

/// The segments, semaphores and queues of System V that an account has made, and its entries in `/dev/shm`.
fn left_in_memory(account: &str) -> [usize; 4] {
    use std::os::unix::fs::MetadataExt;
    let uid = super::site::uid(account);
    let made = |list: &str, creator: usize| {
        let text = std::fs::read_to_string(format!("/proc/sysvipc/{list}")).unwrap();
        let is_made =
            |line: &&str| line.split_whitespace().nth(creator).is_some_and(|found| found == uid.to_string());
        text.lines().filter(is_made).count()
    };
    let entries = std::fs::read_dir("/dev/shm").unwrap().flatten();
    let files = entries.filter(|entry| entry.metadata().is_ok_and(|found| found.uid() == uid)).count();
    [made("shm", 9), made("sem", 6), made("msg", 9), files]
}

/// A process that leaves group, session and environment does not leave its cgroup.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_in_a_cgroup_leaves_no_process() {
    let Some(site) = Site::new() else { return };
    let Some(base) = Cgroup::new(site.server().uid) else { return };
    let limits = format!("[cluster.limits]\ncgroup = \"{}\"\n", base.0.display());
    let cluster = site.cluster("");
    let cluster = Cluster { tables: format!("{}\n{limits}", cluster.tables), ..cluster };
    let federation = site.federation(&cluster).await;
    let alice = federation.client(ALICE);
    let leaves = "cat /proc/self/cgroup; setsid env -i sh -c 'trap \"\" TERM; sleep 1000' & sleep 0.5; \
                  echo $$ > /sys/fs/cgroup/cgroup.procs; exit 4";
    let ended = run(&alice, &order(rigid(leaves, 1, 60))).await;
    assert_eq!(ended.exit, Some(Exit::Code(4)), "{ended:?}");
    let found = fetched(&alice, &ended.handle).await;
    let said = String::from_utf8_lossy(&found["stdout"]).into_owned();
    assert!(said.lines().any(|line| line.starts_with("0::") && line.contains("/job-")), "{said}");
    let left = std::process::Command::new("pgrep").args(["-U", ALICE]).output().unwrap();
    assert!(left.stdout.is_empty(), "{left:?}");
}

/// A cgroup of version 2 that belongs to a user.
struct Cgroup(std::path::PathBuf);

impl Cgroup {
    fn new(owner: u32) -> Option<Cgroup> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let mount = mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            (fields[2] == "cgroup2").then(|| std::path::PathBuf::from(fields[1]))
        });
        let base = mount.map(|mount| mount.join(format!("pliant-accounts-{}", std::process::id())));
        let Some(base) = base.filter(|base| std::fs::create_dir(base).is_ok()) else {
            pliant_testing::skip(pliant_testing::Needed::Program, "no cgroup of version 2 can be made here");
            return None;
        };
        done(std::process::Command::new("chown").args(["-R", &owner.to_string()]).arg(&base));
        // The server is started in it, as by systemd: no process moves into a hierarchy from outside without root's rights.
        std::fs::write(base.join("cgroup.procs"), "0").unwrap();
        Some(Cgroup(base))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.with_file_name("cgroup.procs"), "0");
        for _ in 0..100 {
            let inner = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
            for folder in inner.map(|entry| entry.path()).filter(|path| path.is_dir()) {
                let _ = std::fs::write(folder.join("cgroup.kill"), "1");
                let _ = std::fs::remove_dir(folder);
            }
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}
