//! The data of a run's charts: jobs on their processors, series over time, moves.

use pliant_model::{Reason, Run};
use serde_json::{Value, json};

use super::layout::Layout;
use super::pack::Packed;
use super::series::{Bins, ClusterSeries};
use crate::metrics::{proc_seconds, ratio};

/// At most this many jobs of a run are drawn one by one.
const JOBS_PER_RUN: usize = 100_000;
/// At most this many jobs of all runs of a page, about 20 MB of text.
const JOBS_PER_PAGE: usize = 600_000;
/// The most moves that a page shows one by one.
const MOVES_PER_PAGE: usize = 200_000;
/// Bars of the chart of moves over time.
const MOVE_BINS: usize = 120;

/// Every reason and what it means to a reader; a job refers to it by position.
const REASONS: [(&str, &str); 8] = [
    ("mct", "the first choice: this cluster had the earliest estimated completion"),
    ("random", "drawn at random among the clusters that can run it"),
    ("given", "named by its user or the log, or the only cluster there is"),
    ("local", "submitted straight to this cluster, outside the federation"),
    (
        "moved-earlier",
        "moved here while it waited: the estimated completion here was earlier by at least the threshold",
    ),
    (
        "resubmitted",
        "all waiting jobs were cancelled and submitted again; this cluster had the earliest estimated completion",
    ),
    ("first-start", "a sibling of it waited here, and was the first to start"),
    (
        "drained",
        "moved here while it waited: an operator had drained its cluster, and this one completed it first of all others",
    ),
];

/// The texts of the reasons, by position.
pub(super) fn reasons() -> Value {
    REASONS.iter().map(|(_, text)| *text).collect()
}

/// The data of one run among `runs` on a page; `end` is the end of the time axis.
pub(super) fn run_data(name: &str, run: &Run, runs: usize, end: i64) -> Value {
    let clusters: Vec<Value> = run
        .platform
        .clusters()
        .iter()
        .map(|cluster| json!({"name": cluster.name, "procs": cluster.procs.0, "speed": cluster.speed.get()}))
        .collect();
    let shown = Shown::of(run, JOBS_PER_RUN.min(JOBS_PER_PAGE / runs.max(1)));
    let layout = Layout::of(run);
    let jobs: Vec<Value> =
        layout.by_start.iter().map(|order| pack_jobs(run, &layout, order, &shown)).collect();
    json!({
        "name": name,
        "clusters": clusters,
        "jobs": jobs,
        "total": run.jobs.len(),
        "shown": shown.count,
        "shown_share": shown.share,
        "states": states(run),
        "overbooked": layout.overbooked,
        "series": series(run, end),
        "moves": moves(run, runs, end),
    })
}

/// The states that jobs of a run have, by their index in `Pliant.STATES`: stayed, moved, local.
fn states(run: &Run) -> Vec<usize> {
    let mut there = [false; 3];
    for job in &run.jobs {
        there[if !job.managed { 2 } else { usize::from(job.moves > 0) }] = true;
    }
    (0..there.len()).filter(|state| there[*state]).collect()
}

/// Which jobs are drawn: the largest by processor time, so that the picture stays whole.
struct Shown {
    keep: Option<Vec<bool>>,
    count: usize,
    share: f64,
}

impl Shown {
    fn of(run: &Run, most: usize) -> Shown {
        if run.jobs.len() <= most {
            return Shown { keep: None, count: run.jobs.len(), share: 1.0 };
        }
        let mut order: Vec<u32> = (0..run.jobs.len() as u32).collect();
        let size = |index: &u32| proc_seconds(&run.jobs[*index as usize]);
        order.sort_by_key(|index| (std::cmp::Reverse(size(index)), *index));
        let part: i128 = order[..most].iter().map(size).sum();
        let whole: i128 = order.iter().map(size).sum();
        let mut keep = vec![false; run.jobs.len()];
        order[..most].iter().for_each(|index| keep[*index as usize] = true);
        Shown { keep: Some(keep), count: most, share: ratio(part as f64, whole as f64) }
    }

