//! Step 2 of WASE: LAN-SELECT (paper 003, Algorithm 1), with the options that go beyond the paper.
//!
//! Clusters by decreasing demand (eq. 6), each to the first suitable LAN in closest-first order, its tasks onto machines
//! there, and tasks that do not fit onto machines as close as possible. If one cluster fails, the whole application fails, and
//! all changes are undone. O(c l m log m) for c clusters, l LANs of m machines, and O(t n) for t tasks that try
//! all n machines.

mod options;
mod packing;
mod search;
mod suitability;
mod taskmap;

pub use options::{Fit, Options, Search, Suitability};
pub use packing::pack;
pub use search::closest_first;
pub use suitability::suitability;

use crate::best_fit::sort_by_demand;
use crate::clustering::{ClusterId, Clustering};
use crate::{
    Availability, ClusterPlacement, Grid, Mapping, MappingError, NodeId, Placement, Stage, TaskGraph, TaskId,
};

/// Maps a clustered application; a failure changes nothing. `free` is the remaining capacity of the grid.
pub fn map(
    graph: &TaskGraph,
    grid: &Grid,
    clustering: &Clustering,
    options: &Options,
    free: &mut Availability,
) -> Result<Mapping, MappingError> {
    let mark = free.mark();
    let placements = vec![None; graph.tasks().len()];
    let mut mapper = Mapper { graph, grid, options, free: &mut *free, placements, links: Vec::new() };
    match mapper.lan_select(clustering) {
        Ok(clusters) => {
            let placements = mapper.placements.into_iter().flatten().collect();
            Ok(Mapping { placements, clusters })
        }
        Err(unplaceable) => {
            free.roll_back(mark);
            Err(unplaceable)
        }
    }
}

/// A mapping under construction.
struct Mapper<'a> {
    graph: &'a TaskGraph,
    grid: &'a Grid,
    options: &'a Options,
    free: &'a mut Availability,
    placements: Vec<Option<Placement>>,
    /// The load of a placement on links: a reused buffer.
    links: Vec<(crate::LinkId, f64)>,
}

/// A LAN for a cluster.
struct SelectedLan {
    lan: NodeId,
    suitability: f64,
    /// Where each task fits, if that is known already.
    packed: Option<Vec<(TaskId, crate::MachineId)>>,
}

