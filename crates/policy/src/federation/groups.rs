//! Groups of clusters, groups of groups and so on, so that a request asks few of many clusters.
//!
//! Each cluster has a table of the earliest starts on its plan: a row for each class of walltimes that requests have, with an entry
//! for each fine class of sizes. The table of a group has the least of what its members have. With the walltimes of a request at the
//! group's fastest speed a table bounds the completion on all of its clusters at once. A search opens groups in the order of their
//! bounds, and asks clusters in the order of theirs, until no bound is as good as the best estimate.
//!
//! Invariant: no entry is later than the truth for any of the clusters below. After an event that frees processors the cluster's table
//! is made again, and those of its groups are lowered to it where it was lowered. After other events the table stays true, and is made
//! again when the cluster is about to be asked. Entries of groups are raised when a search has opened the group. So a request
//! costs a few groups on each level, and an event one table and one path, whatever the number of clusters.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pliant_model::{ClusterId, Procs, Speed, Time, Walltimes};

use super::{Admission, ClusterState};
use crate::completion::Preference;
use crate::profile::{Free, SizeClasses, earliest_starts, lower_to, seconds_after, size};
use crate::tuning::{SizeTimes, WALLTIME_CLASSES, shortest_s};

/// With fewer clusters each of them is bounded.
const GROUPED: usize = 32;

/// Members of a group.
const MEMBERS: usize = 16;

/// So many steps of a plan are read. Behind them everything counts as free.
const STEPS: usize = 256;

/// A start so far away is none. The sum of two is below the largest number.
const NEVER: i32 = (1 << 30) - 1;

/// A group, or a cluster on the lowest level.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Node {
    level: usize,
    index: usize,
}

/// What does not change of the nodes of a level.
#[derive(Clone, Debug)]
struct Level {
    /// The first cluster of each in the order of their numbers, which breaks ties of completion.
    first: Vec<ClusterId>,
    fastest: Vec<Speed>,
}

/// What is known of the table of a cluster.
#[derive(Clone, Copy, Default, Debug)]
struct Table {
    /// Its position on the lowest level.
    position: usize,
    /// The scheduler's number of releases ([`BatchScheduler::releases`](crate::batch::BatchScheduler::releases)) when it was made.
    releases: Option<u64>,
    /// There were events since the last search.
    is_touched: bool,
    /// Starts may be later than it says.
    is_low: bool,
}

/// The clusters of a federation in groups.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    /// Clusters, groups of them, and so on; the last level has few groups. Neighbours are of similar speed.
    levels: Vec<Level>,
    /// Times are in seconds after it.
    base: Time,
    now_s: i32,
    /// Number of classes of sizes.
    sizes: usize,
    /// By class of walltimes, for each level the entries of one node after those of another; empty if no request had such walltimes.
    rows: Vec<Vec<Vec<i32>>>,
    /// The clusters with events since the last search.
    touched: Vec<ClusterId>,
    tables: Vec<Table>,
    times: SizeTimes,
    /// Nodes in the order of their bounds.
    open: BinaryHeap<Reverse<(Preference<i32, ClusterId>, Node)>>,
    opened: Vec<Node>,
    reader: StepReader,
}

impl Groups {
    /// The groups of many clusters; none for few.
    pub(super) fn of(clusters: &[ClusterState]) -> Option<Groups> {
        if clusters.len() < GROUPED {
            return None;
        }
        let speed = |id: &ClusterId| clusters[id.index()].speed;
        let mut order: Vec<ClusterId> = (0..clusters.len() as u32).map(ClusterId).collect();
        order.sort_by(|a, b| speed(b).get().total_cmp(&speed(a).get()).then(a.cmp(b)));
        let mut tables = vec![Table::default(); clusters.len()];
        for (position, id) in order.iter().enumerate() {
            tables[id.index()].position = position;
        }
        let mut levels = vec![Level { fastest: order.iter().map(speed).collect(), first: order }];
        while let Some(below) = levels.last().filter(|level| level.first.len() > MEMBERS) {
            let first = below.first.chunks(MEMBERS).map(|group| group.iter().copied().min());
            let first = first.map(|first| first.unwrap_or(ClusterId(0))).collect();
            // The fastest clusters come first.
            levels.push(Level { first, fastest: below.fastest.iter().copied().step_by(MEMBERS).collect() });
        }
        let largest = clusters.iter().map(|cluster| cluster.procs).max().unwrap_or_default();
        Some(Groups {
            levels,
            base: Time(i64::MAX),
            now_s: 0,
            sizes: SizeClasses::of(size(largest)) + 1,
            rows: vec![Vec::new(); WALLTIME_CLASSES],
            touched: Vec::new(),
            tables,
            times: SizeTimes::default(),
            open: BinaryHeap::new(),
            opened: Vec::new(),
            reader: StepReader::default(),
        })
    }

