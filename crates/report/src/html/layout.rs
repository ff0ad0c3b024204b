//! Which processors the jobs of a run are drawn on.

use pliant_model::Run;

use crate::timeline::{Bar, Piece, place};

/// The processors of every job of a run.
pub(super) struct Layout {
    /// The pieces of job `i` are `pieces[offsets[i].0 .. offsets[i].1]`.
    offsets: Vec<(u32, u32)>,
    pieces: Vec<Piece>,
    /// The jobs of each cluster by start.
    pub(super) by_start: Vec<Vec<u32>>,
    /// Jobs that found fewer free processors than they had: the run overbooks its cluster.
    pub(super) overbooked: u64,
}

impl Layout {
    /// Lays out a run.
    pub(super) fn of(run: &Run) -> Layout {
        let mut by_start = vec![Vec::new(); run.platform.clusters().len()];
        for (index, job) in run.jobs.iter().enumerate() {
            by_start[job.cluster.index()].push(index as u32);
        }
        let (offsets, pieces) = (vec![(0, 0); run.jobs.len()], Vec::new());
        let mut layout = Layout { offsets, pieces, by_start, overbooked: 0 };
        for (order, cluster) in layout.by_start.iter_mut().zip(run.platform.clusters()) {
            order.sort_by_key(|index| run.jobs[*index as usize].start);
            let bar = |index: &u32| {
                let job = &run.jobs[*index as usize];
                Bar { start: job.start, end: job.end, procs: job.procs }
            };
            let placed = place(&order.iter().map(bar).collect::<Vec<Bar>>(), cluster.procs);
            layout.overbooked += placed.overbooked;
            for (index, pieces) in order.iter().zip(placed.iter()) {
                let begin = layout.pieces.len() as u32;
                layout.pieces.extend_from_slice(pieces);
                layout.offsets[*index as usize] = (begin, layout.pieces.len() as u32);
            }
        }
        layout
    }

    /// Where a job is drawn.
    pub(super) fn pieces(&self, job: u32) -> &[Piece] {
        let (begin, end) = self.offsets[job as usize];
        &self.pieces[begin as usize..end as usize]
    }
}

#[cfg(test)]
mod tests;
