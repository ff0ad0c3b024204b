//! The mapping algorithms: WASE, its baselines, and local search after it.
//!
//! Links have to carry the traffic (`pliant_tig::wase::Options::bandwidth`) once both are known: the traffic, which the
//! application declares, and the bandwidth, which is measured.

use pliant_model::rng::Draws;
use pliant_tig::clustering::{Clustering, Weights, cluster};
use pliant_tig::wase::{self, Options, Suitability};
use pliant_tig::{Availability, Grid, MappingError, TaskGraph, best_fit, overload_percent, random, refine};

use crate::coallocation::Mapping;
use crate::names::Key;

/// The input of a mapping.
pub(super) struct Mapper<'a> {
    pub(super) graph: &'a TaskGraph,
    pub(super) grid: &'a Grid,
    /// The threshold of the clustering.
    pub(super) threshold: f64,
    /// True if any link was measured.
    pub(super) measured: bool,
    /// The seed of a random mapping.
    pub(super) key: &'a Key,
}

impl Mapper<'_> {
    /// Maps each task to a machine.
    pub(super) fn map(&self, how: Mapping) -> Result<pliant_tig::Mapping, MappingError> {
        let Mapper { graph, grid, key, .. } = *self;
        let free = &mut Availability::of(grid);
        match how {
            Mapping::Wase => self.wase(&self.clusters(), self.measured, free),
            Mapping::Refined => self.refined(),
            Mapping::BestFit => best_fit::map(graph, grid, free),
            Mapping::Random => {
                let seed = key.0.iter().fold(0_u64, |seed, byte| seed.rotate_left(11) ^ u64::from(*byte));
                random::map(graph, grid, free, &mut Draws::new(seed, "mapping"))
            }
        }
    }

    fn clusters(&self) -> Clustering {
        cluster(&Weights::of(self.graph, self.threshold), usize::MAX)
    }

    fn wase(
        &self,
        clusters: &Clustering,
        bandwidth: bool,
        free: &mut Availability,
    ) -> Result<pliant_tig::Mapping, MappingError> {
        // The packing test finds a mapping whenever there is capacity; the paper's test of LANs may not.
        let options = Options { suitability: Suitability::Packing, bandwidth, ..Options::default() };
        wase::map(self.graph, self.grid, clusters, &options, free)
    }

    /// WASE and then local search. If WASE finds no mapping that the links carry, the search starts from one that ignores
    /// bandwidth.
    fn refined(&self) -> Result<pliant_tig::Mapping, MappingError> {
        let (clusters, free) = (self.clusters(), &mut Availability::of(self.grid));
        let found = self.wase(&clusters, self.measured, free);
        let keeps_links = self.measured && found.is_ok();
        let mut mapped = match &found {
            Ok(mapped) => mapped.clone(),
            Err(_) => self.wase(&clusters, false, free)?,
        };
        refine::refine(self.graph, self.grid, &mut mapped, free, keeps_links);
        let overload = overload_percent(self.graph, self.grid, &mapped).filter(|_| self.measured);
        match (found, overload) {
            (Err(unplaceable), Some(overload)) if overload > 0.0 => Err(unplaceable),
            _ => Ok(mapped),
        }
    }
}
