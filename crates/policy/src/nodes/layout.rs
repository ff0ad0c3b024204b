//! What planning distinguishes: the nodes, or nothing where all nodes are alike and no two jobs share one.
//!
//! On nodes of one core, and on equal nodes that jobs have to themselves, which nodes a planned job gets is
//! settled when it starts, and any free ones will do: only the count matters, as in `batch::cbf`. Under
//! [`Reserve::Cores`] such a cluster is planned as one pool, a job's cores rounded up to whole nodes. Slurm's
//! passes plan on nodes even then, and what they leave unused for it was measured: its rules keep the nodes
//! apart.

use pliant_model::Procs;

use super::snapshot::{Node, Reserve, Rules, Shape};

/// How a cluster is planned.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Cores that jobs may use: by node, or in all.
    pub(super) cores: Vec<u32>,
    /// Cores of each node, if all nodes are one pool.
    pool: Option<u32>,
    /// The rules of planning, given the layout.
    pub(super) rules: Rules,
}

impl Layout {
    pub(super) fn new(nodes: &[Node], rules: &Rules) -> Layout {
        let cores: Vec<u32> = nodes.iter().map(|node| if node.up { node.cores.0 } else { 0 }).collect();
        let mut up = cores.iter().copied().filter(|cores| *cores > 0);
        let first = up.next();
        let alike = first.filter(|first| up.all(|cores| cores == *first));
        let pool =
            alike.filter(|cores| rules.reserve == Reserve::Cores && (*cores == 1 || rules.whole_nodes));
        match pool {
            Some(_) => {
                let rules = Rules { whole_nodes: false, ..rules.clone() };
                Layout { cores: vec![cores.iter().sum()], pool, rules }
            }
            None => Layout { cores, pool, rules: rules.clone() },
        }
    }

    /// True if nodes are not distinguished.
    pub(super) fn is_pool(&self) -> bool {
        self.pool.is_some()
    }

    /// The nodes that a starting job gets: `allocation`, or any free ones of the pool. `held` is by node.
    pub(super) fn seats(&self, allocation: &[(u32, u32)], nodes: &[Node], held: &[u32]) -> Vec<(u32, u32)> {
        let Some(cores) = self.pool else { return allocation.to_vec() };
        let count = allocation.iter().map(|(_, taken)| taken / cores).sum::<u32>();
        let free = (0_u32..).zip(nodes.iter().zip(held)).filter(|(_, (node, held))| node.up && **held == 0);
        free.map(|(index, _)| (index, cores)).take(count as usize).collect()
    }

    /// What a running job occupies.
    pub(super) fn held(&self, on: &[(u32, u32)], nodes: &[Node]) -> Vec<(u32, u32)> {
        let up = || on.iter().filter(|(node, _)| nodes[*node as usize].up);
        match self.pool {
            Some(cores) => vec![(0, cores * up().count() as u32)],
            None if self.rules.whole_nodes => {
                up().map(|(node, _)| (*node, nodes[*node as usize].cores.0)).collect()
            }
            None => on.to_vec(),
        }
    }

    /// What a job asks for.
    pub(super) fn shape(&self, shape: Shape) -> Shape {
        match self.pool {
            Some(cores) => {
                let nodes = shape.cores.0.div_ceil(cores).max(shape.nodes.unwrap_or(1));
                // More cores of a node than it has are never there.
                let fits = shape.per_node.0 <= cores;
                let count = if fits { nodes.saturating_mul(cores) } else { u32::MAX };
                Shape::of(Procs(count))
            }
            None => Shape { exclusive: shape.exclusive || self.rules.whole_nodes, ..shape },
        }
    }
}
