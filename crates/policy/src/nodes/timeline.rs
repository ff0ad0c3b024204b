//! Free cores of each node over time: running jobs until their ends, planned jobs from their starts on.
//!
//! A sorted list of intervals, each with the free cores of every node; with `s` intervals and `n` nodes a
//! change costs O(intervals covered + n), and a look at a stretch of time O(intervals covered x n).

use pliant_model::{Span, Time};

use super::snapshot::{Reserve, Rules};

/// What holds from `begin` until the next interval begins.
#[derive(Clone, Debug)]
pub(super) struct Interval {
    pub(super) begin: i64,
    pub(super) free: Vec<u32>,
    /// Sum of `free`.
    pub(super) total: u64,
    /// Nodes on which a planned job starts here that wants them empty ([`Reserve::Start`]).
    starts: Vec<bool>,
}

/// Free cores over time.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    cores: Vec<u32>,
    intervals: Vec<Interval>,
    /// The running jobs: until when, where; by end.
    held: Vec<(i64, Vec<(u32, u32)>)>,
}

impl Timeline {
    /// Nodes of which that many cores may be used, all of them free from `now` on.
    pub(super) fn new(cores: Vec<u32>, now: Time) -> Timeline {
        let total = cores.iter().map(|cores| u64::from(*cores)).sum();
        let starts = vec![false; cores.len()];
        let first = Interval { begin: now.0, free: cores.clone(), total, starts };
        Timeline { cores, intervals: vec![first], held: Vec::new() }
    }

    pub(super) fn cores(&self) -> &[u32] {
        &self.cores
    }

    pub(super) fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// The interval that holds at `at`; the first one if `at` lies before all.
    pub(super) fn at(&self, at: i64) -> usize {
        self.intervals.partition_point(|one| one.begin <= at).saturating_sub(1)
    }

    /// The last interval of those met between interval `first` and `until` in which fewer than `need` cores
    /// are free in all: where nothing can fit, whatever the nodes.
    pub(super) fn short(&self, first: usize, until: i64, strict: bool, need: u64) -> Option<usize> {
        let met = |one: &&Interval| one.begin < until || strict && one.begin == until;
        let count = self.intervals[first + 1..].iter().take_while(met).count();
        (first..=first + count).rev().find(|index| self.intervals[*index].total < need)
    }

    /// Makes an interval begin at `at`.
    fn split(&mut self, at: i64) -> usize {
        let index = self.at(at);
        if self.intervals[index].begin >= at {
            return index;
        }
        let mut second = self.intervals[index].clone();
        second.begin = at;
        second.starts.fill(false);
        self.intervals.insert(index + 1, second);
        index + 1
    }

    /// A running job holds cores from the beginning until `end`. Under [`Reserve::Nodes`] the intervals
    /// tell of planned jobs only.
    pub(super) fn hold(&mut self, end: Time, on: &[(u32, u32)], rules: &Rules) {
        if rules.reserve != Reserve::Nodes {
            let until = self.split(end.0);
            for interval in &mut self.intervals[..until] {
                on.iter().for_each(|(node, cores)| interval.take(*node, *cores));
            }
        }
        let index = self.held.partition_point(|(other, _)| *other <= end.0);
        self.held.insert(index, (end.0, on.to_vec()));
    }

    /// The running jobs that will have ended by `at`, by end.
    pub(super) fn ended_by(&self, at: i64) -> &[(i64, Vec<(u32, u32)>)] {
        &self.held[..self.held.partition_point(|(end, _)| *end <= at)]
    }

    /// The running jobs that will not have ended by `at`.
    pub(super) fn still_held(&self, at: i64) -> impl Iterator<Item = &(i64, Vec<(u32, u32)>)> {
        self.held[self.ended_by(at).len()..].iter()
    }

    /// A planned job gets cores on `[start, start + walltime)`.
    pub(super) fn reserve(&mut self, start: Time, walltime: Span, on: &[(u32, u32)], rules: &Rules) {
        let unit = if rules.reserve == Reserve::Nodes { rules.resolution.0 } else { 1 };
        let (start, end) = (start.0 - start.0.rem_euclid(unit), start.0 + walltime.0);
        let (start, end) = (start.max(self.intervals[0].begin), end - end.rem_euclid(unit));
        if start >= end {
            return;
        }
        let from = self.split(start);
        let until = self.split(end);
        for (node, cores) in on {
            if rules.reserve == Reserve::Start {
                self.intervals[from].starts[*node as usize] = true;
            }
            for interval in &mut self.intervals[from..until] {
                let whole = rules.reserve == Reserve::Nodes;
                interval.take(*node, if whole { u32::MAX } else { *cores });
            }
        }
    }
}

impl Interval {
    fn take(&mut self, node: u32, cores: u32) {
        let free = &mut self.free[node as usize];
        let taken = cores.min(*free);
        *free -= taken;
        self.total -= u64::from(taken);
    }
}

/// A look at a stretch of time that begins at one instant and grows: what is free throughout.
pub(super) struct Stretch<'a> {
    timeline: &'a Timeline,
    /// What begins at the end is met too.
    strict: bool,
    next: usize,
    /// Free cores of each node throughout.
    pub(super) free: Vec<u32>,
}

impl<'a> Stretch<'a> {
    pub(super) fn new(timeline: &'a Timeline, rules: &Rules) -> Stretch<'a> {
        Stretch { timeline, strict: rules.strict_holes, next: 1, free: Vec::new() }
    }

    /// Begins anew in interval `first`.
    pub(super) fn begin(&mut self, first: usize) {
        self.next = first + 1;
        self.free.clear();
        self.free.extend_from_slice(&self.timeline.intervals[first].free);
    }

    /// Lets the stretch end at `until`, not before its present end.
    pub(super) fn extend(&mut self, until: i64) {
        let intervals = &self.timeline.intervals;
        while let Some(interval) = intervals.get(self.next)
            && (interval.begin < until || self.strict && interval.begin == until)
        {
            for (node, free) in self.free.iter_mut().enumerate() {
                *free = if interval.starts[node] { 0 } else { interval.free[node].min(*free) };
            }
            self.next += 1;
        }
    }

    /// Sum of what is free; of whole nodes only, if asked for.
    pub(super) fn total(&self, whole: bool) -> u64 {
        let pairs = self.free.iter().zip(&self.timeline.cores);
        pairs.filter(|(free, cores)| !whole || free == cores).map(|(free, _)| u64::from(*free)).sum()
    }
}
