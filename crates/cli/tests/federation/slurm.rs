//! Servers in front of real Slurm clusters that local users keep busy: moldable jobs run there, wait in real queues, move
//! from one to the other, and run once while daemons are killed.

use std::fs;

use pliant_client::Client;
use pliant_control::agent::{ReallocationConfig, ReallocationReport};
use pliant_control::job::{Exit, JobState};
use pliant_control::names::Handle;
use pliant_control::server::Server;
use pliant_daemon::config::ServerFile;
use pliant_daemon::host::replay_journal;
use pliant_model::{Procs, Span, Speedup, Time};
use pliant_testing::slurm::{SlurmCluster, SlurmClusters, Wanted};
use pliant_wire::MovingChange;

use crate::harness::*;
use crate::replay::server;

const NAMES: [&str; 2] = ["lyon", "paris"];

/// Two real clusters, and a federation in front of them.
pub(crate) struct Behind {
    pub(crate) federation: Federation,
    pub(crate) slurm: SlurmClusters,
}

impl Behind {
    pub(crate) async fn start(nodes: u32, cpus: u32) -> Option<Behind> {
        Behind::start_with(nodes, cpus, "period_s = 1\n").await
    }

    /// The same with these keys in the servers' files.
    async fn start_with(nodes: u32, cpus: u32, batch_keys: &'static str) -> Option<Behind> {
        Behind::without_servers(nodes, cpus)?.with_servers(nodes * cpus, batch_keys).await
    }

    /// The same with memory, GPUs and licences, which the clusters hand out.
    pub(crate) async fn with_resources(nodes: u32, cpus: u32) -> Option<Behind> {
        let keys = "period_s = 1\nnodes_every_s = 2\nallow = { partitions = [\"large\", \"main\"] }\n";
        Behind::with_resources_and(nodes, cpus, keys).await
    }

    /// The same, with these keys in the servers' files.
    pub(crate) async fn with_resources_and(nodes: u32, cpus: u32, keys: &'static str) -> Option<Behind> {
        let wanted = Wanted { clusters: 2, nodes, cpus, resources: true, ..Wanted::default() };
        let behind = Behind { slurm: SlurmClusters::start(wanted)?, federation: Federation::agent_only("") };
        behind.with_servers(nodes * cpus, keys).await
    }

    async fn with_servers(mut self, procs: u32, batch_keys: &'static str) -> Option<Behind> {
        let behind = &mut self;
        for name in NAMES {
            behind.add_server(name, batch_keys);
        }
        behind.federation.attached(NAMES.len()).await;
        let client = behind.federation.operator();
        until("the clusters to be listed", async || {
            let servers = client.servers().await.ok()?.servers;
            servers.iter().all(|one| one.info.procs == Procs(procs)).then_some(())
        })
        .await;
        Some(self)
    }

    /// The clusters, and an agent.
    pub(crate) fn without_servers(nodes: u32, cpus: u32) -> Option<Behind> {
        let slurm = SlurmClusters::start(Wanted { clusters: 2, nodes, cpus, ..Wanted::default() })?;
        Some(Behind { federation: Federation::agent_only(""), slurm })
    }

    /// Puts a server in front of a cluster, with these keys in its file.
    pub(crate) fn add_server(&mut self, name: &'static str, batch_keys: &'static str) {
        let slurm = Some(self.slurm(name).conf.clone());
        self.federation.add_server(&Cluster { slurm, batch_keys, ..Cluster::new(name, 0, 1.0) });
    }

    pub(crate) fn slurm(&self, name: &str) -> &SlurmCluster {
        &self.slurm.clusters()[usize::from(name == NAMES[1])]
    }

    /// Takes cores of a cluster until there is a file, as a local user does.
    pub(crate) fn take(&self, name: &str, cores: u32, minutes: u32) -> String {
        let wrap = format!("--wrap={}", waiting_for(&self.gate(name)));
        let (cores, minutes) = (format!("--ntasks={cores}"), format!("--time={minutes}"));
        let options = ["--parsable", "--job-name=local", "--chdir=/", "--output=/dev/null"];
        let mut words = vec!["sbatch"];
        words.extend(options);
        words.extend([cores.as_str(), &minutes, &wrap]);
        self.slurm(name).run(&words)
    }

