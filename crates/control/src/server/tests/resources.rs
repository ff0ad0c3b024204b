//! A server that counts what jobs need besides processors: memory, GPUs, licences.

use std::collections::BTreeMap;
use std::sync::Arc;

use pliant_model::{ClusterNodes, GpuCount, GpuPoint, Gpus, Mebibytes, Memory, NodeGroup, Resources};
use pliant_policy::batch::BatchScheduler;
use pliant_policy::nodes::Nodes;

use super::changes::restored;
use super::*;
use crate::batch::HeldResources;
use crate::batch::embedded::HostResources;
use crate::explain::Shortage;
use crate::reason::Cause;

const GIB: u32 = 1 << 10;

/// A host of 4 processors with 8 GiB, two GPUs and one licence.
fn host() -> HostResources {
    let group = NodeGroup {
        count: 1,
        procs: Procs(4),
        memory: Mebibytes(8 * GIB),
        gpus: 2,
        gpu_kind: Some("a100".to_owned()),
        scratch: Mebibytes(0),
        features: vec!["fast".to_owned()],
    };
    let licences = BTreeMap::from([("matlab".to_owned(), 1)]);
    let nodes = ClusterNodes { groups: vec![group], licences, default_memory: Mebibytes(GIB) };
    HostResources { nodes, gpus: names(&["a", "b"]) }
}

fn names(gpus: &[&str]) -> Vec<String> {
    gpus.iter().map(|gpu| (*gpu).to_owned()).collect()
}

/// The host with these GPUs.
fn with_gpus(gpus: &[&str]) -> HostResources {
    let mut host = host();
    host.nodes.groups[0].gpus = gpus.len() as u32;
    HostResources { gpus: names(gpus), ..host }
}

fn configure(bench: &mut Bench, host: Option<HostResources>) {
    let (procs, policy, host) = (Procs(4), "cbf".to_owned(), host.map(Arc::new));
    bench.deliver(Event::Configured { procs, policy, host });
    restored(bench);
}

pub(super) fn bench() -> Bench {
    let config =
        ServerConfig { host: Some(Arc::new(host())), ..Bench::new("cbf", 4).server.config().clone() };
    let server = Server::new(config, Time(100)).unwrap();
    Bench { server, now: Time(100), commands: Vec::new(), calls: 0 }
}

fn needing(submit: Submit, resources: Resources) -> Submit {
    let work = Work { resources: Some(Arc::new(resources)), ..submit.work };
    Submit { work, ..submit }
}

fn memory(gib: u32) -> Resources {
    Resources { memory: Some(Memory::Total(Mebibytes(gib * GIB))), ..Resources::default() }
}

fn gpus(count: u32, kind: Option<&str>) -> Resources {
    let kind = kind.map(str::to_owned);
    Resources { gpus: Some(Gpus { count: GpuCount::Total(count), kind }), ..Resources::default() }
}

/// What the jobs that start have besides processors.
fn held(runs: &[Run]) -> Vec<(u32, u32, String)> {
    let one = |run: &Run| {
        let HeldResources { memory, gpus } = run.held.clone().unwrap();
        (run.job.0, memory.0 / GIB, gpus.join(","))
    };
    runs.iter().map(one).collect()
}

#[test]
fn gpus_are_handed_out_by_number_and_memory_is_not_given_twice() {
    let mut bench = bench();
    bench.accepted(needing(rigid(1, 1, 50), gpus(1, Some("a100"))));
    bench.accepted(needing(rigid(2, 1, 90), Resources { memory: memory(4).memory, ..gpus(1, None) }));
    let third = bench.accepted(needing(rigid(3, 1, 50), gpus(1, None)));
    assert_eq!(third.expected.start, Time(150), "there are two");
    assert_eq!(held(&bench.at(100)), [(1, 1, "a".to_owned()), (2, 4, "b".to_owned())]);
    restored(&mut bench);
    bench.now = Time(120);
    bench.ended(1, Exit::Code(0));
    assert_eq!(held(&bench.at(120)), [(3, 1, "a".to_owned())]);
    let fourth = bench.accepted(needing(rigid(4, 1, 50), memory(4)));
    assert_eq!(fourth.expected.start, Time(170), "5 GiB are in use until then");
    restored(&mut bench);
    assert!(bench.at(169).is_empty());
    bench.ended(3, Exit::Code(0));
    assert_eq!(held(&bench.at(169)), [(4, 4, String::new())]);
}

