//! What is left of a job whose supervisor died, and its end.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use super::FOLDER_VARIABLE;
use super::cgroup::Cgroup;
use super::record::Started;
use super::table::{self, Process};

/// How long survivors are killed before giving up: one that hangs in the kernel does not die.
const AT_MOST: Duration = Duration::from_secs(5);
const PERIOD: Duration = Duration::from_millis(10);

/// Names this boot of the host; empty if the system does not say.
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Ends what is left in the cgroup of a job without a supervisor, as whatever user it runs: no process leaves its cgroup.
pub(super) fn end_cgroup(started: Option<&Started>) {
    let of_this_boot = started.filter(|started| started.boot_id == boot_id());
    if let Some(cgroup) = of_this_boot.and_then(|started| Cgroup::left_behind(started.cgroup.as_deref()?)) {
        cgroup.kill();
        cgroup.remove();
    }
}

/// How the processes of a job are known.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Marks {
    /// The folder that their environment names.
    folder: PathBuf,
    /// What its supervisor recorded in this boot of the host, if it came that far.
    recorded: Option<Recorded>,
}

/// The processes that a supervisor started.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Recorded {
    session: i32,
    group: i32,
    /// When the first process of the group came to be, if it leads the session as well.
    leader_ticks: Option<u64>,
}

impl Marks {
    /// The marks of a job that runs as the user of its supervisor, in the supervisor's session.
    pub(super) fn of_own(folder: &Path, started: Option<&Started>) -> Marks {
        Marks::new(folder, started, |started, _| started.supervisor)
    }

    /// The marks of a job that runs as an account, in a session of its own.
    pub(super) fn of_account(folder: &Path, started: Option<&Started>) -> Marks {
        Marks::new(folder, started, |_, group| group)
    }

    fn new(folder: &Path, started: Option<&Started>, session: impl Fn(&Started, i32) -> i32) -> Marks {
        let recorded = started.filter(|started| started.boot_id == boot_id()).and_then(|started| {
            let group = started.group?;
            Some(Recorded { session: session(started, group), group, leader_ticks: started.leader_ticks })
        });
        Marks { folder: folder.to_owned(), recorded }
    }

    /// The process group that the supervisor recorded in this boot, unless its number is another one's by now.
    pub(super) fn living_group(&self) -> Option<i32> {
        let recorded = self.recorded.as_ref()?;
        let leader = Process::read(recorded.group);
        let is_same = leader.is_none_or(|leader| recorded.leader_ticks == Some(leader.since_ticks));
        is_same.then_some(recorded.group)
    }

    /// Kills the processes that have the marks. Returns how many there were.
    pub(crate) fn kill(&self) -> usize {
        let begin = Instant::now();
        let mut killed = BTreeSet::new();
        loop {
            let own = getpid().as_raw_nonzero().get();
            let is_ours =
                |process: &Process| process.pid != own && !process.is_zombie && self.is_survivor(process);
            let survivors: Vec<Process> = table::all().into_iter().filter(is_ours).collect();
            if survivors.is_empty() || begin.elapsed() > AT_MOST {
                return killed.len();
            }
            for survivor in &survivors {
                if self.kill_checked(survivor) {
                    killed.insert(survivor.pid);
                }
            }
            thread::sleep(PERIOD);
        }
    }

    /// Whether a process is provably of this job: it carries the job's mark in its environment, or it is in the session
    /// and in the group that the supervisor recorded in this boot. (The kernel does not give out a number again while it is
    /// the id of a session or group with members; nor, in practice, both of these together in the same roles. Where they are the
    /// same number, the first process is known by its start.)
    fn is_survivor(&self, process: &Process) -> bool {
        let is_recorded = |recorded: &Recorded| {
            let is_same = process.pid != recorded.group
                || recorded.leader_ticks.is_none_or(|ticks| ticks == process.since_ticks);
            recorded.group == process.group && recorded.session == process.session && is_same
        };
        self.recorded.as_ref().is_some_and(is_recorded) || process.has_variable(FOLDER_VARIABLE, &self.folder)
    }

    /// Signals the process that was looked at and no other which got its id meanwhile.
    fn kill_checked(&self, survivor: &Process) -> bool {
        let Some(pid) = survivor.id() else { return false };
        let is_still_ours = || Process::read(survivor.pid).is_some_and(|process| self.is_survivor(&process));
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => is_still_ours() && pidfd_send_signal(process, Signal::KILL).is_ok(),
            // Linux before 5.3.
            Err(Errno::NOSYS) => is_still_ours() && kill_process(pid, Signal::KILL).is_ok(),
            Err(_) => false,
        }
    }
}
