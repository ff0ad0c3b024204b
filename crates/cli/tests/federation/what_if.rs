//! What a federation recorded, replayed under other policies by `pliant what-if`.

use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use pliant_control::job::JobState;
use pliant_model::{Procs, Span};
use pliant_testing::slurm::{SlurmClusters, Wanted};
use pliant_transport::Role;
use serde_json::Value;

use crate::harness::*;

/// How far the mean response of a replay under the policy in force may be off: jobs of a few seconds, whose times are
/// rounded to whole ones.
const TOLERANCE: f64 = 0.3;
/// The same on Slurm, which starts jobs when it gets round to it.
const TOLERANCE_ON_SLURM: f64 = 0.5;

/// Runs the verb to its end.
async fn asked(config: PathBuf, words: &'static [&str]) -> Output {
    let run = move || pliant(&config, &[&["what-if", "--since", "1h"], words].concat()).output();
    tokio::task::spawn_blocking(run).await.unwrap().unwrap()
}

async fn found(config: PathBuf, words: &'static [&str]) -> Value {
    let output = asked(config, words).await;
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    document(&output.stdout)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("expected a number, found {value}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_under_the_policy_in_force_is_near_what_happened() {
    const JOBS: usize = 32;
    let clusters = [Cluster::new("lyon", 3, 1.0), Cluster::new("paris", 2, 1.0)];
    let federation = Federation::start(&clusters).await;
    let alice = federation.client("alice");
    let mut accepted = Vec::new();
    for number in 0..JOBS {
        // Sixteen processor seconds a second for a while: most of them wait.
        let (seconds, procs) = (2 + number % 3, 1 + number as u32 % 2);
        let job = rigid(&format!("exec sleep {seconds}"), procs, 8);
        accepted.push(submit(&alice, &order(job)).await.handle);
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    let never = submit(&alice, &order(rigid("true", 3, 3600))).await.handle;
    alice.cancel(&never).await.unwrap();
    for handle in &accepted {
        assert_eq!(alice.wait(handle, |_| {}).await.unwrap().state, JobState::Completed);
    }
    let user = asked(federation.client_file(Role::User, "alice"), &[]).await;
    assert!(!user.status.success());
    let said = String::from_utf8(user.stderr).unwrap();
    assert!(said.contains("only an operator"), "{said}");

    let root = federation.client_file(Role::Operator, "root");
    until("the agent to know all jobs", async || {
        let history = federation.operator().history(Span(3600)).await.ok()?;
        history.jobs.iter().all(|job| job.state.is_final()).then_some(())
    })
    .await;
    let words = &[
        "--format",
        "json",
        "--policy",
        "regular/mct,period=5s,threshold=1s",
        "--policy",
        "now,mapping=random",
    ];
    let report = found(root.clone(), words).await;
    let jobs = &report["jobs"];
    assert_eq!(
        (&jobs["compared"], &jobs["never_ran"], &jobs["local"]),
        (&32.into(), &1.into(), &0.into()),
        "{report}"
    );
    let replayed = report["replayed"].as_array().unwrap();
    let names: Vec<&str> = replayed.iter().map(|one| one["policy"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["now", words[3], words[5]]);
    assert!(replayed.iter().all(|one| one["jobs"] == JOBS), "{report}");
    let (live, again) =
        (number(&report["happened"]["mean_response_s"]), number(&replayed[0]["mean_response_s"]));
    assert!((again / live - 1.0).abs() < TOLERANCE, "replayed {again} s, was {live} s");
    let error = number(&report["calibration"]["mean_response_error"]);
    assert!((error - (again / live - 1.0)).abs() < 1e-9, "{error}");
    assert_eq!(replayed[0]["difference_s"], Value::Null);
    for other in &replayed[1..] {
        let difference = &other["difference_s"];
        let (mean, low, high) =
            (number(&difference["mean"]), number(&difference["low"]), number(&difference["high"]));
        assert!(low <= mean && mean <= high, "{difference}");
        assert!((mean - (number(&other["mean_response_s"]) - again)).abs() < 1e-6, "{report}");
    }
    assert!(number(&replayed[2]["difference_s"]["mean"]) > 0.0, "drawn at random is worse: {report}");
    let text = asked(root, &[]).await;
    let text = String::from_utf8(text.stdout).unwrap();
    for words in ["recorded", "replayed: now", "replayed: regular/mct", "never ran", "from the recorded one"]
    {
        assert!(text.contains(words), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_local_users_run_on_slurm_is_recorded_and_replayed() {
    const LOCALS: usize = 8;
    let Some(slurm) = SlurmClusters::start(Wanted { clusters: 1, nodes: 2, cpus: 2, ..Wanted::default() })
    else {
        return;
    };
    let conf = slurm.clusters()[0].conf.clone();
    let cluster = Cluster { slurm: Some(conf), ..Cluster::new("lyon", 0, 1.0) };
    let mut federation = Federation::start(&[cluster]).await;
    let (alice, operator) = (federation.client("alice"), federation.operator());
    let mut accepted = Vec::new();
    for number in 0..LOCALS {
        let (cores, wrap) =
            (format!("--ntasks={}", 1 + number % 2), format!("--wrap=sleep {}", 4 + number % 3));
        let quiet = ["sbatch", "--job-name=local", "--chdir=/", "--output=/dev/null", "--time=1"];
        slurm.clusters()[0].run(&[&quiet[..], &[&cores, &wrap]].concat());
        accepted.push(submit(&alice, &order(rigid("sleep 3", 1 + number as u32 % 2, 60))).await.handle);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    // What is recorded outlives the server.
    federation.kill("lyon");
    federation.revive("lyon");
    federation.attached(1).await;
    for handle in &accepted {
        assert_eq!(alice.wait(handle, |_| {}).await.unwrap().state, JobState::Completed);
    }
    let history = until("all of it to be recorded", async || {
        let history = operator.history(Span(3600)).await.ok()?;
        let over = history.servers.first()?.1.jobs.iter().filter(|job| job.ended.is_some()).count();
        (over == LOCALS && history.jobs.iter().all(|job| job.state.is_final())).then_some(history)
    })
    .await;
    let page = &history.servers[0].1;
    assert_eq!(page.nodes.as_ref().unwrap().cores(), Procs(4));
    for job in &page.jobs {
        let took = job.ended.unwrap() - job.started.unwrap();
        assert!((Span(3)..Span(60)).contains(&took) && job.started >= Some(job.submitted), "{job:?}");
        assert_eq!(job.walltime, Some(Span(60)));
    }
    let cores: u32 = page.jobs.iter().map(|job| job.shape.cores.0).sum();
    assert_eq!(cores, 4 + 2 * 4, "one core, two cores, in turn");

    let root = federation.client_file(Role::Operator, "root");
    let report = found(root, &["--format", "json"]).await;
    assert_eq!((&report["jobs"]["compared"], &report["jobs"]["local"]), (&8.into(), &8.into()), "{report}");
    let replayed = &report["replayed"][0];
    assert_eq!(replayed["jobs"], 8);
    let (live, again) =
        (number(&report["happened"]["mean_response_s"]), number(&replayed["mean_response_s"]));
    assert!((again / live - 1.0).abs() < TOLERANCE_ON_SLURM, "replayed {again} s, was {live} s");
    // Without other jobs they would have completed earlier.
    assert!(again > 4.0, "{report}");
}
