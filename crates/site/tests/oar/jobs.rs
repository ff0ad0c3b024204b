use std::collections::BTreeMap;
use std::fs;

use pliant_control::listing::{Phase, State, Status};
use pliant_model::{GpuCount, Gpus, Mebibytes, Memory, Resources, Span};
use pliant_site::{BatchSystemError, Submission};

use crate::cluster::{Cluster, cores, now, shell, size, submission};

#[tokio::test]
async fn what_becomes_of_jobs() {
    let Some(cluster) = Cluster::start(60).await else { return };
    let good = cluster.submit(1, "echo it\\'s \"$OAR_JOB_NAME\" > here", &cores(1), false).await;
    let bad = cluster.submit(2, "exit 3", &cores(1), false).await;
    let long = cluster.submit(3, "sleep 1000", &cores(2), false).await;
    let job = cluster.wait_for(&good, Phase::Ended).await;
    assert_eq!((job.job_number, job.state, job.status), (Some(1), State::Completed, Some(Status::Code(0))));
    assert_eq!(fs::read_to_string(cluster.folder(1).join("here")).unwrap(), "it's pliant:nancy:1\n");
    let job = cluster.wait_for(&bad, Phase::Ended).await;
    assert_eq!((job.state, job.status), (State::Failed, Some(Status::Code(3))));
    let job = cluster.wait(&long, |job| job.state == State::Running).await;
    assert_eq!((job.shape.cores, job.walltime), (2, Some(Span(600))));
    assert_eq!(job.allocations.iter().filter_map(|allocation| allocation.cores).sum::<u32>(), 2);
    cluster.oar.terminate(3, &long).await.unwrap();
    assert_eq!(cluster.wait_for(&long, Phase::Ended).await.state, State::Cancelled);
    cluster.oar.terminate(3, &long).await.unwrap();
    let ended = cluster.oar.ended(&[&good, &bad, &long, "999999", "x"]).await.unwrap();
    assert_eq!(ended.len(), 3, "{ended:?}");

    // What was submitted before is found, whatever became of it.
    let (folder, program, sizes) = (cluster.folder(2), shell("true"), cores(1));
    let mut job = submission(2, &folder, &program, &sizes);
    assert_eq!(cluster.oar.submit_unless_there(&job).await.unwrap(), [bad]);
    job.number = 4;
    assert_eq!(cluster.oar.submit_unless_there(&job).await.unwrap().len(), 1);
    let large = [size(5, 60)];
    job.alternatives = &large;
    let refused = cluster.oar.submit(&job).await.unwrap_err();
    assert!(matches!(refused, BatchSystemError::Refused { .. }) && !refused.leaves_open(), "{refused}");
}

#[tokio::test]
async fn of_several_sizes_it_takes_the_one_that_ends_first() {
    let Some(cluster) = Cluster::start(60).await else { return };
    let line = "wc -l < $OAR_RESOURCE_PROPERTIES_FILE > given; sleep 100";
    let sizes = [size(1, 400), size(2, 300), size(4, 200)];
    let largest = cluster.submit(1, line, &sizes, false).await;
    let running = cluster.wait(&largest, |job| job.state == State::Running).await;
    assert_eq!((running.shape.cores, running.walltime), (4, Some(Span(200))));
    // Where it would have to wait for that, it is planned smaller, or later.
    let waiting = cluster.submit(2, "true", &[size(1, 50), size(4, 40)], false).await;
    // Until OAR has planned it, it is listed in the first size.
    let planned = cluster.wait(&waiting, |job| job.planned.is_some() && job.shape.cores == 4).await;
    assert_eq!(planned.walltime, Some(Span(40)));
    assert!(planned.planned.unwrap().start >= running.started.unwrap() + Span(200));
    cluster.oar.terminate(1, &largest).await.unwrap();
    cluster.wait_for(&largest, Phase::Ended).await;
    assert_eq!(fs::read_to_string(cluster.folder(1).join("given")).unwrap().trim(), "4");
}

