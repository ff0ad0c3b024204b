//! What requests would have of the nodes of a declared cluster, for the batch system that gives them out.

use pliant_model::{ClusterNodes, Procs, Resources};

use super::amounts::{Amounts, Part};
use super::catalogue::Catalogue;
use super::choice::choose;
use super::rows::Rows;

/// The nodes and licences of a declared cluster.
#[derive(Clone, Debug)]
pub struct DeclaredNodes {
    catalogue: Catalogue,
    rows: Rows,
    nodes: usize,
}

impl DeclaredNodes {
    /// Those of a cluster that was checked.
    pub fn new(cluster: &ClusterNodes) -> DeclaredNodes {
        let (nodes, catalogue) = Catalogue::declared(cluster);
        let rows = Rows::new(&nodes, &catalogue.licences);
        DeclaredNodes { catalogue, rows, nodes: nodes.len() }
    }

    /// What the nodes have, in order.
    pub fn nodes(&self) -> &[Amounts] {
        &self.rows.all[..self.nodes]
    }

    /// How many units there are of each licence, as cores, in the order of their names.
    pub fn licences(&self) -> impl Iterator<Item = (&str, &Amounts)> {
        let names = self.catalogue.licences.iter().map(|licence| &licence.name[..]);
        names.zip(&self.rows.all[self.nodes..])
    }

    /// What a job on so many processors gets if so much is free: first of the nodes, then of the licences. None if it does not fit.
    pub fn allocate(
        &self,
        free: &[Amounts],
        procs: Procs,
        resources: Option<&Resources>,
    ) -> Option<Vec<Part>> {
        choose(free, &self.rows, &self.catalogue.shape(procs, resources))
    }

    /// All of it, as for [`DeclaredNodes::allocate`].
    pub fn all(&self) -> &[Amounts] {
        &self.rows.all
    }
}
