//! The policies of a campaign of mappings.

use pliant_tig::clustering::Clustering;
use pliant_tig::refine::refine;
use pliant_tig::wase::{self, Options};
use pliant_tig::{Availability, Grid, Mapping, MappingError, TaskGraph, best_fit};
use serde::Deserialize;

/// One policy of the matrix.
#[derive(Clone, PartialEq, Debug)]
pub struct Policy {
    /// Its name in tables.
    pub name: String,
    /// Which algorithm.
    pub algorithm: Algorithm,
    /// How clusters are found.
    pub clustering: ClusteringChoice,
    /// The options of WASE.
    pub options: Options,
    /// Whether a local search follows.
    pub refine: bool,
}

/// Which algorithm maps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// WASE.
    #[default]
    Wase,
    /// The greedy baseline.
    BestFit,
}

/// How clusters are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClusteringChoice {
    /// By contraction and local search, the default.
    #[default]
    Contraction,
    /// The same, no cluster larger than its class allows.
    Capped,
    /// By the linear program and region growing, at the same threshold.
    Relaxation,
}

impl Policy {
    /// Maps an application on an empty grid.
    pub(super) fn map(
        &self,
        graph: &TaskGraph,
        grid: &Grid,
        clustering: &Clustering,
    ) -> Result<Mapping, MappingError> {
        let mut free = Availability::of(grid);
        let mut mapping = match self.algorithm {
            Algorithm::Wase => wase::map(graph, grid, clustering, &self.options, &mut free)?,
            Algorithm::BestFit => best_fit::map(graph, grid, &mut free)?,
        };
        if self.refine {
            refine(graph, grid, &mut mapping, &mut free, self.options.bandwidth);
        }
        Ok(mapping)
    }
}
