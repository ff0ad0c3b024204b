//! Applications of communicating tasks on several clusters at once: they communicate and complete, all end when one fails
//! or the user cancels, tasks are added, and after a crash at any step no task runs alone and no subjob is left.

mod files;
mod links;
mod rollback;
mod slow_network;
mod slurm;
mod spawned;
mod steps;
mod talkers;
mod uploads;
pub(crate) mod verbs;

use std::ops::ControlFlow;
use std::time::Duration;

use pliant_client::{Client, InputPaths};
use pliant_control::coallocation::{
    LaunchEnd, LaunchId, LaunchRecord, LaunchState, SpawnSpec, SpawnedTask, TaskSpec,
};
use pliant_control::job::Exit;
use pliant_control::payload::Payload;
use pliant_wire::{LaunchRequest, LaunchesQuery};

use self::talkers::Talkers;
use crate::harness::*;
use crate::replay::stopped;

/// The servers, of two processors each.
const NAMES: [&str; 2] = ["lyon", "paris"];
/// The power of a processor, independent of the test's machine.
const POWER: &str = "power_mflops = 1000.0\nhost_load = false";
/// What a task needs that shares no processor: two of them fill a server.
const MCR: f64 = 900.0;

fn cluster(name: &'static str) -> Cluster {
    Cluster { cluster_keys: POWER, ..Cluster::new(name, 2, 1.0) }
}

async fn federation() -> Federation {
    Federation::start(&NAMES.map(cluster)).await
}

/// Launches and does not wait.
async fn launched(client: &Client, request: &LaunchRequest) -> LaunchId {
    let at_once = |_: &LaunchRecord| ControlFlow::Break(());
    client.launch(request, &InputPaths::new(), TIMEOUT, std::future::pending(), at_once).await.unwrap().id
}

/// One more task, that neighbours to these.
fn spawning(task: TaskSpec, neighbours: Vec<(String, f64)>) -> SpawnSpec {
    SpawnSpec { key: fresh_key(), tasks: vec![SpawnedTask { task, neighbours }], signed: Payload::default() }
}

/// Waits until a launch is so far.
async fn reaches(client: &Client, id: &LaunchId, state: LaunchState) -> LaunchRecord {
    until(&format!("{id} to be {}", state.word()), async || {
        let record = client.find_launch(id).await.ok()?;
        assert!(record.state == state || record.state != LaunchState::Over, "{record:?}");
        (record.state == state).then_some(record)
    })
    .await
}

/// Waits until all tasks have received the names of their neighbours.
async fn all_received(talkers: &Talkers, tasks: &[&str]) {
    until("all tasks to hear their neighbours", async || {
        tasks.iter().all(|task| talkers.received(task).is_some()).then_some(())
    })
    .await;
}

/// What a stopped server has of launches, and its processors that are taken.
fn left_behind(federation: &Federation, name: &str) -> (usize, usize, u32) {
    let (file, machine) = stopped(federation, name);
    // A snapshot does not show the other jobs of an external cluster.
    let taken = if file.cluster.slurm.is_some() { 0 } else { machine.procs().0 - machine.usage().free.0 };
    (machine.subjobs().count(), machine.unacknowledged_subjobs(), taken)
}

/// Waits until no task runs.
async fn no_process(talkers: &Talkers) {
    until("the processes of tasks to end", async || talkers.alive().is_empty().then_some(())).await;
}

