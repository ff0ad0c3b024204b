//! The platform: a dendrogram of networks with machines at its leaves (paper 003, section 3.2).
//!
//! The root joins WANs, a WAN joins MANs, a MAN joins LANs, a LAN holds machines. Between any two siblings the
//! bandwidth is known. The traffic between two machines uses one link: the one between the children of
//! their lowest common node, or the inside of their LAN.

mod builder;
mod error;

use std::collections::BTreeMap;
use std::ops::Range;

pub use builder::GridBuilder;
pub use error::{GridError, GridItem};

/// A node of the dendrogram.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

/// A machine: its position in the grid. Machines below one node follow each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MachineId(pub u32);

impl NodeId {
    /// Position in the grid.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl MachineId {
    /// Position in the grid.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a node of the dendrogram is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// A local network of machines.
    Lan,
    /// A metropolitan network of LANs.
    Man,
    /// A wide-area network of MANs.
    Wan,
    /// The virtual node over all WANs.
    Root,
}

impl Level {
    /// Every level, the closest first.
    pub const ALL: [Level; 4] = [Level::Lan, Level::Man, Level::Wan, Level::Root];

    /// The stable name, as in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lan => "lan",
            Self::Man => "man",
            Self::Wan => "wan",
            Self::Root => "root",
        }
    }

    /// The distance of two machines whose lowest common node is of this level: 0 on one LAN to 3.
    pub const fn hops(self) -> usize {
        self as usize
    }
}

/// A node.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// Its name, unique among nodes.
    pub name: String,
    /// What it is.
    pub level: Level,
    /// The node above; none above the root.
    pub parent: Option<NodeId>,
    /// The nodes below; a LAN has none.
    pub children: Vec<NodeId>,
    /// Position among its siblings.
    position: usize,
    machines: Range<u32>,
    /// Bandwidth between children as a matrix; of a LAN, one number for its inside.
    links_mbps: Vec<f64>,
}

/// A machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    /// Its name, unique in the grid.
    pub name: String,
    /// Nominal power in MFlop/s, above 0.
    pub power_mflops: f64,
    /// Share of the power that others use, 0 to 1.
    pub load: f64,
}

impl Machine {
    /// Eq. 2: the power that is left, in MFlop/s.
    pub fn power_left(&self) -> f64 {
        self.power_mflops * (1.0 - self.load)
    }
}

/// A link: between two siblings, or the inside of a LAN.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId {
    /// The common parent, or the LAN.
    pub node: NodeId,
    /// Positions of the siblings, the lower one first; both 0 inside a LAN.
    ends: [u32; 2],
}

/// A checked platform.
#[derive(Clone, PartialEq, Debug)]
pub struct Grid {
    nodes: Vec<Node>,
    machines: Vec<Machine>,
    lan_of: Vec<NodeId>,
    user_lan: NodeId,
    /// Background traffic of links, in Mb/s; absent links have none.
    others_mbps: BTreeMap<LinkId, f64>,
}

impl Grid {
    /// The node above all.
    pub const ROOT: NodeId = NodeId(0);

    /// The machines, in order.
    pub fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// A machine.
    pub fn machine(&self, machine: MachineId) -> &Machine {
        &self.machines[machine.index()]
    }

    /// The LAN of the user: where searches begin.
    pub fn user_lan(&self) -> NodeId {
        self.user_lan
    }

    /// The same platform as another user sees it.
    pub fn with_user_lan(&self, name: &str) -> Result<Grid, GridError> {
        let found = self.lans().find(|lan| self.node(*lan).name == name);
        let user_lan = found.ok_or_else(|| GridError::UserLan {
            found: name.to_owned(),
            lans: self.lans().map(|lan| self.node(lan).name.clone()).collect(),
        })?;
        Ok(Grid { user_lan, ..self.clone() })
    }

    /// A node.
    pub fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.index()]
    }

    /// All nodes, parents before their children.
    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// The LANs, in order.
    pub fn lans(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.lans_below(Grid::ROOT)
    }

    /// The LANs at or below a node, in order.
    pub fn lans_below(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let mut stack = vec![node];
        std::iter::from_fn(move || {
            loop {
                let node = stack.pop()?;
                if self.node(node).level == Level::Lan {
                    return Some(node);
                }
                stack.extend(self.node(node).children.iter().rev());
            }
        })
    }

    /// The machines at or below a node, in order.
    pub fn machines_below(&self, node: NodeId) -> impl ExactSizeIterator<Item = MachineId> + use<> {
        self.node(node).machines.clone().map(MachineId)
    }

    /// The LAN of a machine.
    pub fn lan_of(&self, machine: MachineId) -> NodeId {
        self.lan_of[machine.index()]
    }

    /// The lowest node that is at or above both.
    pub fn common(&self, one: NodeId, other: NodeId) -> NodeId {
        let (mut one, mut other) = (one, other);
        while one != other {
            // The lower one climbs; both if they are on one level.
            let (low, high) = (self.node(one).level, self.node(other).level);
            if low <= high {
                one = self.node(one).parent.unwrap_or(Grid::ROOT);
            }
            if high <= low {
                other = self.node(other).parent.unwrap_or(Grid::ROOT);
            }
        }
        one
    }

    /// How far apart two LANs are: 0 for the same, 1 in one MAN, 2 in one WAN, 3 beyond.
    pub fn hops(&self, one: NodeId, other: NodeId) -> usize {
        self.node(self.common(one, other)).level.hops()
    }

    /// Bandwidth between two siblings, in Mb/s.
    pub fn bandwidth(&self, one: NodeId, other: NodeId) -> f64 {
        let parent = self.node(self.node(one).parent.unwrap_or(Grid::ROOT));
        parent.links_mbps[self.node(one).position * parent.children.len() + self.node(other).position]
    }

    /// The link between two LANs, or the inside of one.
    pub fn link(&self, one: NodeId, other: NodeId) -> LinkId {
        let node = self.common(one, other);
        if self.node(node).level == Level::Lan {
            return LinkId { node, ends: [0, 0] };
        }
        let mut ends = [one, other].map(|lan| {
            let below = self.below(node, lan);
            self.node(below).position as u32
        });
        ends.sort_unstable();
        LinkId { node, ends }
    }

    /// The child of `node` that is at or above `lan`.
    fn below(&self, node: NodeId, lan: NodeId) -> NodeId {
        let mut at = lan;
        while let Some(parent) = self.node(at).parent.filter(|parent| *parent != node) {
            at = parent;
        }
        at
    }

    /// The capacity of a link in Mb/s, without its background traffic.
    pub fn capacity(&self, link: LinkId) -> f64 {
        let node = self.node(link.node);
        let [one, other] = link.ends;
        let mbps = node.links_mbps[one as usize * node.children.len() + other as usize];
        (mbps - self.others_mbps.get(&link).copied().unwrap_or(0.0)).max(0.0)
    }

    /// Others send so much more over a link. Which siblings are the best connected stays as it is.
    pub fn occupy(&mut self, link: LinkId, mbps: f64) {
        *self.others_mbps.entry(link).or_default() += mbps;
    }

    /// The siblings of a node, the best connected first, ties by position.
    pub fn siblings(&self, node: NodeId) -> Vec<NodeId> {
        let Some(parent) = self.node(node).parent else { return Vec::new() };
        let mut siblings: Vec<NodeId> =
            self.node(parent).children.iter().copied().filter(|sibling| *sibling != node).collect();
        siblings.sort_by(|one, other| self.bandwidth(node, *other).total_cmp(&self.bandwidth(node, *one)));
        siblings
    }
}