impl Mapper<'_> {
    /// Algorithm 1.
    fn lan_select(&mut self, clustering: &Clustering) -> Result<Vec<ClusterPlacement>, MappingError> {
        let lans = closest_first(self.grid);
        let mut placements: Vec<Option<ClusterPlacement>> = vec![None; clustering.count()];
        for cluster in self.by_demand(clustering) {
            let mut tasks = clustering.tasks(cluster).to_vec();
            sort_by_demand(self.graph, &mut tasks);
            let selected = self.select(cluster, &tasks, &lans)?;
            placements[cluster.index()] =
                Some(ClusterPlacement { lan: selected.lan, suitability: selected.suitability });
            let left = match selected.packed {
                Some(packed) => self.place_packed(packed),
                None => self.simple_taskmap(selected.lan, tasks, Stage::Selected),
            };
            self.proxy_taskmap(selected.lan, left)?;
        }
        Ok(placements.into_iter().flatten().collect())
    }

    /// The clusters by decreasing demand (eq. 6), ties by id.
    fn by_demand(&self, clustering: &Clustering) -> Vec<ClusterId> {
        let demand = |cluster: &ClusterId| -> f64 {
            clustering.tasks(*cluster).iter().map(|task| self.graph.mcr(*task)).sum()
        };
        let mut clusters: Vec<(f64, ClusterId)> =
            clustering.ids().map(|cluster| (demand(&cluster), cluster)).collect();
        clusters.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        clusters.into_iter().map(|(_, cluster)| cluster).collect()
    }

    /// The LAN of a cluster whose tasks are sorted by decreasing demand.
    fn select(
        &self,
        cluster: ClusterId,
        tasks: &[TaskId],
        lans: &[NodeId],
    ) -> Result<SelectedLan, MappingError> {
        let demands: Vec<f64> = tasks.iter().map(|task| self.graph.mcr(*task)).collect();
        let found = match self.options.suitability {
            Suitability::Mean => self.first_by_mean(&demands, lans),
            Suitability::Packing => {
                self.first_that_holds(tasks, &demands, lans).or_else(|| self.holds_most(&demands, lans))
            }
        };
        let powers = |lan: &NodeId| self.powers(*lan);
        found.ok_or_else(|| match (self.options.suitability, tasks.last().zip(demands.last())) {
            // No LAN holds any of its tasks, not even the smallest.
            (Suitability::Packing, Some((task, demand))) => MappingError::Task {
                task: *task,
                mcr_mflops: *demand,
                best: lans.iter().flat_map(powers).fold(0.0, f64::max),
            },
            _ => MappingError::Cluster {
                cluster,
                tasks: tasks.len(),
                mcr_mflops: demands.iter().sum(),
                best: lans.iter().map(|lan| suitability(&demands, &powers(lan))).fold(0.0, f64::max),
            },
        })
    }

    /// The LAN that the search prefers among those of suitability 1 and above (eqs. 7 to 9).
    fn first_by_mean(&self, demands: &[f64], lans: &[NodeId]) -> Option<SelectedLan> {
        let suitable = lans.iter().filter_map(|lan| {
            let suitability = suitability(demands, &self.powers(*lan));
            (suitability >= 1.0).then_some(SelectedLan { lan: *lan, suitability, packed: None })
        });
        self.prefer(suitable)
    }

    /// The LAN that the search prefers among those that hold all tasks.
    fn first_that_holds(&self, tasks: &[TaskId], demands: &[f64], lans: &[NodeId]) -> Option<SelectedLan> {
        let holding = lans.iter().filter_map(|lan| {
            let machines: Vec<crate::MachineId> = self.grid.machines_below(*lan).collect();
            let powers: Vec<f64> = machines.iter().map(|machine| self.free.power(*machine)).collect();
            let packed = pack(demands, &powers, self.options.fit)?;
            let packed = tasks.iter().zip(packed).map(|(task, at)| (*task, machines[at])).collect();
            let suitability = suitability(demands, &self.powers(*lan));
            Some(SelectedLan { lan: *lan, suitability, packed: Some(packed) })
        });
        self.prefer(holding)
    }

    /// No LAN holds the whole cluster: the one that holds most of it, ties to the closest.
    fn holds_most(&self, demands: &[f64], lans: &[NodeId]) -> Option<SelectedLan> {
        let held = |lan: &NodeId| {
            let mut powers = self.powers(*lan);
            let mut held = 0.0;
            for demand in demands {
                if let Some(at) = self.options.fit.choose(*demand, powers.iter().copied()) {
                    powers[at] -= demand;
                    held += demand;
                }
            }
            held
        };
        let mut best: Option<(f64, NodeId)> = None;
        for lan in lans {
            let held = held(lan);
            if held > best.map_or(0.0, |(most, _)| most) {
                best = Some((held, *lan));
            }
        }
        best.map(|(_, lan)| SelectedLan {
            lan,
            suitability: suitability(demands, &self.powers(lan)),
            packed: None,
        })
    }

    /// The first LAN, or the one with the best suitability for its distance.
    fn prefer(&self, mut suitable: impl Iterator<Item = SelectedLan>) -> Option<SelectedLan> {
        let Search::Weighed { per_hop } = self.options.search else { return suitable.next() };
        let worth = |selected: &SelectedLan| {
            let hops = self.grid.hops(self.grid.user_lan(), selected.lan);
            selected.suitability / (1.0 + per_hop).powi(hops as i32)
        };
        let mut best: Option<(f64, SelectedLan)> = None;
        for selected in suitable {
            let worth = worth(&selected);
            if best.as_ref().is_none_or(|(most, _)| worth > *most) {
                best = Some((worth, selected));
            }
        }
        best.map(|(_, selected)| selected)
    }

    /// What the machines of a LAN have left.
    fn powers(&self, lan: NodeId) -> Vec<f64> {
        self.grid.machines_below(lan).map(|machine| self.free.power(machine)).collect()
    }
}
