//! What sinfo says of all nodes, and scontrol of the cores and GPUs that jobs have on them.

use std::collections::BTreeMap;

use pliant_control::listing::{
    CountedResources, DefaultMemory, ListedJob, Node, Partition, RequestedResources, Reservation,
};

use super::amounts::{gpus, mebibytes};
use super::hostlist;
use super::queue::nothing;
use super::states;
use crate::batch_system::error::Unreadable;

/// The node with its cores, state, memory, local disk space, GPUs and features, then its partition: name, whether it is open, its longest limit, its
/// sizes of jobs, whether nodes are shared, its tier.
/// The reason, which operators write freely, comes last; a line that does not begin with a node goes on with it.
pub(super) const FORMAT: &str = "\u{1e}%N\u{1f}%c\u{1f}%T\u{1f}%m\u{1f}%d\u{1f}%G\u{1f}%b\u{1f}%P\u{1f}%a\u{1f}%l\u{1f}%s\u{1f}%h\u{1f}%p\u{1f}%E";

/// What sinfo says. A partition without nodes is not there.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Nodes {
    pub(super) nodes: Vec<Node>,
    /// By name.
    pub(super) partitions: Vec<Partition>,
    /// What is counted besides cores.
    pub(super) counted: CountedResources,
    pub(super) reservations: Vec<Reservation>,
    /// Those that the server's jobs name and that are not there.
    pub(super) missing_reservations: Vec<String>,
    /// What was not understood of the reservations.
    pub(super) unread: Vec<String>,
}

/// Reads what sinfo printed in [`FORMAT`].
pub(super) fn read(printed: &str) -> Result<Nodes, Unreadable> {
    let wrong = |location: &str, expected, found: &str| Unreadable::new("sinfo", location, expected, found);
    let mut nodes: BTreeMap<&str, Node> = BTreeMap::new();
    let mut partitions: BTreeMap<String, Partition> = BTreeMap::new();
    for record in printed.split('\u{1e}').skip(1) {
        let fields: Vec<&str> = record.splitn(14, '\u{1f}').collect();
        let Ok(fields) = <[&str; 14]>::try_from(fields) else {
            return Err(wrong("a node", "14 fields", record));
        };
        let [
            name,
            cores,
            state,
            memory,
            disk,
            gres,
            features,
            partition,
            open,
            limit,
            sizes,
            shared,
            tier,
            reason,
        ] = fields;
        let cores = cores.parse().map_err(|_| wrong(name, "a number of cores", cores))?;
        let memory = mebibytes(memory).ok_or_else(|| wrong(name, "an amount of memory", memory))?;
        let scratch = mebibytes(disk).ok_or_else(|| wrong(name, "an amount of disk space", disk))?;
        // What is not understood of a node is nothing that jobs could ask for.
        let gpus = gpus(gres).unwrap_or_default();
        let node = nodes.entry(name).or_insert_with(|| Node {
            name: name.to_owned(),
            cores,
            partitions: Vec::new(),
            unusable: states::unusable(state, reason.trim_end()),
            reserved: states::is_reserved(state),
            memory,
            gpus: gpus.count,
            gpu_kind: gpus.kind,
            scratch,
            features: self::features(features),
        });
        let partition = self::partition(partition, open, limit, sizes, shared)
            .ok_or_else(|| wrong(partition, "a limit and sizes of jobs", record))?;
        let tier = tier.parse().map_err(|_| wrong(&partition.name, "a tier", tier))?;
        let partition = Partition { tier, ..partition };
        node.partitions.push(partition.name.clone());
        partitions.insert(partition.name.clone(), partition);
    }
    let mut nodes: Vec<Node> = nodes.into_values().collect();
    for node in &mut nodes {
        node.partitions.sort();
        node.partitions.dedup();
    }
    Ok(Nodes { nodes, partitions: partitions.into_values().collect(), ..Nodes::default() })
}

/// Features: `fast,ssd`, sorted.
fn features(text: &str) -> Vec<String> {
    let mut features: Vec<String> = match nothing(text) {
        true => Vec::new(),
        false => text.split(',').map(str::to_owned).collect(),
    };
    features.sort();
    features
}

/// The memory of jobs that do not mention memory, by the partitions that say so, out of what `scontrol --oneliner show partitions`
/// printed.
pub(super) fn default_memory(printed: &str) -> Result<BTreeMap<String, DefaultMemory>, Unreadable> {
    let mut found = BTreeMap::new();
    for line in printed.lines() {
        let settings = || line.split(' ').filter_map(|word| word.split_once('='));
        let setting = |key: &str| settings().find(|(name, _)| *name == key).map(|(_, value)| value);
        let Some(partition) = setting("PartitionName") else { continue };
        let amount = |key: &str| match setting(key) {
            None | Some("UNLIMITED") => Ok(None),
            Some(value) => mebibytes(value).map(Some).ok_or_else(|| {
                Unreadable::new(
                    "scontrol show partitions",
                    &format!("{partition}, {key}"),
                    "an amount",
                    value,
                )
            }),
        };
        let of = amount("DefMemPerCPU")?.map(DefaultMemory::PerCore);
        let of = of.or(amount("DefMemPerNode")?.map(DefaultMemory::PerNode));
        found.extend(of.map(|memory| (partition.to_owned(), memory)));
    }
    Ok(found)
}

