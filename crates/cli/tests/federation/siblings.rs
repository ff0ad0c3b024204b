//! Waiting jobs with siblings on every cluster: the first to start runs, also after crashes, and no sibling is left.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use pliant_client::Client;
use pliant_control::agent::{DiscoverySubject, ReallocationConfig};
use pliant_control::job::{Exit, JobRecord, JobState, Work};
use pliant_control::names::{Handle, Name};
use pliant_model::{MoveReason, Procs, Span, Speedup};
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};
use pliant_wire::MovingChange;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde_json::Value;

use crate::harness::*;

const NAMES: [&str; 3] = ["lyon", "oslo", "paris"];

/// Queues siblings as soon as a job waits, and every so many seconds for jobs without one somewhere.
pub(crate) fn siblings_every(period: i64) -> ReallocationConfig {
    let policy = Reallocation::new(Algorithm::Siblings, Heuristic::Mct);
    ReallocationConfig { policy: Reallocation { period: Span(period), ..policy }, early: None }
}

/// Three clusters of one processor each, and an agent that queues siblings.
async fn federation(period: i64) -> Federation {
    let federation = Federation::start(&NAMES.map(|name| Cluster::new(name, 1, 1.0))).await;
    let set = MovingChange::Set(siblings_every(period));
    federation.operator().change_moving(&set).await.unwrap();
    federation
}

/// Takes every cluster until the files are there that it returns.
async fn block(federation: &Federation, bob: &Client, round: u32) -> Vec<PathBuf> {
    let mut gates = Vec::new();
    for name in NAMES {
        let gate = federation.path().join(format!("gate-{name}-{round}"));
        let blocker = submit(bob, &order_to(name, rigid(&waiting_for(&gate), 1, 600))).await;
        federation.reaches(bob, &blocker.handle, JobState::Active).await;
        gates.push(gate);
    }
    gates
}

/// Waits until a job has siblings at both other servers; returns where.
async fn queued_siblings(client: &Client, handle: &Handle) -> Vec<Name> {
    until(&format!("siblings of {handle}"), async || {
        let waits = client.explain(handle).await.ok()?.waits?;
        (waits.siblings.len() == 2).then_some(waits.siblings)
    })
    .await
}

