//! A server whose batch system plans all waiting jobs anew (`cbf-replan`): promises move, and a restart keeps the plan.

use std::fs;

use pliant_client::Client;
use pliant_control::job::{JobRecord, JobState};
use pliant_model::Time;

use crate::harness::*;

async fn planned_start(client: &Client, job: &JobRecord) -> Time {
    client.explain(&job.handle).await.unwrap().waits.unwrap().plan.start
}

#[tokio::test(flavor = "multi_thread")]
async fn an_early_end_moves_one_promise_ahead_and_another_one_back() {
    let cluster = Cluster { batch: "cbf-replan", ..Cluster::new("lyon", 4, 1.0) };
    let mut federation = Federation::start(&[cluster]).await;
    let alice = federation.client("alice");
    let gate = |name: &str| federation.path().join(name);
    let gates = [gate("long"), gate("wide"), gate("short")];
    for (path, procs, walltime_s) in [(&gates[0], 1, 900), (&gates[1], 2, 600), (&gates[2], 1, 700)] {
        let running = submit(&alice, &order(rigid(&waiting_for(path), procs, walltime_s))).await;
        federation.reaches(&alice, &running.handle, JobState::Active).await;
    }
    // Three processors are free after 700 s, two of them for 100 s before: the second job is promised the gap.
    let ahead = submit(&alice, &order(rigid("true", 3, 300))).await;
    let backfilled = submit(&alice, &order(rigid("true", 2, 90))).await;
    assert!(backfilled.expected.start < ahead.expected.start, "{backfilled:?}");

    // With the processor of the long job the first job takes the gap, and the second one comes after it.
    fs::write(&gates[0], "").unwrap();
    let moved = async || {
        let plans = [planned_start(&alice, &ahead).await, planned_start(&alice, &backfilled).await];
        (plans[0] < ahead.expected.start).then_some(plans)
    };
    let plans = until("the plan of the first job to change", moved).await;
    assert!(plans[1] > backfilled.expected.start, "{plans:?}");
    assert!(plans[0] < plans[1], "{plans:?}");

    federation.kill("lyon");
    federation.revive("lyon");
    federation.attached(1).await;
    let again = [planned_start(&alice, &ahead).await, planned_start(&alice, &backfilled).await];
    assert_eq!(again, plans);
    for path in &gates[1..] {
        fs::write(path, "").unwrap();
    }
    for job in [&ahead, &backfilled] {
        federation.reaches(&alice, &job.handle, JobState::Completed).await;
    }
}
