//! Grouping of servers into MANs by measured bandwidth.
//!
//! In paper 003 a level of the dendrogram is some ten times faster than the next one (section 5.1), but the bandwidths
//! differ between federations. So the levels are found at the largest relative drop of bandwidth. Links are taken from the
//! fastest to the slowest as long as they join unconnected servers (Kruskal's algorithm). The largest ratio between two
//! consecutive links of this spanning tree separates MANs, if it is large enough.

use std::collections::BTreeMap;

use super::links::Links;
use crate::names::Name;

/// The least ratio between bandwidths within MANs and between them: half of a power of ten.
const STEP: f64 = 3.0;

/// The number of each server's MAN, from 0 in the order of the servers. Without any measured link all servers are in one
/// MAN; afterwards a server without measured links is alone in its MAN.
pub(super) fn man_numbers(servers: &[&Name], links: &Links) -> Vec<usize> {
    let mut measured: Vec<(f64, usize, usize)> = Vec::new();
    for (at, one) in servers.iter().enumerate() {
        for (other_at, other) in servers.iter().enumerate().skip(at + 1) {
            measured.extend(links.mbps(one, other).map(|mbps| (mbps, at, other_at)));
        }
    }
    if measured.is_empty() {
        return vec![0; servers.len()];
    }
    measured.sort_by(|one, other| other.0.total_cmp(&one.0).then((one.1, one.2).cmp(&(other.1, other.2))));
    let mut all = DisjointSets::new(servers.len());
    let spanning_tree: Vec<(f64, usize, usize)> =
        measured.into_iter().filter(|(_, one, other)| all.join(*one, *other)).collect();
    let step = |at: &usize| spanning_tree[*at].0 / spanning_tree[at + 1].0;
    let largest = (0..spanning_tree.len() - 1)
        .max_by(|one, other| step(one).total_cmp(&step(other)).then(other.cmp(one)));
    let within = largest.filter(|at| step(at) >= STEP).map_or(spanning_tree.len(), |at| at + 1);
    let mut near = DisjointSets::new(servers.len());
    for (_, one, other) in &spanning_tree[..within] {
        near.join(*one, *other);
    }
    near.numbers()
}

/// Disjoint sets (union-find) of servers.
struct DisjointSets(Vec<usize>);

impl DisjointSets {
    fn new(count: usize) -> DisjointSets {
        DisjointSets((0..count).collect())
    }

    fn root(&self, at: usize) -> usize {
        let mut at = at;
        while self.0[at] != at {
            at = self.0[at];
        }
        at
    }

    /// Joins two sets; false if they were joined before.
    fn join(&mut self, one: usize, other: usize) -> bool {
        let (one, other) = (self.root(one), self.root(other));
        // The lower root stays, so that paths end.
        self.0[one.max(other)] = one.min(other);
        one != other
    }

    /// The numbers of the sets, in the order of their first members.
    fn numbers(&self) -> Vec<usize> {
        let mut numbers = BTreeMap::new();
        let number = |at| {
            let next = numbers.len();
            *numbers.entry(self.root(at)).or_insert(next)
        };
        (0..self.0.len()).map(number).collect()
    }
}

#[cfg(test)]
mod tests {
    use pliant_model::Time;

    use super::*;
    use crate::coallocation::links::LinkQuality;

    #[test]
    fn the_largest_drop_of_bandwidth_separates_mans() {
        type Case<'a> = (&'a [(usize, usize, f64)], [usize; 4]);
        let cases: [Case<'_>; 7] = [
            (&[], [0, 0, 0, 0]),
            (&[(0, 1, 100.0), (2, 3, 90.0), (0, 2, 8.0), (1, 3, 9.0)], [0, 0, 1, 1]),
            // No ratio reaches three.
            (&[(0, 1, 100.0), (1, 2, 50.0), (2, 3, 20.0)], [0, 0, 0, 0]),
            // Two drops: the larger one decides.
            (&[(0, 1, 1000.0), (1, 2, 300.0), (2, 3, 10.0)], [0, 0, 0, 1]),
            // A slow link between two servers that fast links connect separates nothing.
            (&[(0, 1, 100.0), (1, 2, 100.0), (0, 2, 1.0), (2, 3, 90.0)], [0, 0, 0, 0]),
            (&[(1, 3, 5.0)], [0, 1, 2, 1]),
            (&[(0, 3, 16.0), (0, 1, 4.0), (1, 3, 3.9), (1, 2, 4.1)], [0, 1, 2, 0]),
        ];
        let servers: Vec<Name> = ["a", "b", "c", "d"].map(|name| name.parse().unwrap()).into();
        let names: Vec<&Name> = servers.iter().collect();
        for (measured, expected) in cases {
            let mut links = Links::default();
            for (one, other, mbps) in measured {
                let measure = LinkQuality { at: Time(0), mbps: *mbps, round_trip_us: 1 };
                links.measured(&servers[*one], &servers[*other], measure);
            }
            assert_eq!(man_numbers(&names, &links), expected, "{measured:?}");
        }
    }
}
