//! Jobs that are submitted together are the tasks of an array, and each of them is a job like any other.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;

use pliant_control::job::Exit;
use pliant_control::listing::{Phase, State};
use pliant_site::StartPrevention;
use rustix::process::Signal;

use crate::cluster::{Cluster, cores, submission, until};

/// Numbers of two blocks.
const NUMBERS: [u32; 5] = [1_998, 1_999, 2_000, 2_001, 2_004];

/// A line of shell, and the folder of the job as the word behind it.
fn program(cluster: &Cluster, number: u32, line: &str) -> Vec<OsString> {
    let words = ["/bin/sh", "-c", line].map(OsString::from);
    words.into_iter().chain([cluster.folder(number).into()]).collect()
}

/// Submits all of them at the same time; their ids.
async fn joined(cluster: &Cluster, line: &str) -> BTreeMap<u32, String> {
    let submit = async |number: u32| {
        let (folder, program) = (cluster.folder(number), program(cluster, number, line));
        let job = submission(number, &folder, &program, cores(8), false);
        (number, cluster.slurm.submit_joined(&job).await.unwrap())
    };
    let [a, b, c, d, e] = NUMBERS;
    let ids = tokio::join!(submit(a), submit(b), submit(c), submit(d), submit(e));
    [ids.0, ids.1, ids.2, ids.3, ids.4].into()
}

#[tokio::test]
async fn jobs_that_come_together_are_tasks_and_each_is_a_job() {
    let Some(cluster) = Cluster::start().await else { return };
    assert!(cluster.slurm.about().takes_arrays());
    let first = cluster.submit(1, "while [ ! -e go ]; do sleep 0.1; done", cores(8), false).await;
    cluster.wait(&first, |job| job.state == State::Running).await;
    let ids = joined(&cluster, "echo $0 > done; exit $((${0##*/} % 2))").await;
    let arrays: Vec<(&str, &str)> = ids.values().map(|id| id.split_once('_').unwrap()).collect();
    assert_eq!(arrays.iter().map(|(_, index)| *index).collect::<Vec<_>>(), ["998", "999", "0", "1", "4"]);
    assert_eq!(arrays[0].0, arrays[1].0);
    assert!(arrays[2..].iter().all(|(array, _)| *array == arrays[2].0), "{ids:?}");
    assert_ne!(arrays[0].0, arrays[2].0);

    // They wait: one record of squeue for each array, and a job for each task.
    let jobs = cluster.list().await;
    for (number, id) in &ids {
        let job = jobs.iter().find(|job| job.id == *id).unwrap_or_else(|| panic!("{id}: {jobs:?}"));
        assert_eq!(
            (job.job_number, job.phase(), job.more_tasks, job.shape.cores),
            (Some(*number), Phase::Waiting, 0, 8)
        );
    }
    assert_eq!(jobs.len(), 6, "and nothing else: {jobs:?}");
    let found = cluster.slurm.find_by_tag(&[1_999, 2_004, 2_002]).await.unwrap();
    let found: BTreeMap<u32, String> =
        found.into_iter().map(|job| (job.job_number.unwrap(), job.id)).collect();
    assert_eq!(found, [1_999, 2_004].map(|number| (number, ids[&number].clone())).into());
    // The number of another task: nothing is done to it.
    assert_eq!(cluster.slurm.prevent_start(2_000, &ids[&2_001]).await.unwrap(), StartPrevention::Unknown);
    for _ in 0..2 {
        assert_eq!(
            cluster.slurm.prevent_start(2_001, &ids[&2_001]).await.unwrap(),
            StartPrevention::Prevented
        );
    }
    cluster.slurm.terminate(1_998, &ids[&1_998]).await.unwrap();
    for number in [1_998, 2_001] {
        assert_eq!(cluster.wait_for(&ids[&number], Phase::Ended).await.state, State::Cancelled);
    }
    fs::write(cluster.folder(1).join("go"), "").unwrap();
    for number in [1_999, 2_000, 2_004] {
        let job = cluster.wait_for(&ids[&number], Phase::Ended).await;
        assert_eq!(job.job_number, Some(number), "{job:?}");
        let done = fs::read_to_string(cluster.folder(number).join("done")).unwrap();
        assert_eq!(done.trim(), cluster.folder(number).to_str().unwrap(), "it ran in its folder");
    }
    assert!(!cluster.folder(2_001).join("done").exists() && !cluster.folder(1_998).join("done").exists());

    let all: Vec<&str> = ids.values().map(String::as_str).collect();
    let ended = cluster.slurm.ended(&all).await.unwrap();
    assert_eq!(ended.len(), 5, "{ended:?}");
    let exit = |number: u32| ended[&ids[&number]].exit();
    assert_eq!(
        (exit(1_999), exit(2_000), exit(2_001)),
        (Some(Exit::Code(1)), Some(Exit::Code(0)), Some(Exit::Cancelled))
    );
}

#[tokio::test]
async fn accounts_know_tasks_by_their_numbers() {
    let Some(cluster) = Cluster::wanted(true).await else { return };
    let ids = joined(&cluster, "exit $((${0##*/} % 2))").await;
    let accounts = ["sacct", "-nX", "-oState", "-j", &ids[&1_999]];
    until("its account", async || cluster.local().run(&accounts).contains("FAILED").then_some(())).await;
    cluster.local().signal_controller(Signal::KILL);
    let ended = cluster.slurm.ended(&[&ids[&1_999]]).await.unwrap();
    let job = &ended[&ids[&1_999]];
    assert_eq!((job.job_number, job.exit()), (Some(1_999), Some(Exit::Code(1))));
    cluster.all.restart();
    let found = cluster.slurm.find_by_tag(&[1_999]).await.unwrap();
    assert_eq!(
        found.iter().map(|job| &job.id).collect::<Vec<_>>(),
        [&ids[&1_999]],
        "once, though both know it"
    );
}

#[tokio::test]
async fn a_job_that_comes_alone_is_no_array() {
    let Some(cluster) = Cluster::start().await else { return };
    let (folder, program) = (cluster.folder(7), program(&cluster, 7, "exit 3"));
    let id = cluster.slurm.submit_joined(&submission(7, &folder, &program, cores(1), false)).await.unwrap();
    assert!(id.bytes().all(|byte| byte.is_ascii_digit()), "{id}");
    assert_eq!(cluster.wait_for(&id, Phase::Ended).await.job_number, Some(7));
    assert_eq!(cluster.slurm.ended(&[&id]).await.unwrap()[&id].exit(), Some(Exit::Code(3)));
}
