//! Tasks that are spawned together from a file: all or none, and errors of the file are reported.

use std::path::PathBuf;

use pliant_transport::Role;
use serde_json::Value;

use super::*;

/// The tasks of a launch, as the command lists them.
fn tasks_of(launch: &Value) -> Vec<&str> {
    launch["tasks"].as_array().unwrap().iter().map(|task| task["task"].as_str().unwrap()).collect()
}

/// A federation with a launch of one task, that runs.
struct Alone {
    federation: Federation,
    talkers: Talkers,
    config: PathBuf,
    id: String,
}

async fn alone() -> Alone {
    let federation = federation().await;
    let config = federation.client_file(Role::User, "alice");
    let talkers = Talkers::new(federation.path().join("ring"));
    let ring = talkers.ring_file(MCR, &[("a", 0)]);
    let launch = ["launch", ring.to_str().unwrap(), "--detach"];
    let (code, launched, stderr) = said(pliant(&config, &launch).output().unwrap());
    assert_eq!(code, 0, "{stderr}");
    all_received(&talkers, &["a"]).await;
    let id = launched.lines().next().unwrap().to_owned();
    Alone { federation, talkers, config, id }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_a_file_are_spawned_together_or_not_at_all() {
    let Alone { mut federation, talkers, config, id } = alone().await;
    let run = |words: &[&str]| said(pliant(&config, words).output().unwrap());
    let spawn = |hears: &[(&str, &str)], edges: &[[&str; 2]], words: &[&str]| {
        let file = talkers.joining_file(hears, edges);
        run(&[&["launch", "spawn", &id, "--tasks", file.to_str().unwrap()], words].concat())
    };

    // They reach the running task, which does not know their addresses, and hear each other.
    let together: (&[_], &[_]) = (&[("b", "1"), ("c", "1")], &[["b", "c"], ["b", "a"], ["a", "c"]]);
    let key = fresh_key().to_string();
    let with_key = ["--key", key.as_str(), "--format", "json"];
    let (code, spawned, stderr) = spawn(together.0, together.1, &with_key);
    assert_eq!(code, 0, "{stderr}");
    let spawned = document(&spawned);
    assert_eq!(spawned["tasks"], Value::from(["b", "c"].as_slice()), "{spawned}");
    assert_eq!(tasks_of(&spawned["launch"]), ["a", "b", "c"], "{spawned}");
    all_received(&talkers, &["b", "c"]).await;
    assert_eq!(["b", "c"].map(|task| talkers.received(task).unwrap()), ["c", "b"]);
    let (code, again, stderr) = spawn(together.0, together.1, &with_key);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(serde_json::from_str::<Value>(&again).unwrap(), spawned, "the same key is the same tasks");

    // Only one of the two fits, so neither is started; the capacity for one is still free.
    let (code, _, stderr) = spawn(&[("d", "1"), ("e", "1")], &[["d", "e"], ["d", "a"]], &[]);
    assert!(code == 3 && stderr.contains("none of them is spawned"), "{code}: {stderr}");
    let (code, table, stderr) = spawn(&[("late", "0")], &[["late", "a"]], &[]);
    assert!(code == 0 && table.contains("127.0.0.1:"), "{code}: {table}{stderr}");

    all_received(&talkers, &["late"]).await;
    let ran = ["a", "b", "c", "late"];
    ran.iter().for_each(|task| talkers.open(task));
    let record = reaches(&federation.client("alice"), &id.parse().unwrap(), LaunchState::Over).await;
    assert_eq!(record.end, Some(LaunchEnd::Completed), "{record:?}");
    assert_eq!(talkers.began(), ran.map(|task| (task.to_owned(), 1)).into());
    no_process(&talkers).await;
    nothing_left(&mut federation, &NAMES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_file_spawns_nothing_and_is_reported() {
    let Alone { mut federation, talkers, config, id } = alone().await;
    let run = |words: &[&str]| said(pliant(&config, words).output().unwrap());

    let pair: &[_] = &[("b", "0"), ("c", "0")];
    // The first is found where the file is, the others where the launch is known.
    type Wrong<'a> = (&'a [(&'a str, &'a str)], &'a [[&'a str; 2]], &'a [&'a str]);
    let wrong: [Wrong<'_>; 4] = [
        (pair, &[["b", "c"], ["a", "missing"]], &["joining.toml:15:11: ", "found `a`", "at least one end"]),
        (pair, &[["b", "c"], ["c", "missing"]], &["neighbours of `c`", "found `missing`"]),
        (&[("b", "0"), ("a", "0")], &[["b", "a"]], &["`a`"]),
        (&[], &[], &["task"]),
    ];
    for (hears, edges, expected) in wrong {
        let file = talkers.joining_file(hears, edges);
        let (code, stdout, stderr) = run(&["launch", "spawn", &id, "--tasks", file.to_str().unwrap()]);
        assert_eq!((code, stdout.as_str()), (2, ""), "{edges:?}: {stderr}");
        expected
            .iter()
            .for_each(|subjob| assert!(stderr.contains(subjob), "expected `{subjob}`, found: {stderr}"));
    }
    let (_, listed, _) = run(&["launch", "list", "--format", "json"]);
    let listed = document(&listed);
    assert_eq!(tasks_of(&listed["launches"][0]), ["a"], "{listed}");

    talkers.open("a");
    let record = reaches(&federation.client("alice"), &id.parse().unwrap(), LaunchState::Over).await;
    assert_eq!((record.end, talkers.began().len()), (Some(LaunchEnd::Completed), 1), "nothing else has run");
    no_process(&talkers).await;
    nothing_left(&mut federation, &NAMES).await;
}
