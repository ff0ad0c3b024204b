//! What squeue says that jobs request besides cores: memory, GPUs, licences, features.
//!
//! It stands in fields that squeue prints only in its long format, so it is a listing of its own. All of these fields are checked by
//! Slurm when a job is submitted, and none is free text.

use std::collections::BTreeMap;

use pliant_control::listing::{ListedJob, Phase, RequestedResources};
use pliant_model::{Constraint, Mebibytes, is_word};

use super::amounts::{gpus, mebibytes};
use super::mark::Mark;
use super::queue;
use crate::batch_system::error::Unreadable;

const FIELDS: [&str; 10] = [
    "jobarrayid",
    "numtasks",
    "tres-alloc", // of a waiting job what it requests
    "minmemory",  // for each core or on each node
    "tres-per-job",
    "tres-per-node",
    "tres-per-socket",
    "tres-per-task",
    "licenses",
    "mintmpdisk", // on each node
];
const COMMAND: &str = "squeue";

/// The format that squeue is to print requests in.
pub(super) fn format(mark: &Mark) -> String {
    FIELDS.map(|field| format!("{field}:0{}", mark.text())).join(",")
}

/// What jobs request, by their ids.
pub(super) type Requests = BTreeMap<String, RequestedResources>;

/// Reads what squeue printed in [`format`], with what was not understood: its jobs are left out.
pub(super) fn read(printed: &str, mark: &Mark) -> (Requests, Vec<String>) {
    let (mut requests, mut unread) = (Requests::new(), Vec::new());
    let mut fields = printed.split(mark.text());
    loop {
        let record: Vec<&str> =
            fields.by_ref().take(FIELDS.len()).map(|field| field.trim_start_matches('\n')).collect();
        let Ok(record) = <[&str; FIELDS.len()]>::try_from(record) else { break };
        match request(record) {
            Ok((id, requested)) => _ = requests.insert(id, requested),
            Err(error) => unread.push(error.to_string()),
        }
    }
    (requests, unread)
}

fn request(record: [&str; FIELDS.len()]) -> Result<(String, RequestedResources), Unreadable> {
    let [id, tasks, in_all, memory, per_job, per_node, per_socket, per_task, licences, disk] = record;
    let wrong = |name: &str, expected, found: &str| {
        Unreadable::new(COMMAND, &format!("job {id}, {name}"), expected, found)
    };
    let key = queue::key(id).ok_or_else(|| wrong("its id", "an id", id))?;
    let gpus = |name: &str, text: &str| gpus(text).ok_or_else(|| wrong(name, "numbers of resources", text));
    let of_job = gpus("resources in all", per_job)?;
    let of_task = gpus("resources for each task", per_task)?;
    // There is no telling how many sockets: one.
    let of_node =
        gpus("resources on each node", per_node)?.and(gpus("resources on each socket", per_socket)?);
    let tasks: u32 = tasks.parse().map_err(|_| wrong("its tasks", "a number", tasks))?;
    let totals = totals(in_all).ok_or_else(|| wrong("its resources", "cpu=, mem= and node=", in_all))?;
    let each = mebibytes(memory).ok_or_else(|| wrong("its memory", "an amount of memory", memory))?;
    // A task may have several cores, so what it needs is counted in all, on whichever node.
    let (gpus_per_core, of_tasks) =
        if tasks == totals.cores { (of_task.count, 0) } else { (0, of_task.count.saturating_mul(tasks)) };
    let (memory_per_core, memory_per_node) = totals.parts(each);
    let requested = RequestedResources {
        memory_per_core,
        memory_per_node,
        all_memory: each == Mebibytes::ZERO,
        cores_per_task: totals.cores_per_task(tasks),
        gpus_per_core,
        gpus_per_node: of_node.count,
        gpus: of_job.count.saturating_add(of_tasks),
        gpu_kind: of_job.kind.or(of_node.kind).or(of_task.kind),
        scratch_size: mebibytes(disk).ok_or_else(|| wrong("its disk space", "an amount", disk))?,
        constraint: None,
        licences: self::licences(licences)
            .ok_or_else(|| wrong("its licences", "names and numbers", licences))?,
    };
    Ok((key, requested))
}

