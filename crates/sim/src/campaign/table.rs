//! Aggregates results over seeds: one cell per (workload, platform, moldable, share, policy), with the minimum, mean and
//! maximum of each metric.

use std::collections::BTreeMap;

use super::{Record, SimulationResults};

/// The runs that differ only by their seed.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    /// The workload.
    pub workload: String,
    /// The platform.
    pub platform: String,
    /// The choice of moldable jobs.
    pub moldable: String,
    /// The share of jobs that went through the federation.
    pub dedicated_share: f64,
    /// The policy.
    pub policy: String,
    /// The number of seeds.
    pub seeds: usize,
    /// Each metric over the seeds that have it.
    pub metrics: BTreeMap<String, Spread>,
}

/// A metric over seeds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// The number of runs.
    pub runs: usize,
    /// The minimum.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The maximum.
    pub max: f64,
}

impl Cell {
    fn of(run: &Record) -> Cell {
        Cell {
            workload: run.workload.clone(),
            platform: run.platform.clone(),
            moldable: run.moldable.clone(),
            dedicated_share: run.dedicated_share,
            policy: run.policy.clone(),
            seeds: 0,
            metrics: BTreeMap::new(),
        }
    }

    fn is_of(&self, run: &Record) -> bool {
        (&self.workload, &self.platform, &self.moldable, &self.policy)
            == (&run.workload, &run.platform, &run.moldable, &run.policy)
            && self.dedicated_share == run.dedicated_share
    }

    fn add(&mut self, run: &Record) {
        self.seeds += 1;
        for (name, &value) in &run.metrics {
            let spread = self.metrics.entry(name.clone()).or_insert(Spread {
                runs: 0,
                min: f64::INFINITY,
                mean: 0.0,
                max: f64::NEG_INFINITY,
            });
            spread.runs += 1;
            spread.min = spread.min.min(value);
            spread.max = spread.max.max(value);
            spread.mean += (value - spread.mean) / spread.runs as f64;
        }
    }
}

/// The cells of a campaign, in the order of its matrix.
pub fn cells(results: &SimulationResults) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for run in &results.runs {
        // Runs of one cell are near each other: the last few cells are those of the current group.
        match cells.iter_mut().rev().find(|cell| cell.is_of(run)) {
            Some(cell) => cell.add(run),
            None => {
                let mut cell = Cell::of(run);
                cell.add(run);
                cells.push(cell);
            }
        }
    }
    cells
}
