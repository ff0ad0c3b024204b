//! A server in front of a real OAR cluster that local users keep busy: a moldable job runs there in the size that OAR
//! chose, waits in a real queue, moves away from it, and runs once while daemons are killed.

use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use pliant_client::Client;
use pliant_control::agent::ReallocationConfig;
use pliant_control::handoff::MoveOutcome;
use pliant_control::job::{Exit, JobState};
use pliant_control::server::Server;
use pliant_daemon::config::ServerFile;
use pliant_daemon::host::replay_journal;
use pliant_model::{Procs, Span, Speedup};
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};
use pliant_testing::oar::OarCluster;
use pliant_wire::MovingChange;

use crate::harness::*;
use crate::replay::server;
use crate::siblings::siblings_every;

/// The server in front of OAR.
const NANCY: &str = "nancy";

/// A real cluster, and a federation in front of it.
struct Behind {
    federation: Federation,
    oar: OarCluster,
}

impl Behind {
    async fn start(nodes: u32, cpus: u32, others: &[Cluster]) -> Option<Behind> {
        Behind::with_keys(nodes, cpus, "", others).await
    }

    /// The same with further keys in the table `[cluster]` of the server's file.
    async fn with_keys(
        nodes: u32,
        cpus: u32,
        cluster_keys: &'static str,
        others: &[Cluster],
    ) -> Option<Behind> {
        let oar = OarCluster::start(nodes, cpus)?;
        let cluster = Oar { commands: oar.commands.clone(), user: oar.user.clone() };
        let cluster = Cluster { oar: Some(cluster), cluster_keys, ..Cluster::new(NANCY, 0, 1.0) };
        Behind::with_cluster(oar, cluster, others).await
    }

    async fn with_cluster(oar: OarCluster, cluster: Cluster, others: &[Cluster]) -> Option<Behind> {
        let mut clusters = vec![cluster];
        clusters.extend_from_slice(others);
        Some(Behind { federation: Federation::start(&clusters).await, oar })
    }

    /// Takes cores until there is a file, as a local user does.
    fn take(&self, cores: u32, minutes: u32) -> String {
        let wanted = format!("--resource=/resource_id={cores},walltime=0:{minutes:02}:00");
        self.oar.submit(&["--name=local", &wanted], &waiting_for(&self.gate()))
    }

    fn gate(&self) -> PathBuf {
        self.federation.path().join("gate")
    }

    fn open(&self) {
        fs::write(self.gate(), "").unwrap();
    }

    /// The jobs that are not over: names and states.
    fn queue(&self) -> Vec<String> {
        let listed = self.oar.run(&["oarstat", "--json"]);
        let listed: serde_json::Value = match listed.is_empty() {
            true => return Vec::new(),
            false => serde_json::from_str(&listed).unwrap(),
        };
        let word = |job: &serde_json::Value, key: &str| job[key].as_str().unwrap_or_default().to_owned();
        let jobs = listed.as_object().unwrap().values();
        let mut jobs: Vec<String> =
            jobs.map(|job| format!("{} {}", word(job, "name"), word(job, "state"))).collect();
        jobs.sort();
        jobs
    }

    /// Waits until the queue is just that.
    async fn is_left(&self, expected: &[&str]) {
        until(&format!("{expected:?} to be left"), async || (self.queue() == expected).then_some(())).await;
    }

    /// Waits until the server knows that so many cores have to be waited for.
    async fn seen(&self, client: &Client, cores: u32) {
        until("it to be seen taken", async || {
            let probe = submit(client, &order_to(NANCY, rigid("true", cores, 60))).await;
            // One that runs meanwhile is as good as one that is cancelled.
            let _ = client.cancel(&probe.handle).await;
            client.wait(&probe.handle, |_| {}).await.ok()?;
            (probe.expected.start > probe.submitted + Span(60)).then_some(())
        })
        .await;
    }
}

