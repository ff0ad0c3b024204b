//! Which nodes a job gets of those that are free: what Slurm's consumable-resource selection does without
//! weights, features and topology, as observed.
//!
//! Nodes next to each other are preferred: of the runs of usable neighbours the smallest that suffices, else
//! the largest, then again among the rest. Costs O(nodes) per run taken, and one try per number of free cores
//! that occurs if the first choice of a fixed number of nodes has too few.

use super::amounts::{Amounts, Part};
use super::rows::Rows;
use super::snapshot::Shape;

/// What a job gets; none if it does not fit. `free` is by row.
pub(super) fn choose(free: &[Amounts], rows: &Rows, shape: &Shape) -> Option<Vec<Part>> {
    if shape.is_elsewhere() {
        return rows.has_licences(free, &shape.needs).then(|| rows.licences(&shape.needs).collect());
    }
    let usable = rows.usable(free, shape);
    let parts = match shape.needs.gpus {
        0 => share_out(&usable, shape, nodes(&usable, shape)?).collect(),
        gpus => with_gpus(free, &usable, shape, gpus)?,
    };
    let whole = |part: Part| {
        let taken = if shape.exclusive { rows.node(part.node as usize) } else { part.taken };
        Part { taken, ..part }
    };
    Some(parts.into_iter().map(whole).chain(rows.licences(&shape.needs)).collect())
}

/// The nodes of a job, of which so many cores are usable.
fn nodes(usable: &[u32], shape: &Shape) -> Option<Vec<usize>> {
    let mut level = shape.per_node.0.max(1);
    loop {
        if let Some(chosen) = neighbours(usable, shape, |node| usable[node] >= level) {
            return Some(chosen);
        }
        // With a fixed number of nodes the emptier ones may do, and if any do, the emptiest.
        let count = shape.nodes? as usize;
        match usable.iter().copied().filter(|usable| *usable > level).min() {
            Some(next) => level = next,
            None => return emptiest(usable, shape, count),
        }
    }
}

/// So many nodes with the most usable cores.
fn emptiest(usable: &[u32], shape: &Shape, count: usize) -> Option<Vec<usize>> {
    let least = shape.per_node.0.max(1);
    let mut chosen: Vec<usize> = (0..usable.len()).filter(|node| usable[*node] >= least).collect();
    chosen.sort_by_key(|node| std::cmp::Reverse(usable[*node]));
    chosen.truncate(count);
    chosen.sort_unstable();
    let sum: u64 = chosen.iter().map(|node| u64::from(usable[*node])).sum();
    (chosen.len() == count && sum >= u64::from(shape.cores.0)).then_some(chosen)
}

/// The parts of a job that needs so many GPUs on any of its nodes: the nodes with the most GPUs, then those with the most cores
/// until there are enough. If any nodes suffice, these do. The number of chosen nodes never exceeds the cores, because a node is
/// added only while the cores found are too few, and each node adds at least one; and no other nodes have as many GPUs with
/// fewer cores.
fn with_gpus(free: &[Amounts], usable: &[u32], shape: &Shape, gpus: u32) -> Option<Vec<Part>> {
    let least = shape.per_node.0.max(1);
    // What a node has left besides the GPUs that its cores bring.
    let spare = |node: usize, cores: u32| free[node].gpus.saturating_sub(shape.needs.on(cores).gpus);
    let mut order: Vec<usize> = (0..usable.len()).filter(|node| usable[*node] >= least).collect();
    order.sort_by_key(|node| std::cmp::Reverse((spare(*node, least), usable[*node])));
    let (mut chosen, mut found, mut cores) = (Vec::new(), 0_u32, 0_u64);
    for node in &order {
        if found >= gpus {
            break;
        }
        (found, cores) = (found.saturating_add(spare(*node, least)), cores + u64::from(usable[*node]));
        chosen.push(*node);
    }
    let mut rest = order.split_off(chosen.len());
    rest.sort_by_key(|node| std::cmp::Reverse(usable[*node]));
    for node in rest {
        if cores >= u64::from(shape.cores.0) {
            break;
        }
        cores += u64::from(usable[node]);
        chosen.push(node);
    }
    let least_cores = u64::from(least) * chosen.len() as u64;
    if found < gpus || cores < u64::from(shape.cores.0) || least_cores > u64::from(shape.cores.0) {
        return None;
    }
    let mut remaining = gpus;
    let mut parts = Vec::new();
    for part in share_out(usable, shape, chosen) {
        let more = spare(part.node as usize, part.taken.cores).min(remaining);
        remaining -= more;
        parts.push(Part { taken: Amounts { gpus: part.taken.gpus + more, ..part.taken }, ..part });
    }
    (remaining == 0).then_some(parts)
}

