//! Launches on a real Slurm cluster and an embedded batch system at once.

use std::collections::BTreeMap;

use pliant_testing::slurm::{SlurmClusters, Wanted};
use pliant_transport::Role;

use super::steps::die_at;
use super::*;

/// The server in front of Slurm, and the other one.
const SLURM: &str = NAMES[0];
const EMBEDDED: &str = NAMES[1];

/// Which daemon is killed at which step: around the commands of Slurm.
const POINTS: &[(&str, &str)] = &[
    // Its job is not submitted yet.
    (SLURM, "after-journal.subjob:1"),
    // It has its cores, and the agent does not know.
    (SLURM, "after-journal.subjob:2"),
    // It was decided, and no server is notified.
    (MASTER, "before-call.commit-subjob"),
    // It is not let go yet.
    (SLURM, "after-journal.subjob:3"),
];

struct Behind {
    federation: Federation,
    slurm: SlurmClusters,
}

impl Behind {
    /// In front of so many nodes of two processors each.
    async fn start(nodes: u32) -> Option<Behind> {
        let slurm = SlurmClusters::start(Wanted { clusters: 1, nodes, cpus: 2, ..Wanted::default() })?;
        let mut federation = Federation::agent_only("");
        let conf = Some(slurm.clusters()[0].conf.clone());
        federation.add_server(&Cluster { slurm: conf, ..cluster(SLURM) });
        federation.add_server(&cluster(EMBEDDED));
        federation.sized(NAMES.len()).await;
        Some(Behind { federation, slurm })
    }

    /// Nothing is left in the queue.
    async fn is_empty(&self) {
        let list = ["squeue", "--noheader", "--states=PD,R,S,CG", "--format=%j %T"];
        until("nothing to be left in Slurm's queue", async || {
            self.slurm.clusters()[0].run(&list).trim().is_empty().then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_in_slurm_and_outside_communicate_and_all_end() {
    let Some(mut behind) = Behind::start(1).await else { return };
    let alice = behind.federation.client("alice");
    let tasks = ["a", "b", "c", "d"];
    let talkers = Talkers::new(behind.federation.path().join("ring"));
    let id = launched(&alice, &talkers.ring(MCR, &tasks.map(|task| (task, 0)))).await;
    all_received(&talkers, &tasks).await;
    let record = reaches(&alice, &id, LaunchState::Running).await;
    let at = |name: &str| {
        record.tasks.iter().filter(|task| task.allocation.as_ref().unwrap().0.as_str() == name).count()
    };
    assert_eq!((at(SLURM), at(EMBEDDED)), (2, 2), "{record:?}");
    tasks.iter().for_each(|task| talkers.open(task));
    assert_eq!(reaches(&alice, &id, LaunchState::Over).await.end, Some(LaunchEnd::Completed));
    behind.is_empty().await;

    let talkers = Talkers::new(behind.federation.path().join("cancelled"));
    let id = launched(&alice, &talkers.ring(MCR, &tasks.map(|task| (task, 0)))).await;
    all_received(&talkers, &tasks).await;
    alice.cancel_launch(&id).await.unwrap();
    assert_eq!(reaches(&alice, &id, LaunchState::Over).await.end, Some(LaunchEnd::Cancelled));
    no_process(&talkers).await;
    behind.is_empty().await;
    nothing_left(&mut behind.federation, &NAMES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_task_runs_alone_after_a_crash_while_slurm_has_a_subjob() {
    let Some(mut behind) = Behind::start(1).await else { return };
    let completed = die_at(&mut behind.federation, POINTS).await;
    assert!(completed > POINTS.len() / 2, "{completed} of {} completed", POINTS.len());
    behind.is_empty().await;
    nothing_left(&mut behind.federation, &NAMES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_on_two_nodes_of_slurm_and_outside_communicate() {
    let Some(mut behind) = Behind::start(2).await else { return };
    let config = behind.federation.client_file(Role::User, "alice");
    let tasks = ["a", "b", "c", "d", "e", "f"];
    let talkers = Talkers::new(behind.federation.path().join("ring"));
    tasks.iter().for_each(|task| talkers.open(task));
    let file = talkers.ring_file(MCR, &tasks.map(|task| (task, 0)));
    let words = ["launch", file.to_str().unwrap(), "--format", "json"];
    let (code, launched, stderr) = said(pliant(&config, &words).output().unwrap());
    assert_eq!(code, 0, "{launched}{stderr}");
    let launched = document(&launched);
    let mut there: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for task in launched["tasks"].as_array().unwrap() {
        *there.entry((task["server"].as_str().unwrap(), task["machine"].as_str().unwrap())).or_default() += 1;
    }
    assert_eq!(
        there.values().copied().collect::<Vec<_>>(),
        [2; 3],
        "each machine has room for two: {there:?}"
    );
    assert_eq!(
        there.keys().filter(|(server, _)| *server == SLURM).count(),
        2,
        "two of them are nodes: {there:?}"
    );
    assert_eq!(talkers.began(), tasks.map(|task| (task.to_owned(), 1)).into());

    behind.is_empty().await;
    nothing_left(&mut behind.federation, &NAMES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_in_slurm_run_as_their_user() {
    use crate::accounts::site::{ALICE, uid};
    use crate::accounts::slurm::{COMMANDS, Shared};
    let wanted = Wanted { clusters: 1, nodes: 1, cpus: 2, ..Wanted::default() };
    let Some(mut shared) = Shared::without_servers(wanted, &COMMANDS.map(std::path::Path::new)) else {
        return;
    };
    let (slurm, cluster_keys) = (Some(shared.cluster(0).conf.clone()), cluster(SLURM).cluster_keys);
    shared.federation.add_server(&Cluster { slurm, cluster_keys, ..shared.site.cluster_of(SLURM, "") });
    shared.federation.sized(1).await;
    let alice = shared.federation.client(ALICE);
    let folder = shared.federation.path().join("ring");
    let talkers = Talkers::new(folder.clone());
    std::os::unix::fs::chown(&folder, Some(uid(ALICE)), None).unwrap();
    let tasks = ["a", "b"];
    let id = launched(&alice, &talkers.ring(MCR, &tasks.map(|task| (task, 0)))).await;
    all_received(&talkers, &tasks).await;
    let owner = ["squeue", "--noheader", "--format=%u"];
    assert_eq!(shared.cluster(0).run(&owner), ALICE);
    tasks.iter().for_each(|task| talkers.open(task));
    assert_eq!(reaches(&alice, &id, LaunchState::Over).await.end, Some(LaunchEnd::Completed));
    shared.emptied().await;
}
