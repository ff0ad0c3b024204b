//! Jobs with memory, GPUs, features and licences in front of real Slurm clusters that local users use as well.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::harness::*;
use crate::slurm::Behind;

impl Behind {
    /// A local user's job with these options, until its gate opens.
    fn local(&self, name: &str, options: &[&str]) -> String {
        let wrap = format!("--wrap={}", waiting_for(&self.gate(name)));
        let mut words = vec!["sbatch", "--parsable", "--job-name=local", "--chdir=/", "--output=/dev/null"];
        words.extend(options);
        words.push(&wrap);
        self.slurm(name).run(&words)
    }

    /// Waits until the servers have listed so many local jobs that run.
    async fn has_local(&self, name: &str, running: usize) {
        until("local jobs to run", async || {
            let queue = self.queue(name);
            (queue.iter().filter(|job| *job == "local RUNNING").count() == running).then_some(())
        })
        .await;
    }
}

/// How long an estimate has a job wait.
fn wait_s(estimate: &Value) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    estimate["start_s"].as_i64().unwrap() - now
}

/// The servers of a dry run that estimate a start within a few seconds of it, and those that estimate a later one.
fn estimates(answer: &Value) -> (Vec<String>, Vec<String>) {
    let asked = answer["estimates"].as_array().unwrap();
    let name = |one: &Value| one["server"].as_str().unwrap().to_owned();
    let (soon, later): (Vec<&Value>, Vec<&Value>) = asked.iter().partition(|one| wait_s(one) <= 5);
    let names = |all: Vec<&Value>| {
        let mut names: Vec<String> = all.into_iter().map(name).collect();
        names.sort();
        names
    };
    (names(soon), names(later))
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_go_where_memory_and_gpus_are_free() {
    let Some(behind) = Behind::with_resources(2, 4).await else { return };
    let user = CommandUser::new(&behind.federation, "alice");
    fs::write(
        user.dir().join("shows.sh"),
        "#!/bin/sh\necho ${SLURM_GPUS_ON_NODE-0} on $SLURM_JOB_NUM_NODES\n",
    )
    .unwrap();
    // Of each node of lyon 800 of 1,000 MiB are taken, of paris all GPUs and licences. Six cores of each are free.
    // Each node has 2,000 MiB of local disk, which a job asks for and does not take.
    behind.local("lyon", &["--nodes=2", "--ntasks=2", "--mem=800", "--tmp=1500", "--time=30"]);
    behind.local(
        "paris",
        &["--nodes=2", "--ntasks=2", "--gpus-per-node=2", "--licenses=matlab:2", "--time=20"],
    );
    behind.has_local("lyon", 1).await;
    behind.has_local("paris", 1).await;
    let expected = [
        ("--mem 200M --rigid 1", (vec!["lyon", "paris"], vec![])),
        ("--mem 201M --rigid 1", (vec!["paris"], vec!["lyon"])),
        ("--mem-per-proc 200M --rigid 3", (vec!["paris"], vec!["lyon"])),
        ("--gpus 1 --rigid 1", (vec!["lyon"], vec!["paris"])),
        ("--gpus a100:3 --rigid 2", (vec!["lyon"], vec!["paris"])),
        ("--licenses matlab --rigid 1", (vec!["lyon"], vec!["paris"])),
        ("--exclusive --rigid 1", (vec![], vec!["lyon", "paris"])),
        ("--constraint fast --rigid 1", (vec!["lyon", "paris"], vec![])),
        ("--scratch 2000M --rigid 1", (vec!["lyon", "paris"], vec![])),
    ];
    for (line, (soon, later)) in expected {
        until(line, async || {
            let (code, answer, error) = user.run(&format!("submit ./shows.sh --time 60s --dry-run {line}"));
            assert_eq!(code, 0, "{line}: {error}");
            (estimates(&answer) == (strings(&soon), strings(&later))).then_some(())
        })
        .await;
    }
    for (line, server, printed) in [
        ("--mem 900M --rigid 1 --out memory", "paris", "0 on 1\n"),
        ("--gpus 2 --nodes 1 --rigid 1 --out gpus", "lyon", "2 on 1\n"),
        ("--licenses matlab --constraint fast --scratch 2000M --rigid 1 --out licence", "lyon", "0 on 1\n"),
    ] {
        let (code, job, error) = user.run(&format!("submit ./shows.sh --time 60s {line}"));
        assert_eq!((code, &job["server"]), (0, &json!(server)), "{line}: {error}");
        let out = line.rsplit(' ').next().unwrap();
        let found = fs::read_to_string(user.dir().join(out).join("stdout")).unwrap();
        assert_eq!(found, printed, "{line}");
    }
    for (option, needed) in
        [("--mem-per-proc 1001M", "1001M per processor"), ("--scratch 2001M", "2001M of local disk per node")]
    {
        let (code, _, error) = user.run(&format!("submit ./shows.sh --time 60s {option}"));
        assert_eq!(code, 2, "{error}");
        let expected = format!("lyon, paris: no nodes of this cluster have what it needs: {needed}");
        assert!(error.contains(&expected), "{error}");
    }
    for name in ["lyon", "paris"] {
        behind.open(name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_for_memory_starts_when_it_is_free() {
    let Some(behind) = Behind::with_resources(1, 4).await else { return };
    let user = CommandUser::new(&behind.federation, "alice");
    fs::write(user.dir().join("ends.sh"), "#!/bin/sh\ntrue\n").unwrap();
    behind.local("lyon", &["--ntasks=1", "--mem=600", "--time=10"]);
    behind.has_local("lyon", 1).await;
    let job = until("an estimate that knows the local job", async || {
        let (_, answer, _) =
            user.run("submit ./ends.sh --time 60s --dry-run --mem 500M --rigid 1 --server lyon");
        (wait_s(answer["estimates"].get(0)?) > 60).then_some(())?;
        let (code, job, error) = user.run("submit ./ends.sh --time 60s --mem 500M --rigid 1 --server lyon");
        assert_eq!(code, 0, "{error}");
        Some(job)
    })
    .await;
    let id = job["job_id"].as_str().unwrap();
    until("its place in the queue", async || (behind.queue("lyon").len() == 2).then_some(())).await;
    assert_eq!(job["state"], json!("QUEUED"));
    behind.open("lyon");
    let (code, ended, error) = user.run(&format!("wait {id}"));
    assert_eq!(code, 0, "{ended} {error}");
    behind.open("paris");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_name_partitions_as_far_as_the_operator_allows_it() {
    let Some(behind) = Behind::with_resources(2, 4).await else { return };
    let user = CommandUser::new(&behind.federation, "alice");
    fs::write(user.dir().join("where.sh"), "#!/bin/sh\n#SBATCH -p large\necho $SLURM_JOB_PARTITION\n")
        .unwrap();
    let (code, job, error) = user.run("submit ./where.sh --time 60s --rigid 4 --server lyon --out large");
    assert_eq!((code, &job["requested"]["resources"]), (0, &json!("partition large")), "{error}");
    assert_eq!(fs::read_to_string(user.dir().join("large/stdout")).unwrap(), "large\n");
    // The partition has one node, of which 800 MiB are taken: its jobs have 200 MiB for each processor.
    behind.local("lyon", &["--partition=large", "--ntasks=1", "--mem=800", "--time=30"]);
    behind.has_local("lyon", 1).await;
    for (line, server, partition) in [
        ("--partition large --rigid 1 --server lyon --out one", "lyon", "large\n"),
        ("--partition large --rigid 2 --out two", "paris", "large\n"),
        ("--partition main,large --rigid 2 --server lyon --out either", "lyon", "main\n"),
    ] {
        until(line, async || {
            let (code, answer, error) = user.run(&format!("submit ./where.sh --time 60s --dry-run {line}"));
            assert_eq!(code, 0, "{line}: {error}");
            let best = &answer["estimates"][0];
            assert!(best["partition"].is_string(), "{line}: {answer}");
            let is_there = best["partition"] == json!(partition.trim()) && answer["chosen"] == json!(server);
            (wait_s(best) <= 5 && is_there).then_some(())
        })
        .await;
        let (code, job, error) = user.run(&format!("submit ./where.sh --time 60s {line}"));
        assert_eq!((code, &job["server"]), (0, &json!(server)), "{line}: {error}");
        let out = line.rsplit(' ').next().unwrap();
        assert_eq!(fs::read_to_string(user.dir().join(out).join("stdout")).unwrap(), partition, "{line}");
    }
    let (code, _, error) = user.run("submit ./where.sh --time 60s --partition small");
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("lyon, paris: jobs may not name partition small here"), "{error}");
    for name in ["lyon", "paris"] {
        behind.open(name);
    }
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_end_before_a_reservation_begins_or_start_after_it() {
    let Some(behind) = Behind::with_resources(2, 4).await else { return };
    let user = CommandUser::new(&behind.federation, "alice");
    fs::write(user.dir().join("ends.sh"), "#!/bin/sh\ntrue\n").unwrap();
    let reserve = |name: &str, from: &str, what: &[&str]| {
        let from = format!("starttime={from}");
        let mut words = vec!["scontrol", "create", "reservation", "users=root", "duration=30", &from];
        words.extend(what);
        behind.slurm(name).run(&words);
    };
    // A maintenance of all of lyon in ten minutes; two cores of each node of paris, and both licences, from now on.
    reserve("lyon", "now+10minutes", &["flags=maint,ignore_jobs", "nodes=ALL"]);
    reserve("paris", "now", &["nodecnt=2", "corecnt=2,2", "partition=main", "licenses=matlab:2"]);
    for (line, soon, later) in [
        ("--time 5m --rigid 8", vec!["lyon"], vec!["paris"]),
        ("--time 15m --rigid 8", vec![], vec!["lyon", "paris"]),
        ("--time 15m --rigid 4", vec!["paris"], vec!["lyon"]),
        ("--time 5m --licenses matlab", vec!["lyon"], vec!["paris"]),
    ] {
        until(line, async || {
            let (code, answer, error) = user.run(&format!("submit ./ends.sh --dry-run {line}"));
            assert_eq!(code, 0, "{line}: {error}");
            (estimates(&answer) == (strings(&soon), strings(&later))).then_some(())
        })
        .await;
    }
    // Slurm starts them as planned.
    for (line, server) in [("--time 5m --rigid 8", "lyon"), ("--time 15m --rigid 4", "paris")] {
        let (code, job, error) = user.run(&format!("submit ./ends.sh {line} --wait"));
        assert_eq!((code, &job["server"]), (0, &json!(server)), "{line}: {error}");
    }
}

/// Of two nodes one is reserved for the server's jobs, which have no other.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_server_with_its_own_reservation_run_inside_it() {
    let Some(mut behind) = Behind::without_servers(2, 4) else { return };
    let slurm = |behind: &Behind, words: &[&str]| behind.slurm("lyon").run(words);
    let grid = "reservationname=grid";
    slurm(
        &behind,
        &[
            "scontrol",
            "create",
            "reservation",
            grid,
            "users=root",
            "starttime=now",
            "duration=60",
            "nodecnt=1",
        ],
    );
    let shown = slurm(&behind, &["scontrol", "show", "reservation", "grid"]);
    let node = shown.split_whitespace().find_map(|word| word.strip_prefix("Nodes=")).unwrap().to_owned();
    let keys = "period_s = 1\nnodes_every_s = 1\nextra = [\"--reservation=grid\"]\n";
    behind.add_server("lyon", keys);
    behind.federation.attached(1).await;
    let user = CommandUser::new(&behind.federation, "alice");
    let text = "#!/bin/sh\necho $SLURM_JOB_RESERVATION $SLURM_JOB_NODELIST\n";
    fs::write(user.dir().join("where.sh"), text).unwrap();
    let dry_run = |line: &str| user.run(&format!("submit ./where.sh --time 60s --dry-run {line}"));
    until("a start at once", async || {
        let (_, answer, _) = dry_run("--rigid 4");
        (estimates(&answer).0 == ["lyon"]).then_some(())
    })
    .await;
    let within = format!("grid {node}\n");
    let (code, _, error) = user.run("submit ./where.sh --time 60s --rigid 4 --out first");
    assert_eq!(code, 0, "{error}");
    assert_eq!(fs::read_to_string(user.dir().join("first/stdout")).unwrap(), within);
    let (code, _, error) = dry_run("--rigid 5");
    assert_eq!(code, 2, "the other node is none of its own: {error}");

    // A local user's job has all of it. The other node is free, and the job waits all the same.
    behind.local("lyon", &["--reservation=grid", "--ntasks=4", "--time=10"]);
    behind.has_local("lyon", 1).await;
    until("an estimate behind the local job", async || {
        let (_, answer, _) = dry_run("--rigid 1");
        (wait_s(answer["estimates"].get(0)?) > 60).then_some(())
    })
    .await;
    let (code, job, error) = user.run("submit ./where.sh --time 60s --rigid 1");
    assert_eq!((code, &job["state"]), (0, &json!("QUEUED")), "{error}");
    until("its place in the queue", async || (behind.queue("lyon").len() == 2).then_some(())).await;
    behind.open("lyon");
    let id = job["job_id"].as_str().unwrap();
    let (code, ended, error) = user.run(&format!("wait {id}"));
    assert_eq!(code, 0, "{ended} {error}");
    let (code, _, error) = user.run(&format!("fetch {id} --out second"));
    assert_eq!(code, 0, "{error}");
    assert_eq!(fs::read_to_string(user.dir().join("second/stdout")).unwrap(), within);

    until("the end of the reservation", async || {
        let gone = behind.queue("lyon").is_empty();
        gone.then(|| slurm(&behind, &["scontrol", "delete", grid]))
    })
    .await;
    until("a server that takes no jobs", async || {
        let (code, _, error) = dry_run("--rigid 1");
        let why = "the batch system has no reservation grid, which the server's file names";
        (code != 0 && error.contains(why)).then_some(())
    })
    .await;
}
