//! Moves of waiting jobs while daemons are killed: each job runs exactly once, and keeps its
//! job ID.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pliant_client::{Client, InputState};
use pliant_control::agent::ReallocationConfig;
use pliant_control::handoff::{HandoffDecision, HandoffId};
use pliant_control::job::{Exit, JobRecord, JobState};
use pliant_model::Span;
use pliant_policy::reallocation::Reallocation;
use pliant_transport::Role;
use pliant_wire::{Download, JobsQuery, MovingChange, SignedDecision, proto};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tonic::Code;

use crate::harness::*;

/// Two clusters of one processor each, both taken until a file is there: `gate-lyon` and `gate-paris`. By their walltimes
/// paris is free first.
pub(crate) async fn busy() -> Federation {
    let clusters = ["lyon", "paris"].map(|name| Cluster::new(name, 1, 1.0));
    let federation = Federation::start(&clusters).await;
    let bob = federation.client("bob");
    for (name, walltime) in [("lyon", 900), ("paris", 600)] {
        let gate = federation.path().join(format!("gate-{name}"));
        let blocker = submit(&bob, &order_to(name, rigid(&waiting_for(&gate), 1, walltime))).await;
        federation.reaches(&bob, &blocker.handle, JobState::Active).await;
    }
    federation
}

pub(crate) fn open(federation: &Federation, name: &str) {
    fs::write(federation.path().join(format!("gate-{name}")), "").unwrap();
}

/// Waits until the agent knows that nothing runs on a cluster.
pub(crate) async fn free(operator: &Client, name: &str) {
    until(&format!("{name} to be free"), async || {
        let servers = operator.servers().await.ok()?.servers;
        servers.iter().any(|server| server.info.name.as_str() == name && server.active == 0).then_some(())
    })
    .await;
}

