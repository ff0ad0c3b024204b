//! Which processors a job is drawn on. A run says how many processors a job used, not which; any
//! assignment without overlap is as true as another. Each job gets the narrowest gap that is wide enough
//! at its start (of equal ones the lowest), or the widest gaps together where none is wide enough.
//!
//! `O(n log n + n f)` for `n` jobs and `f` gaps between running jobs, apart from jobs in many pieces.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pliant_model::{JobOutcome, Run};

/// Processors `first .. first + count`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub(super) first: u32,
    pub(super) count: u32,
}

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
        let mut layout =
            Layout { offsets: vec![(0, 0); run.jobs.len()], pieces: Vec::new(), by_start, overbooked: 0 };
        for cluster in 0..layout.by_start.len() {
            let mut order = std::mem::take(&mut layout.by_start[cluster]);
            order.sort_by_key(|index| run.jobs[*index as usize].start);
            layout.assign(&run.jobs, &order, run.platform.clusters()[cluster].procs.0);
            layout.by_start[cluster] = order;
        }
        layout
    }

    /// Where a job is drawn.
    pub(super) fn pieces(&self, job: u32) -> &[Piece] {
        let (begin, end) = self.offsets[job as usize];
        &self.pieces[begin as usize..end as usize]
    }

    fn assign(&mut self, jobs: &[JobOutcome], order: &[u32], procs: u32) {
        let mut free = Free(vec![Piece { first: 0, count: procs }]);
        let mut running = BinaryHeap::new();
        for &index in order {
            let job = &jobs[index as usize];
            while let Some(&Reverse((end, ended))) = running.peek() {
                if end > job.start {
                    break;
                }
                running.pop();
                let (begin, end) = self.offsets[ended as usize];
                self.pieces[begin as usize..end as usize].iter().for_each(|piece| free.release(*piece));
            }
            let begin = self.pieces.len();
            let missing = free.take(job.procs.0, &mut self.pieces);
            self.overbooked += u64::from(missing > 0);
            self.offsets[index as usize] = (begin as u32, self.pieces.len() as u32);
            running.push(Reverse((job.end, index)));
        }
    }
}

/// Free processors: pieces by their first, never touching.
struct Free(Vec<Piece>);

impl Free {
    /// Takes `count` processors into `pieces`; returns how many could not be found.
    fn take(&mut self, count: u32, pieces: &mut Vec<Piece>) -> u32 {
        let fitting = self.0.iter().enumerate().filter(|(_, piece)| piece.count >= count);
        if let Some((gap, _)) = fitting.min_by_key(|(_, piece)| piece.count) {
            pieces.push(self.shorten(gap, count));
            return 0;
        }
        let mut missing = count;
        while missing > 0 {
            let widest = self.0.iter().enumerate().max_by_key(|(at, piece)| (piece.count, Reverse(*at)));
            let Some((gap, &Piece { count, .. })) = widest else { break };
            let taken = missing.min(count);
            pieces.push(self.shorten(gap, taken));
            missing -= taken;
        }
        missing
    }

    fn shorten(&mut self, gap: usize, count: u32) -> Piece {
        let piece = &mut self.0[gap];
        let taken = Piece { first: piece.first, count };
        *piece = Piece { first: piece.first + count, count: piece.count - count };
        if piece.count == 0 {
            self.0.remove(gap);
        }
        taken
    }

    fn release(&mut self, piece: Piece) {
        let at = self.0.partition_point(|other| other.first < piece.first);
        let joins_next = self.0.get(at).is_some_and(|next| next.first == piece.first + piece.count);
        let joins_last = at > 0 && self.0[at - 1].first + self.0[at - 1].count == piece.first;
        match (joins_last, joins_next) {
            (true, true) => self.0[at - 1].count += piece.count + self.0.remove(at).count,
            (true, false) => self.0[at - 1].count += piece.count,
            (false, true) => self.0[at] = Piece { first: piece.first, count: piece.count + self.0[at].count },
            (false, false) => self.0.insert(at, piece),
        }
    }
}

#[cfg(test)]
mod tests;
