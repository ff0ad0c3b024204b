//! Conservative backfilling on nodes against a reference that looks at every second and tries every number of processors on
//! each node: each job has the earliest reservation that the others leave, none moves to a later one, and nothing is given
//! twice.

use std::collections::BTreeMap;

use pliant_model::{ClusterNodes, JobId, Mebibytes, NodeGroup, Procs, Span, Time};
use pliant_policy::batch::{self, BatchScheduler, Dump, JobOnNodes, Submission, Waiting};
use pliant_policy::nodes::{Amounts, ClusterSnapshot, Node, Part, Rules};
use proptest::prelude::*;

use super::resources::{Asked, all, asked, clusters, fits_on, licences};

/// The same nodes, declared. Each has a feature of its own, so that nodes that are alike are not planned as a pool.
fn declared(cluster: &ClusterSnapshot) -> ClusterNodes {
    let group = |(number, node): (usize, &Node)| {
        let kind = &cluster.kinds[usize::from(node.kind)];
        let features = kind.features.iter().cloned().chain([format!("node-{number}")]);
        NodeGroup {
            count: 1,
            procs: node.cores,
            memory: node.memory,
            gpus: node.gpus,
            gpu_kind: kind.gpu_kind.clone(),
            scratch: node.scratch,
            features: features.collect(),
        }
    };
    ClusterNodes {
        groups: cluster.nodes.iter().enumerate().map(group).collect(),
        licences: cluster.licences.iter().map(|one| (one.name.clone(), one.count)).collect(),
        default_memory: cluster.default_memory,
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    Submit(Asked),
    /// The which-th running job ends now.
    Finish(usize),
    /// The which-th waiting job is withdrawn.
    Cancel(usize),
    /// The which-th running job runs on for so many seconds after the end that it was to have.
    Extend(usize, i64),
    Wait(i64),
    Restore,
}

pub(crate) fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (asked(), 1..20_i64).prop_map(|(asked, walltime)| Event::Submit(Asked { walltime, ..asked })),
        3 => (0..8_usize).prop_map(Event::Finish),
        1 => (0..8_usize).prop_map(Event::Cancel),
        1 => (0..8_usize, 1..10_i64).prop_map(|(which, more)| Event::Extend(which, more)),
        3 => (1..12_i64).prop_map(Event::Wait),
        1 => Just(Event::Restore),
    ]
}

/// What is free in each second from now on, by node and then the licence.
pub(crate) struct Table {
    now: i64,
    free: Vec<Vec<Amounts>>,
}

impl Table {
    fn new(cluster: &ClusterSnapshot, now: i64) -> Table {
        let licence = Amounts { cores: cluster.licences[0].count, ..Amounts::default() };
        let row: Vec<Amounts> = all(cluster).into_iter().chain([licence]).collect();
        Table { now, free: vec![row; 4_000] }
    }

    /// Of a state as a scheduler shows it, but for one job.
    pub(crate) fn of(cluster: &ClusterSnapshot, now: i64, dump: &Dump, without: Option<JobId>) -> Table {
        let mut table = Table::new(cluster, now);
        let on: BTreeMap<JobId, &JobOnNodes> = dump.on_nodes.iter().map(|one| (one.job, one)).collect();
        let running = dump.running.iter().map(|one| (one.job, now, one.end.0));
        let planned = dump.planned.iter().map(|one| (one.job, one.plan.start.0, one.plan.completion().0));
        for (job, from, until) in running.chain(planned).filter(|one| Some(one.0) != without) {
            table.change(from, until, &on[&job].on, |free, taken| {
                free.checked_sub(taken).expect("nothing is given twice")
            });
        }
        table
    }

    fn change(&mut self, from: i64, until: i64, on: &[Part], to: impl Fn(u32, u32) -> u32) {
        for second in from.max(self.now)..until {
            for Part { node, taken } in on {
                let free = &mut self.free[(second - self.now) as usize][*node as usize];
                *free = Amounts {
                    cores: to(free.cores, taken.cores),
                    memory: Mebibytes(to(free.memory.0, taken.memory.0)),
                    gpus: to(free.gpus, taken.gpus),
                    scratch: Mebibytes(to(free.scratch.0, taken.scratch.0)),
                };
            }
        }
    }

