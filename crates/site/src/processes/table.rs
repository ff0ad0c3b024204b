//! The host's processes, as `/proc` shows them (proc(5)).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

/// One process, from `/proc/PID/stat`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    /// It has ended and its parent has not noticed.
    pub(super) is_zombie: bool,
    /// Its first thread has ended and others have not. Then its own files in `/proc` show no memory, environment or descriptors.
    lost_first_thread: bool,
    /// Its threads.
    pub(super) threads: u64,
    /// When it came to be, in clock ticks since the host was started.
    pub(super) since_ticks: u64,
    /// CPU time of its threads, in clock ticks.
    pub(super) own_ticks: u64,
    /// CPU time of the children it waited for, with theirs, in clock ticks.
    pub(super) children_ticks: u64,
}

impl Process {
    /// A process by id; `None` if there is none.
    pub(super) fn read(pid: i32) -> Option<Process> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Process::parse(&stat)
    }

    fn parse(stat: &[u8]) -> Option<Process> {
        // `pid (name) state ...`: the name may hold anything, parentheses and line ends included.
        let name_end = stat.iter().rposition(|&byte| byte == b')')?;
        let name_begin = stat.iter().position(|&byte| byte == b'(')?;
        let pid = std::str::from_utf8(&stat[..name_begin]).ok()?.trim().parse().ok()?;
        let rest = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
        // Numbered from `state`, which is field 3 of the manual.
        let fields: Vec<&str> = rest.split_ascii_whitespace().take(20).collect();
        let number = |index: usize| fields.get(index - 3)?.parse::<i32>().ok();
        // The children's times and the threads are signed in the manual, though never below zero.
        let unsigned = |index: usize| fields.get(index - 3)?.parse::<u64>().ok();
        // Of the first thread. What has ended has no other.
        let (has_ended, threads) = (matches!(*fields.first()?, "Z" | "X"), unsigned(20)?);
        Some(Process {
            pid,
            parent: number(4)?,
            group: number(5)?,
            session: number(6)?,
            is_zombie: has_ended && threads <= 1,
            lost_first_thread: has_ended && threads > 1,
            threads,
            since_ticks: unsigned(22)?,
            own_ticks: unsigned(14)? + unsigned(15)?,
            children_ticks: unsigned(16)? + unsigned(17)?,
        })
    }

    pub(super) fn id(&self) -> Option<Pid> {
        Pid::from_raw(self.pid)
    }

    /// The folder in `/proc` that shows its memory, environment and descriptors: that of a thread which has not ended.
    pub(super) fn folder(&self) -> PathBuf {
        let own = PathBuf::from(format!("/proc/{}", self.pid));
        if !self.lost_first_thread {
            return own;
        }
        let threads = fs::read_dir(own.join("task")).into_iter().flatten().flatten();
        let mut folders = threads.map(|thread| thread.path());
        folders.find(|folder| pages_in(folder).is_some_and(|(all, _)| all > 0)).unwrap_or(own)
    }

    /// Pages of memory that it has resident, and how many of these it shares with others or with a file. None if it has gone.
    pub(super) fn resident_pages(&self) -> Option<(u64, u64)> {
        pages_in(&self.folder())
    }

    /// Bytes of memory of no file that it has resident; of a page that several processes have since a fork, its share. None if it
    /// has gone, or hides them (proc_pid_smaps(5)).
    pub(super) fn anonymous_bytes(&self) -> Option<u64> {
        anonymous_bytes_in(&fs::read_to_string(self.folder().join("smaps_rollup")).ok()?)
    }

    /// The users as which it runs: its real, effective and saved uid, and that of its file system. None if it has gone.
    pub(super) fn uids(&self) -> Vec<u32> {
        let status = fs::read(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        uids_in(&String::from_utf8_lossy(&status))
    }

    /// Whether it was started with this in its environment. False if that cannot be read.
    pub(super) fn has_variable(&self, name: &str, value: &Path) -> bool {
        let Ok(environment) = fs::read(self.folder().join("environ")) else { return false };
        let expected = [OsStr::new(name), value.as_os_str()].map(OsStrExt::as_bytes).join(&b'=');
        environment.split(|&byte| byte == 0).any(|variable| variable == expected)
    }
}

/// The uids in the status of a process (proc_pid_status(5)).
pub(super) fn uids_in(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    line.split_ascii_whitespace().filter_map(|uid| uid.parse().ok()).collect()
}

/// The pages of a process or thread, by its folder in `/proc`.
fn pages_in(folder: &Path) -> Option<(u64, u64)> {
    let statm = fs::read_to_string(folder.join("statm")).ok()?;
    let mut fields = statm.split_ascii_whitespace().skip(1).map(str::parse);
    Some((fields.next()?.ok()?, fields.next()?.ok()?))
}