    pub(crate) fn gate(&self, name: &str) -> std::path::PathBuf {
        self.federation.path().join(format!("gate-{name}"))
    }

    pub(crate) fn open(&self, name: &str) {
        fs::write(self.gate(name), "").unwrap();
    }

    /// The jobs of a cluster that are not over: names and states.
    pub(crate) fn queue(&self, name: &str) -> Vec<String> {
        let listed = self.slurm(name).run(&["squeue", "--noheader", "--states=PD,R,S,CG", "--format=%j %T"]);
        let mut jobs: Vec<String> = listed.lines().map(str::to_owned).collect();
        jobs.sort();
        jobs
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn moldable_jobs_run_beside_those_of_local_users() {
    let Some(behind) = Behind::start(2, 2).await else { return };
    let federation = &behind.federation;
    let alice = federation.client("alice");
    let sizes = alice.servers().await.unwrap().servers;
    assert!(sizes.iter().all(|one| one.info.procs == Procs(4) && one.info.policy == "slurm"), "{sizes:?}");
    // Lyon is taken for a quarter of an hour, of paris three cores for half of one.
    behind.take("lyon", 4, 15);
    behind.take("paris", 3, 30);
    until("both to run", async || {
        NAMES.iter().all(|name| behind.queue(name) == ["local RUNNING"]).then_some(())
    })
    .await;
    let seen = [("lyon", 4), ("paris", 2)];
    behind.seen(&alice, &seen).await;
    let moldable = script(
        "echo $PLIANT_PROCS of $SLURM_NTASKS on $SLURM_JOB_NUM_NODES",
        4,
        240,
        Speedup::Amdahl { parallel: 0.5, limit: Procs(4) },
    );
    let ran = run(&alice, &order(moldable)).await;
    assert_eq!((ran.state, &ran.exit), (JobState::Completed, &Some(Exit::Code(0))), "{ran:?}");
    assert_eq!((ran.server().as_str(), ran.procs), ("paris", Procs(1)), "one core is free at once: {ran:?}");
    assert_eq!(fetched(&alice, &ran.handle).await["stdout"], b"1 of 1 on 1\n");
    assert!(ran.start_error().unwrap() <= Span(5), "{ran:?}");

    let data = federation.path().join("data");
    fs::write(&data, "three\nlines\nhere\n").unwrap();
    let mut asked = order(script("wc -l < data; exit 3", 1, 60, Speedup::Rigid));
    asked.inputs.push(input("data", &data));
    let failed = run(&alice, &asked).await;
    assert_eq!((failed.state, &failed.exit), (JobState::Failed, &Some(Exit::Code(3))), "{failed:?}");
    assert_eq!(fetched(&alice, &failed.handle).await["stdout"], b"3\n");

    let gate = federation.path().join("never");
    let running = submit(&alice, &order_to("paris", rigid(&waiting_for(&gate), 1, 600))).await;
    let waiting = submit(&alice, &order_to("paris", rigid("true", 1, 600))).await;
    // The queue is in the order of submission.
    federation.reaches(&alice, &running.handle, JobState::Active).await;
    for handle in [&waiting.handle, &running.handle] {
        alice.cancel(handle).await.unwrap();
        let ended = alice.wait(handle, |_| {}).await.unwrap();
        assert_eq!((ended.state, &ended.exit), (JobState::Canceled, &Some(Exit::Cancelled)), "{ended:?}");
    }
    let large = alice.submit(&order(rigid("true", 5, 60)), |_| Ok(())).await;
    refused(large, &["4"]);
    until("no job of the federation to be left", async || {
        NAMES.iter().all(|name| behind.queue(name) == ["local RUNNING"]).then_some(())
    })
    .await;
    NAMES.iter().for_each(|name| behind.open(name));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_job_moves_from_one_real_queue_to_the_other() {
    let Some(behind) = Behind::start(1, 2).await else { return };
    let federation = &behind.federation;
    let (alice, operator) = (federation.client("alice"), federation.operator());
    operator.change_moving(&MovingChange::Set(on_demand())).await.unwrap();
    behind.take("lyon", 2, 30);
    behind.take("paris", 2, 10);
    behind.take("paris", 1, 1);
    behind.seen(&alice, &[("lyon", 1), ("paris", 1)]).await;
    let data = federation.path().join("data");
    fs::write(&data, "three\nlines\nhere\n").unwrap();
    let mut asked = order(service("count", &[("data", "data")]));
    asked.inputs.push(input("data", &data));
    let waiting = submit(&alice, &asked).await;
    assert_eq!(waiting.server().as_str(), "paris", "paris is expected to be free first: {waiting:?}");
    let tag = format!("pliant:paris:{} PENDING", waiting.handle.number);
    until("it to wait at paris", async || behind.queue("paris").contains(&tag).then_some(())).await;
    let local = ["local PENDING", "local RUNNING"].map(str::to_owned);

    let report = operator.reallocate(true).await.unwrap();
    assert_eq!((report.servers, report.movable, report.proposals.len()), (2, 1, 0), "{report:?}");
    behind.open("lyon");
    let report = until("a proposed move", async || {
        let report = operator.reallocate(false).await.ok()?;
        (!report.proposals.is_empty()).then_some(report)
    })
    .await;
    assert_eq!(moved(&report), [&waiting.handle], "{report:?}");
    let ended = alice.wait(&waiting.handle, |_| {}).await.unwrap();
    assert_eq!((ended.server().as_str(), &ended.exit), ("lyon", &Some(Exit::Code(0))), "{ended:?}");
    assert_eq!(ended.hops.len(), 1);
    assert!(
        fetched(&alice, &waiting.handle).await["work/count.txt"].starts_with(b"17"),
        "its input went with it"
    );
    until("no job of the federation to be left", async || {
        (behind.queue("lyon").is_empty() && behind.queue("paris") == local).then_some(())
    })
    .await;
    behind.open("paris");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_goes_to_the_earliest_cluster_and_moves_when_a_local_job_ends() {
    let Some(behind) = Behind::start_with(1, 2, "period_s = 1\nnodes_every_s = 0\n").await else { return };
    let (alice, operator) = (behind.federation.client("alice"), behind.federation.operator());
    let (lyon, partition) = (behind.slurm("lyon"), ["scontrol", "update", "PartitionName=main"]);
    operator.change_moving(&MovingChange::Set(on_demand())).await.unwrap();
    let looked = async |what: &str, dry_run, is_it: fn(&ReallocationReport) -> bool| {
        until(what, async || operator.reallocate(dry_run).await.ok().filter(is_it)).await
    };
    // Lyon is expected to be free first.
    let waits_at_lyon = async || {
        let accepted = submit(&alice, &order(rigid("true", 1, 60))).await;
        assert_eq!(accepted.server().as_str(), "lyon", "{accepted:?}");
        let tag = format!("pliant:lyon:{}", accepted.handle.number);
        let line = format!("{tag} PENDING");
        until("it to wait", async || behind.queue("lyon").contains(&line).then_some(())).await;
        (accepted.handle, format!("jobname={tag}"))
    };
    let ended = async |handle: &Handle, server: &str| {
        let ended = alice.wait(handle, |_| {}).await.unwrap();
        assert_eq!((ended.server().as_str(), &ended.exit), (server, &Some(Exit::Code(0))), "{ended:?}");
        let ways = ended.hops.iter().map(|hop| (hop.from.to_string(), hop.to.to_string()));
        assert_eq!(ways.collect::<Vec<_>>(), [("lyon".to_owned(), "paris".to_owned())]);
    };
    behind.take("lyon", 2, 10);
    behind.take("paris", 2, 30);
    behind.seen(&alice, &[("lyon", 1), ("paris", 1)]).await;

    // A held job must not run on another server either.
    let (first, named) = waits_at_lyon().await;
    lyon.run(&["scontrol", "hold", &named]);
    looked("a job that is held back to stay", true, |report| report.movable == 0).await;
    lyon.run(&["scontrol", "release", &named]);
    let report = looked("it to be let go", true, |report| report.movable == 1).await;
    assert_eq!(report.proposals, [], "it completes earlier where it is");

    // A local user's job ends long before its walltime: a cycle starts by itself.
    let moving = on_demand();
    operator
        .change_moving(&MovingChange::Set(ReallocationConfig { early: Some(Span(1)), ..moving }))
        .await
        .unwrap();
    behind.open("paris");
    ended(&first, "paris").await;

    // It is not known when a partition comes up again: half an hour is assumed to be earlier.
    operator.change_moving(&MovingChange::Set(on_demand())).await.unwrap();
    fs::remove_file(behind.gate("paris")).unwrap();
    behind.take("paris", 2, 30);
    behind.seen(&alice, &[("paris", 1)]).await;
    let (second, _) = waits_at_lyon().await;
    lyon.run(&[&partition[..], &["State=DOWN"]].concat());
    let report = looked("it to go", false, |report| !report.proposals.is_empty()).await;
    assert_eq!(moved(&report), [&second], "{report:?}");
    assert_eq!(report.proposals[0].before, Time::MAX);
    // It is up again, and free. Who knows for how long: the job does not come back.
    lyon.run(&[&partition[..], &["State=UP"]].concat());
    behind.open("lyon");
    let other = until("lyon to take jobs", async || {
        alice.submit(&order_to("lyon", rigid("true", 1, 60)), |_| Ok(())).await.ok()
    })
    .await;
    alice.wait(&other.handle, |_| {}).await.unwrap();
    let report = looked("it to be seen at paris", true, |report| report.movable == 1).await;
    assert_eq!(report.proposals, []);
    behind.open("paris");
    ended(&second, "paris").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_job_runs_once_whenever_the_server_is_killed() {
    let Some(mut behind) = Behind::start(2, 2).await else { return };
    let alice = behind.federation.client("alice");
    let lines = behind.federation.path().join("lines");
    let gate = behind.federation.path().join("gate");
    let mut handles = Vec::new();
    for number in 0..12 {
        let rest = if number < 3 { waiting_for(&gate) } else { "sleep 0.3".to_owned() };
        let accepted = submit(&alice, &order(rigid(&noting(&lines, &rest), 1, 60))).await;
        handles.push(accepted.handle);
        if number % 3 == 2 {
            // Some run, some wait, and some may have been submitted.
            let victim = NAMES[number / 3 % 2];
            behind.federation.kill(victim);
            behind.federation.revive(victim);
            behind.federation.attached(2).await;
        }
    }
    for name in NAMES {
        behind.federation.kill(name);
    }
    fs::write(&gate, "").unwrap();
    for name in NAMES {
        behind.federation.revive(name);
    }
    for handle in &handles {
        let ended = alice.wait(handle, |_| {}).await.unwrap();
        assert_eq!((ended.state, &ended.exit), (JobState::Completed, &Some(Exit::Code(0))), "{ended:?}");
        assert!(fetched(&alice, handle).await["stdout"].starts_with(b"I am "));
    }
    assert_eq!(runs(&lines), handles.iter().map(|handle| (handle.to_string(), 1)).collect());
    until("nothing to be left", async || {
        NAMES.iter().all(|name| behind.queue(name).is_empty()).then_some(())
    })
    .await;
    for name in NAMES {
        behind.federation.stop(name);
        let file = ServerFile::read(&behind.federation.folder(name).join("server.toml")).unwrap();
        let config = server(&file);
        let replayed = replay_journal(&file.state, |now| Server::new(config, now).unwrap()).unwrap();
        assert!(replayed.entries > 10, "{replayed:?}");
        assert_eq!(replayed.differing, [0; 0], "a replay of {name} gives the same commands");
    }
}

impl Behind {
    /// Waits until the servers know that so many cores have to be waited for.
    pub(crate) async fn seen(&self, client: &Client, taken: &[(&str, u32)]) {
        for (name, cores) in taken {
            until(&format!("{name} to be seen taken"), async || {
                let probe = submit(client, &order_to(name, rigid("true", *cores, 60))).await;
                // One that runs meanwhile is as good as one that is cancelled.
                let _ = client.cancel(&probe.handle).await;
                client.wait(&probe.handle, |_| {}).await.ok()?;
                (probe.expected.start > probe.submitted + Span(60)).then_some(())
            })
            .await;
        }
    }
}
