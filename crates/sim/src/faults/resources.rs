//! Hosts and nodes of external clusters that count memory, GPUs, local disk space and licences, jobs that need some of these, and the
//! check of what each job gets of a host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pliant_control::batch::embedded::HostResources;
use pliant_control::batch::{HeldResources, Run};
use pliant_control::names::Handle;
use pliant_model::{
    Cluster, ClusterNodes, Constraint, GpuCount, Gpus, Mebibytes, Memory, NodeGroup, Procs, Resources,
};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use super::external::SitePlan;
use super::world::World;

/// The kinds of GPUs.
const GPU_KINDS: [&str; 2] = ["a100", "v100"];

/// The feature that some hosts have.
const FEATURE: &str = "fast";

/// The licence that some hosts have.
const LICENCE: &str = "solver";

/// Draws the hosts that count resources, by server. Their policies become ones that plan with them.
pub(super) fn draw_hosts(
    rng: &mut ChaCha8Rng,
    clusters: &mut [Cluster],
    sites: &BTreeMap<usize, SitePlan>,
) -> BTreeMap<usize, Arc<HostResources>> {
    let mut hosts = BTreeMap::new();
    for (number, cluster) in clusters.iter_mut().enumerate() {
        if sites.contains_key(&number) || rng.random_ratio(1, 4) {
            continue;
        }
        cluster.batch = ["cbf", "cbf-replan"][rng.random_range(0..2)].to_owned();
        hosts.insert(number, Arc::new(host(rng, cluster.procs)));
    }
    hosts
}

/// Draws what the nodes of external clusters have besides cores, and their licences.
pub(super) fn draw_sites(rng: &mut ChaCha8Rng, sites: &mut BTreeMap<usize, SitePlan>) {
    for site in sites.values_mut() {
        if rng.random_ratio(1, 4) {
            continue;
        }
        let default_memory = Mebibytes(rng.random_range(0..2) * 1_024);
        let groups = site.nodes.iter().map(|cores| host(rng, Procs(*cores)).nodes.groups.remove(0)).collect();
        let licences = BTreeMap::from([(LICENCE.to_owned(), rng.random_range(1..=3))]);
        site.counted = Some(ClusterNodes { groups, licences, default_memory });
    }
}

fn host(rng: &mut ChaCha8Rng, procs: Procs) -> HostResources {
    let gpus = rng.random_range(0..=4);
    let kind = GPU_KINDS[rng.random_range(0..GPU_KINDS.len())];
    let group = NodeGroup {
        count: 1,
        procs,
        memory: Mebibytes(procs.0 * rng.random_range(1_024..4_096)),
        gpus,
        gpu_kind: (gpus > 0).then(|| kind.to_owned()),
        scratch: Mebibytes(rng.random_range(0..3) * 4_096),
        features: if rng.random_bool(0.5) { vec![FEATURE.to_owned()] } else { Vec::new() },
    };
    let licences = BTreeMap::from([(LICENCE.to_owned(), rng.random_range(1..=3))]);
    let default_memory = Mebibytes(rng.random_range(0..2) * 1_024);
    let gpus = (0..gpus).map(|gpu| format!("gpu{gpu}")).collect();
    HostResources { nodes: ClusterNodes { groups: vec![group], licences, default_memory }, gpus }
}

/// Draws what a job needs besides processors. Some jobs fit on no host: they are refused.
pub(super) fn draw_needs(rng: &mut ChaCha8Rng) -> Option<Arc<Resources>> {
    if rng.random_bool(0.4) {
        return None;
    }
    let memory = match rng.random_range(0..3) {
        0 => None,
        1 => Some(Memory::PerProc(Mebibytes(rng.random_range(1..2_500)))),
        _ => Some(Memory::Total(Mebibytes(rng.random_range(1..9_000)))),
    };
    let count = match rng.random_range(0..6) {
        0 => Some(GpuCount::PerProc(1)),
        1 | 2 => Some(GpuCount::Total(rng.random_range(1..=3))),
        _ => None,
    };
    let kind = GPU_KINDS[rng.random_range(0..GPU_KINDS.len())];
    let kind = rng.random_ratio(1, 4).then(|| kind.to_owned());
    let units = rng.random_range(1..=2);
    let needs = Resources {
        memory,
        gpus: count.map(|count| Gpus { count, kind }),
        scratch: Mebibytes(if rng.random_ratio(1, 5) { rng.random_range(1..4_096) } else { 0 }),
        exclusive: rng.random_ratio(1, 15),
        constraint: rng.random_ratio(1, 10).then(|| Constraint::All(vec![FEATURE.to_owned()])),
        licences: match rng.random_ratio(1, 5) {
            true => BTreeMap::from([(LICENCE.to_owned(), units)]),
            false => BTreeMap::new(),
        },
        ..Resources::default()
    };
    (needs != Resources::default()).then(|| Arc::new(needs))
}

/// Draws the processors of each task of a job with so many processors, which become those of whole tasks and at most `most`. Most jobs
/// have no tasks of several processors. Returns the processors.
pub(super) fn draw_tasks(
    rng: &mut ChaCha8Rng,
    needs: &mut Option<Arc<Resources>>,
    procs: Procs,
    most: Procs,
) -> Procs {
    let task = rng.random_range(2..=4);
    if rng.random_ratio(2, 3) || task > most.0 {
        return procs;
    }
    Arc::make_mut(needs.get_or_insert_default()).procs_per_task = Some(Procs(task));
    Procs(procs.0.next_multiple_of(task).min(most.0 - most.0 % task))
}

