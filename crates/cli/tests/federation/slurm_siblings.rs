//! Sibling jobs in the queues of real Slurm clusters: a job runs where it starts first, also after crashes, and no sibling
//! is left.

use std::fs;
use std::time::Duration;

use pliant_client::Client;
use pliant_control::job::{Exit, JobRecord};
use pliant_control::names::Handle;
use pliant_model::MoveReason;
use pliant_wire::MovingChange;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::harness::*;
use crate::siblings::siblings_every;
use crate::slurm::Behind;

const NAMES: [&str; 2] = ["lyon", "paris"];

/// Two clusters of one node with two cores each, and an agent that queues siblings.
async fn copying() -> Option<Behind> {
    let behind = Behind::start(1, 2).await?;
    behind.federation.operator().change_moving(&MovingChange::Set(siblings_every(2))).await.unwrap();
    Some(behind)
}

/// Takes both clusters, as local users do, when nothing is left of what was there before.
async fn block(behind: &Behind, client: &Client) {
    let is_empty = || NAMES.iter().all(|name| behind.queue(name).is_empty());
    until("empty queues", async || is_empty().then_some(())).await;
    for name in NAMES {
        // Of an earlier round, if there was one.
        let _ = fs::remove_file(behind.gate(name));
        behind.take(name, 2, 30);
    }
    behind.seen(client, &NAMES.map(|name| (name, 1))).await;
}

/// Waits until a job has a sibling, and both wait in real queues.
async fn queued_siblings(behind: &Behind, client: &Client, handle: &Handle) {
    until(&format!("a sibling of {handle}"), async || {
        let waits = client.explain(handle).await.ok()?.waits?;
        (waits.siblings.len() == 1).then_some(())
    })
    .await;
    let waits = |name: &str| behind.queue(name).iter().any(|job| is_ours(job) && job.ends_with(" PENDING"));
    until("both to wait", async || NAMES.iter().all(|name| waits(name)).then_some(())).await;
}

fn is_ours(job: &str) -> bool {
    job.starts_with("pliant:")
}

/// Waits until no job of the federation is left in any queue.
async fn none_left(behind: &Behind) {
    until("no job of the federation to be left", async || {
        NAMES.iter().all(|name| !behind.queue(name).iter().any(|job| is_ours(job))).then_some(())
    })
    .await;
}

fn other(name: &str) -> &'static str {
    NAMES[usize::from(name == NAMES[0])]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_in_the_real_queue_where_it_starts_first() {
    let Some(behind) = copying().await else { return };
    let alice = behind.federation.client("alice");
    let lines = behind.federation.path().join("lines");
    let mut expected = Vec::new();
    for elsewhere in [true, false] {
        block(&behind, &alice).await;
        let data = behind.federation.path().join("data");
        fs::write(&data, "three\nlines\nhere\n").unwrap();
        let mut asked = order(rigid(&noting(&lines, "wc -l < data; echo $PLIANT_WALLTIME_S"), 1, 60));
        asked.inputs.push(input("data", &data));
        let waiting = submit(&alice, &asked).await;
        let home = waiting.handle.server.as_str();
        queued_siblings(&behind, &alice, &waiting.handle).await;
        let first = if elsewhere { other(home) } else { home };
        behind.open(first);
        let ended = alice.wait(&waiting.handle, |_| {}).await.unwrap();
        assert_eq!((ended.server().as_str(), &ended.exit), (first, &Some(Exit::Code(0))), "{ended:?}");
        let reasons: Vec<MoveReason> = ended.hops.iter().map(|hop| hop.reason).collect();
        assert_eq!(reasons, if elsewhere { vec![MoveReason::FirstStart] } else { vec![] });
        let stdout =
            String::from_utf8(fetched(&alice, &ended.handle).await.remove("stdout").unwrap()).unwrap();
        assert_eq!(stdout, format!("I am {}\n3\n60\n", ended.handle), "its input went with it");
        none_left(&behind).await;
        // Where it did not start, jobs of others are as they were.
        assert_eq!(behind.queue(other(first)), ["local RUNNING"]);
        NAMES.iter().for_each(|name| behind.open(name));
        expected.push((waiting.handle.to_string(), 1));
    }
    assert_eq!(runs(&lines), expected.into_iter().collect());
}

