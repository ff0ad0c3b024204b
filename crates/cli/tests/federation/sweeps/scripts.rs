//! Sweeps of scripts: parameters in the arguments and the environment, on every server that runs scripts.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::{Pid, Signal, kill_process};

use super::CommandUser;
use crate::harness::{Cluster, Federation, until};

impl CommandUser {
    /// Puts a script into the working directory.
    pub(in crate::sweeps) fn script(&self, name: &str, lines: &str) {
        let path = self.dir().join(name);
        fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_instance_of_a_script_finds_its_parameters() {
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0), Cluster::new("nancy", 2, 0.5)]).await;
    let alice = CommandUser::new(&federation, "alice");
    fs::write(alice.dir().join("unit"), "m").unwrap();
    // The walltime is the same on both, whatever their speeds are.
    alice.script(
        "fit.sh",
        "#PLIANT --time 40s --job-name fit --in unit\n#SBATCH --mail-type=ALL\n\
         echo \"$1|$2|$PLIANT_ARG_x|$PLIANT_ARG_mode|$MODE|$(cat unit)|$PLIANT_WALLTIME_S|$PLIANT_PROCS\"; sleep 0.2; echo > left",
    );
    let line = "sweep --script fit.sh mode=fast --vary x=1..30 --env MODE=m --out kept -- {x}/{mode} {{x}}";
    let (code, said, stderr) = alice.run(line);
    assert_eq!((code, &said["completed"]), (0, &30.into()), "{stderr}");
    let rows = alice.rows("kept");
    for row in &rows {
        let x = &row["x"];
        assert_eq!(row["output"], format!("\"{x}/fast|{{x}}|{x}|fast|m|m|40|1"), "{row:?}");
    }
    let servers: BTreeSet<&str> = rows.iter().map(|row| row["server"].as_str()).collect();
    assert_eq!(servers, ["lyon", "nancy"].into(), "both have run some");
    let (_, job, _) = alice.run(&format!("status {}", rows[0]["job"]));
    assert_eq!(job["jobs"][0]["name"], "fit", "{job}");
    // The runtimes of the same script of the same user are known by now.
    let (code, said, stderr) = alice.run("sweep ./fit.sh mode=a --vary x=1..4 --rigid 2 --dry-run");
    assert_eq!((code, &said["instances"]), (0, &4.into()), "{stderr}");
    for server in said["servers"].as_array().unwrap() {
        let known_from = server["known_from"].as_str().unwrap();
        assert!(known_from.ends_with(" jobs"), "{said}");
        assert!(server["instance_s"].as_f64().unwrap() < 10.0, "{said}");
    }
    let bob = CommandUser::new(&federation, "bob");
    bob.script("fit.sh", "#PLIANT --time 40s --job-name fit\necho $PLIANT_ARG_x");
    let (code, said, stderr) = bob.run("sweep ./fit.sh --vary x=1..4 --dry-run");
    let known_from = said["servers"][0]["known_from"].as_str().unwrap();
    assert!(code == 0 && known_from.ends_with(" of all"), "{said} {stderr}");

    for (line, words) in [
        (
            "sweep --script fit.sh --vary x=1,2 --out none -- {y}",
            "expected a parameter (x, procs, walltime_s), found `{y}`",
        ),
        ("sweep --script fit.sh --vary x-1=1,2 --out none", "found `x-1`"),
        ("sweep --script fit.sh x --vary y=1,2 --out none", "expected KEY=VALUE, found `x`"),
        (
            "sweep note --vary x=1,2 --time 1h --out none",
            "expected --time with a script, found it with the service",
        ),
        ("sweep note --vary x=1,2 --out none -- a", "expected arguments after -- with a script"),
        ("sweep --resume kept --script fit.sh", "cannot be used with"),
        ("sweep --vary x=1,2 --out none", "SERVICE"),
        // The folder is of another sweep.
        ("sweep --script fit.sh mode=fast --vary x=1..30 --out kept -- {x}/{mode} {{x}}", "--env: expected"),
        (
            "sweep --script fit.sh mode=fast --vary x=1..30 --env MODE=m --out kept -- {x}",
            "arguments of the script",
        ),
        ("sweep fit mode=fast --vary x=1..30 --out kept", "service: expected fit, found fit (SHA-256"),
    ] {
        let (code, _, stderr) = alice.run(line);
        assert!(code == 2 && stderr.contains(words), "{line}: {code}: {stderr}");
    }
    for (lines, words) in [
        (
            "#PLIANT --time 1m --chdir .",
            "./wrong.sh:2: --chdir: expected options that `pliant sweep` has\n  hint: remove it from the script\n",
        ),
        (
            "#SBATCH --time=1 --array=1-3",
            "./wrong.sh:2: #SBATCH --array: expected options that `pliant sweep` has",
        ),
        ("#SBATCH --reservation=x", "#SBATCH --reservation is not supported"),
        ("", "expected --time with a script, found none"),
    ] {
        alice.script("wrong.sh", lines);
        let (code, _, stderr) = alice.run("sweep ./wrong.sh --vary x=1,2 --out none");
        assert!(code == 2 && stderr.contains(words), "{lines}: {code}: {stderr}");
    }
    alice.script("array.sh", "#SBATCH --time=1 --array=1-3\necho $PLIANT_ARG_x");
    let (code, said, stderr) = alice.run("sweep ./array.sh --vary x=1,2 --ignore-sbatch=array --out ignored");
    assert_eq!((code, &said["completed"]), (0, &2.into()), "{stderr}");
    assert!(!alice.dir().join("none").exists(), "nothing was begun");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_sweep_runs_the_script_as_it_was() {
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let alice = CommandUser::new(&federation, "alice");
    let gate = federation.path().join("gate");
    alice.script("work.sh", &format!("until [ -e {} ]; do sleep 0.05; done; echo old $1", gate.display()));
    let line = "sweep ./work.sh --time 1m --vary x=1..12 --out kept -- {x}";
    let client = alice.begin(line);
    let journal = alice.dir().join("kept/journal.jsonl");
    let has_begun = async || fs::read_to_string(&journal).ok()?.contains("accepted").then_some(());
    until("a batch to be accepted", has_begun).await;
    kill_process(Pid::from_child(&client), Signal::KILL).unwrap();
    client.wait_with_output().unwrap();
    alice.script("work.sh", "echo new $1");
    let (code, _, stderr) = alice.run(line);
    assert!(code == 2 && stderr.contains("script: expected work.sh (SHA-256"), "{code}: {stderr}");
    fs::write(&gate, "").unwrap();
    let (code, said, stderr) = alice.run("sweep --resume kept");
    assert_eq!((code, &said["completed"], &said["resumed"]), (0, &12.into(), &true.into()), "{stderr}");
    for row in alice.rows("kept") {
        assert_eq!(row["output"], format!("\"old {}", row["x"]), "{row:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_run_no_scripts_get_none() {
    let closed = Cluster { keys: "scripts = false\n", ..Cluster::new("nancy", 8, 1.0) };
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0), closed.clone()]).await;
    let alice = CommandUser::new(&federation, "alice");
    alice.script("work.sh", "#PLIANT --time 1m\necho $PLIANT_INSTANCE");
    let (code, said, stderr) = alice.run("sweep ./work.sh --vary x=1..20 --out kept");
    assert_eq!((code, &said["completed"]), (0, &20.into()), "{stderr}");
    assert!(alice.rows("kept").iter().all(|row| row["server"] == "lyon"));
    drop(federation);

    let federation = Federation::start(&[closed]).await;
    let alice = CommandUser::new(&federation, "alice");
    alice.script("work.sh", "#PLIANT --time 1m\necho $PLIANT_INSTANCE");
    let (code, _, stderr) = alice.run("sweep ./work.sh --vary x=1..20 --out kept");
    assert!(code == 2 && stderr.contains("found a script on a server that runs none"), "{code}: {stderr}");
    let (code, _, stderr) = alice.run("submit ./work.sh --array 1-3 --out other");
    assert!(code == 2 && stderr.contains("found a script on a server that runs none"), "{code}: {stderr}");
}
