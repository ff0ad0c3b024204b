//! The rows of a timeline: nodes, then licences, which all jobs of the cluster share.

use std::collections::BTreeSet;

use pliant_model::Procs;

use super::amounts::{Amounts, Part};
use super::needs::Needs;
use super::snapshot::{Licence, Node, Shape};

/// All that jobs can have of a cluster.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    /// Of each node, then of each licence: how many, as cores.
    pub(super) all: Vec<Amounts>,
    /// The kind of each node.
    kinds: Vec<u8>,
}

impl Rows {
    pub(super) fn new(nodes: &[Node], licences: &[Licence]) -> Rows {
        let all = nodes.iter().map(Amounts::on).chain(counts(licences)).collect();
        Rows { all, kinds: nodes.iter().map(|node| node.kind).collect() }
    }

    /// Cores of which any will do, in place of nodes.
    pub(super) fn pool(cores: u32, licences: &[Licence]) -> Rows {
        Rows { all: std::iter::once(Amounts::of(cores)).chain(counts(licences)).collect(), kinds: vec![0] }
    }

    /// Whether a row is a node.
    pub(super) fn is_node(&self, row: u32) -> bool {
        (row as usize) < self.kinds.len()
    }

    /// The cores of all nodes.
    pub(super) fn cores(&self) -> u64 {
        self.cores_of(&self.all)
    }

    /// The processors of all nodes, whose number was checked.
    pub(super) fn capacity(&self) -> Procs {
        Procs(u32::try_from(self.cores()).unwrap_or(u32::MAX))
    }

    /// Whether a job on `procs` can have these parts: of rows that there are, each once, with at least as many cores.
    pub(super) fn are_parts_of(&self, on: &[Part], procs: Procs) -> bool {
        let mut seen = BTreeSet::new();
        let are_rows = on.iter().all(|part| (part.node as usize) < self.all.len() && seen.insert(part.node));
        let of_nodes = on.iter().filter(|part| self.is_node(part.node));
        are_rows && of_nodes.map(|part| u64::from(part.taken.cores)).sum::<u64>() >= u64::from(procs.0)
    }

    /// Those that are free on them.
    pub(super) fn cores_of(&self, free: &[Amounts]) -> u64 {
        free[..self.kinds.len()].iter().map(|node| u64::from(node.cores)).sum()
    }

    /// All of a node.
    pub(super) fn node(&self, node: usize) -> Amounts {
        self.all[node]
    }

    /// The cores that a job can have of each node while this is free on the rows; none at all without its licences.
    pub(super) fn usable(&self, free: &[Amounts], shape: &Shape) -> Vec<u32> {
        let Shape { exclusive, needs, .. } = shape;
        let nodes = &free[..self.kinds.len()];
        if !self.has_licences(free, needs) {
            return vec![0; nodes.len()];
        }
        if *needs == Needs::NONE && !exclusive {
            return nodes.iter().map(|free| free.cores).collect();
        }
        let cores = |(node, free): (usize, &Amounts)| match needs.kinds.has(self.kinds[node]) {
            true if !exclusive || *free == self.all[node] => needs.cores_of(*free),
            _ => 0,
        };
        nodes.iter().enumerate().map(cores).collect()
    }

    /// Whether there are the licences of a job while this is free on the rows.
    pub(super) fn has_licences(&self, free: &[Amounts], needs: &Needs) -> bool {
        let licences = &free[self.kinds.len()..];
        needs.licences.iter().all(|(licence, count)| licences[*licence as usize].cores >= *count)
    }

    /// The licences of a job.
    pub(super) fn licences(&self, needs: &Needs) -> impl Iterator<Item = Part> {
        self.licence_parts(&needs.licences)
    }

    /// So many units of licences, by their positions.
    pub(super) fn licence_parts(&self, units: &[(u32, u32)]) -> impl Iterator<Item = Part> {
        let first = self.kinds.len() as u32;
        units.iter().map(move |(licence, count)| Part { node: first + licence, taken: Amounts::of(*count) })
    }
}

fn counts(licences: &[Licence]) -> impl Iterator<Item = Amounts> {
    licences.iter().map(|licence| Amounts::of(licence.count))
}