/// Has the agent make rounds until one has moved a job.
async fn is_moved(operator: &Client) {
    until("a job to be moved", async || {
        let report = operator.reallocate(false).await.ok()?;
        let mut proposals = report.proposals.iter();
        proposals.any(|one| matches!(one.outcome, Some(MoveOutcome::Moved(_)))).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moldable_job_runs_in_the_size_that_oar_chose() {
    let Some(behind) = Behind::with_keys(2, 2, "tuner = \"exact\"\n", &[]).await else { return };
    let federation = &behind.federation;
    let alice = federation.client("alice");
    let servers = alice.servers().await.unwrap().servers;
    assert!(servers.iter().all(|one| one.info.procs == Procs(4) && one.info.policy == "oar"), "{servers:?}");
    // Three cores are taken for half an hour, as it seems.
    let local = behind.take(3, 30);
    behind.is_left(&["local Running"]).await;
    behind.seen(&alice, 2).await;
    let moldable = |text: &str| script(text, 4, 240, Speedup::Amdahl { parallel: 0.5, limit: Procs(4) });
    let asked = moldable("echo $PLIANT_PROCS of $(wc -l < $OAR_NODEFILE) for $OAR_JOB_WALLTIME_SECONDS");
    let small = run(&alice, &order(asked.clone())).await;
    assert_eq!((small.state, &small.exit), (JobState::Completed, &Some(Exit::Code(0))), "{small:?}");
    assert_eq!((small.procs, small.walltime), (Procs(1), Span(384)), "one core is free at once: {small:?}");
    assert_eq!(fetched(&alice, &small.handle).await["stdout"], b"1 of 1 for 384\n");

    // What looks best when it is submitted is one core again. Then three become free, and OAR takes them.
    let other = behind.take(1, 20);
    behind.is_left(&["local Running", "local Running"]).await;
    behind.seen(&alice, 1).await;
    let waiting = submit(&alice, &order(asked)).await;
    assert_eq!(waiting.procs, Procs(1), "{waiting:?}");
    let tag = format!("pliant:nancy:{} Waiting", waiting.handle.number);
    behind.is_left(&["local Running", "local Running", &tag]).await;
    behind.oar.run(&["oardel", &local]);
    let large = alice.wait(&waiting.handle, |_| {}).await.unwrap();
    assert_eq!((large.state, &large.exit), (JobState::Completed, &Some(Exit::Code(0))), "{large:?}");
    assert_eq!((large.procs, large.walltime), (Procs(3), Span(256)), "{large:?}");
    assert_eq!(fetched(&alice, &large.handle).await["stdout"], b"3 of 3 for 256\n");
    behind.oar.run(&["oardel", &other]);
    behind.is_left(&[]).await;
}

/// The two licences have no `gpu_count`, and the server's node is the one that has GPUs.
#[tokio::test(flavor = "multi_thread")]
async fn licences_need_not_have_the_properties_of_the_servers_nodes() {
    let Some(oar) = OarCluster::start(2, 2) else { return };
    let cluster = Cluster {
        oar: Some(Oar { commands: oar.commands.clone(), user: oar.user.clone() }),
        batch_keys: "period_s = 1\nproperties = \"gpu_count = 2\"\nlicences = [\"matlab\"]\n",
        ..Cluster::new(NANCY, 0, 1.0)
    };
    let Some(behind) = Behind::with_cluster(oar, cluster, &[]).await else { return };
    let alice = behind.federation.client("alice");
    let servers = alice.servers().await.unwrap().servers;
    assert_eq!(servers[0].info.procs, Procs(2), "the other node has no GPUs");
    let user = CommandUser::new(&behind.federation, "alice");
    fs::write(user.dir().join("node.sh"), "#!/bin/sh\nsort -u $OAR_NODEFILE\n").unwrap();
    let (code, _, error) = user.run("submit ./node.sh --time 60s --rigid 1 --licenses matlab:2 --out node");
    assert_eq!(code, 0, "{error}");
    let printed = fs::read_to_string(user.dir().join("node/stdout")).unwrap();
    assert_eq!(printed.split_whitespace().collect::<Vec<_>>(), ["node1"]);
    let (code, _, error) = user.run("submit ./node.sh --time 60s --rigid 1 --licenses matlab:3");
    assert!(code == 2 && error.contains("no nodes of this cluster have what it needs"), "{error}");
    // A local user's job that waits for a licence alone, which OAR expects to start when the running one has ended.
    let local = |minutes: u32| {
        let wanted = format!("--resource={{type = 'matlab'}}/resource_id=2,walltime=0:{minutes}:00");
        behind.oar.submit(&["--name=local", &wanted], &waiting_for(&behind.gate()))
    };
    let jobs = [local(10), local(20)];
    behind.is_left(&["local Running", "local Waiting"]).await;
    until("an estimate behind both", async || {
        let (_, answer, _) = user.run("submit ./node.sh --time 60s --rigid 1 --licenses matlab --dry-run");
        let start = answer["estimates"][0]["start_s"].as_i64()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
        (start - now > 25 * 60).then_some(())
    })
    .await;
    jobs.iter().for_each(|job| drop(behind.oar.run(&["oardel", job])));
}

#[tokio::test(flavor = "multi_thread")]
async fn federation_and_local_jobs_do_not_interfere() {
    let Some(behind) = Behind::start(1, 2, &[]).await else { return };
    let federation = &behind.federation;
    let alice = federation.client("alice");
    behind.take(1, 30);
    behind.is_left(&["local Running"]).await;
    let data = federation.path().join("data");
    fs::write(&data, "three\nlines\nhere\n").unwrap();
    let mut asked = order(script("wc -l < data; exit 3", 1, 60, Speedup::Rigid));
    asked.inputs.push(input("data", &data));
    let failed = run(&alice, &asked).await;
    assert_eq!((failed.state, &failed.exit), (JobState::Failed, &Some(Exit::Code(3))), "{failed:?}");
    assert_eq!(fetched(&alice, &failed.handle).await["stdout"], b"3\n");
    let over = run(&alice, &order(rigid("sleep 100", 1, 2))).await;
    assert_eq!(over.exit, Some(Exit::OverWalltime), "{over:?}");

    let never = federation.path().join("never");
    let running = submit(&alice, &order(rigid(&waiting_for(&never), 1, 600))).await;
    federation.reaches(&alice, &running.handle, JobState::Active).await;
    let waiting = submit(&alice, &order(rigid("true", 1, 600))).await;
    for handle in [&waiting.handle, &running.handle] {
        alice.cancel(handle).await.unwrap();
        let ended = alice.wait(handle, |_| {}).await.unwrap();
        assert_eq!((ended.state, &ended.exit), (JobState::Canceled, &Some(Exit::Cancelled)), "{ended:?}");
    }
    let large = alice.submit(&order(rigid("true", 3, 60)), |_| Ok(())).await;
    refused(large, &["2"]);
    behind.is_left(&["local Running"]).await;
    behind.open();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_job_moves_from_oar_to_another_batch_system_and_back() {
    let Some(behind) = Behind::start(1, 2, &[Cluster::new("sophia", 2, 1.0)]).await else { return };
    let federation = &behind.federation;
    let (alice, operator) = (federation.client("alice"), federation.operator());
    let policy = Reallocation::new(Algorithm::Regular, Heuristic::Mct);
    let moving = ReallocationConfig { policy: Reallocation { period: Span(86_400), ..policy }, early: None };
    operator.change_moving(&MovingChange::Set(moving)).await.unwrap();
    let data = federation.path().join("data");
    fs::write(&data, "three\nlines\nhere\n").unwrap();

    // Both are taken; sophia is said to be so for longer.
    let gate = federation.path().join("gate-sophia");
    let blocker = submit(&alice, &order_to("sophia", rigid(&waiting_for(&gate), 2, 1800))).await;
    federation.reaches(&alice, &blocker.handle, JobState::Active).await;
    behind.take(2, 10);
    behind.seen(&alice, 1).await;
    let mut asked = order(service("count", &[("data", "data")]));
    asked.inputs.push(input("data", &data));
    let waiting = submit(&alice, &asked).await;
    assert_eq!(waiting.server().as_str(), NANCY, "it is expected to be free first: {waiting:?}");
    let tag = format!("pliant:nancy:{} Waiting", waiting.handle.number);
    behind.is_left(&["local Running", &tag]).await;
    // Sophia is free at once.
    fs::write(&gate, "").unwrap();
    alice.wait(&blocker.handle, |_| {}).await.unwrap();
    is_moved(&operator).await;
    let ended = alice.wait(&waiting.handle, |_| {}).await.unwrap();
    assert_eq!((ended.server().as_str(), &ended.exit), ("sophia", &Some(Exit::Code(0))), "{ended:?}");
    assert!(fetched(&alice, &waiting.handle).await["work/count.txt"].starts_with(b"17"));
    behind.is_left(&["local Running"]).await;

    // And from sophia to OAR, where it is held first.
    let gate = federation.path().join("gate-again");
    let blocker = submit(&alice, &order_to("sophia", rigid(&waiting_for(&gate), 2, 300))).await;
    federation.reaches(&alice, &blocker.handle, JobState::Active).await;
    let mut asked = order(service("count", &[("data", "data")]));
    asked.inputs.push(input("data", &data));
    let waiting = submit(&alice, &asked).await;
    assert_eq!(waiting.server().as_str(), "sophia", "it is expected to be free first: {waiting:?}");
    behind.open();
    is_moved(&operator).await;
    let ended = alice.wait(&waiting.handle, |_| {}).await.unwrap();
    assert_eq!((ended.server().as_str(), &ended.exit), (NANCY, &Some(Exit::Code(0))), "{ended:?}");
    assert!(fetched(&alice, &waiting.handle).await["work/count.txt"].starts_with(b"17"));
    fs::write(&gate, "").unwrap();
    alice.wait(&blocker.handle, |_| {}).await.unwrap();
    behind.is_left(&[]).await;
}

/// A job with a sibling in OAR's queue, and a job of OAR's with a sibling elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn of_a_job_and_its_sibling_in_oar_the_first_to_start_runs() {
    let Some(behind) = Behind::start(1, 2, &[Cluster::new("sophia", 2, 1.0)]).await else { return };
    let federation = &behind.federation;
    let alice = federation.client("alice");
    federation.operator().change_moving(&MovingChange::Set(siblings_every(2))).await.unwrap();
    let lines = federation.path().join("lines");
    let gate = federation.path().join("gate-sophia");
    let blocker = submit(&alice, &order_to("sophia", rigid(&waiting_for(&gate), 2, 600))).await;
    federation.reaches(&alice, &blocker.handle, JobState::Active).await;
    behind.take(2, 30);
    behind.seen(&alice, 1).await;
    let first = submit(&alice, &order(rigid(&noting(&lines, "true"), 1, 60))).await;
    assert_eq!(first.server().as_str(), "sophia", "it is expected to be free first: {first:?}");
    until("its sibling to wait in OAR", async || {
        behind.queue().iter().any(|job| job.starts_with("pliant:") && job.ends_with(" Waiting")).then_some(())
    })
    .await;
    behind.open();
    let ended = alice.wait(&first.handle, |_| {}).await.unwrap();
    assert_eq!((ended.server().as_str(), &ended.exit), (NANCY, &Some(Exit::Code(0))), "{ended:?}");
    behind.is_left(&[]).await;

    fs::remove_file(behind.gate()).unwrap();
    behind.take(2, 5);
    behind.seen(&alice, 1).await;
    let second = submit(&alice, &order(rigid(&noting(&lines, "true"), 1, 60))).await;
    assert_eq!(second.server().as_str(), NANCY, "it is expected to be free first: {second:?}");
    until("a sibling of it", async || {
        let waits = alice.explain(&second.handle).await.ok()?.waits?;
        (waits.siblings.len() == 1).then_some(())
    })
    .await;
    fs::write(&gate, "").unwrap();
    let ended = alice.wait(&second.handle, |_| {}).await.unwrap();
    assert_eq!((ended.server().as_str(), &ended.exit), ("sophia", &Some(Exit::Code(0))), "{ended:?}");
    behind.is_left(&["local Running"]).await;
    behind.open();
    assert_eq!(runs(&lines), [&first, &second].map(|job| (job.handle.to_string(), 1)).into());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_job_runs_once_whenever_the_server_in_front_of_oar_is_killed() {
    let Some(mut behind) = Behind::start(2, 2, &[]).await else { return };
    let alice = behind.federation.client("alice");
    let lines = behind.federation.path().join("lines");
    let gate = behind.gate();
    let mut handles = Vec::new();
    for number in 0..8 {
        let rest = if number < 2 { waiting_for(&gate) } else { "sleep 0.3".to_owned() };
        let accepted = submit(&alice, &order(rigid(&noting(&lines, &rest), 1, 60))).await;
        handles.push(accepted.handle);
        if number % 2 == 1 {
            // Some run, some wait, and some may have been submitted.
            behind.federation.kill(NANCY);
            behind.federation.revive(NANCY);
            behind.federation.attached(1).await;
        }
    }
    behind.federation.kill(NANCY);
    behind.open();
    behind.federation.revive(NANCY);
    for handle in &handles {
        let ended = alice.wait(handle, |_| {}).await.unwrap();
        assert_eq!((ended.state, &ended.exit), (JobState::Completed, &Some(Exit::Code(0))), "{ended:?}");
        assert!(fetched(&alice, handle).await["stdout"].starts_with(b"I am "));
    }
    assert_eq!(runs(&lines), handles.iter().map(|handle| (handle.to_string(), 1)).collect());
    behind.is_left(&[]).await;
    behind.federation.stop(NANCY);
    let file = ServerFile::read(&behind.federation.folder(NANCY).join("server.toml")).unwrap();
    let config = server(&file);
    let replayed = replay_journal(&file.state, |now| Server::new(config, now).unwrap()).unwrap();
    assert!(replayed.entries > 10, "{replayed:?}");
    assert_eq!(replayed.differing, [0; 0], "a replay gives the same commands");
}
