//! Partitions with nodes or licences in common: jobs that wait in one are in the plans of the others.

use std::collections::BTreeMap;

use pliant_model::Resources;

use super::*;
use crate::listing::{CountedResources, DefaultMemory, Partition, PlannedStart, RequestedResources};

fn partition(name: &str) -> Partition {
    Partition { name: name.to_owned(), is_default: name == "main", tier: 1, ..Partition::default() }
}

/// `n1` and `n2` in `main`, `n2` and `n3` in `long`, `n3` and `n4` in `debug`, and `n5` alone in `other`, of four cores each.
fn cluster(partitions: Vec<Partition>, jobs: Vec<ListedJob>) -> Listing {
    let of = |name: &str, partitions: &[&str]| listing::Node {
        partitions: partitions.iter().map(ToString::to_string).collect(),
        ..node(name, 4)
    };
    let nodes = vec![
        of("n1", &["main"]),
        of("n2", &["long", "main"]),
        of("n3", &["debug", "long"]),
        of("n4", &["debug"]),
        of("n5", &["other"]),
    ];
    Listing { partitions, ..Listing::new(Time(101), nodes, jobs) }
}

fn all() -> Vec<Partition> {
    ["debug", "long", "main", "other"].map(partition).to_vec()
}

/// A job of a local user that waits in these partitions for so many cores and 600 s.
fn waiting(id: &str, partition: &str, cores: u32) -> ListedJob {
    ListedJob {
        partition: partition.to_owned(),
        shape: CoreLayout { cores, ..CoreLayout::default() },
        ..listed(id, None, State::Pending)
    }
}

fn mirror(listing: Listing) -> External {
    let mut external = External::new();
    let configured = Event::configured(Span(30), None, Expect::Limits);
    for event in [configured, Event::Listed(listing.changes(&Listing::default()))] {
        external.on(Time(101), batch::Event::External(event), &mut Effects::default());
    }
    external
}

/// When a request for so many cores would start in a partition.
fn start(external: &mut External, partition: Option<&str>, cores: u32) -> Option<i64> {
    start_with(external, partition, cores, Resources::default())
}

fn start_with(
    external: &mut External,
    partition: Option<&str>,
    cores: u32,
    resources: Resources,
) -> Option<i64> {
    let request = Request::new(JOB, Time(101), Procs(cores), Span(600), Speedup::Rigid);
    let request = Request { resources: Some(resources.into()), ..request };
    let walltimes = request.on(Procs(cores), Speed::REFERENCE)?;
    let estimate = external.estimate(Time(101), partition, &walltimes, Tuner::Exact)?;
    Some(estimate.start.0)
}

/// Slurm counts in minutes, and a job ends up to half a minute after its limit.
fn is_behind(start: Option<i64>, jobs: i64) -> bool {
    start.is_some_and(|start| (101 + 600 * jobs..101 + 660 * jobs).contains(&start))
}

#[test]
fn a_job_that_waits_for_a_node_of_both_partitions_is_in_both_plans() {
    let mut external = mirror(cluster(all(), vec![waiting("9", "long", 8)]));
    assert_eq!(start(&mut external, None, 4), Some(101), "n1 is left");
    assert!(is_behind(start(&mut external, None, 8), 1));
    // Nodes of the other partition are none of its own.
    assert_eq!(start(&mut external, None, 9), None);
    assert_eq!(external.capacity(), Some(Procs(8)));
    assert_eq!(external.usage().free, Procs(8));
    assert_eq!(BatchSystem::nodes(&mut external, Time(101)).unwrap().nodes.len(), 2);
    assert_eq!(external.planned_nodes(Time(101)).unwrap().cores(), Procs(8));
}

#[test]
fn jobs_compete_through_a_third_partition() {
    // The job in debug has n3 first, so that the one in long waits, and n2 is free until then.
    let first = ListedJob { walltime: Some(Span(3_000)), ..waiting("9", "debug", 8) };
    let jobs = vec![first.clone(), waiting("10", "long", 8)];
    assert_eq!(start(&mut mirror(cluster(all(), jobs)), None, 8), Some(101));
    let jobs = vec![first, waiting("10", "long", 8), waiting("11", "main", 8)];
    assert!(is_behind(start(&mut mirror(cluster(all(), jobs)), None, 8), 1));
}

#[test]
fn jobs_of_partitions_without_a_common_node_do_not_count() {
    let mut external = mirror(cluster(all(), vec![waiting("9", "other", 4), waiting("10", "debug", 4)]));
    assert_eq!(start(&mut external, None, 8), Some(101));
    assert_eq!(external.planned_nodes(Time(101)).unwrap().nodes.len(), 2, "no more than before");
}