    fn has(&self, index: u32) -> bool {
        self.keep.as_ref().is_none_or(|keep| keep[index as usize])
    }
}

/// The jobs of a cluster by start. `assets/base.js` reads what is written here.
fn pack_jobs(run: &Run, layout: &Layout, order: &[u32], shown: &Shown) -> Value {
    let mut packed = Packed::default();
    let (mut count, mut last_id, mut last_start) = (0_u64, 0_i64, 0_i64);
    for &index in order.iter().filter(|index| shown.has(**index)) {
        let job = &run.jobs[index as usize];
        packed.push_signed((job.log_id as i64).wrapping_sub(last_id));
        packed.push_signed(job.start.0 - last_start);
        packed.push_signed(job.wait().0);
        packed.push_signed(job.runtime().0);
        packed.push(u64::from(job.procs.0));
        packed.push_signed(job.walltime.0);
        packed.push(reason_position(job.reason) | u64::from(job.managed) << 3 | u64::from(job.moves) << 4);
        let pieces = layout.pieces(index);
        packed.push(pieces.len() as u64);
        for piece in pieces {
            packed.push(u64::from(piece.first));
            packed.push(u64::from(piece.count));
        }
        (count, last_id, last_start) = (count + 1, job.log_id as i64, job.start.0);
    }
    json!({"count": count, "data": packed.text()})
}

fn reason_position(reason: Reason) -> u64 {
    REASONS.iter().position(|(word, _)| *word == reason.word()).unwrap_or(0) as u64
}

fn series(run: &Run, end: i64) -> Value {
    let bins = Bins::for_clusters(end, run.platform.clusters().len());
    let found = ClusterSeries::of(run, bins);
    let pack = |values: &Vec<Vec<f64>>, scale: f64| -> Value {
        let one = |series: &Vec<f64>| {
            let mut packed = Packed::default();
            series.iter().for_each(|value| packed.push((value * scale).round().max(0.0) as u64));
            packed.text()
        };
        values.iter().map(one).collect()
    };
    // Utilization in tenths of a percent, queue lengths in tenths of a job.
    json!({
        "width": bins.width,
        "count": bins.count,
        "utilization": pack(&found.utilization, 1000.0),
        "queue": pack(&found.queue, 10.0),
    })
}

fn moves(run: &Run, runs: usize, end: i64) -> Value {
    let bins = Bins::covering(end, MOVE_BINS);
    let mut counts = vec![0_u64; bins.count];
    run.moves.iter().for_each(|record| counts[bins.of(record.at.0)] += 1);
    let count = run.moves.len().min(MOVES_PER_PAGE / runs.max(1));
    let mut packed = Packed::default();
    let (mut last_at, mut last_id) = (0_i64, 0_i64);
    for record in &run.moves[..count] {
        packed.push_signed(record.at.0 - last_at);
        packed.push_signed((record.log_id as i64).wrapping_sub(last_id));
        packed.push(u64::from(record.from.0));
        packed.push(u64::from(record.to.0));
        packed.push_signed(record.before.0 - record.at.0);
        packed.push_signed(record.after.0 - record.at.0);
        (last_at, last_id) = (record.at.0, record.log_id as i64);
    }
    json!({
        "count": count,
        "data": packed.text(),
        "width": bins.width,
        "counts": counts,
    })
}

#[cfg(test)]
mod tests {
    use pliant_model::{MapReason, MoveReason};

    use super::*;

    #[test]
    fn every_reason_has_its_text() {
        let reasons = [
            Reason::Mapped(MapReason::EarliestCompletion),
            Reason::Mapped(MapReason::Drawn),
            Reason::Mapped(MapReason::Given),
            Reason::Mapped(MapReason::Local),
            Reason::Moved(MoveReason::EarlierCompletion),
            Reason::Moved(MoveReason::Resubmitted),
            Reason::Moved(MoveReason::FirstStart),
            Reason::Moved(MoveReason::Drained),
        ];
        for (position, reason) in reasons.into_iter().enumerate() {
            assert_eq!(REASONS[position].0, reason.word());
            assert_eq!(reason_position(reason), position as u64);
        }
    }
}
