//! Applications and platforms from files: the table of paper 003, section 5.4.

use pliant_tig::Metrics;
use pliant_tig::clustering::threshold;
use pliant_trace::tig::{read_graph, read_grid};

use super::{MappingCampaign, UseCase, UseCaseRow};
use crate::campaign::CampaignError;

/// Runs a use case under the reference policy.
pub(super) fn run(campaign: &MappingCampaign, case: &UseCase) -> Result<Vec<UseCaseRow>, CampaignError> {
    let graph = &read_graph(&campaign.path(&case.application))?;
    let grid = read_grid(&campaign.path(&case.grid))?;
    let lan_names: Vec<String> = grid.lans().map(|lan| grid.node(lan).name.clone()).collect();
    let mut rows = Vec::new();
    for count in &case.clusters {
        let (_, clusters) = threshold::of_count(graph, *count, usize::MAX);
        for mcr in &case.mcr_mflops {
            let graph = graph.with_mcr(*mcr).map_err(|error| CampaignError::Measure {
                key: case.name.clone(),
                problem: error.to_string(),
            })?;
            let mapping = campaign.policies[campaign.reference].map(&graph, &grid, &clusters).ok();
            let metrics = mapping.as_ref().map(|mapping| Metrics::of(&graph, &grid, &clusters, mapping));
            let on = |lan| {
                let placements = mapping.iter().flat_map(|mapping| &mapping.placements);
                placements.filter(|placed| grid.lan_of(placed.machine) == lan).count()
            };
            rows.push(UseCaseRow {
                name: case.name.clone(),
                clusters: clusters.count(),
                wanted_clusters: *count,
                mcr_mflops: *mcr,
                lans: lan_names.iter().cloned().zip(grid.lans().map(on)).collect(),
                affinity_mean: metrics.as_ref().map(|metrics| metrics.affinity_mean),
                affinity_min: metrics.as_ref().map(|metrics| metrics.affinity_min),
                inter_lan_percent: metrics.as_ref().map(|metrics| metrics.inter_lan_percent),
                cut_percent: clusters.cut_percent(&graph),
            });
        }
    }
    Ok(rows)
}
