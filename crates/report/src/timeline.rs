//! Which processors a job is drawn on. A run says how many processors a job used, not which; any
//! assignment without overlap is as true as another. Each job gets the narrowest gap that is wide enough
//! at its start (of equal ones the lowest), or the widest gaps together where none is wide enough.
//!
//! `O(n log n + n f)` for `n` jobs and `f` gaps between running jobs, apart from jobs in many pieces.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pliant_model::{Procs, Time};

/// Processors `first .. first + count`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The first processor.
    pub first: u32,
    /// How many there are from it on.
    pub count: u32,
}

/// A job in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bar {
    /// Its start.
    pub start: Time,
    /// Its end.
    pub end: Time,
    /// How many processors it has in between.
    pub procs: Procs,
}

/// The processors of jobs of one cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Placement {
    /// The pieces of job `i` are `pieces[ends[i - 1] .. ends[i]]`.
    ends: Vec<u32>,
    pieces: Vec<Piece>,
    /// How many jobs found fewer free processors than they have: the cluster is overbooked.
    pub overbooked: u64,
}

impl Placement {
    /// Where each job is drawn, in the order of the jobs.
    pub fn iter(&self) -> impl Iterator<Item = &[Piece]> {
        (0..self.ends.len()).map(|job| self.pieces_of(job))
    }

    fn pieces_of(&self, job: usize) -> &[Piece] {
        let begin = if job == 0 { 0 } else { self.ends[job - 1] };
        &self.pieces[begin as usize..self.ends[job] as usize]
    }
}

/// Places jobs, which are in the order of their starts, on the processors of a cluster.
pub fn place(bars: &[Bar], procs: Procs) -> Placement {
    let mut free = Free(vec![Piece { first: 0, count: procs.0 }]);
    let mut running = BinaryHeap::new();
    let mut placed = Placement::default();
    for (job, bar) in bars.iter().enumerate() {
        while let Some(&Reverse((end, ended))) = running.peek() {
            if end > bar.start {
                break;
            }
            running.pop();
            placed.pieces_of(ended).iter().for_each(|piece| free.release(*piece));
        }
        let missing = free.take(bar.procs.0, &mut placed.pieces);
        placed.overbooked += u64::from(missing > 0);
        placed.ends.push(placed.pieces.len() as u32);
        running.push(Reverse((bar.end, job)));
    }
    placed
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
