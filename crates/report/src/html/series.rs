//! Utilization, queue length and moves over time, averaged over a bounded number of equal bins so that
//! any run draws as fast as a small one. `O(jobs + moves + bins)`, apart from sorting the moves.

use pliant_model::{JobOutcome, MoveRecord, Run};

/// Bins of all clusters together; few clusters share more each.
const BINS_TOTAL: usize = 14_400;
const BINS_MOST: usize = 600;
const BINS_LEAST: usize = 48;

/// Equal bins of time from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bins {
    /// Seconds in a bin.
    pub(super) width: i64,
    /// How many.
    pub(super) count: usize,
}

impl Bins {
    /// At most `most` bins of whole seconds that cover `0..end`.
    pub(super) fn covering(end: i64, most: usize) -> Bins {
        let end = end.max(1);
        let width = (end + most as i64 - 1) / most as i64;
        Bins { width, count: ((end + width - 1) / width) as usize }
    }

    /// Bins for `clusters` series up to `end`.
    pub(super) fn for_clusters(end: i64, clusters: usize) -> Bins {
        Bins::covering(end, (BINS_TOTAL / clusters.max(1)).clamp(BINS_LEAST, BINS_MOST))
    }

    /// The bin that holds an instant; instants outside fall into the first or the last.
    pub(super) fn of(self, at: i64) -> usize {
        (at.max(0) / self.width).min(self.count as i64 - 1) as usize
    }
}

/// The integral of a step function over each bin, built from intervals in `O(1)` each.
pub(super) struct Integral {
    bins: Bins,
    /// What an interval adds to the bins of its two ends.
    partial: Vec<f64>,
    /// Differences of what intervals add to the bins that they cover wholly.
    change: Vec<f64>,
}

impl Integral {
    pub(super) fn new(bins: Bins) -> Integral {
        Integral { bins, partial: vec![0.0; bins.count], change: vec![0.0; bins.count + 1] }
    }

    /// Adds `height` during `from..to`.
    pub(super) fn add(&mut self, from: i64, to: i64, height: f64) {
        let width = self.bins.width;
        let end = width * self.bins.count as i64;
        let (from, to) = (from.clamp(0, end), to.clamp(0, end));
        if from >= to {
            return;
        }
        let (first, last) = ((from / width) as usize, ((to - 1) / width) as usize);
        if first == last {
            self.partial[first] += height * (to - from) as f64;
            return;
        }
        self.partial[first] += height * ((first as i64 + 1) * width - from) as f64;
        self.partial[last] += height * (to - last as i64 * width) as f64;
        self.change[first + 1] += height * width as f64;
        self.change[last] -= height * width as f64;
    }

    /// The mean height in each bin.
    pub(super) fn means(&self) -> Vec<f64> {
        let mut whole = 0.0;
        let mean = |(partial, change): (&f64, &f64)| {
            whole += change;
            (partial + whole) / self.bins.width as f64
        };
        self.partial.iter().zip(&self.change).map(mean).collect()
    }
}

/// Mean utilization (0..=1) and mean number of waiting jobs in each bin, for each cluster.
pub(super) struct ClusterSeries {
    pub(super) utilization: Vec<Vec<f64>>,
    pub(super) queue: Vec<Vec<f64>>,
}

impl ClusterSeries {
    /// A job waits where its moves put it; if the moves were not kept, where it ran.
    pub(super) fn of(run: &Run, bins: Bins) -> ClusterSeries {
        let clusters = run.platform.clusters();
        let empty = || clusters.iter().map(|_| Integral::new(bins)).collect::<Vec<_>>();
        let (mut busy, mut waiting) = (empty(), empty());
        let mut moves: Vec<&MoveRecord> = run.moves.iter().collect();
        moves.sort_by_key(|record| (record.log_id, record.at));
        for job in &run.jobs {
            busy[job.cluster.index()].add(job.start.0, job.end.0, f64::from(job.procs.0));
            let (mut cluster, mut since) = (job.cluster, job.submit);
            let route = route(job, &moves);
            if let Some(first) = route.first() {
                cluster = first.from;
            }
            for record in route {
                waiting[cluster.index()].add(since.0, record.at.0, 1.0);
                (cluster, since) = (record.to, record.at);
            }
            waiting[cluster.index()].add(since.0, job.start.0, 1.0);
        }
        let share = |(integral, cluster): (&Integral, &pliant_model::Cluster)| {
            integral.means().iter().map(|mean| mean / f64::from(cluster.procs.0)).collect()
        };
        let utilization = busy.iter().zip(clusters).map(share).collect();
        ClusterSeries { utilization, queue: waiting.iter().map(Integral::means).collect() }
    }
}

/// The moves of a job among all moves sorted by job; none unless all of its moves were kept.
fn route<'a>(job: &JobOutcome, moves: &'a [&'a MoveRecord]) -> &'a [&'a MoveRecord] {
    if job.moves == 0 {
        return &[];
    }
    let begin = moves.partition_point(|record| record.log_id < job.log_id);
    let end = moves.partition_point(|record| record.log_id <= job.log_id);
    if end - begin == job.moves as usize { &moves[begin..end] } else { &[] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_cover_the_run() {
        let check = |end, most, width, count| {
            assert_eq!(Bins::covering(end, most), Bins { width, count }, "{end} in {most}");
        };
        check(100, 10, 10, 10);
        check(101, 10, 11, 10);
        check(5, 10, 1, 5);
        check(0, 10, 1, 1);
    }

    #[test]
    fn the_integral_equals_second_by_second() {
        let bins = Bins { width: 7, count: 5 };
        let intervals =
            [(0, 35, 1.0), (3, 4, 2.0), (6, 8, 3.0), (7, 14, 1.0), (-5, 2, 4.0), (30, 99, 1.0), (9, 9, 8.0)];
        let mut integral = Integral::new(bins);
        let mut slow = [0.0; 35];
        for (from, to, height) in intervals {
            integral.add(from, to, height);
            (from.max(0)..to.min(35)).for_each(|second| slow[second as usize] += height);
        }
        let expected: Vec<f64> = slow.chunks(7).map(|bin| bin.iter().sum::<f64>() / 7.0).collect();
        for (found, expected) in integral.means().iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
    }
}