/// Waits until nothing waits anywhere.
async fn empty(client: &Client) {
    let work = Work::new(Procs(1), Span(60), Speedup::Rigid);
    let what = DiscoverySubject::Work(work);
    until("empty queues", async || {
        let found = client.discover(&what, 10, None).await.ok()?;
        let is_empty = found.vectors.iter().all(|one| one.queue_length == 0 && one.free == Procs(1));
        (found.vectors.len() == NAMES.len() && is_empty).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_where_it_starts_first_and_its_siblings_are_withdrawn() {
    let federation = federation(86_400).await;
    let (alice, bob, operator) =
        (federation.client("alice"), federation.client("bob"), federation.operator());
    let gates = block(&federation, &bob, 0).await;
    let lines = federation.path().join("lines");
    let waiting = submit(&alice, &order(rigid(&noting(&lines, "true"), 1, 60))).await;
    let home = waiting.handle.server.clone();
    let servers = queued_siblings(&alice, &waiting.handle).await;
    assert!(!servers.contains(&home), "{servers:?}");
    // They belong to no job, and no second ones are submitted.
    assert_eq!(alice.job(&waiting.handle).await.unwrap().state, JobState::Queued);
    let report = until("the end of the agent's own round", async || {
        operator.reallocate(false).await.ok().filter(|report| report.refused.is_none())
    });
    let report = report.await;
    assert_eq!((report.movable, report.proposals.len()), (1, 0), "{report:?}");
    let pinned = submit(&alice, &order_to(home.as_str(), rigid("true", 1, 60))).await;

    let first = &servers[1];
    let at = NAMES.iter().position(|name| *name == first.as_str()).unwrap();
    fs::write(&gates[at], "").unwrap();
    let ended = alice.wait(&waiting.handle, |_| {}).await.unwrap();
    assert_eq!((ended.server(), &ended.exit), (first, &Some(Exit::Code(0))));
    let [hop] = &ended.hops[..] else { panic!("{ended:?}") };
    assert_eq!((&hop.from, &hop.to, hop.reason), (&home, first, MoveReason::FirstStart));
    let moves = alice.moves(false, 10).await.unwrap();
    assert_eq!(moves.iter().map(|one| (&one.job, &one.hop)).collect::<Vec<_>>(), [(&waiting.handle, hop)]);
    assert_eq!(alice.explain(&waiting.handle).await.unwrap().record.hops, ended.hops);
    assert_eq!(alice.job(&pinned.handle).await.unwrap().state, JobState::Queued, "its user chose the server");

    gates.iter().for_each(|gate| fs::write(gate, "").unwrap());
    assert_eq!(alice.wait(&pinned.handle, |_| {}).await.unwrap().hops, []);
    empty(&alice).await;
    assert_eq!(runs(&lines), [(waiting.handle.to_string(), 1)].into());
}

#[tokio::test(flavor = "multi_thread")]
async fn siblings_of_a_job_whose_server_is_declared_lost_are_withdrawn() {
    let mut federation = federation(86_400).await;
    let (alice, bob) = (federation.client("alice"), federation.client("bob"));
    let gates = block(&federation, &bob, 0).await;
    let lines = federation.path().join("lines");
    let waiting = submit(&alice, &order(rigid(&noting(&lines, "true"), 1, 60))).await;
    let home = waiting.handle.server.clone();
    let servers = queued_siblings(&alice, &waiting.handle).await;
    // Both have answered that the job is prepared there: before, there may be nothing to give up.
    for server in &servers {
        let to = format!("server={server}");
        federation.logged(home.as_str(), &["handoff", &to, "answer=\"prepared\""]).await;
    }
    federation.kill(home.as_str());
    federation.attached(2).await;
    let operator = CommandUser::operator(&federation);
    let (code, forgotten, stderr) = operator.run(&format!("admin forget {home} --why broken"));
    assert_eq!((code, &forgotten["jobs"]), (0, &2.into()), "{stderr}");
    let given_up = |at: usize| {
        (forgotten["servers"][at]["server"].clone(), forgotten["servers"][at]["handoffs"].clone())
    };
    assert_eq!([0, 1].map(given_up), [0, 1].map(|at| (servers[at].as_str().into(), 1.into())));
    assert_eq!(alice.wait(&waiting.handle, |_| {}).await.unwrap().state, JobState::Failed);
    // One that was down is asked later.
    let again = operator.run(&format!("admin forget {home} --why broken --at {}", servers[0]));
    assert_eq!((again.0, &again.1["jobs"], &again.1["servers"][0]["handoffs"]), (0, &Value::Null, &0.into()));
    let user = CommandUser::new(&federation, "alice");
    assert_eq!(user.run(&format!("admin forget {home} --why broken --at {}", servers[0])).0, 2, "not a user");

    gates.iter().for_each(|gate| fs::write(gate, "").unwrap());
    for server in &servers {
        run(&bob, &order_to(server.as_str(), rigid("true", 1, 60))).await;
    }
    assert_eq!(runs(&lines), [].into());
}

#[tokio::test(flavor = "multi_thread")]
async fn siblings_of_a_cancelled_job_are_withdrawn() {
    let federation = federation(86_400).await;
    let (alice, bob) = (federation.client("alice"), federation.client("bob"));
    let gates = block(&federation, &bob, 0).await;
    let lines = federation.path().join("lines");
    let waiting = submit(&alice, &order(rigid(&noting(&lines, "true"), 1, 60))).await;
    queued_siblings(&alice, &waiting.handle).await;
    alice.cancel(&waiting.handle).await.unwrap();
    assert_eq!(alice.wait(&waiting.handle, |_| {}).await.unwrap().state, JobState::Canceled);
    gates.iter().for_each(|gate| fs::write(gate, "").unwrap());
    empty(&alice).await;
    assert_eq!(runs(&lines), [].into());
}

/// The clusters become free at nearly the same moment, and one of the daemons is killed about then.
#[tokio::test(flavor = "multi_thread")]
async fn each_job_runs_once_after_a_crash_while_siblings_start() {
    const ROUNDS: u32 = 8;
    const JOBS: usize = 2;
    let mut federation = federation(2).await;
    let (alice, bob) = (federation.client("alice"), federation.client("bob"));
    let lines = federation.path().join("lines");
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut pause = |most: u32| Duration::from_millis(u64::from(random.next_u32() % most));
    let (mut jobs, mut ended): (Vec<Handle>, Vec<JobRecord>) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let gates = block(&federation, &bob, round).await;
        let mut waiting = Vec::new();
        for _ in 0..JOBS {
            waiting.push(submit(&alice, &order(rigid(&noting(&lines, "true"), 1, 60))).await.handle);
        }
        for handle in &waiting {
            queued_siblings(&alice, handle).await;
        }
        let source = waiting[0].server.to_string();
        let target = NAMES.iter().find(|name| **name != source).unwrap();
        let victim = match round % 4 {
            3 => MASTER,
            2 => target,
            _ => &source,
        };
        // Mostly it starts on another server: a question finds the source up, down or restarted.
        for gate in gates.iter().filter(|gate| !gate.to_string_lossy().contains(&source)) {
            fs::write(gate, "").unwrap();
            tokio::time::sleep(pause(40)).await;
        }
        tokio::time::sleep(pause(150)).await;
        federation.kill(victim);
        tokio::time::sleep(pause(300)).await;
        federation.revive(victim);
        federation.attached(NAMES.len()).await;
        gates.iter().for_each(|gate| fs::write(gate, "").unwrap());
        for handle in &waiting {
            ended.push(alice.wait(handle, |_| {}).await.unwrap());
        }
        empty(&alice).await;
        jobs.append(&mut waiting);
    }
    assert!(ended.iter().all(|job| job.exit == Some(Exit::Code(0))), "{ended:?}");
    let expected = jobs.iter().map(|handle| (handle.to_string(), 1)).collect();
    let elsewhere = ended.iter().filter(|job| !job.hops.is_empty()).count();
    assert_eq!(runs(&lines), expected, "each ran once, {elsewhere} of them elsewhere");
    assert!(elsewhere > 0, "no sibling was the first to start");
}
