//! Dumps of queues on nodes that are restored, and those that cannot be.

use pliant_model::{JobId, Mebibytes, Procs, Time};
use pliant_policy::batch::{Dump, JobOnNodes, RestoreError, RunningJob};
use pliant_policy::nodes::{Amounts, ClusterSnapshot, Node, NodeKind, Part};

use super::reservations::new;

/// A cluster of two nodes with two processors and 4 MiB each.
fn two_nodes() -> ClusterSnapshot {
    let node = Node { memory: Mebibytes(4), ..Node::of("n", Procs(2)) };
    let kinds = vec![NodeKind::default()];
    ClusterSnapshot { nodes: vec![node; 2], kinds, ..ClusterSnapshot::default() }
}

fn part(node: u32, cores: u32, memory: u32) -> Part {
    Part { node, taken: Amounts { cores, memory: Mebibytes(memory), ..Amounts::default() } }
}

fn restored(running: &[(u32, u32)], on_nodes: &[(u32, Vec<Part>)]) -> Result<Dump, RestoreError> {
    let running = running.iter().map(|(job, procs)| RunningJob {
        job: JobId(*job),
        procs: Procs(*procs),
        end: Time(9),
    });
    let on = |(job, on): &(u32, Vec<Part>)| JobOnNodes { job: JobId(*job), on: on.clone(), resources: None };
    let on_nodes = on_nodes.iter().map(on).collect();
    let dump = Dump { running: running.collect(), on_nodes, ..Dump::default() };
    let mut scheduler = new("cbf", &two_nodes(), Time::ZERO);
    scheduler.restore(Time::ZERO, &dump).map(|()| scheduler.dump())
}

#[test]
fn running_jobs_without_known_nodes_get_some_that_are_free() {
    let dump = restored(&[(0, 2), (1, 2)], &[(1, vec![part(0, 2, 4)])]).unwrap();
    let on: Vec<_> = dump.on_nodes.iter().map(|one| (one.job.0, one.on.clone())).collect();
    assert_eq!(on, [(0, vec![part(1, 2, 0)]), (1, vec![part(0, 2, 4)])]);
}

#[test]
fn what_no_cluster_of_these_nodes_can_have_is_not_restored() {
    let check = |running: &[(u32, u32)], on_nodes: &[(u32, Vec<Part>)], expected: &str| {
        let error = restored(running, on_nodes).expect_err("it is impossible").to_string();
        assert!(error.starts_with(expected), "{error}");
    };
    let nodes = "expected each job on nodes of this cluster, with as many cores as processors, found job 0";
    check(&[(0, 1)], &[(0, vec![part(2, 1, 0)])], nodes);
    check(&[(0, 2)], &[(0, vec![part(0, 1, 0)])], nodes);
    check(&[(0, 2)], &[(0, vec![part(0, 1, 0), part(0, 1, 0)])], nodes);
    let taken = "expected free nodes for job 1, found what it has there taken";
    check(&[(0, 1), (1, 1)], &[(0, vec![part(0, 1, 3)]), (1, vec![part(0, 1, 2)])], taken);
    check(&[(0, 3), (1, 2)], &[], "expected at most 4 processors taken, found 5");
}