/// What a job has, or requests, on all of its nodes.
struct Totals {
    cores: u32,
    nodes: u32,
    memory: Mebibytes,
}

/// Reads `cpu=4,mem=1000M,node=2,billing=4`.
fn totals(text: &str) -> Option<Totals> {
    let mut totals = Totals { cores: 0, nodes: 0, memory: Mebibytes::ZERO };
    for (name, value) in text.split(',').filter_map(|part| part.split_once('=')) {
        match name {
            "cpu" => totals.cores = value.parse().ok()?,
            "node" => totals.nodes = value.parse().ok()?,
            "mem" => totals.memory = mebibytes(value)?,
            _ => {}
        }
    }
    Some(totals)
}

impl Totals {
    /// The cores of each of so many tasks, if these are all of its cores.
    fn cores_per_task(&self, tasks: u32) -> Option<u32> {
        let each = self.cores.checked_div(tasks).filter(|each| *each > 1)?;
        (each * tasks == self.cores).then_some(each)
    }

    /// The memory for each core, and that on each node. `each` is one of the two, and the memory in all says which.
    fn parts(&self, each: Mebibytes) -> (Mebibytes, Mebibytes) {
        let in_all = |count: u32| u64::from(each.0) * u64::from(count);
        let part = |count: u32| Mebibytes(self.memory.0.div_ceil(count.max(1)));
        match u64::from(self.memory.0) {
            all if all == in_all(self.cores) => (each, Mebibytes::ZERO),
            all if all == in_all(self.nodes) => (Mebibytes::ZERO, each),
            // Cores that it did not ask for, for instance the second of two threads, have their memory.
            all if all > in_all(self.nodes) && each > Mebibytes::ZERO => (part(self.cores), Mebibytes::ZERO),
            _ => (Mebibytes::ZERO, part(self.nodes)),
        }
    }
}

/// Reads `matlab:2,ansys`: of a licence without a number it is one.
fn licences(text: &str) -> Option<BTreeMap<String, u32>> {
    if queue::nothing(text) {
        return Some(BTreeMap::new());
    }
    let licence = |part: &str| {
        let (name, count) = part.split_once([':', '=']).unwrap_or((part, "1"));
        Some((name.to_owned(), count.parse().ok()?))
    };
    // Of several that will do, all are counted.
    text.split([',', ';', '|']).map(licence).collect()
}

/// Reads features: `a&b`, `a|b` or `(a)&(b)`. None for what is of other forms, or none at all.
pub(super) fn constraint(text: &str) -> Option<Constraint> {
    let names = |separator: char| -> Option<Vec<String>> {
        let name = |part: &str| {
            let name = part.strip_prefix('(').and_then(|part| part.strip_suffix(')')).unwrap_or(part);
            is_word(name).then(|| name.to_owned())
        };
        text.split(separator).map(name).collect()
    };
    if queue::nothing(text) {
        return None;
    }
    names('&').map(Constraint::All).or_else(|| names('|').map(Constraint::Any))
}

/// Notes what jobs request, without memory where it is not handed out. A task that waits in an array requests what all of these do.
pub(super) fn fill(jobs: &mut [ListedJob], requests: &Requests, has_memory: bool) {
    for job in jobs.iter_mut().filter(|job| job.phase() != Phase::Ended) {
        let found = requests.get(&job.id).or_else(|| {
            let (array, _) = job.id.split_once('_')?;
            requests.get(&queue::waiting_tasks(array))
        });
        if let Some(found) = found {
            let constraint = job.requested.constraint.take();
            job.requested = RequestedResources { constraint, ..found.clone() };
            if !has_memory {
                let requested = &mut job.requested;
                (requested.memory_per_core, requested.memory_per_node) = (Mebibytes::ZERO, Mebibytes::ZERO);
                requested.all_memory = false;
            }
        }
    }
}
