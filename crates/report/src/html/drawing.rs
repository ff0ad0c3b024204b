//! What the charts of a run draw, for figures that others make.

use pliant_model::{ClusterId, Run};

use super::layout::Layout;
use super::series::{Bins, ClusterSeries};

/// A rectangle of the Gantt chart: processors of a job next to each other. A job may have several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DrawnBar {
    /// The job's position in the run.
    pub job: usize,
    /// Its first processor, from 0.
    pub first: u32,
    /// The number of its processors.
    pub procs: u32,
}

/// The rectangles of a run, cluster by cluster, those of a cluster by start.
pub fn drawn_bars(run: &Run) -> Vec<DrawnBar> {
    let layout = Layout::of(run);
    let mut bars = Vec::with_capacity(run.jobs.len());
    for &job in layout.by_start.iter().flatten() {
        let bar = |piece: &crate::timeline::Piece| DrawnBar {
            job: job as usize,
            first: piece.first,
            procs: piece.count,
        };
        bars.extend(layout.pieces(job).iter().map(bar));
    }
    bars
}

/// Utilization and queue length of a cluster over a bin of time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DrawnBin {
    /// The cluster.
    pub cluster: ClusterId,
    /// The begin of the bin, s.
    pub begin_s: i64,
    /// The end of the bin, s.
    pub end_s: i64,
    /// The mean share of processors that run jobs, from 0 to 1.
    pub utilization: f64,
    /// The mean number of waiting jobs.
    pub queue: f64,
}

/// The bins of a run, cluster by cluster: as many as on its page.
pub fn drawn_bins(run: &Run) -> Vec<DrawnBin> {
    let end = run.jobs.iter().map(|job| job.end.0).max().unwrap_or(0);
    let bins = Bins::for_clusters(end, run.platform.clusters().len());
    let series = ClusterSeries::of(run, bins);
    let mut found = Vec::with_capacity(bins.count * run.platform.clusters().len());
    for (cluster, (utilization, queue)) in series.utilization.iter().zip(&series.queue).enumerate() {
        for (bin, (utilization, queue)) in utilization.iter().zip(queue).enumerate() {
            let begin_s = bin as i64 * bins.width;
            found.push(DrawnBin {
                cluster: ClusterId(cluster as u32),
                begin_s,
                end_s: begin_s + bins.width,
                utilization: *utilization,
                queue: *queue,
            });
        }
    }
    found
}
