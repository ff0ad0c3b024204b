//! Jobs that wait are withdrawn, and those that have started are left alone.

use std::time::Duration;

use pliant_control::job::Exit;
use pliant_control::listing::{Phase, State};
use pliant_site::StartPrevention;

use crate::cluster::{Cluster, cores, until};

#[tokio::test]
async fn only_a_job_that_waits_is_withdrawn() {
    let Some(cluster) = Cluster::start().await else { return };
    let line = "touch ready; while [ ! -e go ]; do sleep 0.1; done; touch done";
    let running = cluster.submit(1, line, cores(8), false).await;
    cluster.wait(&running, |job| job.state == State::Running).await;
    let waiting = cluster.submit(2, "true", cores(1), false).await;
    let held = cluster.submit(3, "true", cores(1), true).await;
    let kept = cluster.submit(4, "true", cores(1), false).await;
    cluster.local().run(&["scontrol", "hold", &kept]);
    for _ in 0..2 {
        assert_eq!(
            cluster.slurm.prevent_start(4, &kept).await.unwrap(),
            StartPrevention::HeldByAdministrator
        );
        assert_eq!(cluster.job(&kept).await.unwrap().state, State::Held);
    }
    for (number, id) in [(2, &waiting), (3, &held)] {
        // Another job of this server has that id: it is not the one that is meant.
        assert_eq!(cluster.slurm.prevent_start(9, id).await.unwrap(), StartPrevention::Unknown);
        cluster.slurm.terminate(9, id).await.unwrap();
        assert_eq!(cluster.job(id).await.unwrap().phase(), Phase::Waiting);
        // Again: as after a crash.
        for _ in 0..2 {
            assert_eq!(cluster.slurm.prevent_start(number, id).await.unwrap(), StartPrevention::Prevented);
        }
        assert_eq!(cluster.job(id).await.unwrap().state, State::Cancelled);
    }
    for _ in 0..2 {
        let withdrawal = cluster.slurm.prevent_start(1, &running).await.unwrap();
        assert!(
            matches!(&withdrawal, StartPrevention::Started(job) if job.phase() == Phase::Running),
            "{withdrawal:?}"
        );
    }
    // It was neither ended nor left with the priority of a held job.
    let job = cluster.job(&running).await.unwrap();
    assert_eq!(job.state, State::Running);
    assert!(job.priority > 0);
    std::fs::write(cluster.folder(1).join("go"), "").unwrap();
    let job = cluster.wait_for(&running, Phase::Ended).await;
    assert_eq!(job.exit(), Some(Exit::Code(0)));
    assert!(cluster.folder(1).join("done").exists());
    let withdrawal = cluster.slurm.prevent_start(1, &running).await.unwrap();
    assert!(
        matches!(&withdrawal, StartPrevention::Started(job) if job.phase() == Phase::Ended),
        "{withdrawal:?}"
    );
    assert_eq!(cluster.slurm.prevent_start(1, "4000000").await.unwrap(), StartPrevention::Unknown);
}

#[tokio::test]
async fn a_job_that_is_withdrawn_as_it_starts_either_never_runs_or_runs_to_its_end() {
    let Some(cluster) = Cluster::start().await else { return };
    let mut withdrawn = 0;
    let jobs = 24;
    for number in 1..=jobs {
        let id = cluster.submit(number, "touch begun; sleep 1; touch done", cores(1), false).await;
        // From before the scheduler has seen it until it runs.
        tokio::time::sleep(Duration::from_millis(u64::from(number % 12) * 100)).await;
        let withdrawal = cluster.slurm.prevent_start(number, &id).await.unwrap();
        let job = cluster.wait_for(&id, Phase::Ended).await;
        let made = |name: &str| cluster.folder(number).join(name).exists();
        match withdrawal {
            StartPrevention::Prevented => {
                withdrawn += 1;
                assert_eq!(job.state, State::Cancelled);
                assert!(!made("begun"), "job {number} was withdrawn and ran");
            }
            StartPrevention::Started(_) => {
                assert_eq!(job.exit(), Some(Exit::Code(0)), "job {number}");
                assert!(made("done"), "job {number} was not withdrawn and ended early");
            }
            StartPrevention::Unknown | StartPrevention::HeldByAdministrator => {
                panic!("job {number}: {withdrawal:?}")
            }
        }
    }
    println!("{withdrawn} of {jobs} were withdrawn");
}

#[tokio::test]
async fn a_job_that_was_held_by_a_withdrawal_that_broke_off_is_withdrawn_later() {
    let Some(cluster) = Cluster::start().await else { return };
    let id = cluster.submit(1, "touch begun", cores(1), true).await;
    cluster.local().run(&["scontrol", "uhold", &id]);
    assert_eq!(cluster.slurm.prevent_start(1, &id).await.unwrap(), StartPrevention::Prevented);
    until("its end", async || cluster.job(&id).await.filter(|job| job.phase() == Phase::Ended)).await;
    assert!(!cluster.folder(1).join("begun").exists());
}