/// What a process has besides processors.
#[derive(Default)]
pub(super) struct ProcessResources {
    held: HeldResources,
    scratch: Mebibytes,
    licences: u32,
    exclusive: bool,
}

impl World {
    /// Has a server forget what its running jobs have of its host ([`Bug::ForgetsHeldResources`]).
    pub(super) fn lose_held_resources(&mut self, index: usize) {
        let now = self.queue.now();
        let changed = self.servers[index].daemon.change_state(now, |state| {
            let started = state.pointer_mut("/batch/started").and_then(Value::as_array_mut);
            for started in started.into_iter().flatten().filter_map(|one| one.get_mut(1)?.as_object_mut()) {
                started.remove("taken");
                started.remove("gpus");
            }
        });
        if let Err(why) = changed {
            self.report_violation("journal", why);
        }
    }

    /// Checks that a job gets what it needs, and nothing that another process has. Returns what it has.
    pub(super) fn check_resources(
        &mut self,
        index: usize,
        run: &Run,
        handle: &Handle,
        needed: Option<&Resources>,
    ) -> ProcessResources {
        let processes = self.servers[index].processes.values();
        let others: Vec<&ProcessResources> =
            processes.filter(|process| !process.over).map(|process| &process.resources).collect();
        let has = ProcessResources {
            held: run.held.clone().unwrap_or_default(),
            scratch: needed.map(|needed| needed.scratch).unwrap_or_default(),
            licences: needed.and_then(|needed| needed.licences.get(LICENCE).copied()).unwrap_or(0),
            exclusive: needed.is_some_and(|needed| needed.exclusive),
        };
        let wrong = match (self.plan.hosts.get(&index), &run.held) {
            (Some(host), Some(_)) => {
                let procs = Procs(run.cores.len() as u32);
                lacks(host, procs, &has, needed).or_else(|| shares(host, &has, &others))
            }
            (None, None) => {
                let counted = needed.filter(|needed| !needed.is_one_node_of(run.procs));
                counted.map(|needed| format!("nothing is counted, and the job needs {needed}"))
            }
            (Some(_), None) => Some("it has nothing of what is counted".to_owned()),
            (None, Some(held)) => Some(format!("nothing is counted, and it has {held:?}")),
        };
        let task = needed.map_or(Procs::ONE, Resources::task_procs);
        let is_split = !run.procs.0.is_multiple_of(task.0);
        let split = || is_split.then(|| format!("of {} processors a task of {task} is split", run.procs));
        if let Some(why) = wrong.or_else(split) {
            self.report_violation("resources", format!("c{index} starts {handle}: {why}"));
        }
        has
    }
}

/// What a job lacks that it needs on so many processors.
fn lacks(
    host: &HostResources,
    procs: Procs,
    has: &ProcessResources,
    needed: Option<&Resources>,
) -> Option<String> {
    let [group] = &host.nodes.groups[..] else { return Some("a host is one node".to_owned()) };
    let memory = match needed.and_then(|needed| needed.memory) {
        Some(Memory::Total(all)) => all,
        Some(Memory::PerProc(each)) => Mebibytes(each.0 * procs.0),
        None => Mebibytes(host.nodes.default_memory.0 * procs.0),
    };
    if has.held.memory < memory {
        return Some(format!("it needs {memory} of memory, and has {}", has.held.memory));
    }
    let needed = needed?;
    let (count, kind) = match &needed.gpus {
        Some(Gpus { count: GpuCount::PerProc(each), kind }) => (each * procs.0, kind.as_ref()),
        Some(Gpus { count: GpuCount::Total(all), kind }) => (*all, kind.as_ref()),
        None => (0, None),
    };
    let gpus = &has.held.gpus;
    if gpus.len() < count as usize {
        return Some(format!("it needs {count} GPUs, and has {gpus:?}"));
    }
    if kind.is_some_and(|kind| group.gpu_kind.as_ref() != Some(kind)) {
        return Some(format!("it needs GPUs of the kind {kind:?}, and has {:?}", group.gpu_kind));
    }
    let is_admitted = needed.constraint.as_ref().is_none_or(|constraint| constraint.admits(&group.features));
    (!is_admitted).then(|| format!("it needs {needed}, and the host has {:?}", group.features))
}

/// What a job has that the host does not have or that others have.
fn shares(host: &HostResources, has: &ProcessResources, others: &[&ProcessResources]) -> Option<String> {
    let [group] = &host.nodes.groups[..] else { return Some("a host is one node".to_owned()) };
    let all = || others.iter().copied().chain([has]);
    if others.iter().any(|other| has.exclusive || other.exclusive) {
        return Some("it or another job has the host for itself".to_owned());
    }
    let memory: u32 = all().map(|one| one.held.memory.0).sum();
    let scratch: u32 = all().map(|one| one.scratch.0).sum();
    let licences: u32 = all().map(|one| one.licences).sum();
    let units = host.nodes.licences.get(LICENCE).copied().unwrap_or(0);
    for (what, taken, most) in [
        ("MiB of memory", memory, group.memory.0),
        ("MiB of disk space", scratch, group.scratch.0),
        ("units of a licence", licences, units),
    ] {
        if taken > most {
            return Some(format!("the jobs have {taken} {what}, and the host {most}"));
        }
    }
    let mut gpus = BTreeSet::new();
    let mut names = all().flat_map(|one| &one.held.gpus);
    let wrong = names.find(|gpu| !host.gpus.contains(*gpu) || !gpus.insert(*gpu));
    wrong.map(|gpu| format!("the GPU {gpu} has two jobs, or is none of the host"))
}
