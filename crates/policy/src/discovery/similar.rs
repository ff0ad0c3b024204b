//! Similar clusters, joined so that their common bounds stay close.
//!
//! Clusters are points: their speed, size and floor, and what is free at once and for an hour. The group that is widest in one direction is cut
//! in its middle, until there are as many groups as may be. Fast clusters with much that is free are cut more often: they are asked more often.
//! Clusters that cannot be compared, since less is known of some, are cut apart first.

use std::cmp::Ordering;

use pliant_model::Span;

use super::ClusterBounds;

/// The directions in which clusters can differ.
const DIRECTIONS: usize = 5;

/// The directions of the speed, and of what is free at once.
const SPEED: usize = 0;
const FREE_NOW: usize = 1;

/// Where a cluster lies. Equal distances cost a bound about as much.
type Point = [f64; DIRECTIONS];

/// What is free for so long is free for most jobs.
const LASTS: Span = Span(3600);

/// Clusters that may become one group.
struct Cell<'a> {
    members: Vec<(Point, &'a ClusterBounds)>,
    /// Its widest direction, and how wide it is there.
    widest: (usize, f64),
    /// What it is worth to cut it.
    worth: f64,
}

impl<'a> Cell<'a> {
    fn of(members: Vec<(Point, &'a ClusterBounds)>) -> Cell<'a> {
        let width = |direction: usize| {
            let along = || members.iter().map(|(point, _)| point[direction]);
            along().fold(f64::MIN, f64::max) - along().fold(f64::MAX, f64::min)
        };
        let widths = (0..DIRECTIONS).map(|direction| (direction, width(direction)));
        let widest =
            widths.reduce(|one, other| if other.1 > one.1 { other } else { one }).unwrap_or((0, 0.0));
        let most =
            |direction: usize| members.iter().map(|(point, _)| point[direction]).fold(f64::MIN, f64::max);
        let worth = widest.1 * (1.0 + most(FREE_NOW)) * most(SPEED).clamp(-20.0, 20.0).exp().sqrt();
        Cell { members, widest, worth }
    }

    /// Its halves; both have members.
    fn halves(self) -> [Cell<'a>; 2] {
        let direction = self.widest.0;
        let least = self.members.iter().map(|(point, _)| point[direction]).fold(f64::MAX, f64::min);
        let middle = least + self.widest.1 / 2.0;
        let (low, high) = self.members.into_iter().partition(|(point, _)| point[direction] <= middle);
        [Cell::of(low), Cell::of(high)]
    }
}

/// At most `most` groups, in an order that depends on the clusters alone. O(n `most`) for n clusters.
pub(super) fn joined_by_similarity(mut all: Vec<&ClusterBounds>, most: usize) -> Vec<ClusterBounds> {
    if all.len() <= most {
        return all.into_iter().cloned().collect();
    }
    all.sort_by_key(|one| one.kind());
    let kinds = all.chunk_by(|one, next| one.kind() == next.kind());
    let mut cells: Vec<Cell<'_>> =
        kinds.map(|members| Cell::of(members.iter().map(|one| (point(one), *one)).collect())).collect();
    while cells.len() < most {
        let wider = |(_, one): &(usize, &Cell<'_>), (_, other): &(usize, &Cell<'_>)| {
            one.worth.partial_cmp(&other.worth).unwrap_or(Ordering::Equal)
        };
        let widest = cells.iter().enumerate().filter(|(_, cell)| cell.widest.1 > 0.0).max_by(wider);
        let Some((index, _)) = widest else { break };
        let [low, high] = cells.swap_remove(index).halves();
        cells.extend([low, high]);
    }
    let groups = cells.iter().filter_map(|cell| {
        let members: Vec<&ClusterBounds> = cell.members.iter().map(|(_, one)| *one).collect();
        ClusterBounds::joined(&members)
    });
    groups.collect()
}

fn point(of: &ClusterBounds) -> Point {
    let log = |count: u32| f64::from(count).ln_1p();
    let free = |plan: &crate::profile::FreePlan| {
        let (now, _) = plan.free_by(plan.at());
        let (_, lasting) = plan.free_by(plan.at() + LASTS);
        (log(now), log(lasting))
    };
    let (now, lasting) = of.plan.as_ref().map_or((0.0, 0.0), free);
    let floor = of.sizing.map_or(0.0, |sizing| log(sizing.floor_most.0));
    // A tenth of the speed is a tenth of every completion.
    [8.0 * of.speed.get().ln(), now, lasting, floor, 0.5 * log(of.procs.0)]
}