/// Nodes with enough cores, in the order in which they are taken.
fn neighbours(usable: &[u32], shape: &Shape, may: impl Fn(usize) -> bool) -> Option<Vec<usize>> {
    let mut left: Vec<bool> = (0..usable.len()).map(may).collect();
    let mut chosen = Vec::new();
    let (mut cores, mut nodes) = (i64::from(shape.cores.0), i64::from(shape.nodes.unwrap_or(1)));
    let most = shape.nodes.map_or(usize::MAX, |nodes| nodes as usize);
    while cores > 0 || nodes > 0 {
        let run = best_run(usable, &left, cores, nodes)?;
        for node in run {
            if (cores <= 0 && nodes <= 0) || chosen.len() == most {
                break;
            }
            left[node] = false;
            chosen.push(node);
            (cores, nodes) = (cores - i64::from(usable[node]), nodes - 1);
        }
        if chosen.len() == most {
            break;
        }
    }
    (cores <= 0 && nodes <= 0).then_some(chosen)
}

/// The smallest run that suffices, else the largest; the first of equals.
fn best_run(usable: &[u32], left: &[bool], cores: i64, nodes: i64) -> Option<std::ops::Range<usize>> {
    let mut best: Option<(bool, i64, std::ops::Range<usize>)> = None;
    let mut node = 0;
    while node < left.len() {
        let first = node;
        let mut sum = 0;
        while node < left.len() && left[node] {
            sum += i64::from(usable[node]);
            node += 1;
        }
        if first == node {
            node += 1;
            continue;
        }
        let suffices = sum >= cores && (node - first) as i64 >= nodes;
        let better = best.as_ref().is_none_or(|(sufficed, size, _)| match (suffices, *sufficed) {
            (true, false) => true,
            (false, true) => false,
            (true, true) => sum < *size,
            (false, false) => sum > *size,
        });
        if better {
            best = Some((suffices, sum, first..node));
        }
    }
    best.map(|(_, _, run)| run)
}

/// The part of each node: as many cores as possible on the first ones, at least `per_node` on each.
fn share_out(usable: &[u32], shape: &Shape, chosen: Vec<usize>) -> impl Iterator<Item = Part> {
    let least = shape.per_node.0.max(1);
    let mut remaining = shape.cores.0;
    let count = chosen.len();
    chosen.into_iter().enumerate().map(move |(index, node)| {
        let others = least.saturating_mul((count - index - 1) as u32);
        let cores = remaining.saturating_sub(others).clamp(least, usable[node]);
        remaining = remaining.saturating_sub(cores);
        Part { node: node as u32, taken: shape.needs.on(cores) }
    })
}

#[cfg(test)]
mod tests {
    use pliant_model::Procs;

    use super::*;
    use crate::batch::nodes::{Needs, Node};

    fn shape(cores: u32) -> Shape {
        Shape::of(Procs(cores))
    }

