//! Whether the disks with the folders of jobs have space for new work: a job that is accepted without it holds its processors and cannot
//! be prepared.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;

use super::execution::blocking;
use crate::config::{DiskQuota, ServerFile};
use crate::host::{JournalHealth, free_inodes_needed, stopped};

/// How often the disks are looked at.
const PERIOD: Duration = Duration::from_secs(1);
/// The part of the disk that the results of a user may take.
const USER_SHARE: u64 = 4;
/// The least of that, in bytes.
const LEAST_BYTES_PER_USER: u64 = 4 << 30;

/// The folders in which a server makes those of its jobs: its own, and that of accounts' jobs.
pub(super) fn folders(own: &Path, file: &ServerFile) -> Vec<PathBuf> {
    let accounts = file.accounts();
    let of_accounts = accounts.has_accounts().then(|| accounts.folder());
    std::iter::once(own.to_owned()).chain(of_accounts).collect()
}

/// How many bytes of files of ended jobs each user may have, by the size of the last disk if the file does not say it.
pub(super) fn results_bytes_per_user(file: &ServerFile, folders: &[PathBuf]) -> Option<u64> {
    let total_bytes = || {
        let disk = rustix::fs::statvfs(folders.last()?).ok()?;
        Some(disk.f_blocks.saturating_mul(disk.f_frsize))
    };
    match file.results_bytes_per_user {
        DiskQuota::Share => Some((total_bytes()? / USER_SHARE).max(LEAST_BYTES_PER_USER)),
        said => said.bytes(),
    }
}

/// The disks with the folders of jobs.
pub(super) struct JobsDisk {
    /// A folder on each.
    pub(super) folders: Vec<PathBuf>,
    /// The bytes that must be free for new work.
    pub(super) needed_bytes: u64,
    pub(super) health: JournalHealth,
    /// Whether there is too little on one of them.
    pub(super) is_short: watch::Sender<bool>,
}

impl JobsDisk {
    /// Looks at the disks until the daemon is to stop. Returns at once if nothing has to be free.
    pub(super) async fn run(self, stop: watch::Receiver<bool>) {
        if self.needed_bytes == 0 {
            return;
        }
        loop {
            self.look().await;
            tokio::select! {
                () = stopped(stop.clone()) => return,
                () = tokio::time::sleep(PERIOD) => {}
            }
        }
    }

    async fn look(&self) {
        let mut shortage = None;
        for folder in &self.folders {
            let needed = self.needed_bytes;
            // A file system that hangs keeps no thread of the runtime.
            shortage = shortage.or(blocking(folder, move |folder| found(folder, needed)).await);
        }
        self.is_short.send_replace(shortage.is_some());
        self.health.jobs_disk(shortage);
    }
}

/// Why the disk of a folder has no space for new work.
fn found(folder: &Path, needed_bytes: u64) -> Option<String> {
    let disk = rustix::fs::statvfs(folder)
        .inspect_err(|error| tracing::warn!(%error, "cannot see how much of the jobs' disk is free"))
        .ok()?;
    shortage(disk.f_bavail.saturating_mul(disk.f_frsize), [disk.f_favail, disk.f_files], needed_bytes)
}

/// The same of a disk with so many free bytes, and so many free inodes of so many. Some file systems have any number of inodes, and say 0.
fn shortage(free_bytes: u64, [free, total]: [u64; 2], needed_bytes: u64) -> Option<String> {
    if free_bytes < needed_bytes {
        return Some(format!("the jobs' disk has {free_bytes} bytes left, new work needs {needed_bytes}"));
    }
    let needed = free_inodes_needed(total);
    (total > 0 && free < needed).then(|| {
        format!("the jobs' disk has {free} inodes left for files and folders, new work needs {needed}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_short_of_bytes_or_of_inodes() {
        let check = |bytes: u64, inodes: [u64; 2], expected: Option<&str>| {
            assert_eq!(shortage(bytes, inodes, 64).as_deref(), expected);
        };
        check(64, [100, 1000], None);
        check(64, [0, 0], None);
        check(63, [100, 1000], Some("the jobs' disk has 63 bytes left, new work needs 64"));
        let few = "the jobs' disk has 99 inodes left for files and folders, new work needs 100";
        check(64, [99, 1000], Some(few));
    }

    #[tokio::test]
    async fn a_shortage_is_reported_until_it_is_over() {
        let scratch = tempfile::tempdir().unwrap();
        let (is_short, shown) = watch::channel(false);
        let health = JournalHealth::default();
        let folders = vec![scratch.path().to_owned()];
        let disk = JobsDisk { folders, needed_bytes: u64::MAX, health: health.clone(), is_short };
        disk.look().await;
        assert!(health.shortage().unwrap().starts_with("the jobs' disk has ") && *shown.borrow());
        JobsDisk { needed_bytes: 1, ..disk }.look().await;
        assert!(health.shortage().is_none() && !*shown.borrow());
    }
}
