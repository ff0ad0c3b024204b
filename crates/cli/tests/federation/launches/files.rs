//! Files of tasks: inputs are sent to each server once, and results are fetched, also after a server was down.

use pliant_control::payload::Payload;
use std::fs;
use std::path::Path;

use pliant_transport::Role;
use pliant_wire::LaunchTask;

use super::*;

/// Joins what it was given, says who it is, and leaves something in a folder.
const JOINS: &str = "#!/bin/sh\nset -e\ncat common.txt in/own.txt > joined\necho \"$PLIANT_TASK\"\necho aside >&2\n\
                     mkdir left\necho \"$PLIANT_TASK\" > left/name\n";

/// An application of four tasks, each with a file of all of them and one of its own under the same name as the others'.
fn application(folder: &Path) -> String {
    fs::create_dir_all(folder.join("data")).unwrap();
    fs::write(folder.join("joins.sh"), JOINS).unwrap();
    fs::write(folder.join("data/common.txt"), "common\n").unwrap();
    let mut text = format!("mcr_mflops = {MCR:?}\n");
    for task in ["a", "b", "c", "d"] {
        fs::write(folder.join(format!("data/{task}.txt")), format!("own {task}\n")).unwrap();
        text += &format!(
            "[[task]]\nname = \"{task}\"\nrcr = 1.0\nscript = \"joins.sh\"\n\
             input = [\"data/common.txt\", \"in/own.txt=data/{task}.txt\"]\n"
        );
    }
    for (one, other) in [("a", "b"), ("b", "c"), ("c", "d")] {
        text += &format!("[[edge]]\nbetween = [\"{one}\", \"{other}\"]\nrqoc = 1.0\n");
    }
    let path = folder.join("app.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// What a task left, as it was fetched.
fn check(folder: &Path, task: &str) {
    let read = |name: &str| fs::read_to_string(folder.join(task).join(name)).unwrap();
    assert_eq!((read("stdout"), read("stderr")), (format!("{task}\n"), "aside\n".to_owned()));
    assert_eq!(
        (read("work/joined"), read("work/left/name")),
        (format!("common\nown {task}\n"), format!("{task}\n"))
    );
    let given = ["work/common.txt", "work/in"].map(|name| folder.join(task).join(name).exists());
    assert_eq!(given, [false; 2], "what it was given is not what it left");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_find_their_files_and_what_they_leave_comes_back() {
    let mut federation = federation().await;
    let config = federation.client_file(Role::User, "alice");
    let run = |words: &[&str]| said(pliant(&config, words).output().unwrap());
    let app = application(&federation.path().join("app"));
    let out = federation.path().join("out");
    let to = |out: &Path| out.to_str().unwrap().to_owned();

    let (code, said, stderr) = run(&["launch", &app, "--out", &to(&out), "--format", "json"]);
    assert_eq!(code, 0, "{stderr}");
    let launched = document(&said);
    assert_eq!(launched["fetched"].as_array().unwrap().len(), 4, "{launched}");
    let tasks = ["a", "b", "c", "d"];
    tasks.iter().for_each(|task| check(&out, task));
    let at = |name: &str| {
        let tasks = launched["tasks"].as_array().unwrap().iter().filter(|task| task["server"] == name);
        tasks.map(|task| task["task"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for name in NAMES {
        assert_eq!(at(name).len(), 2, "each server has room for two: {launched}");
        let key = launched["key"].as_str().unwrap();
        let uploads = federation.folder(name).join("state/staging/incoming/alice").join(key);
        let uploads = fs::read_dir(uploads).unwrap().map(|entry| entry.unwrap().path());
        let done = uploads.filter(|path| path.extension().is_some_and(|kind| kind == "done"));
        assert_eq!(done.count(), 3, "the common file went there once, beside two others");
    }

    // No other user gets anything.
    let id = launched["launch"].as_str().unwrap();
    let bob = federation.client("bob");
    let of = LaunchTask { launch: id.parse().unwrap(), task: at(NAMES[0])[0].clone() };
    refused(bob.task_results(&NAMES[0].parse().unwrap(), &of).await.map(drop), &["has nothing of task"]);

    // A server that is down does not hold up others, and has its results when it is up again.
    federation.kill(NAMES[1]);
    let later = federation.path().join("later");
    let (code, _, stderr) = run(&["fetch", id, "--out", &to(&later)]);
    assert!(code == 1 && stderr.contains(NAMES[1]), "{code}: {stderr}");
    at(NAMES[0]).iter().for_each(|task| check(&later, task));
    assert!(at(NAMES[1]).iter().all(|task| !later.join(task).join("stdout").exists()));
    federation.revive(NAMES[1]);
    federation.sized(NAMES.len()).await;
    let (code, table, stderr) = run(&["fetch", id, "--out", &to(&later)]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(table.lines().filter(|line| line.contains("work/joined")).count(), 4, "{table}");
    tasks.iter().for_each(|task| check(&later, task));
    nothing_left(&mut federation, &NAMES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launch_whose_files_are_refused_is_ended_and_says_why() {
    let mut federation = federation().await;
    let config = federation.client_file(Role::User, "alice");
    let run = |words: &[&str]| said(pliant(&config, words).output().unwrap());
    let folder = federation.path().join("app");
    let app = application(&folder);
    // What is there is not what was announced, as if it had been written to meanwhile.
    let alice = federation.client("alice");
    let talkers = Talkers::new(federation.path().join("ring"));
    let mut request = talkers.ring(MCR, &[("a", 0), ("b", 0)]);
    let announced = pliant_staging::Checksum::of(b"as it was");
    let file = pliant_staging::FileSpec { name: "scene".parse().unwrap(), size: 9, sha256: announced };
    let wish = &mut request.application.tasks[0];
    let program = wish.payload.read::<pliant_wire::TaskProgram>().unwrap();
    wish.payload = Payload::of(&pliant_wire::TaskProgram { inputs: vec![file], ..program });
    let paths = InputPaths::from([(announced, folder.join("data/common.txt"))]);
    let go_on = |_: &LaunchRecord| ControlFlow::Continue(());
    let launched = alice.launch(&request, &paths, TIMEOUT, std::future::pending(), go_on).await;
    refused(launched.map(drop), &["expected"]);
    let listed = alice.launches(&LaunchesQuery { all: false, limit: 1 }).await.unwrap();
    assert_eq!(listed[0].end, Some(LaunchEnd::Cancelled), "nothing of it waits for what never comes");
    assert!(talkers.began().is_empty());

    fs::remove_file(folder.join("data/c.txt")).unwrap();
    let (code, _, stderr) = run(&["launch", &app]);
    assert!(code == 1 && stderr.contains("data/c.txt: cannot read"), "{code}: {stderr}");
    nothing_left(&mut federation, &NAMES).await;
}