    /// An event on a cluster: its plan may have changed.
    pub(super) fn touch(&mut self, cluster: ClusterId) {
        if !std::mem::replace(&mut self.tables[cluster.index()].is_touched, true) {
            self.touched.push(cluster);
        }
    }

    /// The scheduler of a cluster was replaced.
    pub(super) fn replaced(&mut self, cluster: ClusterId) {
        self.tables[cluster.index()].releases = None;
        self.touch(cluster);
    }

    /// Begins the search for a request, given its walltimes on a cluster of reference speed as large as the largest.
    pub(super) fn begin(&mut self, clusters: &mut [ClusterState], now: Time, walltimes: &Walltimes<'_>) {
        if self.rows.iter().all(Vec::is_empty) {
            self.base = now;
        }
        self.now_s = seconds_after(self.base, now, NEVER);
        let mut touched = std::mem::take(&mut self.touched);
        for id in touched.drain(..) {
            let (table, cluster) = (&mut self.tables[id.index()], &mut clusters[id.index()]);
            table.is_touched = false;
            if table.releases.is_some() && table.releases == cluster.scheduler.releases() {
                table.is_low = true;
            } else {
                self.update(cluster, now, id);
            }
        }
        self.touched = touched;
        self.times.set(walltimes);
        self.open.clear();
        self.opened.clear();
        let top = self.levels.len() - 1;
        for index in 0..self.levels[top].first.len() {
            self.push(clusters, now, Node { level: top, index }, |_| true);
        }
    }

    /// The next cluster to ask, unless `may_take` says of its bound that no estimate at it or later is of use.
    pub(super) fn next(
        &mut self,
        clusters: &mut [ClusterState],
        now: Time,
        may_take: impl Fn(&Preference<Time, ClusterId>) -> bool,
    ) -> Option<ClusterId> {
        while let Some(Reverse((bound, node))) = self.open.pop() {
            if !may_take(&self.at(bound)) {
                return None;
            }
            if node.level == 0 {
                let id = bound.rank;
                if !self.tables[id.index()].is_low {
                    return Some(id);
                }
                self.update(&mut clusters[id.index()], now, id);
                self.push(clusters, now, node, &may_take);
                continue;
            }
            self.opened.push(node);
            let below = node.level - 1;
            for index in members(node, self.levels[below].first.len()) {
                self.push(clusters, now, Node { level: below, index }, &may_take);
            }
        }
        None
    }

    /// Ends a search: raises the entries that it looked at in the groups that it opened, the lower levels first.
    pub(super) fn end(&mut self) {
        while let Some(node) = self.opened.pop() {
            let (parts, _) = self.times.at(self.levels[node.level].fastest[node.index], NEVER);
            for part in parts {
                if let [below, level] = &mut self.rows[part.walltimes][node.level - 1..=node.level] {
                    raise(level, below, node, self.sizes, part.sizes.clone());
                }
            }
        }
    }

    fn at(&self, bound: Preference<i32, ClusterId>) -> Preference<Time, ClusterId> {
        let completion = Time(self.base.0.saturating_add(bound.completion.into()));
        Preference { completion, rank: bound.rank }
    }

    /// Puts a node in the order, if it can be of use.
    fn push(
        &mut self,
        clusters: &mut [ClusterState],
        now: Time,
        node: Node,
        may_take: impl Fn(&Preference<Time, ClusterId>) -> bool,
    ) {
        let Level { first, fastest } = &self.levels[node.level];
        let (rank, speed) = (first[node.index], fastest[node.index]);
        self.add_rows(clusters, now, speed);
        let start_of = self.times.first();
        let (parts, quickest_s) = self.times.at(speed, NEVER);
        let mut completion = i32::MAX;
        for part in parts {
            let row = &self.rows[part.walltimes][node.level][node.index * self.sizes..];
            let starts = &row[part.sizes.clone()];
            let quickest_s = &quickest_s[part.sizes.start - start_of..part.sizes.end - start_of];
            for (start, quickest) in starts.iter().zip(quickest_s) {
                completion = completion.min((*start).max(self.now_s) + quickest);
            }
        }
        let bound = Preference { completion, rank };
        if may_take(&self.at(bound)) {
            self.open.push(Reverse((bound, node)));
        }
    }

