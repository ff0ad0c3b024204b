//! What is free on each node over time: running jobs until their ends, planned jobs from their starts on.
//!
//! A sorted list of intervals with the free amounts of every node; with `s` intervals and `n` nodes a change costs O(intervals
//! covered + n), and reading a stretch of time O(intervals covered x n).

use pliant_model::{Procs, Span, Time};

use super::amounts::{Amounts, Part};
use super::rows::Rows;
use super::rules::{Reserve, Rules};
use crate::profile::FreePlan;

/// The state from `begin` until the next interval.
#[derive(Clone, Debug)]
pub(super) struct Interval {
    pub(super) begin: i64,
    /// By row.
    pub(super) free: Vec<Amounts>,
    /// The free cores of all nodes.
    pub(super) total: u64,
    /// Nodes on which a planned job starts here that requires them empty ([`Reserve::Start`]).
    starts: Vec<u32>,
}

/// What is free over time.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    rows: Rows,
    intervals: Vec<Interval>,
    /// Ends and nodes of the running jobs, by end.
    held: Vec<(i64, Vec<Part>)>,
}

impl Timeline {
    /// All of it is free from `now` on.
    pub(super) fn new(rows: Rows, now: Time) -> Timeline {
        let first =
            Interval { begin: now.0, free: rows.all.clone(), total: rows.cores(), starts: Vec::new() };
        Timeline { rows, intervals: vec![first], held: Vec::new() }
    }

    pub(super) fn rows(&self) -> &Rows {
        &self.rows
    }

    pub(super) fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// The free cores of all nodes together: no allocation starts earlier than by them.
    pub(super) fn free_plan(&self, now: Time) -> FreePlan {
        let cores = |total: u64| Procs(u32::try_from(total).unwrap_or(u32::MAX));
        let steps = self.intervals.iter().map(|one| (Time(one.begin), cores(one.total)));
        FreePlan::of_steps(cores(self.rows.cores()), (now, now), steps)
    }

    /// The interval at `at`; the first one if `at` lies before all.
    pub(super) fn at(&self, at: i64) -> usize {
        self.intervals.partition_point(|one| one.begin <= at).saturating_sub(1)
    }

    /// The last interval between interval `first` and `until` with fewer than `need` free cores in all: no allocation fits
    /// across it.
    pub(super) fn short(&self, first: usize, until: i64, strict: bool, need: u64) -> Option<usize> {
        let met = |one: &&Interval| one.begin < until || strict && one.begin == until;
        let count = self.intervals[first + 1..].iter().take_while(met).count();
        (first..=first + count).rev().find(|index| self.intervals[*index].total < need)
    }

    /// Splits the interval at `at`.
    fn split(&mut self, at: i64) -> usize {
        let index = self.at(at);
        if self.intervals[index].begin >= at {
            return index;
        }
        let mut second = self.intervals[index].clone();
        second.begin = at;
        second.starts.clear();
        self.intervals.insert(index + 1, second);
        index + 1
    }

    /// Allocates what a running job has until `end`. Under [`Reserve::Nodes`] intervals contain only planned jobs.
    pub(super) fn hold(&mut self, end: Time, on: &[Part], rules: &Rules) {
        if rules.reserve != Reserve::Nodes {
            let until = self.split(end.0);
            for interval in &mut self.intervals[..until] {
                on.iter().for_each(|part| interval.take(&self.rows, *part));
            }
        }
        let index = self.held.partition_point(|(other, _)| *other <= end.0);
        self.held.insert(index, (end.0, on.to_vec()));
    }

    /// The running jobs that end by `at`, by end.
    pub(super) fn ended_by(&self, at: i64) -> &[(i64, Vec<Part>)] {
        &self.held[..self.held.partition_point(|(end, _)| *end <= at)]
    }

    /// The running jobs that end after `at`.
    pub(super) fn still_held(&self, at: i64) -> impl Iterator<Item = &(i64, Vec<Part>)> {
        self.held[self.ended_by(at).len()..].iter()
    }

