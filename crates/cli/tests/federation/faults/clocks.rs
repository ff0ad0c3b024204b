//! The system's clock is set while a daemon is down: an hour forward, then an hour back.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pliant_client::Client;
use pliant_control::job::{Exit, JobRecord, JobState};
use pliant_control::names::Handle;
use pliant_model::Time;
use pliant_site::processes;
use pliant_testing::{Needed, skip};

use crate::harness::*;

const HOUR_S: i64 = 3_600;

/// A library that moves the system's clock for programs that are started with it: their calls come here first.
fn moved_clock(folder: &Path) -> Option<PathBuf> {
    let (source, library) = (folder.join("moved_clock.c"), folder.join("moved_clock.so"));
    fs::write(&source, include_str!("moved_clock.c")).unwrap();
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-o"]).args([&library, &source]);
    match command.output() {
        Ok(output) if output.status.success() => Some(library),
        _ => {
            skip(Needed::Program, "a clock that jumps (cc, to move that of a daemon)");
            None
        }
    }
}

/// The reported times of jobs so far. They do not change, and the present does not go back.
#[derive(Default)]
struct ObservedJobs {
    jobs: BTreeMap<Handle, JobRecord>,
    latest: Time,
}

impl ObservedJobs {
    fn of(&mut self, record: JobRecord) {
        let times = [Some(record.submitted), record.started, record.ended];
        let observed: Vec<Time> = times.into_iter().flatten().collect();
        assert!(observed.is_sorted(), "{record:?}");
        if let Some(before) = self.jobs.get(&record.handle) {
            assert_eq!(before.submitted, record.submitted, "{record:?}");
            assert!(before.started.is_none() || before.started == record.started, "{record:?}");
            assert!(before.ended.is_none() || before.ended == record.ended, "{record:?}");
        } else {
            assert!(record.submitted >= self.latest, "{} is past: {record:?}", self.latest);
        }
        self.latest = self.latest.max(observed.into_iter().max().unwrap());
        self.jobs.insert(record.handle.clone(), record);
    }

    /// Asks the server of every job for it, and for the present.
    async fn look(&mut self, client: &Client) {
        for handle in self.jobs.keys().cloned().collect::<Vec<_>>() {
            let explained = client.explain(&handle).await.unwrap();
            assert!(explained.at >= self.latest, "{} is past: {explained:?}", self.latest);
            self.latest = explained.at;
            self.of(explained.record);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_between_two_starts_loses_no_job_and_ends_none_early() {
    let mut federation = Federation::agent_only("");
    let Some(library) = moved_clock(federation.path()) else { return };
    federation.add_server(&Cluster::new("lyon", 2, 1.0));
    federation.attached(1).await;
    let (alice, root) = (federation.client("alice"), federation.operator());
    let (lines, gate) = (federation.path().join("lines"), federation.path().join("gate"));
    let mut observed = ObservedJobs::default();
    // One runs until it is let go, and one waits for all of the cluster.
    let text = noting(&lines, &waiting_for(&gate));
    let running = submit(&alice, &order(rigid(&text, 1, 4 * HOUR_S))).await;
    let waiting = submit(&alice, &order(rigid(&noting(&lines, "true"), 2, 60))).await;
    for record in [&running, &waiting] {
        observed.of(record.clone());
    }
    let running = federation.reaches(&alice, &running.handle, JobState::Active).await.handle;

    for ahead_s in [HOUR_S, -HOUR_S] {
        // Another job runs for its walltime, independent of the clock.
        let text = noting(&lines, "echo on; exec sleep 1000");
        let long = submit(&alice, &order(rigid(&text, 1, 5))).await;
        observed.of(long.clone());
        let stdout = federation.job_folder(&long.handle).join("stdout");
        let begun = || fs::read_to_string(&stdout).is_ok_and(|text| text.ends_with("on\n"));
        until("the job to run", async || begun().then_some(())).await;
        for name in ["lyon", MASTER] {
            if ahead_s > 0 { federation.kill(name) } else { federation.stop(name) }
        }
        let library = library.to_str().unwrap().to_owned();
        federation.environment = vec![("LD_PRELOAD", library), ("MOVED_S", ahead_s.to_string())];
        for name in [MASTER, "lyon"] {
            federation.revive(name);
        }
        federation.attached(1).await;

        observed.look(&alice).await;
        // Both times: reported times of the future are kept.
        assert!(observed.latest.0 > now().0 + HOUR_S / 2, "the clock has not moved: {}", observed.latest);
        assert_eq!(observed.jobs[&running].state, JobState::Active);
        assert_eq!(observed.jobs[&waiting.handle].state, JobState::Queued);
        let ended = alice.wait(&long.handle, |_| {}).await.unwrap();
        assert_eq!((ended.state, &ended.exit), (JobState::Failed, &Some(Exit::OverWalltime)));
        let recorded = processes::recorded(&federation.job_folder(&long.handle)).unwrap().unwrap();
        assert!(recorded.elapsed_ms >= 5_000, "{recorded:?}");
        observed.of(ended);
        let next = run(&alice, &order(rigid(&noting(&lines, "true"), 1, 60))).await;
        assert_eq!(next.state, JobState::Completed);
        observed.of(next);
        observed.look(&alice).await;
    }
    fs::write(&gate, "").unwrap();
    for handle in [&running, &waiting.handle] {
        let ended = alice.wait(handle, |_| {}).await.unwrap();
        assert_eq!(ended.exit, Some(Exit::Code(0)), "{ended:?}");
        observed.of(ended);
    }
    // The agent's clock jumped too, and the same times were reported to it.
    agree(&root, &lines).await;
    let runs = runs(&lines);
    let handles: Vec<String> = observed.jobs.keys().map(ToString::to_string).collect();
    assert_eq!(runs.keys().cloned().collect::<Vec<_>>(), handles);
    assert!(runs.values().all(|times| *times == 1), "{runs:?}");
}