    /// Adds the rows of the walltimes of the request at that speed, as far as there are none yet.
    fn add_rows(&mut self, clusters: &mut [ClusterState], now: Time, speed: Speed) {
        loop {
            let (parts, _) = self.times.at(speed, NEVER);
            let Some(part) = parts.iter().find(|part| self.rows[part.walltimes].is_empty()) else { return };
            let walltimes = part.walltimes;
            let mut levels: Vec<Vec<i32>> = Vec::with_capacity(self.levels.len());
            for level in &self.levels {
                levels.push(vec![0; level.first.len() * self.sizes]);
            }
            for (cluster, table) in clusters.iter_mut().zip(&self.tables) {
                self.reader.read(cluster, now, self.base);
                let row = &mut levels[0][table.position * self.sizes..][..self.sizes];
                self.reader.fill(row, shortest_s(walltimes));
            }
            for level in 1..levels.len() {
                let (below, above) = levels.split_at_mut(level);
                for index in 0..self.levels[level].first.len() {
                    raise(&mut above[0], &below[level - 1], Node { level, index }, self.sizes, 0..self.sizes);
                }
            }
            self.rows[walltimes] = levels;
        }
    }

    /// Makes the table of a cluster again, and lowers those of its groups.
    fn update(&mut self, cluster: &mut ClusterState, now: Time, id: ClusterId) {
        let table = &mut self.tables[id.index()];
        table.releases = cluster.scheduler.releases();
        table.is_low = false;
        let position = table.position;
        self.reader.read(cluster, now, self.base);
        for (walltimes, levels) in self.rows.iter_mut().enumerate() {
            let Some((lowest, groups)) = levels.split_first_mut() else { continue };
            let row = &mut lowest[position * self.sizes..][..self.sizes];
            if !self.reader.replace(row, shortest_s(walltimes)) {
                continue;
            }
            let mut index = position;
            for level in groups {
                index /= MEMBERS;
                // The groups above have nothing later.
                if !lower_to(&mut level[index * self.sizes..][..self.sizes], row) {
                    break;
                }
            }
        }
    }
}

/// The members of a group, of which the level below has so many in all.
fn members(node: Node, count: usize) -> std::ops::Range<usize> {
    node.index * MEMBERS..((node.index + 1) * MEMBERS).min(count)
}

/// Makes some entries of a group the least of its members.
fn raise(level: &mut [i32], below: &[i32], node: Node, sizes: usize, entries: std::ops::Range<usize>) {
    let own = &mut level[node.index * sizes..][entries.clone()];
    own.fill(NEVER);
    for member in members(node, below.len() / sizes) {
        lower_to(own, &below[member * sizes..][entries.clone()]);
    }
}

/// Reads plans, and makes rows of them.
#[derive(Clone, Default, Debug)]
struct StepReader {
    plan: Vec<(Time, Procs)>,
    /// The plan that was read last; empty if nothing is known of the cluster.
    steps: Vec<Free>,
    lowest: Vec<usize>,
    row: Vec<i32>,
}

impl StepReader {
    fn read(&mut self, cluster: &mut ClusterState, now: Time, base: Time) {
        self.steps.clear();
        if cluster.admission != Admission::Open {
            self.steps.push(Free { at_s: 0, procs: 0 });
            return;
        }
        if !cluster.scheduler.free_steps(now, STEPS, &mut self.plan) {
            return;
        }
        let step = |(time, Procs(procs)): &(Time, Procs)| Free {
            at_s: seconds_after(base, *time, NEVER),
            procs: *procs,
        };
        self.steps.extend(self.plan.iter().map(step));
        if let Some(last) = self.steps.last_mut() {
            last.procs = cluster.procs.0;
        }
    }

    /// Fills a row by what was read.
    fn fill(&mut self, row: &mut [i32], walltime_s: i32) {
        if self.steps.is_empty() {
            row.fill(0);
        } else {
            earliest_starts(&self.steps, walltime_s, NEVER, &mut self.lowest, row);
        }
    }

    /// Replaces a row by what was read; true if an entry is lower than before.
    fn replace(&mut self, row: &mut [i32], walltime_s: i32) -> bool {
        let mut new = std::mem::take(&mut self.row);
        new.resize(row.len(), 0);
        self.fill(&mut new, walltime_s);
        let is_lowered = row.iter().zip(&new).fold(false, |lowered, (old, new)| lowered | (new < old));
        row.copy_from_slice(&new);
        self.row = new;
        is_lowered
    }
}
