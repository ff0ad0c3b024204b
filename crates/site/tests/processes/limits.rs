//! Jobs that use more than they may end with that reason, and nothing of them is left.

use std::fs;
use std::path::{Path, PathBuf};

use pliant_site::processes::{Exit, JobLimits, RunSpec};

use crate::scratch::{Scratch, script, without_first_thread};

/// Runs a script under limits to its end, which must come long before its walltime.
async fn run(text: &str, limits: JobLimits) -> Exit {
    let spec = RunSpec { limits, walltime_s: 300, grace_s: 60, ..script(text) };
    Scratch::with(&spec).run().await
}

fn assert_exceeded(exit: &Exit, what: &str) {
    let found = exit.over_limit.as_deref().unwrap_or_else(|| panic!("{exit:?}"));
    assert!(found.contains(what), "{found}");
    assert!(!exit.over_walltime && !exit.cancelled && !exit.is_success(), "{exit:?}");
}

#[tokio::test]
async fn a_memory_hog_ends() {
    let limits = JobLimits { memory_bytes: Some(64 << 20), ..JobLimits::default() };
    // Two processes that are within the limit one by one, and hold what they have.
    let hog = r#"half() { perl -e '$a = "x" x (48 << 20); sleep 1000'; }; trap '' TERM; half & half"#;
    assert_exceeded(&run(hog, limits.clone()).await, "bytes of memory, 67108864 are allowed");
    assert_eq!(run("exit 3", limits).await.over_limit, None);
}

/// Writes 96 MiB to a memory file, which the process has open and not in its own memory.
const MEMORY_FILE: &str = r#"perl -MConfig -e '
my $call = $Config{archname} =~ /x86_64/ ? 319 : 279; my $name = "hoard\0"; my $file = syscall($call, $name, 0);
open(my $out, ">&=", $file) or die; syswrite($out, "x" x (1 << 20)) for 1..96; sleep 1000'"#;

#[tokio::test]
async fn memory_that_belongs_to_no_process_counts() {
    let limits = JobLimits { memory_bytes: Some(64 << 20), ..JobLimits::default() };
    let allowed = "in /dev/shm and other shared memory, 67108864 are allowed";
    assert_exceeded(&run(MEMORY_FILE, limits.clone()).await, allowed);
    // Its name is removed at once.
    let unnamed =
        r#"f=/dev/shm/pliant-limits-$$; exec 5> $f; rm $f; head -c 100000000 /dev/zero >&5; sleep 1000"#;
    assert_exceeded(&run(unnamed, limits).await, allowed);
}

#[tokio::test]
async fn a_process_without_its_first_thread_counts() {
    let hoard = "my $hoard = \"x\" x (96 << 20); sleep 1000";
    let Some(hog) = without_first_thread(hoard) else { return };
    let limits = JobLimits { memory_bytes: Some(64 << 20), ..JobLimits::default() };
    assert_exceeded(&run(&format!("{hog} & wait"), limits).await, "bytes of memory, 67108864 are allowed");
    let Some(idle) = without_first_thread("sleep 1000") else { return };
    let limits = JobLimits { processes: Some(20), ..JobLimits::default() };
    let many = format!("for i in $(seq 30); do {idle} & done; sleep 1000");
    assert_exceeded(&run(&many, limits).await, "processes and threads, 20 are allowed");
}

#[tokio::test]
async fn a_fork_bomb_ends() {
    let limits = JobLimits { processes: Some(60), ..JobLimits::default() };
    // Each process starts two others; they leave the group, and their parents do not wait for them. It stops at some thousand, so
    // that a failure of this test leaves a machine that can be used.
    let bomb = r#"bomb() { [ "$1" -gt 10 ] && exec sleep 600; setsid sh -c "$body" bomb $(($1 + 1)) & setsid sh -c "$body" bomb $(($1 + 1)) & }
body='[ "$1" -gt 10 ] && exec sleep 600; trap "" TERM HUP; setsid sh -c "$body" bomb $(($1 + 1)) & setsid sh -c "$body" bomb $(($1 + 1)) & wait'
export body; bomb 0; sleep 1000"#;
    assert_exceeded(&run(bomb, limits).await, "processes and threads, 60 are allowed");
}

#[tokio::test]
async fn a_job_that_fills_the_disk_ends() {
    let limits = JobLimits { disk_bytes: Some(3 << 20), ..JobLimits::default() };
    let fills = "i=0; while :; do head -c 100000 /dev/zero > f$i; i=$((i + 1)); sleep 0.02; done";
    assert_exceeded(&run(fills, limits).await, "bytes of files, 3145728 are allowed");
    let limits = JobLimits { disk_files: Some(100), ..JobLimits::default() };
    let many = "mkdir many; i=0; while :; do : > many/$i; i=$((i + 1)); done";
    assert_exceeded(&run(many, limits).await, "files, 100 are allowed");
    // Its name is removed at once.
    let limits = JobLimits { disk_bytes: Some(3 << 20), ..JobLimits::default() };
    let unnamed = "exec 5> f; rm f; head -c 10000000 /dev/zero >&5; sleep 1000";
    assert_exceeded(&run(unnamed, limits).await, "bytes of files, 3145728 are allowed");
}

/// Kernels without controllers of version 2 still end all processes of a cgroup at once.
#[tokio::test]
async fn a_job_in_a_cgroup_leaves_nothing() {
    let Some(base) = cgroup() else { return };
    let limits = JobLimits { cgroup: Some(base.clone()), ..JobLimits::default() };
    // A process that leaves group and session and forgets its environment.
    let leaves =
        "cat /proc/self/cgroup > own; setsid env -i sh -c 'trap \"\" TERM; sleep 1000' & sleep 0.5; exit 4";
    let spec = RunSpec { limits, walltime_s: 300, ..script(leaves) };
    let scratch = Scratch::with(&spec);
    let exit = scratch.run().await;
    let own = scratch.text("work/own");
    let in_cgroup = own.lines().any(|line| line.starts_with("0::") && line.contains("/job-"));
    let folders: Vec<_> = fs::read_dir(&base).unwrap().flatten().map(|entry| entry.file_name()).collect();
    let left = folders.iter().any(|name| name.to_string_lossy().starts_with("job-"));
    drop(scratch);
    remove(&base);
    assert!(in_cgroup, "{own}");
    assert_eq!(exit.outcome, pliant_wire::Outcome::ExitCode(4));
    assert!(!left, "{folders:?}");
}

/// A cgroup of version 2 for a test, as root.
fn cgroup() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mount = mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (fields[2] == "cgroup2").then(|| PathBuf::from(fields[1]))
    });
    let base = mount.map(|mount| mount.join(format!("pliant-test-{}", std::process::id())));
    match base {
        Some(base) if fs::create_dir(&base).is_ok() => Some(base),
        _ => {
            pliant_testing::skip(pliant_testing::Needed::Program, "no cgroup of version 2 can be made here");
            None
        }
    }
}

fn remove(base: &Path) {
    let inner = fs::read_dir(base).unwrap().flatten().filter(|entry| entry.path().is_dir());
    for folder in inner.map(|entry| entry.path()).chain([base.to_owned()]) {
        crate::scratch::wait_until("the end of a cgroup", || fs::remove_dir(&folder).ok());
    }
}
