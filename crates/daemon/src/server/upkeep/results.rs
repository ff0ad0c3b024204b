//! How much of the disk the results of each user take, and which go when that is too much: the oldest.
//!
//! What measures the files of an account runs as the account: its user can stop it, for as long as the launcher waits. So folders are measured
//! in tasks of their own, several accounts at a time, and no account takes more of a cycle than its budget. What was measured is used in the
//! next cycle. A later job of the account can write into the folders of its ended jobs, so these are measured again while one runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pliant_control::names::Handle;
use pliant_model::{Span, Time};
use pliant_site::{FilesError, JobFolder};
use tokio::task::{JoinError, JoinSet, spawn_blocking};
use tokio::time::{Instant, timeout_at};

use super::{Account, account};

/// How much of a cycle the measurements of an account may take.
const BUDGET: Duration = Duration::from_secs(30);
/// Of how many accounts folders are measured at the same time.
const AT_ONCE: usize = 4;
/// How much longer than its end a job may be unknown to the archive, with the time that its last processes take to end.
const ENDS_WITHIN: Span = Span(300);

/// A folder of a job that has ended.
#[derive(Clone, Debug)]
pub(super) struct EndedFolder {
    pub(super) owner: String,
    pub(super) ended: Time,
    pub(super) job: Handle,
    pub(super) dir: PathBuf,
}

/// What is measured in a cycle.
pub(super) struct Cycle {
    pub(super) now: Time,
    pub(super) ended: Vec<EndedFolder>,
    /// The folders of what has not ended.
    pub(super) present: Vec<PathBuf>,
    /// Whether the disk with the folders of jobs is almost full.
    pub(super) is_short: bool,
    /// What a folder counts whose account keeps it from being measured, if it never was.
    pub(super) unknown_bytes: u64,
}

/// What folders of ended jobs use, in bytes of the disk.
#[derive(Clone, Debug)]
pub(in crate::server) struct ResultsUsage {
    budget: Duration,
    state: Arc<Mutex<State>>,
}

#[derive(Default, Debug)]
struct State {
    folders: BTreeMap<PathBuf, Usage>,
    /// Accounts with a measurement that has not ended in time.
    busy: BTreeSet<Account>,
    is_measuring: bool,
    /// Whether the disk was almost full in the last cycle.
    was_short: bool,
}

/// What a folder used when it was measured last.
#[derive(Clone, Copy, Debug)]
struct Usage {
    bytes: u64,
    measured: Time,
}

/// Measures a folder. It blocks.
struct Measurement {
    job: Handle,
    dir: PathBuf,
    measure: Box<dyn FnOnce() -> Result<u64, FilesError> + Send>,
}

impl Default for ResultsUsage {
    fn default() -> ResultsUsage {
        ResultsUsage { budget: BUDGET, state: Arc::default() }
    }
}

impl ResultsUsage {
    /// Those that go, so that each user has at most `allowed` bytes: the oldest of a user first, and never those of the job of a user
    /// that ended last. What is not measured yet counts nothing.
    pub(super) fn excess(&self, mut folders: Vec<EndedFolder>, allowed: u64) -> Vec<EndedFolder> {
        // The latest first.
        folders.sort_by(|one, other| (other.ended, &other.job).cmp(&(one.ended, &one.job)));
        excess(folders, &self.state.lock().folders, allowed)
    }

