//! What a job may use on this host, and what happens to one that uses more.
//!
//! A supervisor looks every [`PERIOD`] at what its job uses, and ends the job with the reason when that is more than
//! [`JobLimits`] allows. With a [`Cgroup`] the kernel holds the job to its memory and its processes as well, so that nothing
//! can grow between two looks, and to the time of its processors; without one a job can exceed them for a fraction of a second.
//!
//! Memory is what the job's processes alone have resident, and the largest part that one of them shares with others (files that
//! it has mapped, shared memory). A page that a process shares with its parent since a fork counts for both. Memory that belongs to no
//! process counts in place of what is shared, if it is more: of a job that runs as an account, and without a cgroup that counts
//! all memory.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use super::cgroup::Cgroup;
use super::disk::{DiskMeter, FileUsage, Measured, REST};
use super::open_files::own_deleted_bytes;
use super::table::{self, Process};

/// Between two looks at memory and processes.
const PERIOD: Duration = Duration::from_millis(250);

/// What a job may use on this host; none is no limit.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct JobLimits {
    /// Bytes of memory of all of its processes together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Bytes of the files in its folder, and of those without a name that it has open on the same file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// Files and folders in its folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_files: Option<u64>,
    /// Processors whose time all of its processes have together; only a cgroup holds to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// The folder of a cgroup (version 2) that was delegated to the server, below which the job gets one of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<PathBuf>,
}

impl JobLimits {
    /// Whether processes are to be watched.
    fn of_processes(&self) -> bool {
        self.memory_bytes.is_some() || self.processes.is_some()
    }

    /// Whether files are to be watched.
    fn of_disk(&self) -> bool {
        self.disk_bytes.is_some() || self.disk_files.is_some()
    }

    /// What is exceeded, for the job's owner.
    fn exceeded_by(&self, usage: &Usage) -> Option<String> {
        let over = |limit: Option<u64>, used: u64, what: &str| {
            let limit = limit.filter(|limit| used > *limit)?;
            Some(format!("{used} {what}, {limit} are allowed"))
        };
        let memory = match usage.unowned_bytes {
            0 => "bytes of memory".to_owned(),
            unowned => format!("bytes of memory with {unowned} in /dev/shm and other shared memory"),
        };
        over(self.memory_bytes, usage.memory_bytes, &memory)
            .or_else(|| over(self.processes, usage.processes, "processes and threads"))
            .or_else(|| over(self.disk_bytes, usage.disk.bytes, "bytes of files"))
            .or_else(|| over(self.disk_files, usage.disk.files, "files"))
    }
}

/// What a job uses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Usage {
    /// Of memory that the processes have for themselves, and of all.
    own_bytes: u64,
    memory_bytes: u64,
    /// How many bytes of all belong to no process; 0 if what processes have counts for more.
    unowned_bytes: u64,
    processes: u64,
    disk: FileUsage,
}

impl Usage {
    /// What these processes use.
    fn of(processes: &[Process]) -> Usage {
        let page_bytes = rustix::param::page_size() as u64;
        let (mut own, mut shared, mut threads) = (0, 0, 0);
        for process in processes.iter().filter(|process| !process.is_zombie) {
            threads += process.threads;
            if let Some((resident, common)) = process.resident_pages() {
                own += resident.saturating_sub(common);
                shared = shared.max(common);
            }
        }
        let (own_bytes, memory_bytes) = (own * page_bytes, (own + shared) * page_bytes);
        Usage { own_bytes, memory_bytes, processes: threads, ..Usage::default() }
    }

    /// The same, with memory that processes have for themselves since a fork once, as far as they show it.
    fn without_copies(self, processes: &[Process]) -> Usage {
        let page_bytes = rustix::param::page_size() as u64;
        let own = |process: &Process| {
            let (resident, common) = process.resident_pages()?;
            let own_bytes = resident.saturating_sub(common) * page_bytes;
            Some(process.anonymous_bytes().map_or(own_bytes, |bytes| bytes.min(own_bytes)))
        };
        let own_bytes = processes.iter().filter(|process| !process.is_zombie).filter_map(own).sum();
        let own_bytes = self.own_bytes.min(own_bytes);
        Usage { own_bytes, memory_bytes: self.memory_bytes - self.own_bytes + own_bytes, ..self }
    }

    /// The same with files, which were measured when the processes had that much memory for themselves.
    fn with_files(self, disk: FileUsage, own_bytes: u64) -> Usage {
        // The job may have moved memory to its processes since, or from them while it was measured. What they share is among it.
        let unowned_bytes = disk.memory_bytes;
        let memory_bytes = self.own_bytes.min(own_bytes).saturating_add(unowned_bytes);
        match memory_bytes > self.memory_bytes {
            true => Usage { memory_bytes, unowned_bytes, disk, ..self },
            false => Usage { disk, ..self },
        }
    }
}

/// Watches what a job uses.
pub(super) struct LimitWatch<'a> {
    limits: &'a JobLimits,
    supervisor: Pid,
    disk: DiskMeter,
    cgroup: Option<&'a Cgroup>,
    next: Instant,
}

