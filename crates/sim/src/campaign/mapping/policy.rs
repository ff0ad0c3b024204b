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
    /// The mapping algorithm.
    pub algorithm: Algorithm,
    /// The clustering algorithm.
    pub clustering: ClusteringChoice,
    /// The options of WASE.
    pub options: Options,
    /// Whether a local search follows.
    pub refine: bool,
}

/// A mapping algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// WASE.
    #[default]
    Wase,
    /// The greedy baseline.
    BestFit,
}

/// A clustering algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClusteringChoice {
    /// Contraction and local search, the default.
    #[default]
    Contraction,
    /// Contraction and local search with the maximal cluster size of the class.
    Capped,
    /// The linear program and region growing, at the same threshold.
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
