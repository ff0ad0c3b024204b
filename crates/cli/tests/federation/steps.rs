//! Real `kill -9` at each step of a handoff: a daemon ends itself there (`PLIANT_CRASH_AT`, in what is built for tests),
//! is started again, and the job runs once, with its files and its ID, and nothing stays prepared. With embedded batch
//! systems at every step, and in front of real Slurm clusters at the steps around their commands.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pliant_client::Client;
use pliant_control::agent::ReallocationConfig;
use pliant_control::job::{Exit, JobState};
use pliant_control::names::Handle;
use pliant_model::Span;
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};
use pliant_wire::MovingChange;

use crate::harness::*;
use crate::replay::stopped;
use crate::slurm::Behind;

/// The server that has the job, and the one it goes to.
const SOURCE: &str = "paris";
const TARGET: &str = "lyon";

/// Who dies, and where. The source is answered twice: that the job is held, and that it was taken.
const POINTS: &[(&str, &str)] = &[
    (SOURCE, "before-journal.propose-move"),
    (SOURCE, "after-journal.propose-move"),
    (SOURCE, "before-call.prepare"),
    (SOURCE, "files-sent.prepare"),
    (TARGET, "before-journal.prepare"),
    (TARGET, "after-journal.prepare"),
    (SOURCE, "after-call.prepare"),
    (SOURCE, "before-journal.answered:1"),
    (SOURCE, "after-journal.answered:1"),
    (SOURCE, "before-call.commit"),
    (TARGET, "before-journal.commit"),
    (TARGET, "after-journal.commit"),
    (SOURCE, "after-call.commit"),
    (SOURCE, "before-journal.answered:2"),
    (SOURCE, "after-journal.answered:2"),
    (MASTER, "received.reallocate"),
    (MASTER, "received.answered:3"),
];

/// Those in front of Slurm: before and after its commands are given, and when they were answered. What a daemon is told of a
/// batch system has one name, whatever it is, so that these are the steps around it.
const SLURM_POINTS: &[(&str, &str)] = &[
    // Its hold is not asked for yet.
    (TARGET, "after-journal.prepare"),
    // It is held, and the source does not know.
    (SOURCE, "before-journal.answered:1"),
    // The withdrawal is not asked for yet.
    (SOURCE, "after-journal.answered:1"),
    // It is withdrawn, and no server has it.
    (SOURCE, "before-call.commit"),
    // It is not let go yet.
    (TARGET, "after-journal.commit"),
    // It was, and the source does not know.
    (SOURCE, "after-call.commit"),
];

/// How long to wait for the agent: a daemon that was killed does not answer it.
const ASKED: Duration = Duration::from_secs(1);

/// A job of another user that takes a server until its gate is opened.
async fn block(federation: &Federation, at: &str, number: usize, walltime: i64) -> (Handle, PathBuf) {
    let gate = federation.path().join(format!("gate-{at}-{number}"));
    let bob = federation.client("bob");
    let handle = submit(&bob, &order_to(at, rigid(&waiting_for(&gate), 1, walltime))).await.handle;
    federation.reaches(&bob, &handle, JobState::Active).await;
    (handle, gate)
}

/// Starts a reallocation cycle; the answer does not matter.
async fn reallocate(operator: &Client) {
    let _ = tokio::time::timeout(ASKED, operator.reallocate(false)).await;
}

/// A job that waits at the source and is to go to the target when its gate is opened.
async fn waiting(federation: &Federation, data: &Path, lines: &Path) -> Handle {
    let mut asked = order(rigid(&noting(lines, "cat data"), 1, 60));
    asked.inputs.push(input("data", data));
    let record = submit(&federation.client("alice"), &asked).await;
    assert_eq!(
        (record.handle.server.as_str(), record.state),
        (SOURCE, JobState::Queued),
        "paris is free first"
    );
    record.handle
}

/// Jobs that a stopped server holds for others, or does not get rid of.
fn left_behind(federation: &Federation, name: &str) -> (usize, usize) {
    let (_, machine) = stopped(federation, name);
    (machine.prepared().count(), machine.outgoing().count())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_once_after_a_crash_at_any_step_of_a_handoff() {
    let mut federation = Federation::start(&[SOURCE, TARGET].map(|name| Cluster::new(name, 1, 1.0))).await;
    check(&mut federation, POINTS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_once_after_a_crash_at_any_step_of_a_handoff_in_slurm() {
    let Some(mut behind) = Behind::start(1, 1).await else { return };
    check(&mut behind.federation, SLURM_POINTS).await;
    for name in [SOURCE, TARGET] {
        assert_eq!(behind.queue(name), [""; 0], "{name}: something is left in its queue");
    }
}

/// A job moves from the source to the target, once for each point, at which a daemon is killed.
async fn check(federation: &mut Federation, points: &[(&str, &str)]) {
    let (alice, operator) = (federation.client("alice"), federation.operator());
    let policy = Reallocation::new(Algorithm::Regular, Heuristic::Mct);
    let policy = Reallocation { period: Span(86_400), threshold: Span(1), ..policy };
    operator.change_moving(&MovingChange::Set(ReallocationConfig { policy, early: None })).await.unwrap();
    let (lines, data) = (federation.path().join("lines"), federation.path().join("data"));
    fs::write(&data, "what goes with it\n").unwrap();
    let (last, last_gate) = block(federation, SOURCE, 0, 30_000).await;
    for (number, (victim, point)) in points.iter().enumerate() {
        let (blocker, gate) = block(federation, TARGET, number, 90_000).await;
        let job = waiting(federation, &data, &lines).await;
        federation.environment = vec![("PLIANT_CRASH_AT", (*point).to_owned())];
        federation.kill(victim);
        federation.revive(victim);
        federation.environment.clear();
        federation.attached(2).await;
        fs::write(&gate, "").unwrap();
        federation.client("bob").wait(&blocker, |_| {}).await.unwrap();
        until(&format!("{victim} to die at {point}"), async || {
            reallocate(&operator).await;
            federation.has_died(victim).then_some(())
        })
        .await;
        federation.revive(victim);
        let ended = until(&format!("{job} to end after {victim} died at {point}"), async || {
            reallocate(&operator).await;
            alice.job(&job).await.ok().filter(|record| record.state.is_final())
        })
        .await;
        assert_eq!(
            (ended.server().as_str(), &ended.exit),
            (TARGET, &Some(Exit::Code(0))),
            "{victim}, {point}"
        );
        assert_eq!(runs(&lines).get(&job.to_string()), Some(&1), "{victim}, {point}");
        let found = fetched(&alice, &job).await;
        let said = String::from_utf8_lossy(&found["stdout"]).into_owned();
        assert_eq!(said, format!("I am {job}\nwhat goes with it\n"), "{victim}, {point}");
    }
    fs::write(&last_gate, "").unwrap();
    federation.client("bob").wait(&last, |_| {}).await.unwrap();
    assert!(runs(&lines).values().all(|times| *times == 1));
    for name in [SOURCE, TARGET] {
        federation.stop(name);
        assert_eq!(left_behind(federation, name), (0, 0), "{name} holds something");
    }
}