    /// Whether these parts are free until then.
    fn has(&self, from: i64, until: i64, on: &[Part]) -> bool {
        let seconds = from.max(self.now)..until;
        seconds.into_iter().all(|second| {
            on.iter().all(|Part { node, taken }| {
                let free = self.free[(second - self.now) as usize][*node as usize];
                free.cores >= taken.cores
                    && free.memory >= taken.memory
                    && free.gpus >= taken.gpus
                    && free.scratch >= taken.scratch
            })
        })
    }

    /// The first second from which a job fits for all of its walltime.
    pub(crate) fn earliest(&self, cluster: &ClusterSnapshot, asked: &Asked) -> Option<i64> {
        let least = |from: usize| {
            let mut least = self.free[from].clone();
            for second in &self.free[from..from + asked.walltime as usize] {
                for (least, free) in least.iter_mut().zip(second) {
                    least.cores = least.cores.min(free.cores);
                    least.memory = least.memory.min(free.memory);
                    least.gpus = least.gpus.min(free.gpus);
                    least.scratch = least.scratch.min(free.scratch);
                }
            }
            least
        };
        let fits = |from: &usize| {
            let free = least(*from);
            let (licence, nodes) = free.split_last().expect("there is a licence");
            licences(asked) <= licence.cores && fits_on(asked, cluster, nodes)
        };
        (0..self.free.len() - asked.walltime as usize).find(fits).map(|from| self.now + from as i64)
    }
}

pub(crate) struct Checked {
    pub(crate) cluster: ClusterSnapshot,
    pub(crate) scheduler: Box<dyn BatchScheduler>,
    pub(crate) now: i64,
    pub(crate) jobs: Vec<Asked>,
}

impl Checked {
    pub(crate) fn at(&self) -> Time {
        Time(self.now)
    }

    /// Submits a job, of at most the processors of the cluster.
    pub(crate) fn submit(&mut self, asked: Asked) {
        let asked = Asked { procs: asked.procs.min(self.cluster.cores().0), ..asked };
        let expected = Table::of(&self.cluster, self.now, &self.scheduler.dump(), None);
        let expected = expected.earliest(&self.cluster, &asked);
        let job = JobId(self.jobs.len() as u32);
        let submission = Submission::new(job, Procs(asked.procs), Span(asked.walltime));
        let resources = asked.resources.clone().map(std::sync::Arc::new);
        self.scheduler.submit(self.at(), Submission { resources, ..submission });
        let found = self.scheduler.plan(self.at(), job).map(|plan| plan.start.0);
        assert_eq!(found, expected, "{asked:?}");
        self.jobs.push(asked);
    }

    /// The plan is as it was, but that each waiting job in order of submission has the earliest place that the others leave.
    fn check_compressed(&self, before: &Dump, without: JobId) {
        let after = self.scheduler.dump();
        let mut table = Table::of(&self.cluster, self.now, before, Some(without));
        let on = |dump: &Dump, job: JobId| {
            dump.on_nodes.iter().find(|one| one.job == job).expect("it has nodes").on.clone()
        };
        for Waiting { job, plan } in before.planned.iter().filter(|one| one.job != without) {
            let found = after.planned.iter().find(|one| one.job == *job).expect("it waits still").plan;
            if plan.start.0 > self.now {
                let (old, new) = (on(before, *job), on(&after, *job));
                table.change(plan.start.0, plan.completion().0, &old, |free, taken| free + taken);
                let expected = table.earliest(&self.cluster, &self.jobs[job.index()]);
                assert_eq!(Some(found.start.0), expected, "job {job}");
                assert!(found.start <= plan.start, "job {job} is later than it was promised");
                table.change(found.start.0, found.completion().0, &new, |free, taken| {
                    free.checked_sub(taken).expect("nothing is given twice")
                });
            } else {
                assert_eq!(found, *plan, "job {job} is due");
            }
        }
    }

