//! The ways to map an application: WASE, what it is compared with, and the search that may follow it.
//!
//! Links must have room for the traffic (`pliant_tig::wase::Options::bandwidth`) as soon as it is known how much there is,
//! which the application says, and what links carry, which is measured.

use pliant_model::rng::Draws;
use pliant_tig::clustering::{Clustering, Weights, cluster};
use pliant_tig::wase::{self, Options, Suitability};
use pliant_tig::{Availability, Grid, MappingError, TaskGraph, best_fit, overload_percent, random, refine};

use crate::coallocation::Mapping;
use crate::names::Key;

/// What is mapped.
pub(super) struct Mapper<'a> {
    pub(super) graph: &'a TaskGraph,
    pub(super) grid: &'a Grid,
    /// The threshold of the clustering.
    pub(super) threshold: f64,
    /// Links were measured.
    pub(super) measured: bool,
    /// What a random mapping is drawn by.
    pub(super) key: &'a Key,
}

impl Mapper<'_> {
    /// Each task's machine.
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
        // Nobody is helped by a test of LANs that fails where there is room.
        let options = Options { suitability: Suitability::Packing, bandwidth, ..Options::default() };
        wase::map(self.graph, self.grid, clusters, &options, free)
    }

    /// WASE and then local search. Where WASE finds no room on links, the search may, beginning with a mapping that asks for
    /// none.
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