impl<'a> LimitWatch<'a> {
    /// A watch over the descendants of a supervisor and over the files of its job.
    pub(super) fn new(
        limits: &'a JobLimits,
        supervisor: Pid,
        disk: DiskMeter,
        cgroup: Option<&'a Cgroup>,
        now: Instant,
    ) -> LimitWatch<'a> {
        LimitWatch { limits, supervisor, disk, cgroup, next: now }
    }

    /// What the job exceeds, if it does; and when to look again, if ever.
    pub(super) fn look(&mut self, now: Instant) -> (Option<String>, Option<Duration>) {
        if !self.limits.of_processes() && !self.limits.of_disk() {
            return (None, None);
        }
        if now >= self.next {
            if let Some(killed) = self.cgroup.and_then(Cgroup::exceeded) {
                return (Some(killed), None);
            }
            if let Some(exceeded) = self.exceeded(now) {
                return (Some(exceeded), None);
            }
            let took = now.elapsed();
            self.next = now + PERIOD.max(took * REST);
        }
        (None, Some(self.next.saturating_duration_since(now)))
    }

    /// What is to be measured, if anything, while the processes have that much memory for themselves.
    fn measured(&self, own_bytes: u64) -> Option<Measured> {
        // What earlier jobs of an account have left in memory is in no cgroup any more.
        let is_all_held = self.cgroup.is_some_and(Cgroup::holds_memory) && !self.disk.is_of_account();
        let memory_of = self.limits.memory_bytes.filter(|_| !is_all_held).map(|_| self.supervisor);
        let files_max = match self.limits.of_disk() {
            true => self.limits.disk_files.unwrap_or(u64::MAX),
            false if memory_of.is_none() => return None,
            false => 0,
        };
        let files_of = self.limits.disk_bytes.map(|_| self.supervisor);
        Some(Measured { files_max, files_of, memory_of, own_bytes })
    }

    /// The process that measures files at the moment: it is no process of the job.
    pub(super) fn meter(&self) -> Option<i32> {
        self.disk.process()
    }

    fn exceeded(&mut self, now: Instant) -> Option<String> {
        let mut usage = Usage::default();
        if self.limits.of_processes() {
            let mut processes = table::descendants(self.supervisor);
            let meter = self.meter();
            processes.retain(|process| Some(process.pid) != meter);
            usage = Usage::of(&processes);
            // The kernel visits all pages for the exact number, so only where it may matter.
            let near = |most: u64| usage.memory_bytes > most / 2 && processes.len() > 1;
            if self.limits.memory_bytes.is_some_and(near) {
                usage = usage.without_copies(&processes);
            }
        }
        if let Some(measured) = self.measured(usage.own_bytes) {
            match self.disk.usage(now, measured) {
                Ok((disk, own_bytes)) => {
                    // The supervisor writes what the job prints.
                    let outputs = if measured.files_of.is_some() { own_deleted_bytes() } else { 0 };
                    let disk = FileUsage { bytes: disk.bytes.saturating_add(outputs), ..disk };
                    usage = usage.with_files(disk, own_bytes);
                }
                Err(why) => return Some(format!("files that cannot be measured: {why}")),
            }
        }
        self.limits.exceeded_by(&usage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_limit_that_is_exceeded_is_named() {
        let limits = JobLimits {
            memory_bytes: Some(1000),
            processes: Some(5),
            disk_bytes: Some(100),
            disk_files: Some(3),
            ..JobLimits::default()
        };
        let disk = FileUsage { bytes: 100, files: 3, memory_bytes: 0 };
        let within = Usage { own_bytes: 0, memory_bytes: 1000, unowned_bytes: 0, processes: 5, disk };
        let check = |usage: Usage, expected: Option<&str>| {
            assert_eq!(limits.exceeded_by(&usage).as_deref(), expected);
        };
        check(within, None);
        check(Usage { memory_bytes: 1001, ..within }, Some("1001 bytes of memory, 1000 are allowed"));
        check(
            Usage { memory_bytes: 1001, unowned_bytes: 600, ..within },
            Some("1001 bytes of memory with 600 in /dev/shm and other shared memory, 1000 are allowed"),
        );
        check(Usage { processes: 6, ..within }, Some("6 processes and threads, 5 are allowed"));
        check(
            Usage { disk: FileUsage { bytes: 101, ..disk }, ..within },
            Some("101 bytes of files, 100 are allowed"),
        );
        check(Usage { disk: FileUsage { files: 4, ..disk }, ..within }, Some("4 files, 3 are allowed"));
        assert_eq!(JobLimits::default().exceeded_by(&Usage { memory_bytes: u64::MAX, ..within }), None);
    }

    #[test]
    fn this_process_uses_memory() {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let before = Usage::of(&[Process::read(pid).unwrap()]);
        let hoard = vec![1_u8; 32 << 20];
        let after = Usage::of(&[Process::read(pid).unwrap()]);
        let grown = after.memory_bytes.saturating_sub(before.memory_bytes);
        assert!(grown > 24 << 20, "{grown} bytes after {} more", hoard.len());
        assert!(after.processes >= 1);
    }

    #[test]
    fn memory_that_was_moved_counts_once() {
        let check = |own_bytes: u64, shared: u64, (own_then, unowned): (u64, u64), expected: (u64, u64)| {
            let usage = Usage { own_bytes, memory_bytes: own_bytes + shared, ..Usage::default() };
            let files = FileUsage { memory_bytes: unowned, ..FileUsage::default() };
            let found = usage.with_files(files, own_then);
            assert_eq!((found.memory_bytes, found.unowned_bytes), expected);
        };
        check(40, 5, (40, 0), (45, 0));
        check(40, 5, (40, 30), (70, 30));
        // A process has mapped it.
        check(5, 40, (5, 40), (45, 0));
        // It was moved to the processes since, or from them meanwhile.
        check(45, 2, (5, 40), (47, 0));
        check(5, 0, (45, 40), (45, 40));
    }
}
