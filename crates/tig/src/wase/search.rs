//! Closest-first search: the order in which LANs are tried (paper 003, section 4).
//!
//! The user's LAN; the others of its MAN, the best connected to it first; the other MANs of its WAN, the best
//! connected to the user's MAN first; the other WANs likewise. Inside a network that is not the user's, the
//! bandwidth to the user is the network's own, so its LANs come by position. O(l log l).

use crate::{Grid, NodeId};

/// The LANs, the closest to the user first.
pub fn closest_first(grid: &Grid) -> Vec<NodeId> {
    let mut order = vec![grid.user_lan()];
    let mut at = grid.user_lan();
    while let Some(parent) = grid.node(at).parent {
        for sibling in grid.siblings(at) {
            order.extend(grid.lans_below(sibling));
        }
        at = parent;
    }
    order
}
