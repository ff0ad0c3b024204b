//! What planning distinguishes: the nodes, or nothing where all nodes are alike and no two jobs share one.
//!
//! On nodes of one core, and on equal nodes that jobs have to themselves, which nodes a planned job gets is
//! settled when it starts, and any free ones will do: only the count matters, as in `batch::cbf`. Under
//! [`Reserve::Cores`] such a cluster is planned as one pool, a job's cores rounded up to whole nodes. Slurm's
//! passes plan on nodes even then, and what they leave unused for it was measured: its rules keep the nodes
//! apart.

use pliant_model::Procs;

use super::amounts::{Amounts, Part};
use super::catalogue::Catalogue;
use super::needs::Needs;
use super::rows::Rows;
use super::rules::{Reserve, Rules};
use super::snapshot::{AdvanceReservation, Node, NodeShare, Shape};

/// How a cluster is planned.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// What jobs may use: by node, or in all.
    pub(super) rows: Rows,
    /// Any of the nodes, all alike, if they are one pool.
    pool: Option<Node>,
    /// The rules of planning, given the layout.
    pub(super) rules: Rules,
}

impl Layout {
    pub(super) fn new(nodes: &[Node], catalogue: &Catalogue, rules: &Rules) -> Layout {
        let mut up = nodes.iter().filter(|node| node.up && node.cores > Procs(0));
        let first = up.next();
        let is_like =
            |one: &Node, other: &Node| Amounts::on(one) == Amounts::on(other) && one.kind == other.kind;
        let alike = first.filter(|first| up.all(|other| is_like(first, other)));
        let counts_alone = |node: &&Node| node.cores == Procs::ONE || rules.whole_nodes;
        // Which nodes are free matters where some of them are reserved.
        let is_pool = rules.reserve == Reserve::Cores && catalogue.reserved.is_empty();
        let pool = alike.filter(|node| is_pool && counts_alone(node));
        match pool {
            Some(node) => {
                let rules = Rules { whole_nodes: false, ..rules.clone() };
                let cores = nodes.iter().map(|node| Amounts::on(node).cores).sum();
                Layout { rows: Rows::pool(cores, &catalogue.licences), pool: Some(node.clone()), rules }
            }
            None => Layout { rows: Rows::new(nodes, &catalogue.licences), pool: None, rules: rules.clone() },
        }
    }

    /// True if nodes are not distinguished.
    pub(super) fn is_pool(&self) -> bool {
        self.pool.is_some()
    }

    /// What a starting job gets of the nodes: its part of the plan, or any nodes of the pool that are not used.
    pub(super) fn parts(
        &self,
        shape: &Shape,
        planned: &[Part],
        nodes: &[Node],
        is_used: &[bool],
    ) -> Vec<Part> {
        let on_nodes = planned.iter().filter(|part| self.rows.is_node(part.node));
        let Some(pool) = &self.pool else { return on_nodes.copied().collect() };
        let count = on_nodes.map(|part| part.taken.cores / pool.cores.0).sum::<u32>();
        let free =
            (0_u32..).zip(nodes.iter().zip(is_used)).filter(|(_, (node, is_used))| node.up && !**is_used);
        let mut remaining = shape.needs.gpus;
        let part = |(node, _)| {
            let taken = shape.needs.on(pool.cores.0);
            let more = remaining.min(pool.gpus.saturating_sub(taken.gpus));
            remaining -= more;
            Part { node, taken: Amounts { gpus: taken.gpus + more, ..taken } }
        };
        free.map(part).take(count as usize).collect()
    }

    /// What a running job with these needs occupies: `on` its nodes, and its licences.
    pub(super) fn held(&self, on: &[Part], needs: &Needs, nodes: &[Node]) -> Vec<Part> {
        let up = on.iter().filter(|part| nodes[part.node as usize].up);
        let mut held: Vec<Part> = match &self.pool {
            Some(pool) => vec![Part { node: 0, taken: Amounts::of(pool.cores.0 * up.count() as u32) }],
            None if self.rules.whole_nodes => {
                up.map(|part| Part { taken: self.rows.node(part.node as usize), ..*part }).collect()
            }
            None => on.to_vec(),
        };
        held.extend(self.rows.licences(needs));
        held
    }

    /// What a reservation takes.
    pub(super) fn reserved(&self, AdvanceReservation { on, licences, .. }: &AdvanceReservation) -> Vec<Part> {
        let taken = |cores: Option<Procs>| match cores {
            Some(cores) if !self.rules.whole_nodes => Amounts::of(cores.0),
            _ => Amounts::ALL,
        };
        let nodes = on.iter().map(|NodeShare { node, cores, .. }| Part { node: *node, taken: taken(*cores) });
        nodes.chain(self.rows.licence_parts(licences)).collect()
    }

    /// Whether a job with such a shape can have of all nodes together what it can have of each, if its needs of a node are the
    /// same at every size. Of a pool of whole nodes it can only if it can use all cores of a node.
    pub(super) fn is_sum_of_nodes(&self, shape: &Shape) -> bool {
        self.pool.as_ref().is_none_or(|pool| usable(shape, pool) == pool.cores.0)
    }

    /// What a job asks for. GPUs of a job with a fixed number of nodes are the same on each.
    pub(super) fn shape(&self, shape: &Shape) -> Shape {
        let mut shape = shape.clone();
        if shape.is_elsewhere() {
            return shape;
        }
        if let Some(nodes) = shape.nodes {
            let gpus = std::mem::take(&mut shape.needs.gpus).div_ceil(nodes.max(1));
            shape.needs.gpus_per_node = shape.needs.gpus_per_node.saturating_add(gpus);
        }
        match &self.pool {
            Some(pool) => {
                let licences = std::mem::take(&mut shape.needs.licences);
                let count = nodes_of(&shape, pool).and_then(|nodes| nodes.checked_mul(pool.cores.0));
                // What no node has is never there.
                let cores = Procs(count.unwrap_or(u32::MAX));
                Shape { needs: Needs { licences, ..Needs::NONE }, ..Shape::of(cores) }
            }
            None => Shape { exclusive: shape.exclusive || self.rules.whole_nodes, ..shape },
        }
    }
}

/// The cores that a job can use of a node that it has to itself.
fn usable(Shape { needs, .. }: &Shape, node: &Node) -> u32 {
    if needs.kinds.has(node.kind) { needs.cores_of(Amounts::on(node)) } else { 0 }
}

/// How many whole nodes a job needs; none if no number will do.
fn nodes_of(shape: &Shape, node: &Node) -> Option<u32> {
    let Shape { cores, nodes, per_node, needs, .. } = shape;
    let usable = usable(shape, node);
    if usable < per_node.0.max(1) {
        return None;
    }
    let least = cores.0.div_ceil(usable).max(1);
    let spare = node.gpus - needs.gpus_per_node;
    let for_gpus = if needs.gpus == 0 { 0 } else { needs.gpus.checked_next_multiple_of(spare)? / spare };
    match nodes {
        Some(nodes) => (least.max(for_gpus) <= *nodes).then_some(*nodes),
        // Each node gives a core or a task at least.
        None => (for_gpus <= cores.0 / per_node.0.max(1)).then_some(least.max(for_gpus)),
    }
}
