//! How much of the disk the results of each user take, and which go when that is too much: the oldest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pliant_control::names::Handle;
use pliant_model::Time;
use pliant_site::JobFolder;

use super::super::execution::blocking;

/// How long folders are measured in a cycle. Those that are left are measured in the next one.
const MEASURED_WITHIN: Duration = Duration::from_secs(60);

/// A folder of a job that has ended.
#[derive(Clone, Debug)]
pub(super) struct EndedFolder {
    pub(super) owner: String,
    pub(super) ended: Time,
    pub(super) job: Handle,
    pub(super) dir: PathBuf,
}

/// What folders of ended jobs use, in bytes of the disk. They are measured once: nothing changes in them any more.
#[derive(Clone, Default, Debug)]
pub(in crate::server) struct ResultsUsage(Arc<Mutex<BTreeMap<PathBuf, u64>>>);

impl ResultsUsage {
    /// Those that go, so that each user has at most `allowed` bytes: the oldest of a user first, and never those of the job of a user
    /// that ended last. What is not measured yet counts nothing.
    pub(super) async fn excess(&self, mut folders: Vec<EndedFolder>, allowed: u64) -> Vec<EndedFolder> {
        // The latest first.
        folders.sort_by(|one, other| (other.ended, &other.job).cmp(&(one.ended, &one.job)));
        self.measure(&folders).await;
        excess(folders, &self.0.lock(), allowed)
    }

    async fn measure(&self, folders: &[EndedFolder]) {
        let present: BTreeSet<&PathBuf> = folders.iter().map(|folder| &folder.dir).collect();
        self.0.lock().retain(|dir, _| present.contains(dir));
        let begun = Instant::now();
        for EndedFolder { dir, job, .. } in folders {
            if begun.elapsed() > MEASURED_WITHIN {
                return;
            }
            if self.0.lock().contains_key(dir) {
                continue;
            }
            match blocking(dir, |dir| JobFolder::at(dir)?.disk_bytes()).await {
                Ok(bytes) => _ = self.0.lock().insert(dir.clone(), bytes),
                Err(error) => tracing::warn!(%error, %job, "cannot measure the results of a job"),
            }
        }
    }
}

fn excess(
    latest_first: Vec<EndedFolder>,
    measured: &BTreeMap<PathBuf, u64>,
    allowed: u64,
) -> Vec<EndedFolder> {
    let mut users: BTreeMap<String, (Handle, u64)> = BTreeMap::new();
    let mut excess: Vec<EndedFolder> = latest_first
        .into_iter()
        .filter(|folder| {
            let (last, bytes) = users.entry(folder.owner.clone()).or_insert_with(|| (folder.job.clone(), 0));
            *bytes = bytes.saturating_add(measured.get(&folder.dir).copied().unwrap_or(0));
            *bytes > allowed && folder.job != *last
        })
        .collect();
    // The oldest first.
    excess.reverse();
    excess
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_results_of_a_user_go_and_no_other_users() {
        let folder = |owner: &str, number: u32, ended: i64, behind: &str| EndedFolder {
            owner: owner.to_owned(),
            ended: Time(ended),
            job: Handle { server: "lyon".parse().unwrap(), number },
            dir: format!("{number}{behind}").into(),
        };
        let folders = [
            folder("alice", 5, 50, ""),
            folder("bob", 4, 40, ""),
            folder("alice", 3, 30, ""),
            folder("alice", 3, 30, ".r1"),
            folder("alice", 2, 20, ""),
            folder("alice", 1, 10, ""),
        ];
        let measured = |bytes: [u64; 6]| {
            folders.iter().zip(bytes).map(|(folder, bytes)| (folder.dir.clone(), bytes)).collect()
        };
        let check = |bytes: [u64; 6], expected: &[&str]| {
            let found = excess(folders.to_vec(), &measured(bytes), 100);
            let found: Vec<&str> = found.iter().map(|folder| folder.dir.to_str().unwrap()).collect();
            assert_eq!(found, expected, "{bytes:?}");
        };
        check([20, 100, 20, 20, 20, 20], &[]);
        check([20, 100, 20, 20, 20, 21], &["1"]);
        check([20, 900, 20, 50, 20, 1], &["1", "2"]);
        // The last job of a user keeps its results, however large they are.
        check([101, 0, 0, 0, 0, 0], &["1", "2", "3.r1", "3"]);
        check([u64::MAX, 1, 1, 1, 1, 1], &["1", "2", "3.r1", "3"]);
    }
}
