//! A job's way: submitted, planned, released, resized, run, ended.

use std::fs;

use pliant_control::job::Exit;
use pliant_control::listing::{CoreLayout, Phase, State};
use pliant_model::Span;
use pliant_site::{BATCH_OUTPUT, BatchSystemError, StartPrevention};

use crate::cluster::{Cluster, cores, now, until};

#[tokio::test]
async fn a_job_runs_in_its_folder_with_a_minimal_environment_and_reports_its_end() {
    let Some(cluster) = Cluster::start().await else { return };
    let about = cluster.slurm.about();
    assert_eq!((about.cluster.as_str(), about.scheduler.backfill), ("alpha", true));
    let line =
        "env | cut -d= -f1 | grep -v ^SLURM | sort | tr '\\n' ' ' > names; pwd > folder; echo done; exit 3";
    let failing = cluster.submit(1, line, cores(1), false).await;
    let killed = cluster.submit(2, "kill -9 $$", cores(1), false).await;
    let good = cluster.submit(3, "true", cores(4), false).await;
    for id in [&failing, &killed, &good] {
        cluster.wait_for(id, Phase::Ended).await;
    }
    let folder = cluster.folder(1);
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(read("folder").trim_end(), folder.to_str().unwrap());
    assert_eq!(read(BATCH_OUTPUT), "done\n");
    let theirs = ["ENVIRONMENT", "HOME", "HOSTNAME", "LC_ALL", "PATH", "PWD", "SHLVL", "TMPDIR", "USER", "_"];
    for name in read("names").split_whitespace() {
        assert!(theirs.contains(&name), "{name} got into the job");
    }
    let ids = [failing.as_str(), &killed, &good, "4000000"];
    let ended = cluster.slurm.ended(&ids).await.unwrap();
    let exits: Vec<Option<Exit>> = ids.map(|id| ended.get(id).and_then(|job| job.exit())).to_vec();
    assert_eq!(exits, [Some(Exit::Code(3)), Some(Exit::Signal(9)), Some(Exit::Code(0)), None]);
    assert_eq!(cluster.slurm.ended(&["4000000"]).await.unwrap().len(), 0);
    let job = &ended[&good];
    assert!(job.started.unwrap() <= job.ended.unwrap() && job.ended.unwrap() <= now());
    let listed = cluster.job(&good).await.unwrap();
    assert_eq!(
        (listed.job_number, listed.state, listed.walltime),
        (Some(3), State::Completed, Some(Span(600)))
    );
}

#[tokio::test]
async fn a_plan_is_seen_and_a_job_is_resized_while_it_waits() {
    let Some(cluster) = Cluster::start().await else { return };
    // A local user has the whole cluster.
    let local = cluster.local();
    let wrap = ["sbatch", "--parsable", "-N2", "--exclusive", "-t5", "-o/dev/null", "--wrap", "sleep 600"];
    let blocker = local.run(&wrap);
    let blocker = cluster.wait_for(&blocker, Phase::Running).await;
    assert_eq!(blocker.job_number, None);
    assert!(blocker.shape.exclusive);
    assert_eq!(
        blocker.allocations.iter().map(|allocation| allocation.cores).collect::<Vec<_>>(),
        [Some(4), Some(4)]
    );

    let id = cluster.submit(1, "true", cores(2), false).await;
    let planned = cluster.wait(&id, |job| job.planned.is_some()).await;
    assert!(planned.planned.unwrap().start >= blocker.started.unwrap() + Span(300));
    assert_eq!((planned.state, planned.shape.cores, planned.wait_reason), (State::Pending, 2, None));

    let check = async |shape: CoreLayout, walltime: Span, nodes: u32, minutes: i64| {
        cluster.slurm.reshape(1, &id, shape, walltime).await.unwrap();
        let job = cluster.job(&id).await.unwrap();
        assert_eq!((job.shape.cores, job.shape.nodes), (shape.cores, Some(nodes)));
        assert_eq!(job.walltime, Some(Span(minutes * 60)));
    };
    check(cores(7), Span(1201), 2, 21).await;
    check(CoreLayout { cores: 3, nodes: Some(1), exclusive: false }, Span(60), 1, 1).await;
    check(cores(8), Span(120), 2, 2).await;
    // More than there is, and a job that does not wait.
    let error = cluster.slurm.reshape(1, &id, cores(9), Span(60)).await;
    assert!(error.is_ok() || matches!(error, Err(BatchSystemError::Refused { .. })), "{error:?}");
    // Another user's job is not touched, also if root asks, as here.
    for number in [1, 2] {
        let error = cluster.slurm.reshape(number, &blocker.id, cores(1), Span(60)).await.unwrap_err();
        assert!(matches!(error, BatchSystemError::UnknownJob { .. }), "{error}");
        cluster.slurm.terminate(number, &blocker.id).await.unwrap();
        assert_eq!(cluster.slurm.prevent_start(number, &blocker.id).await.unwrap(), StartPrevention::Unknown);
    }
    assert_eq!(cluster.job(&blocker.id).await.unwrap(), blocker);
    let error = cluster.slurm.reshape(1, "4000000", cores(1), Span(60)).await.unwrap_err();
    assert!(matches!(error, BatchSystemError::UnknownJob { .. }), "{error}");
}

