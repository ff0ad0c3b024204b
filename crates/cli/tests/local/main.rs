//! `pliant up` and `pliant down`: a federation on this machine, whole again after a part of it has died.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod package;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use support::{Said, pliant, run};

/// A federation in a folder, stopped at the end of the test.
struct Up(tempfile::TempDir);

impl Drop for Up {
    fn drop(&mut self) {
        self.go("down");
    }
}

impl Up {
    /// Runs a verb with `--dir` for the folder.
    fn go(&self, verb: &str) -> Said {
        let mut words: Vec<&str> = verb.split_whitespace().collect();
        words.extend(["--format", "json", "--dir", "federation"]);
        run(&words, self.0.path())
    }

    /// Starts the federation: what runs its user's commands by their words.
    fn commands(&self) -> impl Fn(&str) -> Said {
        let client = self.go("up").json()["client"].as_str().unwrap().to_owned();
        move |words| {
            let mut words: Vec<&str> = words.split_whitespace().collect();
            words.extend(["--config", &client]);
            run(&words, self.0.path())
        }
    }

    /// Processes by the names of daemons.
    fn pids(&self, up: &Value) -> BTreeMap<String, i64> {
        let daemons = up["daemons"].as_array().unwrap().iter();
        daemons.map(|one| (one["name"].as_str().unwrap().to_owned(), one["pid"].as_i64().unwrap())).collect()
    }

    fn kill(&self, pid: i64) {
        kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
        while runs(pid) {
            std::thread::yield_now();
        }
    }

    fn servers(&self, client: &Path) -> usize {
        let mut command = pliant(&["servers", "--format", "json", "--config"], self.0.path());
        let said = command.arg(client).output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        let servers = support::schemas::document(&said.stdout);
        let attached = |server: &&Value| server["attached"] == json!(true);
        servers["servers"].as_array().unwrap().iter().filter(attached).count()
    }
}

/// True if the process runs. A zombie does not.
fn runs(pid: i64) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit_once(')').is_some_and(|(_, state)| !state.starts_with(" Z"))
}

#[test]
fn what_has_died_is_started_again_and_the_rest_is_kept() {
    let up = Up(tempfile::tempdir().unwrap());
    let first = up.go("up").json();
    assert_eq!((&first["schema"], &first["started"]), (&json!("pliant.up/1"), &json!(true)));
    assert_eq!(first["started_daemons"], json!(["master", "bordeaux", "lyon", "toulouse"]));
    let before = up.pids(&first);

    let again = up.go("up").json();
    assert_eq!((&again["started"], &again["started_daemons"]), (&json!(false), &json!([])));
    assert_eq!(up.pids(&again), before);

    for dead in ["lyon", "master"] {
        up.kill(before[dead]);
    }
    // A user of a federation that runs already.
    let mended = up.go("up --user carol").json();
    assert_eq!(mended["started_daemons"], json!(["master", "lyon"]));
    let after = up.pids(&mended);
    for (name, pid) in &before {
        assert_eq!(after[name] == *pid, !["lyon", "master"].contains(&name.as_str()), "{name}");
    }
    assert_eq!(mended["users"][0]["name"], "carol");
    assert_eq!(up.servers(Path::new(mended["users"][0]["client"].as_str().unwrap())), 3);

    let down = up.go("down").json();
    assert_eq!((&down["schema"], &down["daemons"]), (&json!("pliant.down/1"), &json!(4)));
    assert!(!after.values().any(|pid| runs(*pid)), "{after:?}");

    // The agent is elsewhere the next time; its users find it.
    assert_eq!(up.go("up").json()["started_daemons"].as_array().unwrap().len(), 4);
    assert_eq!(up.servers(Path::new(mended["users"][0]["client"].as_str().unwrap())), 3);
}

#[test]
fn a_folder_of_something_else_is_not_changed() {
    let up = Up(tempfile::tempdir().unwrap());
    let folder = up.0.path().join("federation");
    let check = |found: &str| {
        let said = up.go("up");
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{}", said.stderr);
        assert!(said.stderr.contains(found) && said.stderr.contains("hint: "), "{}", said.stderr);
    };
    fs::write(&folder, "").unwrap();
    check("found a file");
    fs::remove_file(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("thesis.tex"), "").unwrap();
    check("found other files");
    // Nor is the authority of another federation used.
    fs::remove_file(folder.join("thesis.tex")).unwrap();
    assert_eq!(run(&["ca", "init", "federation/ca", "--name", "example"], up.0.path()).code, 0);
    check("found other files");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is made");
}