/// The units of each licence, those that are reserved included, out of what `scontrol --oneliner show licenses` printed.
pub(super) fn licences(printed: &str) -> Result<BTreeMap<String, u32>, Unreadable> {
    let mut licences = BTreeMap::new();
    for line in printed.lines() {
        let settings = || line.split(' ').filter_map(|word| word.split_once('='));
        let setting = |key: &str| settings().find(|(name, _)| *name == key).map(|(_, value)| value);
        let Some(name) = setting("LicenseName") else { continue };
        let value = setting("Total").unwrap_or("0");
        let total = value.parse().map_err(|_| {
            Unreadable::new("scontrol show licenses", &format!("{name}, Total"), "a number", value)
        })?;
        licences.insert(name.to_owned(), total);
    }
    Ok(licences)
}

/// A partition: `main*` (the default one), `up`, `1-00:00:00`, `1-4` (its jobs' nodes), `EXCLUSIVE`.
fn partition(name: &str, open: &str, limit: &str, sizes: &str, shared: &str) -> Option<Partition> {
    let most = sizes.split_once('-').map_or(sizes, |(_, most)| most);
    Some(Partition {
        name: name.trim_end_matches('*').to_owned(),
        is_default: name.ends_with('*'),
        closed: (open != "up").then(|| open.to_owned()),
        // One that is drained works off what it has.
        stopped: !matches!(open, "up" | "drain"),
        walltime: states::walltime(limit)?,
        nodes: if most == "infinite" { None } else { Some(most.parse().ok()?) },
        exclusive: shared == "EXCLUSIVE",
        ..Partition::default()
    })
}

/// What a job has of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Share {
    pub(super) cores: u32,
    pub(super) gpus: u32,
}

/// What jobs have of each node, by the jobs' numbers, out of what `scontrol --details --oneliner show jobs` printed, of the jobs
/// that are asked for with their numbers of nodes. Users write freely into its lines, so what comes out is to be compared with what
/// squeue says, and a line that names more nodes than its job has is not read further.
pub(super) fn spreads(
    printed: &str,
    wanted: &BTreeMap<&str, usize>,
) -> BTreeMap<String, BTreeMap<String, Share>> {
    let mut spreads = BTreeMap::new();
    for line in printed.lines() {
        let Some(id) = line.strip_prefix("JobId=").and_then(|rest| rest.split(' ').next()) else { continue };
        let Some(nodes_max) = wanted.get(id) else { continue };
        // Behind the last of its names: what comes before it can have been written by a user.
        let Some((_, details)) = line.rsplit_once(" JOB_GRES=") else { continue };
        let details = details.split(" MinCPUsNode=").next().unwrap_or_default();
        if let Some(spread) = spread(details, *nodes_max).filter(|spread| !spread.is_empty()) {
            spreads.insert(id.to_owned(), spread);
        }
    }
    spreads
}

/// Reads `(null)   Nodes=n1 CPU_IDs=0-3 Mem=0 GRES=   Nodes=n[2-3] CPU_IDs=0,2 Mem=0 GRES=gpu:a100:1(IDX:0)`.
fn spread(details: &str, nodes_max: usize) -> Option<BTreeMap<String, Share>> {
    let mut spread: BTreeMap<String, Share> = BTreeMap::new();
    let mut nodes = Vec::new();
    for word in details.split(' ') {
        if let Some(list) = word.strip_prefix("Nodes=") {
            nodes = hostlist::expand_at_most(list, nodes_max.checked_sub(spread.len())?)?;
        } else if let Some(cores) = word.strip_prefix("CPU_IDs=") {
            let cores = hostlist::count(cores)?;
            spread.extend(nodes.iter().map(|node| (node.clone(), Share { cores, gpus: 0 })));
        } else if let Some(gres) = word.strip_prefix("GRES=") {
            let count = gpus(gres)?.count;
            for node in &nodes {
                spread.get_mut(node)?.gpus = count;
            }
        }
    }
    Some(spread)
}

/// Notes a job's part of its nodes, if its cores are as many as it has and on no other node.
pub(super) fn fill(job: &mut ListedJob, spread: &BTreeMap<String, Share>) -> bool {
    let fits = spread.len() == job.allocations.len()
        && job.allocations.iter().all(|allocation| spread.contains_key(&allocation.node))
        && spread.values().map(|share| u64::from(share.cores)).sum::<u64>() == u64::from(job.shape.cores);
    if fits {
        // Users write into these lines: it has no more than it requests.
        let RequestedResources { gpus, gpus_per_node, gpus_per_core, .. } = job.requested;
        let on_nodes = u64::from(gpus_per_node) * spread.len() as u64;
        let requested = u64::from(gpus) + on_nodes + u64::from(gpus_per_core) * u64::from(job.shape.cores);
        let found: u64 = spread.values().map(|share| u64::from(share.gpus)).sum();
        let has_gpus = found > 0 && found <= requested;
        for allocation in &mut job.allocations {
            let share = spread.get(&allocation.node);
            allocation.cores = share.map(|share| share.cores);
            allocation.gpus = share.filter(|_| has_gpus).map(|share| share.gpus);
        }
    }
    fits
}
