//! What users of the command see: `launch`, `launches`, `spawn` and `cancel`, and their exit codes.

use pliant_transport::Role;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn the_command_launches_follows_and_exits_with_the_outcome() {
    let mut federation = federation().await;
    let config = federation.client_file(Role::User, "alice");
    let run = |words: &[&str]| said(pliant(&config, words).output().unwrap());
    let talkers = Talkers::new(federation.path().join("ring"));
    let tasks = ["a", "b", "c"];
    let file = talkers.ring_file(MCR, &[("a", 0), ("b", 0), ("c", 0)]);
    let file = file.to_str().unwrap();

    let (code, dry, stderr) = run(&["launch", file, "--dry-run", "--from", "paris"]);
    assert_eq!(code, 0, "{stderr}");
    let near = dry.lines().filter(|line| line.contains("paris")).count();
    assert_eq!(near, 2, "as many as there is room for near the user:\n{dry}");
    let left = |mflops: &str| dry.lines().filter(|line| line.contains(mflops)).count();
    assert_eq!((left(" 2000.0 "), left(" 1100.0 ")), (2, 1), "what each finds on its machine:\n{dry}");
    let (code, detached, stderr) = run(&["launch", file, "--detach", "--name", "rings"]);
    assert_eq!(code, 0, "{stderr}");
    let id = detached.lines().next().unwrap().to_owned();
    all_received(&talkers, &tasks).await;

    let script = talkers.folder.join("talk.pl");
    let mut words =
        vec!["launch", "spawn", &id, "--name", "late", "--edge", "a=2", "--script", script.to_str().unwrap()];
    let late = talkers.words("late", "0", 0);
    words.push("--");
    words.extend(late.iter().map(String::as_str));
    let (code, spawned, stderr) = run(&words);
    assert_eq!(code, 0, "{stderr}");
    assert!(spawned.contains("late") && spawned.contains("127.0.0.1:"), "{spawned}");

    let (code, listed, _) = run(&["launch", "list", "--format", "json"]);
    let listed = document(&listed);
    assert_eq!((code, &listed["launches"][0]["launch"]), (0, &Value::from(id.as_str())), "{listed}");
    assert_eq!(listed["launches"][0]["state"], "running", "{listed}");
    let (code, cancelled, _) = run(&["cancel", &id]);
    assert_eq!((code, cancelled), (0, format!("{id} is being ended\n")));
    let alice = federation.client("alice");
    reaches(&alice, &id.parse().unwrap(), LaunchState::Over).await;
    let (_, shown, _) = run(&["launch", "list", &id]);
    assert!(shown.contains("cancelled") && shown.contains("rings"), "{shown}");
    let (code, _, stderr) = run(&["launch", "list", "master/00000000000000000000000000000000"]);
    assert_eq!(code, 2, "{stderr}");
    no_process(&talkers).await;
    nothing_left(&mut federation, &NAMES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_a_launch_and_a_failed_task_is_reported() {
    let mut federation = federation().await;
    let config = federation.client_file(Role::User, "alice");
    let talkers = Talkers::new(federation.path().join("ring"));
    let tasks = ["a", "b", "c", "d"];
    let file = talkers.ring_file(MCR, &tasks.map(|task| (task, 0)));
    let child = pliant(&config, &["launch", file.to_str().unwrap()]).spawn().unwrap();
    all_received(&talkers, &tasks).await;
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let (code, stdout, stderr) = said(child.wait_with_output().unwrap());
    assert_eq!(code, 130, "{stdout}{stderr}");
    assert!(stderr.contains("is cancelled"), "{stderr}");
    assert!(talkers.alive().is_empty(), "it has waited for that");

    let talkers = Talkers::new(federation.path().join("failing"));
    let file = talkers.ring_file(MCR, &[("a", 0), ("b", 7)]);
    talkers.open("b");
    let (code, stdout, stderr) = said(pliant(&config, &["launch", file.to_str().unwrap()]).output().unwrap());
    assert_eq!(code, 3, "{stdout}{stderr}");
    assert!(stderr.contains("task `b`") && stderr.contains('7'), "{stderr}");
    no_process(&talkers).await;
    nothing_left(&mut federation, &NAMES).await;
}