/// Waits until nothing of a launch is held at any server, which ends the servers.
async fn nothing_left(federation: &mut Federation, servers: &[&str]) {
    for name in servers {
        // The last word about a subjob reaches its server after the client.
        until(&format!("{name} to hold nothing"), async || {
            federation.stop(name);
            let is_clean = left_behind(federation, name) == (0, 0, 0);
            if !is_clean {
                federation.revive(name);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            is_clean.then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_on_two_clusters_hear_each_other_and_complete() {
    let mut federation = federation().await;
    let alice = federation.client("alice");
    let talkers = Talkers::new(federation.path().join("ring"));
    let tasks = ["a", "b", "c", "d"];
    let request = talkers.ring(MCR, &tasks.map(|task| (task, 0)));
    let id = launched(&alice, &request).await;
    all_received(&talkers, &tasks).await;
    assert_eq!(talkers.received("a").unwrap(), "b d", "its neighbours in the ring, and no other task");
    let record = reaches(&alice, &id, LaunchState::Running).await;
    for name in NAMES {
        let there = record.tasks.iter().filter(|task| task.allocation.as_ref().unwrap().0.as_str() == name);
        assert_eq!(there.count(), 2, "each server has room for two: {record:?}");
    }
    assert!(record.tasks.iter().all(|task| task.affinity.unwrap() >= 1.0 && task.address.is_some()));
    // The same key is the same launch, for its owner only.
    assert_eq!(launched(&alice, &request).await, id);
    let bob = federation.client("bob");
    refused(bob.find_launch(&id).await, &["no launch"]);
    refused(bob.cancel_launch(&id).await, &["no launch"]);
    assert_eq!(bob.launches(&LaunchesQuery { all: false, limit: 10 }).await.unwrap(), []);
    refused(bob.launches(&LaunchesQuery { all: true, limit: 10 }).await, &["only an operator"]);
    tasks.iter().for_each(|task| talkers.open(task));
    let record = reaches(&alice, &id, LaunchState::Over).await;
    assert_eq!(record.end, Some(LaunchEnd::Completed));
    assert!(record.tasks.iter().all(|task| task.exit == Some(Exit::Code(0))), "{record:?}");
    assert_eq!(talkers.began(), tasks.map(|task| (task.to_owned(), 1)).into());
    // It is remembered over a restart of the agent.
    federation.kill(MASTER);
    federation.revive(MASTER);
    assert_eq!(alice.find_launch(&id).await.unwrap(), record);
    let listed = federation.operator().launches(&LaunchesQuery { all: true, limit: 10 }).await.unwrap();
    assert_eq!(listed, [record]);
    no_process(&talkers).await;
    nothing_left(&mut federation, &NAMES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_one_task_fails_all_end() {
    let mut federation = federation().await;
    let alice = federation.client("alice");
    let talkers = Talkers::new(federation.path().join("ring"));
    let tasks = ["a", "b", "c", "d"];
    let id = launched(&alice, &talkers.ring(MCR, &[("a", 0), ("b", 3), ("c", 0), ("d", 0)])).await;
    all_received(&talkers, &tasks).await;
    talkers.open("b");
    let record = reaches(&alice, &id, LaunchState::Over).await;
    let Some(LaunchEnd::Failed(why)) = &record.end else { panic!("{record:?}") };
    assert!(why.contains("task `b`") && why.contains('3'), "{why}");
    let ended: Vec<&str> = record
        .tasks
        .iter()
        .filter(|task| matches!(task.exit, Some(Exit::Code(_))))
        .map(|task| task.name.as_str())
        .collect();
    assert_eq!(ended, ["b"], "no other task ended by itself: {record:?}");
    no_process(&talkers).await;
    nothing_left(&mut federation, &NAMES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launch_that_does_not_fit_reserves_nothing_and_one_that_is_cancelled_leaves_nothing() {
    let mut federation = federation().await;
    let alice = federation.client("alice");
    let talkers = Talkers::new(federation.path().join("ring"));
    let five = talkers.ring(MCR, &["a", "b", "c", "d", "e"].map(|task| (task, 0)));
    let id = launched(&alice, &five).await;
    let record = reaches(&alice, &id, LaunchState::Over).await;
    assert!(matches!(record.end, Some(LaunchEnd::NotMapped(_))), "{record:?}");
    // Mapped only, it takes nothing.
    let tasks = ["a", "b", "c", "d"];
    let ring = talkers.ring(MCR, &tasks.map(|task| (task, 0)));
    let dry = LaunchRequest { key: fresh_key(), dry_run: true, ..ring.clone() };
    let id = launched(&alice, &dry).await;
    assert_eq!(reaches(&alice, &id, LaunchState::Over).await.end, Some(LaunchEnd::Mapped));
    let id = launched(&alice, &ring).await;
    all_received(&talkers, &tasks).await;
    assert_eq!(talkers.alive().len(), 4);
    alice.cancel_launch(&id).await.unwrap();
    let record = reaches(&alice, &id, LaunchState::Over).await;
    assert_eq!(record.end, Some(LaunchEnd::Cancelled));
    no_process(&talkers).await;
    nothing_left(&mut federation, &NAMES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_spawned_where_it_fits_and_hears_those_that_run() {
    let mut federation = federation().await;
    let alice = federation.client("alice");
    let talkers = Talkers::new(federation.path().join("ring"));
    let tasks = ["a", "b", "c"];
    let id = launched(&alice, &talkers.ring(MCR, &tasks.map(|task| (task, 0)))).await;
    all_received(&talkers, &tasks).await;
    let neighbours = vec![("a".to_owned(), 2.0), ("b".to_owned(), 1.0)];
    let spawn = spawning(talkers.task("late", "0", 0), neighbours);
    alice.spawn(&id, &spawn).await.unwrap();
    until("the task to reach those that it communicates with", async || talkers.received("late")).await;
    // Nothing is left of the machines: the next one is not spawned, and the others go on.
    let neighbours = vec![("a".to_owned(), 1.0)];
    let more = spawning(talkers.task("later", "0", 0), neighbours);
    alice.spawn(&id, &more).await.unwrap();
    until("the next one to find no allocation", async || {
        let record = alice.find_launch(&id).await.ok()?;
        record.tasks.last().unwrap().not_spawned.clone()
    })
    .await;
    ["a", "b", "c", "late"].iter().for_each(|task| talkers.open(task));
    let record = reaches(&alice, &id, LaunchState::Over).await;
    assert_eq!(record.end, Some(LaunchEnd::Completed), "{record:?}");
    refused(alice.spawn(&id, &SpawnSpec { key: fresh_key(), ..more }).await, &["expected a running launch"]);
    no_process(&talkers).await;
    nothing_left(&mut federation, &NAMES).await;
}
