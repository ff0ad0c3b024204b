//! What sinfo says of all nodes, and scontrol of the cores that jobs have on them.

use std::collections::BTreeMap;

use pliant_control::listing::{ListedJob, Node, Partition};

use super::hostlist;
use super::states;
use crate::batch_system::error::Unreadable;

/// The node, then its partition: name, whether it is open, its longest limit, its sizes of jobs, whether nodes are shared.
/// The reason, which operators write freely, comes last; a line that does not begin with a node goes on with it.
pub(super) const FORMAT: &str = "\u{1e}%N\u{1f}%c\u{1f}%T\u{1f}%P\u{1f}%a\u{1f}%l\u{1f}%s\u{1f}%h\u{1f}%E";

/// What sinfo says. A partition without nodes is not there.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Nodes {
    pub(super) nodes: Vec<Node>,
    /// By name.
    pub(super) partitions: Vec<Partition>,
}

/// Reads what sinfo printed in [`FORMAT`].
pub(super) fn read(printed: &str) -> Result<Nodes, Unreadable> {
    let wrong = |location: &str, expected, found: &str| Unreadable::new("sinfo", location, expected, found);
    let mut nodes: BTreeMap<&str, Node> = BTreeMap::new();
    let mut partitions: BTreeMap<String, Partition> = BTreeMap::new();
    for record in printed.split('\u{1e}').skip(1) {
        let fields: Vec<&str> = record.splitn(9, '\u{1f}').collect();
        let &[name, cores, state, partition, open, limit, sizes, shared, reason] = fields.as_slice() else {
            return Err(wrong("a node", "9 fields", record));
        };
        let cores = cores.parse().map_err(|_| wrong(name, "a number of cores", cores))?;
        let node = nodes.entry(name).or_insert_with(|| Node {
            name: name.to_owned(),
            cores,
            partitions: Vec::new(),
            unusable: states::unusable(state, reason.trim_end()),
        });
        let partition = self::partition(partition, open, limit, sizes, shared)
            .ok_or_else(|| wrong(partition, "a limit and sizes of jobs", record))?;
        node.partitions.push(partition.name.clone());
        partitions.insert(partition.name.clone(), partition);
    }
    let mut nodes: Vec<Node> = nodes.into_values().collect();
    for node in &mut nodes {
        node.partitions.sort();
        node.partitions.dedup();
    }
    Ok(Nodes { nodes, partitions: partitions.into_values().collect() })
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
    })
}

/// The cores of each node that jobs have, by the jobs' numbers, out of what `scontrol --details --oneliner show jobs` printed, of the jobs
/// that are asked for with their numbers of nodes. Users write freely into its lines, so what comes out is to be compared with what
/// squeue says, and a line that names more nodes than its job has is not read further.
pub(super) fn spreads(
    printed: &str,
    wanted: &BTreeMap<&str, usize>,
) -> BTreeMap<String, BTreeMap<String, u32>> {
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

/// Reads `(null)   Nodes=n1 CPU_IDs=0-3 Mem=0 GRES=   Nodes=n[2-3] CPU_IDs=0,2 Mem=0 GRES=`.
fn spread(details: &str, nodes_max: usize) -> Option<BTreeMap<String, u32>> {
    let mut spread = BTreeMap::new();
    let mut nodes = None;
    for word in details.split(' ') {
        if let Some(list) = word.strip_prefix("Nodes=") {
            nodes = Some(hostlist::expand_at_most(list, nodes_max.checked_sub(spread.len())?)?);
        } else if let Some(cores) = word.strip_prefix("CPU_IDs=") {
            let cores = hostlist::count(cores)?;
            spread.extend(nodes.take()?.into_iter().map(|node| (node, cores)));
        }
    }
    Some(spread)
}

/// Notes a job's cores on its nodes, if they are as many as it has and on no other node.
pub(super) fn fill(job: &mut ListedJob, spread: &BTreeMap<String, u32>) -> bool {
    let fits = spread.len() == job.allocations.len()
        && job.allocations.iter().all(|allocation| spread.contains_key(&allocation.node))
        && spread.values().copied().map(u64::from).sum::<u64>() == u64::from(job.shape.cores);
    if fits {
        job.allocations
            .iter_mut()
            .for_each(|allocation| allocation.cores = spread.get(&allocation.node).copied());
    }
    fits
}