    /// Begins to measure the folders that were not measured, or may have changed since. Does nothing while those of an earlier cycle are
    /// measured.
    pub(super) fn measure(&self, cycle: Cycle) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.is_measuring, true) {
            return;
        }
        let present: BTreeSet<&PathBuf> = cycle.ended.iter().map(|folder| &folder.dir).collect();
        state.folders.retain(|dir, _| present.contains(dir));
        let was_short = std::mem::replace(&mut state.was_short, cycle.is_short);
        let begins_short = cycle.is_short && !was_short;
        drop(state);
        let own = self.clone();
        tokio::spawn(async move {
            let (now, unknown_bytes, of) = (cycle.now, cycle.unknown_bytes, own.clone());
            match spawn_blocking(move || of.due(cycle, begins_short)).await {
                Ok(due) => own.carry_out(due, now, unknown_bytes).await,
                Err(error) => tracing::warn!(%error, "cannot see which results of jobs have to be measured"),
            }
            own.state.lock().is_measuring = false;
        });
    }

    /// What has to be measured of each account that has no measurement under way: what never was comes first, then what was measured
    /// longest ago. It blocks.
    fn due(&self, cycle: Cycle, all: bool) -> BTreeMap<Account, Vec<Measurement>> {
        let Cycle { ended, present, .. } = cycle;
        let at = |dir: &PathBuf| {
            let folder = JobFolder::at(dir).inspect_err(|error| {
                tracing::warn!(%error, dir = %dir.display(), "cannot see whose the files of a job are");
            });
            folder.ok()
        };
        let running: BTreeSet<Account> =
            present.iter().filter_map(at).map(|folder| account(folder.account())).collect();
        let mut by_account: BTreeMap<Account, Vec<(EndedFolder, JobFolder)>> = BTreeMap::new();
        for (found, folder) in ended.into_iter().filter_map(|found| Some((at(&found.dir)?, found))) {
            by_account.entry(account(found.account())).or_default().push((folder, found));
        }
        let state = self.state.lock();
        by_account.retain(|account, _| !state.busy.contains(account));
        let measured = |dir: &PathBuf| state.folders.get(dir).map(|usage| usage.measured);
        let due = by_account.into_iter().map(|(account, mut folders)| {
            let last_end = folders.iter().map(|(folder, _)| folder.ended).max().unwrap_or_default();
            folders.retain(|(folder, _)| match measured(&folder.dir) {
                Some(measured) => all || running.contains(&account) || measured <= last_end + ENDS_WITHIN,
                None => true,
            });
            folders.sort_by_key(|(folder, _)| measured(&folder.dir));
            let measurement = |(EndedFolder { job, dir, .. }, folder): (EndedFolder, JobFolder)| {
                Measurement { job, dir, measure: Box::new(move || folder.disk_bytes()) }
            };
            (account, folders.into_iter().map(measurement).collect())
        });
        due.collect()
    }

    async fn carry_out(&self, due: BTreeMap<Account, Vec<Measurement>>, now: Time, unknown_bytes: u64) {
        let mut under_way = JoinSet::new();
        for (account, measurements) in due {
            if under_way.len() >= AT_ONCE {
                under_way.join_next().await;
            }
            under_way.spawn(self.clone().of_account(account, measurements, (now, unknown_bytes)));
        }
        while under_way.join_next().await.is_some() {}
    }

    /// Measures folders of an account one after the other, until its budget is used up.
    async fn of_account(
        self,
        account: Account,
        measurements: Vec<Measurement>,
        (now, unknown_bytes): (Time, u64),
    ) {
        let until = Instant::now() + self.budget;
        for Measurement { job, dir, measure } in measurements {
            if Instant::now() >= until {
                return;
            }
            let mut measuring = spawn_blocking(measure);
            match timeout_at(until, &mut measuring).await {
                Ok(measured) => self.note((&job, dir), measured, (now, unknown_bytes)),
                Err(_) => {
                    tracing::warn!(%job, "measuring the results of a job takes long");
                    self.state.lock().busy.insert(account.clone());
                    tokio::spawn(async move {
                        self.note((&job, dir), measuring.await, (now, unknown_bytes));
                        self.state.lock().busy.remove(&account);
                    });
                    return;
                }
            }
        }
    }

    /// Notes what a folder uses. One whose account keeps it from being measured counts what it used before, or else `unknown_bytes`.
    fn note(
        &self,
        (job, dir): (&Handle, PathBuf),
        measured: Result<Result<u64, FilesError>, JoinError>,
        (now, unknown_bytes): (Time, u64),
    ) {
        let mut state = self.state.lock();
        match measured {
            Ok(Ok(bytes)) => _ = state.folders.insert(dir, Usage { bytes, measured: now }),
            Ok(Err(error)) => {
                if error.is_of_account() {
                    let bytes = state.folders.get(&dir).map_or(unknown_bytes, |usage| usage.bytes);
                    state.folders.insert(dir, Usage { bytes, measured: now });
                }
                tracing::warn!(%error, %job, "cannot measure the results of a job");
            }
            Err(error) => tracing::warn!(%error, %job, "measuring the results of a job failed"),
        }
    }

    /// Waits until nothing is being measured.
    #[cfg(test)]
    pub(super) async fn settled(&self) {
        while self.state.lock().is_measuring {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn excess(
    latest_first: Vec<EndedFolder>,
    folders: &BTreeMap<PathBuf, Usage>,
    allowed: u64,
) -> Vec<EndedFolder> {
    let mut users: BTreeMap<String, (Handle, u64)> = BTreeMap::new();
    let mut excess: Vec<EndedFolder> = latest_first
        .into_iter()
        .filter(|folder| {
            let (last, bytes) = users.entry(folder.owner.clone()).or_insert_with(|| (folder.job.clone(), 0));
            *bytes = bytes.saturating_add(folders.get(&folder.dir).map_or(0, |usage| usage.bytes));
            *bytes > allowed && folder.job != *last
        })
        .collect();
    // The oldest first.
    excess.reverse();
    excess
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use pliant_site::accounts::LauncherError;

    use super::*;

    fn job(number: u32) -> Handle {
        Handle { server: "lyon".parse().unwrap(), number }
    }

    fn of(name: &str) -> Account {
        Some(name.parse().unwrap())
    }

    fn measurement(
        number: u32,
        measure: impl FnOnce() -> Result<u64, FilesError> + Send + 'static,
    ) -> Measurement {
        Measurement { job: job(number), dir: number.to_string().into(), measure: Box::new(measure) }
    }

    fn ended_by_its_user() -> FilesError {
        let problem = "does not answer".to_owned();
        LauncherError::Disorder { account: "alice".parse().unwrap(), problem }.into()
    }

    fn known(usage: &ResultsUsage) -> Vec<(String, u64)> {
        let state = usage.state.lock();
        state.folders.iter().map(|(dir, usage)| (dir.display().to_string(), usage.bytes)).collect()
    }

    #[tokio::test]
    async fn a_user_who_stops_measurements_keeps_up_no_other_and_gains_nothing() {
        let usage = ResultsUsage { budget: Duration::from_millis(20), ..ResultsUsage::default() };
        let cycle = |of_alice: Vec<Measurement>, bytes: u64| {
            let bobs = vec![measurement(9, move || Ok(bytes))];
            usage.carry_out([(of("alice"), of_alice), (of("bob"), bobs)].into(), Time(0), 1_000)
        };
        // One that was killed, and one that was stopped.
        let (go_on, stopped) = mpsc::channel::<()>();
        let killed = measurement(1, || Err(ended_by_its_user()));
        let hangs = measurement(2, move || {
            let _ = stopped.recv();
            Err(ended_by_its_user())
        });
        cycle(vec![killed, hangs, measurement(3, || Ok(5))], 7).await;
        let known_of =
            |pairs: &[(&str, u64)]| pairs.iter().map(|(dir, b)| ((*dir).to_owned(), *b)).collect::<Vec<_>>();
        assert_eq!(known(&usage), known_of(&[("1", 1_000), ("9", 7)]));
        assert!(usage.state.lock().busy.contains(&of("alice")));
        drop(go_on);
        while usage.state.lock().busy.contains(&of("alice")) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(known(&usage), known_of(&[("1", 1_000), ("2", 1_000), ("9", 7)]));
        // Measured, and killed after that: the last known size stays.
        cycle(vec![measurement(1, || Ok(40))], 8).await;
        cycle(vec![measurement(1, || Err(ended_by_its_user()))], 8).await;
        assert_eq!(known(&usage), known_of(&[("1", 40), ("2", 1_000), ("9", 8)]));
    }

    #[test]
    fn folders_are_measured_again_while_they_may_change() {
        let root = tempfile::tempdir().unwrap();
        let usage = ResultsUsage::default();
        let dir = |number: u32| root.path().join(number.to_string());
        let folder = |number: u32, ended: i64| {
            std::fs::create_dir_all(dir(number)).unwrap();
            EndedFolder { owner: "alice".to_owned(), ended: Time(ended), job: job(number), dir: dir(number) }
        };
        let ended = [folder(1, 100), folder(2, 200), folder(3, 300)];
        for (number, measured) in [(1, 5_000), (2, 4_000)] {
            let known = Usage { bytes: 0, measured: Time(measured) };
            usage.state.lock().folders.insert(dir(number), known);
        }
        let check = |last_end: i64, present: Vec<PathBuf>, all: bool, expected: &[u32]| {
            let mut ended = ended.to_vec();
            ended[2].ended = Time(last_end);
            let now = Time(9_000);
            let cycle = Cycle { now, ended, present, is_short: false, unknown_bytes: 0 };
            let due: Vec<u32> =
                usage.due(cycle, all).into_values().flatten().map(|due| due.job.number).collect();
            assert_eq!(due, expected);
        };
        check(300, vec![], false, &[3]);
        check(4_000, vec![], false, &[3, 2]);
        check(300, vec![dir(4)], false, &[3, 2, 1]);
        check(300, vec![], true, &[3, 2, 1]);
    }

    #[test]
    fn the_oldest_results_of_a_user_go_and_no_other_users() {
        let folder = |owner: &str, number: u32, ended: i64, behind: &str| EndedFolder {
            owner: owner.to_owned(),
            ended: Time(ended),
            job: job(number),
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
            let usage = |bytes| Usage { bytes, measured: Time(0) };
            folders.iter().zip(bytes).map(|(folder, bytes)| (folder.dir.clone(), usage(bytes))).collect()
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