#[tokio::test]
async fn a_held_job_starts_once_it_is_released() {
    let Some(cluster) = Cluster::start().await else { return };
    let held = cluster.submit(1, "sleep 600", cores(5), true).await;
    let later = cluster.submit(2, "true", cores(1), false).await;
    cluster.wait_for(&later, Phase::Ended).await;
    let job = cluster.job(&held).await.unwrap();
    assert_eq!((job.ever_started(), job.state), (false, State::Held));
    cluster.slurm.release(1, &held).await.unwrap();
    let job = cluster.wait(&held, |job| job.state == State::Running).await;
    // On two nodes, not all of either: how the cores lie is asked for.
    let mut lie: Vec<Option<u32>> = job.allocations.iter().map(|allocation| allocation.cores).collect();
    lie.sort();
    assert_eq!(lie, [Some(1), Some(4)]);
    cluster.slurm.release(1, &held).await.unwrap();
    assert_eq!(cluster.job(&held).await.unwrap().state, State::Running);
    // It runs: nothing of a new shape is taken, not even what could be.
    let error = cluster.slurm.reshape(1, &held, cores(1), Span(60)).await.unwrap_err();
    assert!(matches!(error, BatchSystemError::NotWaiting { .. }), "{error}");
    assert_eq!(cluster.job(&held).await.unwrap().walltime, Some(Span(600)));
    let error = cluster.slurm.release(1, "4000000").await.unwrap_err();
    assert!(matches!(error, BatchSystemError::UnknownJob { .. }), "{error}");
    let error = cluster.slurm.release(2, &later).await.unwrap_err();
    assert!(matches!(error, BatchSystemError::NotWaiting { .. }), "{error}");
}

#[tokio::test]
async fn a_job_that_is_ended_hears_of_it_first() {
    let Some(cluster) = Cluster::start().await else { return };
    let line = "trap 'touch asked; exit 0' TERM; touch ready; while :; do sleep 0.1; done";
    let running = cluster.submit(1, line, cores(1), false).await;
    let waiting = cluster.submit(2, "true", cores(1), true).await;
    let there = async |name: &str| cluster.folder(1).join(name).exists().then_some(());
    until("the job", async || there("ready").await).await;
    for (number, id) in [(1, &running), (2, &waiting)] {
        cluster.slurm.terminate(number, id).await.unwrap();
        let job = cluster.wait_for(id, Phase::Ended).await;
        assert_eq!((job.state.clone(), job.exit()), (State::Cancelled, Some(Exit::Cancelled)));
        // Again, of one that is over.
        cluster.slurm.terminate(number, id).await.unwrap();
    }
    assert!(there("asked").await.is_some());
    cluster.slurm.terminate(1, "4000000").await.unwrap();
}

#[tokio::test]
async fn what_slurm_refuses_it_refuses_with_a_reason() {
    let Some(cluster) = Cluster::start().await else { return };
    let settings = pliant_site::slurm::Settings {
        partition: Some("nowhere".to_owned()),
        ..crate::cluster::settings(cluster.local())
    };
    let slurm = pliant_site::slurm::Slurm::connect(settings, &"rennes".parse().unwrap()).await.unwrap();
    let (folder, program) = (cluster.folder(1), crate::cluster::shell("true"));
    let job = crate::cluster::submission(1, &folder, &program, cores(1), false);
    let error = slurm.submit(&job).await.unwrap_err();
    assert!(!error.may_pass());
    assert_eq!(
        error.to_string(),
        "slurm refuses sbatch: Batch job submission failed: Invalid partition name specified"
    );
}