/// 100 s on one processor, 40 s with a GPU, 30 s on two processors with two GPUs.
fn with_table(submit: Submit) -> Submit {
    let point = |procs, gpus, time| GpuPoint { procs: Procs(procs), gpus, time };
    let speedup = Speedup::GpuTable([point(1, 0, 100.0), point(1, 1, 40.0), point(2, 2, 30.0)].into());
    let work = Work { speedup, walltime: Span(100), procs: Procs(1), ..submit.work };
    Submit { work, ..submit }
}

#[test]
fn a_table_of_times_chooses_processors_and_gpus_together() {
    let mut bench = bench();
    let first = bench.accepted(with_table(rigid(1, 1, 100)));
    assert_eq!((first.procs, first.walltime), (Procs(2), Span(30)));
    assert_eq!(held(&bench.at(100)), [(1, 2, "a,b".to_owned())]);
    // Without GPUs it would complete 100 s from now, and with them when the first one has ended.
    let second = bench.accepted(with_table(rigid(2, 1, 100)));
    assert_eq!((second.procs, second.walltime, second.expected.start), (Procs(2), Span(30), Time(130)));
    bench.accepted(needing(rigid(3, 1, 200), gpus(2, None)));
    // Others have the GPUs for longer than it takes without any.
    let fourth = bench.accepted(with_table(rigid(4, 1, 100)));
    assert_eq!((fourth.procs, fourth.walltime, fourth.expected.start), (Procs(1), Span(100), Time(100)));
    assert_eq!(held(&bench.at(100)), [(4, 1, String::new())]);
    restored(&mut bench);
    bench.now = Time(130);
    bench.ended(1, Exit::Code(0));
    assert_eq!(held(&bench.at(130)), [(2, 2, "a,b".to_owned())]);
    configure(&mut bench, None);
    let plain = bench.accepted(with_table(rigid(5, 1, 100)));
    assert_eq!(plain.walltime, Span(100), "GPUs are not counted");
}

/// Of a job with times of this cluster the GPUs are those of its size, however fast the cluster is.
#[test]
fn gpus_of_a_job_with_own_times_are_those_of_the_size_that_runs() {
    let point = |procs, gpus, time| GpuPoint { procs: Procs(procs), gpus, time };
    // At twice the speed 40 s suffice with one GPU.
    let speedup = Speedup::GpuTable([point(1, 0, 100.0), point(1, 1, 60.0), point(1, 2, 40.0)].into());
    let mut bench = bench();
    let config = ServerConfig { speed: Speed::new(2.0).unwrap(), ..bench.server.config().clone() };
    bench.server = Server::new(config, Time(100)).unwrap();
    let work = Work { speedup, walltime: Span(100), procs: Procs(1), requeue: 1, ..rigid(1, 1, 100).work };
    let job = bench.accepted(Submit { own_time: true, work, ..rigid(1, 1, 100) });
    assert_eq!((job.procs, job.walltime, job.gpus), (Procs(1), Span(40), Some(2)));
    restored(&mut bench);
    assert_eq!(held(&bench.at(100)), [(1, 1, "a,b".to_owned())]);
    assert_eq!(bench.server.job(1).unwrap().gpus, Some(2), "once it runs");
    let (job, exit) = (JobId(1), Exit::Lost("a node failed".to_owned()));
    bench.deliver(Event::Batch(batch::Event::NodeFailed { job, exit }));
    assert_eq!(bench.server.job(2).unwrap().gpus, Some(2), "once it waits again");
    assert_eq!(held(&bench.at(101)), [(2, 1, "a,b".to_owned())]);
}

#[test]
fn what_a_job_past_its_end_has_is_given_to_no_other() {
    let mut bench = bench();
    bench.accepted(needing(rigid(1, 1, 50), gpus(2, None)));
    bench.accepted(needing(rigid(2, 1, 50), gpus(1, None)));
    let licence = |key| {
        let licences = BTreeMap::from([("matlab".to_owned(), 1)]);
        needing(rigid(key, 1, 50), Resources { licences, ..Resources::default() })
    };
    bench.accepted(licence(3));
    assert_eq!(held(&bench.at(100)), [(1, 1, "a,b".to_owned()), (3, 1, String::new())]);
    bench.accepted(licence(4));
    // Their plans have ended, their processes have not.
    assert!(bench.at(150).is_empty());
    restored(&mut bench);
    assert!(bench.at(160).is_empty());
    bench.ended(1, Exit::Code(0));
    assert_eq!(held(&bench.at(160)), [(2, 1, "a".to_owned())]);
    bench.ended(3, Exit::Code(0));
    assert_eq!(held(&bench.at(160)), [(4, 1, String::new())]);
}