    /// Reserves what a planned job gets on `[start, start + walltime)`.
    pub(super) fn reserve(&mut self, start: Time, walltime: Span, on: &[Part], rules: &Rules) {
        let unit = if rules.reserve == Reserve::Nodes { rules.resolution.0 } else { 1 };
        let (start, end) = (start.0 - start.0.rem_euclid(unit), start.0 + walltime.0);
        let (start, end) = (start.max(self.intervals[0].begin), end - end.rem_euclid(unit));
        if start >= end {
            return;
        }
        let from = self.split(start);
        let until = self.split(end);
        for part in on {
            let is_node = self.rows.is_node(part.node);
            if rules.reserve == Reserve::Start && is_node {
                self.intervals[from].starts.push(part.node);
            }
            let is_whole = rules.reserve == Reserve::Nodes && is_node;
            let taken = if is_whole { Amounts::ALL } else { part.taken };
            for interval in &mut self.intervals[from..until] {
                interval.take(&self.rows, Part { taken, ..*part });
            }
        }
    }
}

/// A table that is kept over many events: [`super::reservations`].
impl Timeline {
    /// Takes what a job has or is to have.
    pub(super) fn take(&mut self, from: Time, until: Time, on: &[Part]) {
        self.change(from, until, |rows, interval| on.iter().for_each(|part| interval.take(rows, *part)));
    }

    /// Whether so much is free from `from` until `until`.
    pub(super) fn has(&self, from: Time, until: Time, on: &[Part]) -> bool {
        let last = self.intervals.partition_point(|one| one.begin < until.0);
        let intervals = self.intervals.get(self.at(from.0)..last).unwrap_or_default();
        let has_all = |one: &Interval| on.iter().all(|part| one.free[part.node as usize].covers(part.taken));
        from >= until || intervals.iter().all(has_all)
    }

    /// Gives back what was taken.
    pub(super) fn give(&mut self, from: Time, until: Time, on: &[Part]) {
        self.change(from, until, |rows, interval| on.iter().for_each(|part| interval.give(rows, *part)));
    }

    fn change(&mut self, from: Time, until: Time, change: impl Fn(&Rows, &mut Interval)) {
        let from = from.0.max(self.intervals[0].begin);
        if from < until.0 {
            let range = self.split(from)..self.split(until.0);
            self.intervals[range].iter_mut().for_each(|interval| change(&self.rows, interval));
        }
    }

    /// Drops what was before `now`, and joins what has become alike.
    pub(super) fn advance(&mut self, now: Time) {
        let first = self.at(now.0);
        self.intervals.drain(..first);
        self.intervals[0].begin = self.intervals[0].begin.max(now.0);
        self.intervals.dedup_by(|next, kept| next.free == kept.free);
    }
}

impl Interval {
    fn give(&mut self, rows: &Rows, Part { node, taken }: Part) {
        let free = &mut self.free[node as usize];
        *free = free.with(taken);
        if rows.is_node(node) {
            self.total += u64::from(taken.cores);
        }
    }

    fn take(&mut self, rows: &Rows, Part { node, taken }: Part) {
        let free = &mut self.free[node as usize];
        if rows.is_node(node) {
            self.total -= u64::from(taken.cores.min(free.cores));
        }
        *free = free.without(taken);
    }
}

/// A growing stretch of time: what is free throughout.
pub(super) struct Stretch<'a> {
    timeline: &'a Timeline,
    /// True if starts at the end count.
    strict: bool,
    next: usize,
    /// Free throughout, by row.
    pub(super) free: Vec<Amounts>,
}

impl<'a> Stretch<'a> {
    pub(super) fn new(timeline: &'a Timeline, rules: &Rules) -> Stretch<'a> {
        Stretch { timeline, strict: rules.strict_holes, next: 1, free: Vec::new() }
    }

    /// Restarts at interval `first`.
    pub(super) fn begin(&mut self, first: usize) {
        self.next = first + 1;
        self.free.clear();
        self.free.extend_from_slice(&self.timeline.intervals[first].free);
    }

    /// Extends the stretch to `until`.
    pub(super) fn extend(&mut self, until: i64) {
        let intervals = &self.timeline.intervals;
        while let Some(interval) = intervals.get(self.next)
            && (interval.begin < until || self.strict && interval.begin == until)
        {
            for (free, then) in self.free.iter_mut().zip(&interval.free) {
                *free = free.min(*then);
            }
            for node in &interval.starts {
                self.free[*node as usize] = Amounts::default();
            }
            self.next += 1;
        }
    }
}
