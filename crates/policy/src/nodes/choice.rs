//! Which nodes a job gets of those that are free: what Slurm's consumable-resource selection does without
//! weights, features and topology, as observed.
//!
//! Nodes next to each other are preferred: of the runs of usable neighbours the smallest that suffices, else
//! the largest, then again among the rest. Costs O(nodes) per run taken, and one try per number of free cores
//! that occurs if the first choice of a fixed number of nodes has too few.

use super::snapshot::Shape;

/// The nodes and cores that a job gets; none if it does not fit. `free` and `cores` are by node.
pub(super) fn choose(free: &[u32], cores: &[u32], shape: Shape) -> Option<Vec<(u32, u32)>> {
    let mut level = shape.per_node.0.max(1);
    loop {
        let usable = |node: usize| free[node] >= level && (!shape.exclusive || free[node] == cores[node]);
        if let Some(chosen) = neighbours(free, shape, usable) {
            return Some(share_out(free, shape, chosen));
        }
        // With a fixed number of nodes the emptier ones may do, and if any do, the emptiest.
        let count = shape.nodes? as usize;
        match free.iter().copied().filter(|free| *free > level).min() {
            Some(next) => level = next,
            None => return emptiest(free, cores, shape, count),
        }
    }
}

/// So many nodes with the most free cores.
fn emptiest(free: &[u32], cores: &[u32], shape: Shape, count: usize) -> Option<Vec<(u32, u32)>> {
    let least = shape.per_node.0.max(1);
    let usable = |node: &usize| free[*node] >= least && (!shape.exclusive || free[*node] == cores[*node]);
    let mut chosen: Vec<usize> = (0..free.len()).filter(usable).collect();
    chosen.sort_by_key(|node| std::cmp::Reverse(free[*node]));
    chosen.truncate(count);
    chosen.sort_unstable();
    let sum: u64 = chosen.iter().map(|node| u64::from(free[*node])).sum();
    let fits = chosen.len() == count && sum >= u64::from(shape.cores.0);
    fits.then(|| share_out(free, shape, chosen))
}

/// Nodes with enough cores, in the order in which they are taken.
fn neighbours(free: &[u32], shape: Shape, usable: impl Fn(usize) -> bool) -> Option<Vec<usize>> {
    let mut left: Vec<bool> = (0..free.len()).map(usable).collect();
    let mut chosen = Vec::new();
    let (mut cores, mut nodes) = (i64::from(shape.cores.0), i64::from(shape.nodes.unwrap_or(1)));
    let most = shape.nodes.map_or(usize::MAX, |nodes| nodes as usize);
    while cores > 0 || nodes > 0 {
        let run = best_run(free, &left, cores, nodes)?;
        for node in run {
            if (cores <= 0 && nodes <= 0) || chosen.len() == most {
                break;
            }
            left[node] = false;
            chosen.push(node);
            (cores, nodes) = (cores - i64::from(free[node]), nodes - 1);
        }
        if chosen.len() == most {
            break;
        }
    }
    (cores <= 0 && nodes <= 0).then_some(chosen)
}

/// The smallest run that suffices, else the largest; the first of equals.
fn best_run(free: &[u32], left: &[bool], cores: i64, nodes: i64) -> Option<std::ops::Range<usize>> {
    let mut best: Option<(bool, i64, std::ops::Range<usize>)> = None;
    let mut node = 0;
    while node < left.len() {
        let first = node;
        let mut sum = 0;
        while node < left.len() && left[node] {
            sum += i64::from(free[node]);
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

/// Cores on each node: as many as possible on the first ones, at least `per_node` on each.
fn share_out(free: &[u32], shape: Shape, chosen: Vec<usize>) -> Vec<(u32, u32)> {
    let least = shape.per_node.0.max(1);
    let mut remaining = shape.cores.0;
    let count = chosen.len();
    let share = |(index, node): (usize, usize)| {
        let others = least.saturating_mul((count - index - 1) as u32);
        let cores = remaining.saturating_sub(others).clamp(least, free[node]);
        remaining = remaining.saturating_sub(cores);
        (node as u32, if shape.exclusive { free[node] } else { cores })
    };
    chosen.into_iter().enumerate().map(share).collect()
}

#[cfg(test)]
mod tests {
    use pliant_model::Procs;

    use super::*;

    fn shape(cores: u32) -> Shape {
        Shape::of(Procs(cores))
    }

    /// The chosen (node, cores) of nodes with four cores each, of which these are free.
    #[track_caller]
    fn check(free: &[u32], shape: Shape, expected: Option<&[(u32, u32)]>) {
        let cores = vec![4; free.len()];
        assert_eq!(choose(free, &cores, shape).as_deref(), expected, "{shape:?} of {free:?}");
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
