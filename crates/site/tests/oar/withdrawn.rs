use pliant_control::listing::{Phase, State};
use pliant_site::{BatchSystemError, StartPrevention};

use crate::cluster::{Cluster, cores};

#[tokio::test]
async fn a_job_is_held_back_while_it_waits_and_left_alone_once_it_runs() {
    let Some(cluster) = Cluster::start(60).await else { return };
    let running = cluster.submit(1, "sleep 1000", &cores(4), false).await;
    cluster.wait(&running, |job| job.state == State::Running).await;
    let waiting = cluster.submit(2, "true", &cores(1), false).await;
    let local = cluster.local.submit(&["--resource=/resource_id=1,walltime=0:05:00"], "true");
    assert_eq!(cluster.oar.prevent_start(2, &waiting).await.unwrap(), StartPrevention::Prevented);
    assert_eq!(cluster.job(&waiting).await.unwrap().state, State::Held);
    // Done again it is the same.
    assert_eq!(cluster.oar.prevent_start(2, &waiting).await.unwrap(), StartPrevention::Prevented);
    cluster.oar.delete(2, &waiting).await.unwrap();
    let over = cluster.job(&waiting).await.unwrap();
    assert_eq!((over.state, over.allocations.len()), (State::Cancelled, 0), "it never started");
    cluster.oar.delete(2, &waiting).await.unwrap();
    assert_eq!(cluster.oar.prevent_start(2, &waiting).await.unwrap(), StartPrevention::Prevented);

    let left = cluster.oar.prevent_start(1, &running).await.unwrap();
    assert!(matches!(&left, StartPrevention::Started(job) if job.state == State::Running), "{left:?}");
    // Jobs of other users are never this server's, whatever their names are.
    assert_eq!(cluster.oar.prevent_start(3, &local).await.unwrap(), StartPrevention::Unknown);
    cluster.oar.terminate(3, &local).await.unwrap();
    cluster.oar.delete(3, &local).await.unwrap();
    assert_eq!(cluster.job(&local).await.unwrap().phase(), Phase::Waiting);
    assert_eq!(cluster.oar.prevent_start(3, "999999").await.unwrap(), StartPrevention::Unknown);
    assert!(matches!(cluster.oar.release(3, "999999").await, Err(BatchSystemError::UnknownJob { .. })));
}

#[tokio::test]
async fn what_is_held_starts_once_it_is_released() {
    let Some(cluster) = Cluster::start(60).await else { return };
    let held = cluster.submit(1, "true", &cores(1), true).await;
    let other = cluster.submit(2, "true", &cores(1), false).await;
    cluster.wait_for(&other, Phase::Ended).await;
    assert_eq!(cluster.job(&held).await.unwrap().state, State::Held, "its start was prevented");
    cluster.oar.release(1, &held).await.unwrap();
    assert_eq!(cluster.wait_for(&held, Phase::Ended).await.state, State::Completed);
    cluster.oar.release(1, &held).await.unwrap();
}

/// However a withdrawal and a start meet: a job that was held back has not run, and one that has was left alone.
#[tokio::test]
async fn a_withdrawal_that_meets_a_start() {
    let Some(cluster) = Cluster::start(60).await else { return };
    for number in 1..=6 {
        let line = "echo ran >> ran; sleep 0.2";
        let id = cluster.submit(number, line, &cores(1), false).await;
        tokio::time::sleep(std::time::Duration::from_millis(u64::from(number) * 250)).await;
        let outcome = cluster.oar.prevent_start(number, &id).await.unwrap();
        if outcome == StartPrevention::Prevented {
            cluster.oar.delete(number, &id).await.unwrap();
        }
        let over = cluster.wait_for(&id, Phase::Ended).await;
        let ran = cluster.folder(number).join("ran").exists();
        let expected = if ran { State::Completed } else { State::Cancelled };
        assert_eq!((over.state, matches!(outcome, StartPrevention::Started(_))), (expected, ran), "{number}");
    }
}