#[test]
fn a_job_of_several_partitions_has_nodes_of_any() {
    let mut external = mirror(cluster(all(), vec![waiting("9", "main,long", 12)]));
    assert!(is_behind(start(&mut external, None, 4), 1), "it has n1, n2 and n3");
}

#[test]
fn a_higher_tier_comes_first() {
    let jobs = || vec![waiting("9", "main", 8), waiting("10", "long", 8)];
    let plan = |partitions| mirror(cluster(partitions, jobs())).starts(Time(101));
    let start_of = |starts: Vec<(String, Time)>, id: &str| {
        starts.into_iter().find(|(one, _)| one == id).map(|(_, start)| start)
    };
    assert_eq!(start_of(plan(all()), "9"), Some(Time(101)));
    let mut tiers = all();
    tiers[1].tier = 5;
    assert_eq!(start_of(plan(tiers.clone()), "10"), Some(Time(101)));
    assert!(start_of(plan(tiers), "9") > Some(Time(700)));
}

#[test]
fn jobs_of_a_partition_that_is_down_are_not_planned() {
    let mut partitions = all();
    partitions[1].stopped = true;
    let mut external = mirror(cluster(partitions, vec![waiting("9", "long", 8)]));
    assert_eq!(start(&mut external, None, 8), Some(101));
}

fn matlab(count: u32) -> BTreeMap<String, u32> {
    BTreeMap::from([("matlab".to_owned(), count)])
}

/// The cluster with two licences.
fn with_licences(jobs: Vec<ListedJob>) -> Listing {
    let memory = DefaultMemory::default();
    let counted = CountedResources { memory: false, default_memory: memory, licences: matlab(2) };
    Listing { counted, ..cluster(all(), jobs) }
}

/// When a request for four cores and so many licences would start in the server's partition.
fn with_licences_at(external: &mut External, count: u32) -> Option<i64> {
    start_with(external, None, 4, Resources { licences: matlab(count), ..Resources::default() })
}

fn needing(count: u32, job: ListedJob) -> ListedJob {
    ListedJob { requested: RequestedResources { licences: matlab(count), ..job.requested.clone() }, ..job }
}

fn expected_at(start: i64, job: ListedJob) -> ListedJob {
    ListedJob { planned: Some(PlannedStart { start: Time(start), nodes: Vec::new() }), ..job }
}

#[test]
fn a_job_that_waits_for_other_nodes_takes_its_licences_when_it_is_expected_to_start() {
    let mut external = mirror(with_licences(vec![needing(1, waiting("9", "other", 4))]));
    assert_eq!(with_licences_at(&mut external, 1), Some(101), "one licence is left");
    assert!(is_behind(with_licences_at(&mut external, 2), 1));
    assert_eq!(start(&mut external, None, 8), Some(101), "its nodes are elsewhere");
    assert_eq!(external.starts(Time(101)), [], "it has no plan here");
    assert_eq!(BatchSystem::waiting(&mut external, Time(101)), []);
    // Slurm expects it to start when another job has ended.
    let later = needing(2, expected_at(5_000, waiting("9", "other", 4)));
    let mut external = mirror(with_licences(vec![later.clone()]));
    assert_eq!(with_licences_at(&mut external, 1), Some(101), "it ends before");
    let job = needing(2, ListedJob { walltime: Some(Span(4_800)), ..waiting("10", "main", 4) });
    let mut external = mirror(with_licences(vec![job, later]));
    let start = with_licences_at(&mut external, 1);
    assert!(start.is_some_and(|start| start >= 5_600), "between the two are less than 600 s: {start:?}");
    // One that is held does not start.
    let held = ListedJob { state: State::Held, ..needing(2, waiting("9", "other", 4)) };
    assert_eq!(with_licences_at(&mut mirror(with_licences(vec![held])), 1), Some(101));
}

#[test]
fn licences_go_by_priority_over_all_partitions() {
    let elsewhere = |priority| ListedJob { priority, ..needing(2, waiting("9", "other", 4)) };
    let here = |priority| ListedJob { priority, ..needing(1, waiting("10", "main", 4)) };
    let starts = |jobs| mirror(with_licences(jobs)).starts(Time(101));
    let starts_of = |own, other| starts(vec![here(own), elsewhere(other)])[0].1.0;
    assert_eq!(starts_of(2, 1), 101);
    assert!(is_behind(Some(starts_of(1, 2)), 1));
    // The first in priority waits for its licence; it keeps no job of another partition from starting.
    let first = ListedJob { priority: 9, ..needing(2, waiting("9", "other", 4)) };
    let runs = ListedJob { walltime: Some(Span(3_000)), ..needing(1, listed("8", None, State::Running)) };
    let external = mirror(with_licences(vec![first, runs, waiting("10", "main", 4)]));
    assert_eq!(external.starts(Time(101)), [("10".to_owned(), Time(101))]);
}