#[test]
fn what_keeps_a_waiting_job_from_starting_is_named() {
    let mut bench = bench();
    let operator = Caller { user: user("root"), operator: true };
    let shortages = |bench: &mut Bench, number| {
        let wait = bench.server.explain(bench.now, number, &operator).unwrap().waits.unwrap();
        let text = |one: Shortage| format!("{} {}/{}", one.resource, one.needed, one.free);
        wait.shortages.into_iter().map(text).collect::<Vec<_>>()
    };
    let licence = |key| {
        let licences = BTreeMap::from([("matlab".to_owned(), 1)]);
        needing(rigid(key, 1, 50), Resources { licences, ..Resources::default() })
    };
    // A user has at most three jobs here.
    let of_bob = |submit: Submit| Submit { owner: user("bob"), ..submit };
    bench.accepted(of_bob(needing(rigid(1, 1, 50), gpus(2, None))));
    bench.accepted(of_bob(licence(2)));
    assert_eq!(held(&bench.at(100)).len(), 2);
    bench.accepted(needing(rigid(3, 1, 50), gpus(1, None)));
    bench.accepted(licence(4));
    bench.accepted(needing(rigid(5, 3, 50), memory(8)));
    bench.accepted(of_bob(needing(rigid(6, 1, 50), memory(1))));
    assert_eq!(shortages(&mut bench, 3), ["gpus 1/0"]);
    assert_eq!(shortages(&mut bench, 4), ["licences:matlab 1/0"]);
    // Two jobs run, each with the default of 1 GiB.
    assert_eq!(shortages(&mut bench, 5), ["processors 3/2", "memory 8192/6144"]);
    // Only the jobs ahead of it keep it from starting.
    assert_eq!(shortages(&mut bench, 6), Vec::<String>::new());
    let mut plain = Bench::new("cbf", 4);
    plain.accepted(rigid(1, 3, 50));
    plain.at(100);
    plain.accepted(rigid(2, 2, 50));
    assert_eq!(shortages(&mut plain, 2), ["processors 2/1"]);
}

#[test]
fn what_a_cluster_does_not_have_or_count_is_refused() {
    let refused = |answer: Answer| match answer {
        Answer::Refused(refusal) => (refusal.cause(), refusal.to_string()),
        other => panic!("expected a refusal, found {other:?}"),
    };
    let mut bench = bench();
    let why = "no nodes of this cluster have what it needs: 9G of memory".to_owned();
    assert_eq!(refused(bench.submit(needing(rigid(1, 1, 50), memory(9)))), (Cause::Resources, why));
    let why = "no nodes of this cluster have what it needs: 1 v100 GPU".to_owned();
    let other = needing(rigid(1, 1, 50), gpus(1, Some("v100")));
    assert_eq!(refused(bench.submit(other)), (Cause::Resources, why));
    let mut plain = Bench::new("cbf", 4);
    let why =
        "expected work that needs processors only, since this cluster counts nothing else; found 2 GPUs";
    assert_eq!(
        refused(plain.submit(needing(rigid(1, 1, 50), gpus(2, None)))),
        (Cause::Resources, why.to_owned())
    );
    assert!(matches!(plain.submit(rigid(1, 1, 50)), Answer::Accepted(_)));
    let on_one = Resources { nodes: Some(1), ..Resources::default() };
    assert!(matches!(plain.submit(needing(rigid(2, 4, 50), on_one)), Answer::Accepted(_)), "its host is one");
}

#[test]
fn agents_plan_the_host_as_its_server_does() {
    let mut bench = bench();
    bench.accepted(needing(rigid(1, 1, 50), gpus(2, None)));
    bench.accepted(needing(rigid(2, 2, 70), memory(5)));
    bench.at(100);
    let whole = Resources { exclusive: true, ..Resources::default() };
    bench.accepted(needing(rigid(3, 1, 30), whole));
    let asked =
        [rigid(9, 1, 20), needing(rigid(9, 1, 20), gpus(1, None)), needing(rigid(9, 2, 20), memory(3))];
    for submit in asked {
        let snapshot = bench.server.batch.nodes(bench.now).unwrap();
        let mut nodes = Nodes::from_snapshot(bench.now, &snapshot).unwrap();
        let request = submit.work.request(JobId(9), bench.now);
        let walltimes = request.on(Procs(4), Speed::REFERENCE).unwrap();
        let planned = nodes.estimate(bench.now, &walltimes, Tuner::Exact);
        let own = bench.server.batch.estimate(bench.now, None, &walltimes, Tuner::Exact);
        assert!(planned.is_some() && planned == own, "{planned:?} {own:?} {submit:?}");
    }
}

