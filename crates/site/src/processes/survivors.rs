//! What is left of a job whose supervisor died, and its end.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal};

use super::FOLDER_VARIABLE;
use super::cgroup::Cgroup;
use super::folder::Folder;
use super::record::Started;
use super::table::{self, Process};

/// How long survivors are killed before giving up: one that hangs in the kernel does not die.
const AT_MOST: Duration = Duration::from_secs(5);
const PERIOD: Duration = Duration::from_millis(10);

/// Names this boot of the host; empty if the system does not say.
pub(super) fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Kills what is left of a job without a supervisor. Returns how many processes there were.
pub(super) fn kill(folder: &Folder, started: Option<&Started>) -> usize {
    let begin = Instant::now();
    let mut killed = BTreeSet::new();
    // Whatever it did, no process leaves its cgroup.
    let of_this_boot = started.filter(|started| started.boot_id == boot_id());
    let cgroup = of_this_boot.and_then(|started| Cgroup::left_behind(started.cgroup.as_deref()?));
    if let Some(cgroup) = &cgroup {
        cgroup.kill();
        cgroup.remove();
    }
    loop {
        let own = getpid().as_raw_nonzero().get();
        let is_ours = |process: &Process| {
            process.pid != own && !process.is_zombie && is_survivor(process, folder, started)
        };
        let survivors: Vec<Process> = table::all().into_iter().filter(is_ours).collect();
        if survivors.is_empty() || begin.elapsed() > AT_MOST {
            return killed.len();
        }
        for survivor in &survivors {
            if kill_checked(survivor, folder, started) {
                killed.insert(survivor.pid);
            }
        }
        thread::sleep(PERIOD);
    }
}

/// Whether a process is provably of this job: it carries the job's mark in its environment, or it is in the session
/// and in the group that the supervisor recorded in this boot. (The kernel does not give out a number again while it is
/// the id of a session or group with members; nor, in practice, both of these together in the same roles.)
fn is_survivor(process: &Process, folder: &Folder, started: Option<&Started>) -> bool {
    let is_recorded = started.is_some_and(|started| {
        started.group == Some(process.group)
            && started.supervisor == process.session
            && started.boot_id == boot_id()
    });
    is_recorded || table::has_variable(process.pid, FOLDER_VARIABLE, folder.path())
}

/// Signals the process that was looked at and no other which got its id meanwhile.
fn kill_checked(survivor: &Process, folder: &Folder, started: Option<&Started>) -> bool {
    let Some(pid) = survivor.id() else { return false };
    let is_still_ours =
        || Process::read(survivor.pid).is_some_and(|process| is_survivor(&process, folder, started));
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => is_still_ours() && pidfd_send_signal(process, Signal::KILL).is_ok(),
        // Linux before 5.3.
        Err(Errno::NOSYS) => is_still_ours() && kill_process(pid, Signal::KILL).is_ok(),
        Err(_) => false,
    }
}