    /// A job runs on. If what it has is free for that long nothing else changes, else all waiting jobs are planned anew in order.
    fn extend(&mut self, before: &Dump, which: usize, more: i64) {
        let Some(one) = before.running.get(which % before.running.len().max(1)) else { return };
        let end = Time(one.end.0 + more);
        let on = &before.on_nodes.iter().find(|held| held.job == one.job).expect("it has nodes").on;
        let mut table = Table::of(&self.cluster, self.now, before, None);
        let is_free = table.has(one.end.0, end.0, on);
        self.scheduler.extend_running(self.at(), &[(one.job, end)]);
        let after = self.scheduler.dump();
        assert_eq!(after.running.iter().find(|held| held.job == one.job).map(|held| held.end), Some(end));
        if is_free {
            assert_eq!(after.planned, before.planned);
            return;
        }
        table = Table::of(&self.cluster, self.now, &Dump { planned: Vec::new(), ..after.clone() }, None);
        for Waiting { job, plan } in &after.planned {
            let expected = table.earliest(&self.cluster, &self.jobs[job.index()]);
            assert_eq!(Some(plan.start.0), expected, "job {job}");
            let on = &after.on_nodes.iter().find(|one| one.job == *job).expect("it has nodes").on;
            table.change(plan.start.0, plan.completion().0, on, |free, taken| {
                free.checked_sub(taken).expect("nothing is given twice")
            });
        }
    }

    pub(crate) fn wait(&mut self, until: i64) {
        loop {
            let dump = self.scheduler.dump();
            let ends = dump.running.iter().map(|one| (one.end.0, one.job)).min();
            let next = [self.scheduler.next_start().map(|start| start.0), ends.map(|(end, _)| end)];
            let Some(next) = next.into_iter().flatten().min().filter(|next| *next <= until) else { break };
            self.now = self.now.max(next);
            if let Some((_, job)) = ends.filter(|(end, _)| *end <= self.now) {
                self.scheduler.finish(self.at(), job);
                continue;
            }
            self.scheduler.start_due(self.at(), &mut Vec::new());
            Table::of(&self.cluster, self.now, &self.scheduler.dump(), None);
        }
        self.now = until;
    }

    fn restore(&mut self, policy: &str) {
        let dump = self.scheduler.dump();
        let mut restored = new(policy, &self.cluster, self.at());
        restored.restore(self.at(), &dump).unwrap();
        assert_eq!(restored.dump(), dump);
        self.scheduler = restored;
    }
}

pub(crate) fn new(policy: &str, cluster: &ClusterSnapshot, now: Time) -> Box<dyn BatchScheduler> {
    (batch::by_name(policy).unwrap().on_nodes.unwrap())(&declared(cluster), now)
}