#[test]
fn errors_of_damaged_files_of_a_federation_name_the_position() {
    let up = Up(tempfile::tempdir().unwrap());
    let folder = up.0.path().join("federation");
    assert_eq!(run(&["ca", "init", "federation/ca", "--name", "local"], up.0.path()).code, 0);
    let check = |verb: &str, found: &str, hint: &str| {
        let said = up.go(verb);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{}", said.stderr);
        let lines: Vec<&str> = said.stderr.lines().collect();
        assert!(lines.len() == 2 && lines[0].contains(found) && lines[1].contains(hint), "{}", said.stderr);
    };
    let register = folder.join("ca/register.toml");
    let whole = fs::read_to_string(&register).unwrap();
    fs::write(&register, "federation = 1\n").unwrap();
    let position = "ca/register.toml:1:14: expected the register of an authority: ";
    check("up", &format!("{position}`federation`: expected text in quotes, found"), "from a backup");
    fs::write(&register, whole.replace("federation = ", "federation ")).unwrap();
    check("up", "ca/register.toml:1:12: expected the register of an authority: ", "from a backup");
    fs::write(folder.join("federation.json"), "{").unwrap();
    let record = "federation.json: expected the record of what `pliant up` started: ";
    check("down", record, "remove the file");
    fs::remove_file(folder.join("federation.json")).unwrap();
}

/// One server counts memory and made-up GPUs. A job that needs them goes there, and gets them.
#[test]
fn a_job_with_memory_and_gpus_runs_on_the_server_that_has_them() {
    let up = Up(tempfile::tempdir().unwrap());
    let go = up.commands();
    fs::write(up.0.path().join("gpus"), "#!/bin/sh\necho gpus=$CUDA_VISIBLE_DEVICES\n").unwrap();
    let asked = "submit --script gpus --time 1m --rigid 2 --cpus-per-task 2 --mem 100M --gpus demo:1 --wait";
    let said = go(asked);
    assert!(said.code == 0 && said.stdout.starts_with("bordeaux."), "{} {}", said.stdout, said.stderr);
    assert_eq!(go(&format!("logs {}", said.stdout.trim())).stdout, "gpus=0\n");
    let said = go("submit --script gpus --time 1m --rigid 2 --gpus 3");
    assert!(said.code != 0 && said.stderr.contains("3 GPUs"), "{} {}", said.stdout, said.stderr);
}

/// What is said of a federation that runs to users who are mistaken.
#[test]
fn errors_come_with_a_hint() {
    let up = Up(tempfile::tempdir().unwrap());
    let go = up.commands();
    let check = |words: &str, code: i32, error: &str, hint: &str| {
        let said = go(words);
        assert_eq!((said.code, said.stdout.as_str()), (code, ""), "{words}: {}", said.stderr);
        assert!(said.stderr.contains(error) && said.stderr.contains(hint), "{words}: {}", said.stderr);
    };
    fs::write(up.0.path().join("job"), "#!/bin/sh\n").unwrap();
    check("submit job", 2, "expected a service (matrix, pi), found `job`", "--script job --time TIME");
    check("submit pi sampels=3", 2, "(samples, seed), found `sampels`", "pliant servers --services");
    let nowhere = "expected a server of the federation (bordeaux, lyon, toulouse), found `nowhere`";
    check("submit pi --server nowhere --server-timeout 1s", 2, nowhere, "`pliant servers` lists them");
    check("queue", 0, "", "");

    // A missing job does not end the wait for others.
    let handle = go("submit pi samples=1000 --wait").stdout.trim().to_owned();
    let said = go(&format!("wait lyon.4000 {handle} --format json"));
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(said.stderr.contains("lyon.4000"), "{}", said.stderr);
    let waited = support::schemas::document(&said.stdout);
    assert_eq!((&waited["jobs"][0]["job_id"], &waited["not_ended"]), (&json!(handle), &json!([])));

    // There is nothing of a job that has not run.
    fs::write(up.0.path().join("long"), "#!/bin/sh\nexec sleep 1000\n").unwrap();
    let submit = || go("submit --script long --time 1h --rigid 2 --server lyon").stdout.trim().to_owned();
    let running: Vec<String> = (0..20).map(|_| submit()).collect();
    let waiting = running.last().unwrap();
    let queued = format!("{waiting} is QUEUED: it has not started, so it has no output yet");
    check(&format!("fetch --out out {waiting}"), 2, &queued, "`pliant explain lyon.");
    let logs = go(&format!("logs {waiting}"));
    assert_eq!((logs.code, logs.stdout, logs.stderr), (0, String::new(), format!("warning: {queued}\n")));
    assert_eq!(go(&format!("logs {waiting} --format json")).json()["text"], "");
    assert_eq!(go(&format!("cancel {waiting}")).code, 0);
    for verb in ["logs", "logs -f", "fetch --out out"] {
        let cancelled =
            format!("{waiting} is CANCELED: it was cancelled before it started, so it has no output");
        check(&format!("{verb} {waiting}"), 2, &cancelled, "");
    }
    assert!(!up.0.path().join("out").exists());

    let lyon = up.pids(&up.go("up").json())["lyon"];
    up.kill(lyon);
    check("submit pi --server lyon --server-timeout 1s", 1, "", "hint: ");
}