fn names(record: &JobRecord) -> (&str, &str) {
    (record.handle.server.as_str(), record.server().as_str())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_job_moves_with_its_files_and_keeps_its_handle() {
    const DATA: &[u8] = b"three\nlines\nhere\n";
    let federation = busy().await;
    let (alice, operator) = (federation.client("alice"), federation.operator());
    let data = federation.path().join("data");
    fs::write(&data, DATA).unwrap();
    let mut asked = order(service("count", &[("data", "data")]));
    asked.inputs.push(input("data", &data));
    let waiting = submit(&alice, &asked).await;
    assert_eq!(names(&waiting), ("paris", "paris"), "paris is expected to be free first");
    let pinned = submit(&alice, &order_to("paris", rigid("true", 1, 60))).await;

    refused(alice.reallocate(true).await, &["only an operator"]);
    refused(alice.change_moving(&MovingChange::Off).await, &["only an operator"]);
    assert!(operator.reallocate(true).await.unwrap().refused.is_some(), "nothing says how to move");
    assert_eq!(operator.change_moving(&MovingChange::Set(on_demand())).await.unwrap(), Some(on_demand()));

    // As long as lyon is taken nothing is gained.
    let report = operator.reallocate(true).await.unwrap();
    assert_eq!((report.servers, report.movable, report.proposals.len()), (2, 1, 0), "{report:?}");
    open(&federation, "lyon");
    free(&operator, "lyon").await;
    let dry = operator.reallocate(true).await.unwrap();
    let [proposal] = &dry.proposals[..] else { panic!("{dry:?}") };
    assert_eq!(
        (&proposal.job, proposal.from.as_str(), proposal.to.as_str()),
        (&waiting.handle, "paris", "lyon")
    );
    assert_eq!(proposal.outcome, None);
    assert_eq!(
        alice.job(&waiting.handle).await.unwrap().server().as_str(),
        "paris",
        "a dry run moves nothing"
    );

    let report = operator.reallocate(false).await.unwrap();
    assert_eq!(moved(&report), [&waiting.handle], "{report:?}");
    // A client that does not know the job begins at its first server.
    for client in [&alice, &federation.client("alice")] {
        let ended = client.wait(&waiting.handle, |_| {}).await.unwrap();
        assert_eq!((names(&ended), &ended.exit), (("paris", "lyon"), &Some(Exit::Code(0))));
        assert_eq!((ended.hops.len(), ended.submitted), (1, waiting.submitted));
        assert_eq!(client.job(&waiting.handle).await.unwrap().state, JobState::Completed);
        assert_eq!(fetched(client, &waiting.handle).await["work/copy.bin"], DATA, "its input went with it");
        let mut output = Vec::new();
        let stdout = Download { follow: true, ..stdout_of(&waiting.handle) };
        let read = client.output(&stdout, |piece| {
            output.extend_from_slice(piece);
            Ok(())
        });
        read.await.unwrap();
        assert_eq!(output, b"counting\n");
        let explained = client.explain(&waiting.handle).await.unwrap();
        assert_eq!(explained.record.hops, ended.hops);
        let first = &explained.record.estimates[0];
        assert_eq!((first.at, first.plan), (waiting.submitted, waiting.expected), "what was promised first");
        let submitted = client.submitted(&waiting.handle).await.unwrap();
        assert_eq!((&submitted.what, submitted.pinned), (&asked.what, false));
        let inputs = client.submitted_inputs(&ended, &submitted.inputs).await.unwrap();
        assert_eq!(inputs.iter().map(|input| input.state).collect::<Vec<_>>(), [InputState::Kept]);
    }
    // It is filed under its last server.
    let at = |server: &str| JobsQuery {
        owner: None,
        all: false,
        server: Some(server.parse().unwrap()),
        states: vec![JobState::Completed],
        limit: 10,
        before: None,
    };
    assert_eq!(alice.jobs(&at("lyon")).await.unwrap().jobs.len(), 1);
    assert_eq!(alice.jobs(&at("paris")).await.unwrap().jobs, []);
    let charged = operator.accuracy(pliant_wire::AccuracyQuery { last: 10, days: 7 }).await.unwrap();
    let jobs_of =
        |name: &str| charged.iter().find(|one| one.server.as_str() == name).map_or(0, |one| one.jobs);
    assert_eq!(
        (jobs_of("lyon"), jobs_of("paris")),
        (2, 0),
        "the blocker of lyon, and the one that came there"
    );
    // Only the target may ask for its outcome.
    let id = HandoffId { job: waiting.handle.clone(), attempt: 1 };
    for (asks, may) in [("lyon", true), ("rennes", false)] {
        let mut paris = federation.server_client(Role::Server, asks, "paris");
        let decision = paris.inquire(proto::InquireRequest { id: Some((&id).into()), ready: false }).await;
        match decision {
            Ok(decision) if may => {
                let SignedDecision { decision, signed } = decision.into_inner().try_into().unwrap();
                assert!(signed.is_some(), "a commit is signed");
                assert_eq!(decision, HandoffDecision::Commit { cancelled: false, attempts: 1 });
            }
            Err(status) if !may => assert_eq!(status.code(), Code::PermissionDenied, "{status:?}"),
            other => panic!("{asks} got {other:?}"),
        }
    }
    let moves = alice.moves(false, 10).await.unwrap();
    assert_eq!(moves.iter().map(|one| &one.job).collect::<Vec<_>>(), [&waiting.handle]);
    assert_eq!(
        federation.client("bob").moves(false, 10).await.unwrap(),
        [],
        "other users do not see the owner"
    );
    refused(federation.client("bob").job(&waiting.handle).await, &["no job"]);
    let stays = alice.job(&pinned.handle).await.unwrap();
    assert_eq!((stays.state, stays.hops.len()), (JobState::Queued, 0), "its user chose paris");
    // The same submission again is the same job, wherever it is.
    assert_eq!(submit(&alice, &asked).await.handle, waiting.handle);
    open(&federation, "paris");
    assert_eq!(alice.wait(&pinned.handle, |_| {}).await.unwrap().state, JobState::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_moved_is_cancelled_followed_and_found_by_its_handle() {
    let federation = busy().await;
    let (alice, operator) = (federation.client("alice"), federation.operator());
    operator.change_moving(&MovingChange::Set(on_demand())).await.unwrap();
    let gate = federation.path().join("never");
    let waiting = submit(&alice, &order(rigid(&waiting_for(&gate), 1, 60))).await;
    let follower = federation.client("alice");
    let handle = waiting.handle.clone();
    let followed = tokio::spawn(async move { follower.wait(&handle, |_| {}).await.unwrap() });
    open(&federation, "lyon");
    free(&operator, "lyon").await;
    assert_eq!(moved(&operator.reallocate(false).await.unwrap()), [&waiting.handle]);
    federation.reaches(&alice, &waiting.handle, JobState::Active).await;
    let again = operator.reallocate(false).await.unwrap();
    assert_eq!((again.movable, again.proposals.len()), (0, 0), "it runs");
    federation.client("alice").cancel(&waiting.handle).await.unwrap();
    let ended = followed.await.unwrap();
    assert_eq!((names(&ended), ended.state), (("paris", "lyon"), JobState::Canceled));
    open(&federation, "paris");
}

/// Moves a job to and fro while source, target and agent are killed at any moment.
#[tokio::test(flavor = "multi_thread")]
async fn each_job_runs_once_and_nothing_stays_prepared_after_a_crash_in_a_move() {
    const JOBS: usize = 4;
    const NAMES: [&str; 2] = ["lyon", "paris"];
    let mut federation = Federation::start(&NAMES.map(|name| Cluster::new(name, 1, 1.0))).await;
    let (bob, operator) = (federation.client("bob"), federation.operator());
    let policy = Reallocation { threshold: Span(1), ..on_demand().policy };
    operator.change_moving(&MovingChange::Set(ReallocationConfig { policy, early: None })).await.unwrap();
    let lines = federation.path().join("lines");
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let mut blockers: Vec<(JobRecord, PathBuf)> = Vec::new();
    // Each new one is expected to end sooner than all before it.
    let block = |name: &str, number: i64, path: &Path| {
        let gate = path.join(format!("gate-{number}"));
        (order_to(name, rigid(&waiting_for(&gate), 1, 36_000 - 2_000 * number)), gate)
    };
    for (number, name) in [(0, NAMES[0]), (1, NAMES[1])] {
        let (order, gate) = block(name, number, federation.path());
        let blocker = submit(&bob, &order).await;
        federation.reaches(&bob, &blocker.handle, JobState::Active).await;
        blockers.push((blocker, gate));
    }
    let alice = federation.client("alice");
    let mut waiting = Vec::new();
    for _ in 0..JOBS {
        waiting.push(submit(&alice, &order(rigid(&noting(&lines, "true"), 1, 60))).await.handle);
    }
    let mut moves = 0;
    for round in 2..14 {
        // Wherever the jobs wait, the other cluster seems to be free sooner from now on.
        let there = alice.job(&waiting[0]).await.unwrap().server().clone();
        let to = usize::from(there.as_str() == NAMES[0]);
        let (order, gate) = block(NAMES[to], round, federation.path());
        let blocker = submit(&bob, &order).await;
        fs::write(&blockers[to].1, "").unwrap();
        bob.wait(&blockers[to].0.handle, |_| {}).await.unwrap();
        federation.reaches(&bob, &blocker.handle, JobState::Active).await;
        blockers[to] = (blocker, gate);
        let asked = federation.operator();
        let report = tokio::spawn(async move { asked.reallocate(false).await });
        let victim = ["lyon", "paris", "master"][random.next_u32() as usize % 3];
        tokio::time::sleep(Duration::from_millis(u64::from(random.next_u32() % 60))).await;
        federation.kill(victim);
        tokio::time::sleep(Duration::from_millis(u64::from(random.next_u32() % 500))).await;
        federation.revive(victim);
        if let Ok(Ok(report)) = report.await {
            moves += moved(&report).len();
        }
        federation.attached(2).await;
    }
    for (_, gate) in &blockers {
        fs::write(gate, "").unwrap();
    }
    for handle in &waiting {
        let ended = alice.wait(handle, |_| {}).await.unwrap();
        assert_eq!((ended.state, ended.exit), (JobState::Completed, Some(Exit::Code(0))), "{handle}");
        assert!(fetched(&alice, handle).await["stdout"].starts_with(b"I am "));
    }
    let expected = waiting.iter().map(|handle| (handle.to_string(), 1)).collect();
    assert_eq!(runs(&lines), expected, "each ran once, after {moves} moves or more");
    assert!(moves > 0, "no move was seen to its end");
}