#[tokio::test]
async fn jobs_that_need_memory_or_gpus_have_nodes_to_themselves() {
    let Some(cluster) = Cluster::start(60).await else { return };
    let nodes = cluster.oar.list(now()).await.unwrap().listing.nodes;
    let has: Vec<_> = nodes.iter().map(|node| (node.memory.0, node.gpus, node.gpu_kind.as_deref())).collect();
    assert_eq!(has, [(1000, 2, Some("A100")), (1000, 0, None)]);
    assert_eq!((nodes[0].scratch.0, &*nodes[0].features), (2000, &["node1".to_owned()][..]));
    let (program, one) = (shell("sort -u $OAR_NODEFILE > nodes; sleep 1000"), cores(1));
    let submitted = async |number: u32, needed: &Resources| {
        let folder = cluster.folder(number);
        let job = submission(number, &folder, &program, &one);
        cluster.oar.submit(&Submission { alternatives: &[], resources: Some(needed), ..job }).await
    };
    let on_gpus = Resources {
        gpus: Some(Gpus { count: GpuCount::Total(2), kind: Some("A100".to_owned()) }),
        ..Resources::default()
    };
    let with_memory = |mib| Resources { memory: Some(Memory::Total(Mebibytes(mib))), ..Resources::default() };
    let first = submitted(1, &on_gpus).await.unwrap();
    let running = cluster.wait(&first, |job| job.state == State::Running).await;
    assert_eq!(running.shape.cores, 2, "all of a node");
    assert_eq!(running.allocations.iter().map(|part| part.node.as_str()).collect::<Vec<_>>(), ["node1"]);
    // The other node has a job of one processor, so that one that needs memory waits.
    let other = cluster.submit(2, "sleep 1000", &cores(1), false).await;
    cluster.wait(&other, |job| job.state == State::Running).await;
    let waiting = submitted(3, &with_memory(1000)).await.unwrap();
    cluster.wait(&waiting, |job| job.planned.is_some()).await;
    cluster.oar.terminate(2, &other).await.unwrap();
    cluster.wait(&waiting, |job| job.state == State::Running).await;
    let refused = submitted(4, &with_memory(1001)).await.unwrap_err();
    assert!(refused.to_string().contains("no number of equal nodes has 1 processors"), "{refused}");
    let scratch = |mib| Resources { scratch: Mebibytes(mib), ..Resources::default() };
    let refused = submitted(4, &scratch(2001)).await.unwrap_err();
    assert!(refused.to_string().contains("with 2001M of local disk per node"), "{refused}");
    let on_disk = submitted(4, &scratch(2000)).await.unwrap();
    cluster.wait(&on_disk, |job| job.planned.is_some()).await;
    for (number, id) in [(1, first), (3, waiting), (4, on_disk)] {
        cluster.oar.terminate(number, &id).await.unwrap();
    }
}

#[tokio::test]
async fn licences_are_held_as_long_as_jobs_run() {
    let Some(cluster) = Cluster::start(60).await else { return };
    let listing = async || cluster.oar.list(now()).await.unwrap().listing;
    let units = |count| BTreeMap::from([("matlab".to_owned(), count)]);
    assert_eq!(listing().await.counted.licences, units(2));
    let (program, one) = (shell("sleep 1000"), cores(1));
    let submitted = async |number: u32, count: u32| {
        let folder = cluster.folder(number);
        let needed = Resources { licences: units(count), ..Resources::default() };
        let job = submission(number, &folder, &program, &one);
        cluster.oar.submit(&Submission { alternatives: &[], resources: Some(&needed), ..job }).await
    };
    let first = submitted(1, 2).await.unwrap();
    let running = cluster.wait(&first, |job| job.state == State::Running).await;
    assert_eq!((running.shape.cores, running.requested.licences), (1, units(2)));
    assert_eq!(running.allocations.len(), 1, "licences are on no node");
    // There are free cores, and no licence.
    let second = submitted(2, 1).await.unwrap();
    let waiting = cluster.wait(&second, |job| job.planned.is_some()).await;
    assert_eq!((waiting.shape.cores, waiting.requested.licences), (1, units(1)));
    let refused = submitted(3, 3).await.unwrap_err().to_string();
    assert!(refused.contains("matlab"), "{refused}");
    cluster.oar.terminate(1, &first).await.unwrap();
    cluster.wait(&second, |job| job.state == State::Running).await;
    cluster.oar.terminate(2, &second).await.unwrap();
}