fn anonymous_bytes_in(smaps: &str) -> Option<u64> {
    let line = smaps.lines().find_map(|line| line.strip_prefix("Pss_Anon:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// All processes. Costs some microseconds for each.
pub(super) fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Process::read).collect()
}

/// Children of a process, theirs, and so on, without the process itself.
pub(super) fn descendants(of: Pid) -> Vec<Process> {
    descendants_among(all(), of.as_raw_nonzero().get())
}

fn descendants_among(processes: Vec<Process>, of: i32) -> Vec<Process> {
    let mut children: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
    for (index, process) in processes.iter().enumerate() {
        children.entry(process.parent).or_default().push(index);
    }
    let mut found = BTreeSet::new();
    let mut unvisited = vec![of];
    while let Some(pid) = unvisited.pop() {
        for &index in children.get(&pid).into_iter().flatten() {
            // The table is not read at one instant: a process id reused meanwhile could close a circle.
            if found.insert(index) {
                unvisited.push(processes[index].pid);
            }
        }
    }
    found.into_iter().map(|index| processes[index].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32) -> Process {
        let (group, session) = (pid, pid);
        let (threads, since_ticks, own_ticks, children_ticks) = (1, 0, 0, 0);
        let (is_zombie, lost_first_thread) = (false, false);
        Process {
            pid,
            parent,
            group,
            session,
            is_zombie,
            lost_first_thread,
            threads,
            since_ticks,
            own_ticks,
            children_ticks,
        }
    }

    #[test]
    fn stat_lines() {
        let check = |line: &str, expected: Option<Process>| {
            assert_eq!(Process::parse(line.as_bytes()), expected, "{line}");
        };
        let numbers = "7 8 9 0 -1 4194304 90 0 1 0 11 22 33 44 20 0 1 0 5 6 7";
        let expected = Process {
            group: 8,
            session: 9,
            since_ticks: 5,
            own_ticks: 33,
            children_ticks: 77,
            ..process(1234, 7)
        };
        check(&format!("1234 (sh) S {numbers}\n"), Some(expected.clone()));
        check(&format!("1234 (a b) R (c) S {numbers}"), Some(expected.clone()));
        check(&format!("1234 (()\n) R {numbers}"), Some(expected.clone()));
        check(&format!("1234 (sh) Z {numbers}"), Some(Process { is_zombie: true, ..expected.clone() }));
        // Its first thread has ended.
        let (numbers, goes_on) =
            (numbers.replace("20 0 1 0", "20 0 2 0"), Process { threads: 2, ..expected });
        check(&format!("1234 (sh) S {numbers}"), Some(goes_on.clone()));
        check(&format!("1234 (sh) Z {numbers}"), Some(Process { lost_first_thread: true, ..goes_on }));
        check("1234 (sh) S 7 8", None);
        check("1234 (sh", None);
        check("", None);
    }

    #[test]
    fn reads_this_process() {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get();
        let found = Process::read(pid).unwrap();
        assert_eq!((found.pid, found.parent, found.is_zombie), (pid, parent, false));
        assert!(descendants(rustix::process::getppid().unwrap()).iter().any(|process| process.pid == pid));
    }

    #[test]
    fn memory_of_no_file_is_read() {
        let own = Process::read(rustix::process::getpid().as_raw_nonzero().get()).unwrap();
        assert!(own.anonymous_bytes().is_some_and(|bytes| bytes > 4096));
        assert_eq!(anonymous_bytes_in("Pss:  262 kB\nPss_Anon:             116 kB\n"), Some(116 << 10));
        assert_eq!(anonymous_bytes_in("Pss:  262 kB\n"), None);
    }

    #[test]
    fn descendants_of_any_depth() {
        let check = |parents: &[(i32, i32)], of: i32, expected: &[i32]| {
            let processes = parents.iter().map(|&(pid, parent)| process(pid, parent)).collect();
            let found: Vec<i32> = descendants_among(processes, of).iter().map(|found| found.pid).collect();
            assert_eq!(found, expected, "{parents:?}");
        };
        check(&[(1, 0), (2, 1), (3, 1), (4, 3), (5, 4), (6, 2)], 3, &[4, 5]);
        check(&[(5, 4), (4, 3), (3, 1)], 3, &[5, 4]);
        check(&[(4, 5), (5, 4), (6, 4)], 4, &[4, 5, 6]);
        check(&[(2, 1)], 7, &[]);
    }
}