/// All nodes are up, and jobs share them.
pub(crate) fn plain(cluster: ClusterSnapshot) -> ClusterSnapshot {
    let nodes = cluster.nodes.into_iter().map(|node| Node { up: true, ..node });
    ClusterSnapshot { nodes: nodes.collect(), rules: Rules::default(), ..cluster }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equals_the_reference(cluster in clusters(), events in prop::collection::vec(event(), 1..30)) {
        let cluster = plain(cluster);
        let scheduler = new("cbf", &cluster, Time::ZERO);
        let mut checked = Checked { cluster, scheduler, now: 0, jobs: Vec::new() };
        for event in events {
            checked.wait(checked.now);
            let before = checked.scheduler.dump();
            let (now, count) = (checked.at(), |jobs: usize| jobs.max(1));
            match event {
                Event::Submit(asked) => checked.submit(asked),
                Event::Finish(which) => {
                    let Some(one) = before.running.get(which % count(before.running.len())) else { continue };
                    checked.scheduler.finish(now, one.job);
                    checked.check_compressed(&before, one.job);
                }
                Event::Cancel(which) => {
                    let Some(one) = before.planned.get(which % count(before.planned.len())) else { continue };
                    prop_assert_eq!(checked.scheduler.cancel(now, &[one.job]), 1);
                    checked.check_compressed(&before, one.job);
                }
                Event::Extend(which, more) => checked.extend(&before, which, more),
                Event::Wait(seconds) => checked.wait(checked.now + seconds),
                Event::Restore => checked.restore("cbf"),
            }
        }
        checked.wait(checked.now + 700);
        let left = checked.scheduler.dump();
        prop_assert!(left.planned.is_empty() && left.running.is_empty(), "jobs wait for ever: {:?}", left);
    }

    #[test]
    fn jobs_planned_anew_get_the_earliest_times_in_order(
        cluster in clusters(),
        events in prop::collection::vec(event(), 1..30),
    ) {
        let cluster = plain(cluster);
        let scheduler = new("cbf-replan", &cluster, Time::ZERO);
        let mut checked = Checked { cluster, scheduler, now: 0, jobs: Vec::new() };
        for event in events {
            checked.wait(checked.now);
            let before = checked.scheduler.dump();
            match event {
                Event::Submit(asked) => checked.submit(asked),
                Event::Finish(which) if !before.running.is_empty() => {
                    let job = before.running[which % before.running.len()].job;
                    checked.scheduler.finish(checked.at(), job);
                    let after = checked.scheduler.dump();
                    let stays = |one: &&Waiting| one.plan.start <= checked.at();
                    let mut planned: Vec<Waiting> = after.planned.iter().filter(stays).copied().collect();
                    for one in &after.planned {
                        if stays(&one) {
                            continue;
                        }
                        let so_far = Dump { planned: planned.clone(), ..after.clone() };
                        let table = Table::of(&checked.cluster, checked.now, &so_far, None);
                        let expected = table.earliest(&checked.cluster, &checked.jobs[one.job.index()]);
                        prop_assert_eq!(Some(one.plan.start.0), expected, "job {}", one.job);
                        planned.push(*one);
                    }
                }
                Event::Wait(seconds) => checked.wait(checked.now + seconds),
                Event::Restore => checked.restore("cbf-replan"),
                Event::Extend(which, more) => checked.extend(&before, which, more),
                Event::Finish(_) | Event::Cancel(_) => {}
            }
        }
    }

    /// Where nodes have one processor each and jobs ask for nothing else, plans are those of a pool of processors.
    #[test]
    fn one_processor_nodes_are_a_pool(
        procs in 1..9_u32,
        replan in any::<bool>(),
        events in prop::collection::vec(event(), 1..40),
    ) {
        let policy = batch::by_name(if replan { "cbf-replan" } else { "cbf" }).unwrap();
        let group = NodeGroup {
            count: procs,
            procs: Procs(1),
            memory: Mebibytes(1),
            gpus: 0,
            gpu_kind: None,
            scratch: Mebibytes(0),
            features: Vec::new(),
        };
        let (licences, default_memory) = (BTreeMap::new(), Mebibytes(1));
        let nodes = ClusterNodes { groups: vec![group], licences, default_memory };
        let on_nodes = (policy.on_nodes.unwrap())(&nodes, Time::ZERO);
        let mut both = [on_nodes, (policy.new)(Procs(procs), Time::ZERO)];
        let (mut now, mut submitted) = (Time::ZERO, 0);
        for event in events {
            let running = both[0].dump().running;
            let waiting = both[0].dump().planned;
            let which = |which: usize, count: usize| which % count.max(1);
            for scheduler in &mut both {
                match &event {
                    Event::Submit(Asked { procs: asked, walltime, .. }) => {
                        let asked = Procs((*asked).min(procs));
                        scheduler.submit(now, Submission::new(JobId(submitted), asked, Span(*walltime)));
                    }
                    Event::Finish(number) => {
                        if let Some(one) = running.get(which(*number, running.len())) {
                            scheduler.finish(now, one.job);
                        }
                    }
                    Event::Cancel(number) => {
                        if let Some(one) = waiting.get(which(*number, waiting.len())) {
                            scheduler.cancel(now, &[one.job]);
                        }
                    }
                    Event::Extend(number, more) => {
                        if let Some(one) = running.get(which(*number, running.len())) {
                            scheduler.extend_running(now, &[(one.job, one.end + Span(*more))]);
                        }
                    }
                    Event::Wait(_) | Event::Restore => {}
                }
            }
            submitted += 1;
            let until = if let Event::Wait(seconds) = event { now + Span(seconds) } else { now };
            loop {
                let ends = both[0].dump().running.into_iter().map(|one| (one.end, one.job)).min();
                let next = [both[0].next_start(), ends.map(|(end, _)| end)].into_iter().flatten().min();
                let Some(at) = next.filter(|at| *at <= until) else { break };
                now = now.max(at);
                for scheduler in &mut both {
                    match ends.filter(|(end, _)| *end <= now) {
                        Some((_, job)) => scheduler.finish(now, job),
                        None => scheduler.start_due(now, &mut Vec::new()),
                    }
                }
            }
            now = until;
            let [on_nodes, pool] = both.each_ref().map(|scheduler| scheduler.dump());
            prop_assert_eq!((on_nodes.running, on_nodes.planned), (pool.running, pool.planned), "at {}", now);
        }
    }
}