    /// The chosen (node, cores) of nodes with four cores each, of which these are free.
    #[track_caller]
    fn check(free: &[u32], shape: Shape, expected: Option<&[(u32, u32)]>) {
        let nodes: Vec<Node> = free.iter().map(|_| Node::of("n", Procs(4))).collect();
        let free: Vec<Amounts> = free.iter().copied().map(Amounts::of).collect();
        let chosen = choose(&free, &Rows::new(&nodes, &[]), &shape);
        let chosen: Option<Vec<_>> =
            chosen.map(|parts| parts.iter().map(|part| (part.node, part.taken.cores)).collect());
        assert_eq!(chosen.as_deref(), expected, "{shape:?} of {free:?}");
    }

    #[test]
    fn the_smallest_run_of_neighbours_that_suffices_is_taken() {
        check(&[2, 2, 0, 2, 0, 1], shape(2), Some(&[(3, 2)]));
        check(&[2, 0, 2], shape(2), Some(&[(0, 2)]));
        check(&[4, 0, 1, 1], Shape { nodes: Some(2), ..shape(2) }, Some(&[(2, 1), (3, 1)]));
    }

    #[test]
    fn without_one_the_largest_run_is_taken_then_the_next() {
        check(&[2, 0, 2, 2], shape(5), Some(&[(2, 2), (3, 2), (0, 1)]));
        check(&[1, 0, 1], shape(2), Some(&[(0, 1), (2, 1)]));
        check(&[1, 0, 1], shape(3), None);
        check(&[0, 0], shape(1), None);
    }

    #[test]
    fn each_node_gives_as_many_cores_as_asked_for_at_least() {
        check(&[4, 4], Shape { nodes: Some(2), ..shape(4) }, Some(&[(0, 3), (1, 1)]));
        check(&[1, 2, 3], Shape { per_node: Procs(2), ..shape(4) }, Some(&[(1, 2), (2, 2)]));
        check(&[4, 4], Shape { nodes: Some(2), per_node: Procs(2), ..shape(4) }, Some(&[(0, 2), (1, 2)]));
    }

    #[test]
    fn no_task_is_split() {
        let of_tasks = |cores, task| {
            let needs = Needs { cores_per_task: Some(Procs(task)), ..Needs::NONE };
            Shape { per_node: Procs(task), needs, ..shape(cores) }
        };
        check(&[2, 2], of_tasks(4, 4), None);
        check(&[2, 4], of_tasks(4, 4), Some(&[(1, 4)]));
        check(&[4, 4], of_tasks(6, 3), Some(&[(0, 3), (1, 3)]));
        check(&[4, 3, 4], Shape { nodes: Some(2), ..of_tasks(6, 2) }, Some(&[(0, 4), (1, 2)]));
        check(&[4, 4], Shape { nodes: Some(2), ..of_tasks(4, 2) }, Some(&[(0, 2), (1, 2)]));
    }

    #[test]
    fn an_exclusive_job_takes_whole_nodes() {
        check(&[3, 4], Shape { exclusive: true, ..shape(2) }, Some(&[(1, 4)]));
        check(&[3, 3], Shape { exclusive: true, ..shape(2) }, None);
        check(&[3, 4], Shape { exclusive: true, nodes: Some(2), ..shape(2) }, None);
    }

    #[test]
    fn if_the_first_nodes_of_a_fixed_number_have_too_few_cores_emptier_ones_are_taken() {
        check(&[1, 3], Shape { nodes: Some(1), ..shape(3) }, Some(&[(1, 3)]));
        check(&[2, 1, 3], Shape { nodes: Some(2), ..shape(5) }, Some(&[(2, 3), (0, 2)]));
        // No number of free cores is common to two nodes that suffice: those with the most.
        check(&[1, 1, 4], Shape { nodes: Some(2), ..shape(5) }, Some(&[(0, 1), (2, 4)]));
        check(&[1, 1, 4], Shape { nodes: Some(2), ..shape(6) }, None);
        check(&[1, 1, 4], Shape { nodes: Some(3), ..shape(6) }, Some(&[(0, 1), (1, 1), (2, 4)]));
        check(&[1, 1, 4], Shape { nodes: Some(4), ..shape(4) }, None);
    }
}
