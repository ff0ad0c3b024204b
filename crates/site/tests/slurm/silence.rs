//! Controllers that are dead or hang, and commands that do.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::SystemTime;

use pliant_control::listing::{Phase, State};
use pliant_site::slurm::{Settings, Slurm};
use pliant_site::{BatchSystemError, StartPrevention};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::cluster::{Cluster, cores, now, settings, shell, submission, until};

/// Asks everything at once: each takes as long as Slurm's commands wait.
async fn all_are_silent(cluster: &Cluster, number: u32, held: u32, id: &str) {
    let (folder, program) = (cluster.folder(number), shell("true"));
    let job = submission(number, &folder, &program, cores(1), true);
    let (ids, numbers) = ([id], [number]);
    let name = "rennes".parse().unwrap();
    let (submit, list, withdraw, release, reshape, terminate, ended, find, connect) = tokio::join!(
        cluster.slurm.submit(&job),
        cluster.slurm.list(now()),
        cluster.slurm.prevent_start(held, id),
        cluster.slurm.release(held, id),
        cluster.slurm.reshape(held, id, cores(1), pliant_model::Span(60)),
        cluster.slurm.terminate(held, "4000000"),
        cluster.slurm.ended(&ids),
        cluster.slurm.find_by_tag(&numbers),
        Slurm::connect(settings(cluster.local()), &name),
    );
    let errors = [
        ("submit", submit.err()),
        ("list", list.err()),
        ("withdraw", withdraw.err()),
        ("release", release.err()),
        ("reshape", reshape.err()),
        ("terminate", terminate.err()),
        ("ended", ended.err()),
        ("find", find.err()),
        ("connect", connect.err()),
    ];
    for (what, error) in errors {
        let error = error.unwrap_or_else(|| panic!("{what} was answered"));
        assert!(error.may_pass() && matches!(error, BatchSystemError::NoAnswer { .. }), "{what}: {error}");
    }
}

#[tokio::test]
async fn a_controller_that_is_killed_is_a_delay() {
    let Some(cluster) = Cluster::start().await else { return };
    let running = cluster.submit(1, "while [ ! -e go ]; do sleep 0.1; done", cores(1), false).await;
    cluster.wait(&running, |job| job.state == State::Running).await;
    let held = cluster.submit(2, "true", cores(1), true).await;
    // What it has not written yet, it forgets: even that a job has started.
    let (state, since) = (cluster.local().conf.with_file_name("state").join("job_state"), SystemTime::now());
    let written = || fs::metadata(&state).and_then(|file| file.modified()).is_ok_and(|at| at > since);
    until("its state on disk", async || written().then_some(())).await;
    cluster.local().signal_controller(Signal::KILL);
    all_are_silent(&cluster, 3, 2, &held).await;
    cluster.all.restart();
    // Back, it knows what it knew.
    assert_eq!(cluster.job(&running).await.unwrap().phase(), Phase::Running);
    assert_eq!(cluster.slurm.prevent_start(2, &held).await.unwrap(), StartPrevention::Prevented);
    assert!(cluster.slurm.find_by_tag(&[3]).await.unwrap().is_empty(), "a dead one takes nothing in");
    fs::write(cluster.folder(1).join("go"), "").unwrap();
    assert_eq!(cluster.wait_for(&running, Phase::Ended).await.state, State::Completed);
}

#[tokio::test]
async fn a_controller_that_hangs_is_a_delay_and_does_later_what_it_was_sent() {
    let Some(cluster) = Cluster::start().await else { return };
    let held = cluster.submit(1, "true", cores(1), true).await;
    cluster.local().signal_controller(Signal::STOP);
    all_are_silent(&cluster, 2, 1, &held).await;
    cluster.local().signal_controller(Signal::CONT);
    // The submission without an answer is a job after all: that is why it is looked for.
    let found = until("the job", async || {
        let found = cluster.slurm.find_by_tag(&[2]).await.ok()?;
        (!found.is_empty()).then_some(found)
    })
    .await;
    assert_eq!(found.len(), 1);
    let (folder, program) = (cluster.folder(2), shell("true"));
    let job = submission(2, &folder, &program, cores(1), true);
    assert_eq!(cluster.slurm.submit_unless_there(&job).await.unwrap(), [found[0].id.clone()]);
    assert_eq!(cluster.slurm.prevent_start(2, &found[0].id).await.unwrap(), StartPrevention::Prevented);
}

#[tokio::test]
async fn a_command_that_hangs_is_ended() {
    let folder = TempDir::new().unwrap();
    let pid = folder.path().join("pid");
    let script = folder.path().join("scontrol");
    fs::write(&script, format!("#!/bin/sh\necho $$ > {}\nexec sleep 600\n", pid.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let commands = Some(folder.path().to_owned());
    let settings = Settings { commands, deadline_s: 2, ..Settings::default() };
    let error = Slurm::connect(settings, &"rennes".parse().unwrap()).await.unwrap_err();
    assert_eq!(error.to_string(), "slurm does not answer scontrol: nothing within 2 s");
    let pid = fs::read_to_string(pid).unwrap();
    assert!(!std::path::Path::new("/proc").join(pid.trim()).exists());
}

#[tokio::test]
async fn commands_that_are_not_there_are_missed_with_a_hint() {
    let folder = TempDir::new().unwrap();
    let settings = Settings { commands: Some(folder.path().to_owned()), ..Settings::default() };
    let error = Slurm::connect(settings, &"rennes".parse().unwrap()).await.unwrap_err();
    assert!(!error.may_pass());
    let message = error.to_string();
    assert!(message.contains("/scontrol: No such file") && message.contains("`commands`"), "{message}");
}
