//! Memory, GPUs, features and licences: jobs get what they ask for, and listings show who has it.

use std::collections::BTreeMap;

use pliant_control::listing::{DefaultMemory, ListedJob, Phase, RequestedResources};
use pliant_model::{Constraint, GpuCount, Gpus, Mebibytes, Memory, Resources};
use pliant_site::BatchSystemError;
use pliant_site::Submission;

use crate::cluster::{Cluster, cores, now, shell, submission};

impl Cluster {
    /// Submits a job that runs for a while.
    async fn submit_with(
        &self,
        number: u32,
        procs: u32,
        resources: &Resources,
    ) -> Result<String, BatchSystemError> {
        let (folder, program) = (self.folder(number), shell("sleep 300"));
        let job = submission(number, &folder, &program, cores(procs), false);
        self.slurm.submit(&Submission { resources: Some(resources), ..job }).await
    }
}

fn gpus(count: GpuCount) -> Option<Gpus> {
    Some(Gpus { count, kind: None })
}

#[tokio::test]
async fn a_cluster_lists_what_it_hands_out() {
    let Some(cluster) = Cluster::with_resources().await else { return };
    let listing = cluster.slurm.list(now()).await.unwrap().listing;
    assert!(listing.counted.memory);
    assert_eq!(listing.counted.default_memory, DefaultMemory::PerCore(Mebibytes(100)));
    assert_eq!(listing.counted.licences, BTreeMap::from([("matlab".to_owned(), 2)]));
    let node = &listing.nodes[0];
    assert_eq!((node.memory, node.gpus, node.gpu_kind.as_deref()), (Mebibytes(1000), 2, Some("a100")));
    assert_eq!(node.features, ["fast"]);
    let of_partitions: Vec<_> =
        listing.partitions.iter().map(|one| (&*one.name, one.default_memory)).collect();
    assert_eq!(of_partitions, [("large", Some(DefaultMemory::PerCore(Mebibytes(200)))), ("main", None)]);
}

#[tokio::test]
async fn jobs_get_what_they_ask_for() {
    let Some(cluster) = Cluster::with_resources().await else { return };
    let none = Resources::default;
    let asked = [
        Resources { memory: Some(Memory::Total(Mebibytes(700))), ..none() },
        Resources { gpus: gpus(GpuCount::Total(3)), ..none() },
        Resources {
            licences: BTreeMap::from([("matlab".to_owned(), 2)]),
            constraint: Some(Constraint::All(vec!["fast".to_owned()])),
            ..none()
        },
        Resources { nodes: Some(2), memory: Some(Memory::PerProc(Mebibytes(50))), ..none() },
    ];
    let mut ids = Vec::new();
    for (number, resources) in (1..).zip(&asked) {
        ids.push(cluster.submit_with(number, 2, resources).await.unwrap());
    }
    let mut jobs: Vec<ListedJob> = Vec::new();
    for id in &ids {
        jobs.push(cluster.wait_for(id, Phase::Running).await);
    }
    let none = RequestedResources::default;
    assert_eq!(jobs[0].requested, RequestedResources { memory_per_core: Mebibytes(350), ..none() });
    // Two GPUs of one node, and one of the other.
    assert_eq!(jobs[1].requested, RequestedResources { memory_per_core: Mebibytes(100), gpus: 3, ..none() });
    let mut on_nodes: Vec<Option<u32>> = jobs[1].allocations.iter().map(|one| one.gpus).collect();
    on_nodes.sort_unstable();
    assert_eq!(on_nodes, [Some(1), Some(2)]);
    let expected = RequestedResources {
        memory_per_core: Mebibytes(100),
        licences: BTreeMap::from([("matlab".to_owned(), 2)]),
        constraint: Some(Constraint::All(vec!["fast".to_owned()])),
        ..none()
    };
    assert_eq!(jobs[2].requested, expected);
    assert_eq!(jobs[3].allocations.len(), 2);
    assert_eq!(jobs[3].requested.memory_per_core, Mebibytes(50));
}

#[tokio::test]
async fn jobs_that_do_not_fit_together_wait_and_impossible_ones_are_refused() {
    let Some(cluster) = Cluster::with_resources().await else { return };
    let memory = |mib| Resources { memory: Some(Memory::Total(Mebibytes(mib))), ..Resources::default() };
    let mut ids = Vec::new();
    for number in 1..=3 {
        ids.push(cluster.submit_with(number, 1, &memory(600)).await.unwrap());
    }
    cluster.wait_for(&ids[0], Phase::Running).await;
    cluster.wait_for(&ids[1], Phase::Running).await;
    // There are six free cores, but no node has 600 MiB left.
    assert_eq!(cluster.job(&ids[2]).await.unwrap().phase(), Phase::Waiting);
    let refused = cluster.submit_with(4, 1, &memory(1200)).await.unwrap_err();
    assert!(matches!(refused, BatchSystemError::Refused { .. }), "{refused}");
}

#[tokio::test]
async fn a_job_with_nodes_of_its_own_gets_memory_for_its_processes_alone() {
    let Some(cluster) = Cluster::with_resources().await else { return };
    let memory = Some(Memory::PerProc(Mebibytes(450)));
    // 450 MiB for each of the four cores of a node would be more than it has.
    let resources = Resources { memory, exclusive: true, nodes: Some(2), ..Resources::default() };
    let id = cluster.submit_with(1, 4, &resources).await.unwrap();
    let job = cluster.wait_for(&id, Phase::Running).await;
    assert_eq!((job.shape.exclusive, job.allocations.len()), (true, 2));
    assert_eq!(job.requested.memory_per_node, Mebibytes(900));
}