/// The source is down when a sibling is ready to start: the sibling releases its cores, and waits anew once the source is up.
#[tokio::test(flavor = "multi_thread")]
async fn a_sibling_without_a_start_permit_releases_its_cores() {
    let Some(mut behind) = copying().await else { return };
    let alice = behind.federation.client("alice");
    let lines = behind.federation.path().join("lines");
    block(&behind, &alice).await;
    let waiting = submit(&alice, &order(rigid(&noting(&lines, "true"), 2, 60))).await;
    let home = waiting.handle.server.to_string();
    queued_siblings(&behind, &alice, &waiting.handle).await;
    behind.federation.kill(&home);
    behind.open(other(&home));
    let runs_there = |behind: &Behind| {
        behind.queue(other(&home)).iter().any(|job| is_ours(job) && job.ends_with(" RUNNING"))
    };
    until("the sibling to have its cores", async || runs_there(&behind).then_some(())).await;
    assert_eq!(runs(&lines), [].into(), "no server has released it");
    until("the cores to be free again", async || (!runs_there(&behind)).then_some(())).await;
    assert_eq!(runs(&lines), [].into());
    behind.federation.revive(&home);
    behind.federation.attached(NAMES.len()).await;
    let ended = alice.wait(&waiting.handle, |_| {}).await.unwrap();
    assert_eq!((ended.server().as_str(), &ended.exit), (other(&home), &Some(Exit::Code(0))), "{ended:?}");
    none_left(&behind).await;
    assert_eq!(runs(&lines), [(waiting.handle.to_string(), 1)].into());
    behind.open(&home);
}

/// The clusters become free at nearly the same moment, and one of the daemons is killed about then.
#[tokio::test(flavor = "multi_thread")]
async fn each_job_runs_once_after_a_crash_while_siblings_start_in_real_queues() {
    const ROUNDS: usize = 4;
    let Some(mut behind) = copying().await else { return };
    let alice = behind.federation.client("alice");
    let lines = behind.federation.path().join("lines");
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut pause = |most: u32| Duration::from_millis(u64::from(random.next_u32() % most));
    let (mut jobs, mut ended): (Vec<Handle>, Vec<JobRecord>) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        block(&behind, &alice).await;
        let mut waiting = Vec::new();
        for _ in 0..3 {
            waiting.push(submit(&alice, &order(rigid(&noting(&lines, "true"), 1, 60))).await.handle);
        }
        for handle in &waiting {
            queued_siblings(&behind, &alice, handle).await;
        }
        let source = waiting[0].server.to_string();
        behind.open(other(&source));
        tokio::time::sleep(pause(1_500)).await;
        let victim = if round % 2 == 0 { source.as_str() } else { other(&source) };
        behind.federation.kill(victim);
        tokio::time::sleep(pause(1_000)).await;
        behind.federation.revive(victim);
        behind.federation.attached(NAMES.len()).await;
        behind.open(&source);
        for handle in &waiting {
            ended.push(alice.wait(handle, |_| {}).await.unwrap());
        }
        none_left(&behind).await;
        jobs.append(&mut waiting);
    }
    assert!(ended.iter().all(|job| job.exit == Some(Exit::Code(0))), "{ended:?}");
    let expected = jobs.iter().map(|handle| (handle.to_string(), 1)).collect();
    let elsewhere = ended.iter().filter(|job| !job.hops.is_empty()).count();
    assert_eq!(runs(&lines), expected, "each ran once, {elsewhere} of them elsewhere");
    assert!(elsewhere > 0, "no sibling was the first to start");
}