#[test]
fn jobs_stay_if_a_host_gets_less() {
    let mut bench = bench();
    bench.accepted(needing(rigid(1, 1, 50), gpus(2, None)));
    bench.at(100);
    bench.accepted(needing(rigid(2, 1, 50), gpus(2, None)));
    configure(&mut bench, Some(with_gpus(&["b"])));
    let caller = Caller { user: user("alice"), operator: false };
    let why = bench.server.explain(bench.now, 2, &caller).unwrap().unplanned.unwrap();
    assert!(why.starts_with("the cluster does not have what it needs since its configuration"), "{why}");
    assert!(bench.server.batch.is_stuck(bench.now, JobId(2)), "it may go to another server");
    // What needs none of what there is too little of is not kept from running.
    bench.accepted(rigid(3, 1, 50));
    assert_eq!(held(&bench.at(100)), [(3, 1, String::new())]);
    // The running job has its GPU still, by name.
    bench.accepted(needing(rigid(4, 1, 20), gpus(1, None)));
    configure(&mut bench, Some(with_gpus(&["c", "b"])));
    assert_eq!(held(&bench.at(100)), [(4, 1, "c".to_owned())]);
    bench.ended(1, Exit::Code(0));
    bench.ended(4, Exit::Code(0));
    configure(&mut bench, Some(host()));
    assert_eq!(held(&bench.at(100)), [(2, 1, "a,b".to_owned())]);
}

#[test]
fn jobs_wait_if_a_host_counts_nothing_any_more() {
    let mut bench = bench();
    bench.accepted(needing(rigid(1, 1, 50), gpus(2, None)));
    bench.at(100);
    bench.accepted(needing(rigid(2, 1, 50), gpus(1, None)));
    configure(&mut bench, None);
    bench.ended(1, Exit::Code(0));
    bench.accepted(rigid(3, 1, 50));
    let runs: Vec<(u32, bool)> = bench.at(120).iter().map(|run| (run.job.0, run.held.is_some())).collect();
    assert_eq!(runs, [(3, false)]);
    configure(&mut bench, Some(host()));
    assert_eq!(held(&bench.at(120)), [(2, 1, "a".to_owned())]);
}

#[test]
fn a_job_that_had_started_before_an_older_state_was_put_back_may_have_any_gpu() {
    let mut bench = bench();
    bench.accepted(needing(rigid(1, 1, 50), gpus(1, None)));
    let mut effects = batch::Effects::default();
    bench.server.batch.started_before(bench.now, JobId(1), &mut effects);
    bench.accepted(needing(rigid(2, 1, 50), gpus(1, None)));
    bench.accepted(rigid(3, 1, 50));
    assert_eq!(held(&bench.at(100)), [(3, 1, String::new())], "no GPU is certain to be free");
    bench.now = Time(110);
    bench.ended(1, Exit::Code(0));
    assert_eq!(held(&bench.at(110)), [(2, 1, "a".to_owned())]);
}

#[test]
fn a_total_of_memory_that_is_just_there_is_enough() {
    let mut bench = bench();
    let record = bench.accepted(needing(rigid(1, 3, 50), memory(8)));
    assert_eq!(record.expected.start, Time(100));
    assert_eq!(held(&bench.at(100)), [(1, 8, String::new())]);
}

#[test]
fn gpus_in_all_are_as_many_on_each_of_a_fixed_number_of_nodes() {
    let work = |nodes, count| {
        let needed = Resources { nodes, ..gpus(count, None) };
        needing(rigid(1, 4, 100), needed).work.gpus_in(Procs(4), Span(100), Speed::REFERENCE)
    };
    assert_eq!((work(None, 3), work(Some(2), 3), work(Some(2), 4)), (Some(3), Some(4), Some(4)));
}

/// The work of a service: of any size, and with memory that grows with it.
#[test]
fn memory_for_each_processor_limits_the_sizes_of_work() {
    let mut bench = bench();
    let memory = Some(Memory::PerProc(Mebibytes(3 * GIB)));
    let needed = Resources { memory, gpus: gpus(1, None).gpus, ..Resources::default() };
    let order = |key| {
        let order = needing(rigid(key, 1, 100), needed.clone());
        let speedup = Speedup::Amdahl { parallel: 1.0, limit: Procs(4) };
        Submit { work: Work { speedup, ..order.work }, ..order }
    };
    let first = bench.accepted(order(1));
    assert_eq!((first.procs, first.gpus, first.expected.start), (Procs(2), Some(1), Time(100)));
    let second = bench.accepted(order(2));
    assert_eq!(second.expected.start, Time(150), "3 GiB are not left before");
    restored(&mut bench);
    assert_eq!(held(&bench.at(100)), [(1, 6, "a".to_owned())]);
    bench.now = Time(130);
    bench.ended(1, Exit::Code(0));
    assert_eq!(held(&bench.at(130)), [(2, 6, "a".to_owned())]);
}
