//! Bounds on when work could start on the servers of a child.

use std::collections::BTreeSet;

use pliant_model::{Procs, Request, Span, Speed, Time, Walltimes};

use crate::profile::ClassStarts;
use crate::tuning::ClassTimes;

/// The most groups in a summary. Those of similar speed are joined.
pub const GROUPS_MAX: usize = 8;

/// Bounds of one cluster, or of some clusters of similar speed.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ClusterBounds {
    /// The fastest speed.
    pub speed: Speed,
    /// The most processors that a job can have.
    pub procs: Procs,
    /// Whether one of the clusters counts more than processors: else it takes no job that needs more.
    pub counts_resources: bool,
    /// The first starts; none if nothing is known of them.
    pub starts: Option<ClassStarts>,
}

/// What a child reports to its parent: bounds for each group of its clusters that accept work. Without groups it accepts none.
#[derive(Clone, PartialEq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Summary {
    /// The groups, in the order of their kinds and speeds.
    pub groups: Vec<ClusterBounds>,
}

/// A request whose completion is bounded on several clusters.
pub struct BoundedRequest<'a> {
    request: &'a Request,
    now: Time,
    /// None if the request is larger than the largest cluster.
    times: Option<(Walltimes<'a>, ClassTimes)>,
}

impl<'a> BoundedRequest<'a> {
    /// A request that may start at `now`, on clusters of at most `largest` processors.
    pub fn new(request: &'a Request, now: Time, largest: Procs) -> BoundedRequest<'a> {
        let walltimes = request.on(largest, Speed::REFERENCE);
        let times = walltimes.map(|walltimes| (walltimes, ClassTimes::new(&walltimes)));
        BoundedRequest { request, now, times }
    }
}

impl ClusterBounds {
    /// A cluster of which only the speed is known.
    pub fn unknown(speed: Speed) -> ClusterBounds {
        ClusterBounds { speed, procs: Procs(u32::MAX), counts_resources: true, starts: None }
    }

    /// A completion time that the request cannot beat on these clusters; [`Time::MAX`] if they refuse it.
    pub(super) fn completion_bound(&self, request: &BoundedRequest<'_>) -> Time {
        let Some((walltimes, times)) = &request.times else { return Time::MAX };
        if self.procs < walltimes.least() {
            return Time::MAX;
        }
        // On the smallest cluster: a request for so many processors of a node can be too large for the largest one only.
        if !(self.counts_resources || request.request.needs_one_node(Procs::ONE)) {
            return Time::MAX;
        }
        let now = request.now;
        let start =
            |size, walltime| self.starts.as_ref().map_or(now, |starts| starts.of_class(size, walltime, now));
        times.up_to(self.procs, walltimes).completion_bound_by(start, now, self.speed, self.procs)
    }

    /// What tells groups apart that are joined last.
    fn kind(&self) -> (bool, bool) {
        (self.starts.is_some(), self.counts_resources)
    }

    /// Takes in further clusters.
    fn join(&mut self, other: &ClusterBounds) {
        if other.speed.get() > self.speed.get() {
            self.speed = other.speed;
        }
        self.procs = self.procs.max(other.procs);
        self.counts_resources |= other.counts_resources;
        match (&mut self.starts, &other.starts) {
            (Some(starts), Some(other)) => starts.lower_to(other),
            (starts, _) => *starts = None,
        }
    }
}

impl Summary {
    /// The summary of one cluster.
    pub fn of(cluster: ClusterBounds) -> Summary {
        Summary { groups: vec![cluster] }
    }

    /// The summary of several children. Groups of one kind and speed are joined, then neighbours in speed until [`GROUPS_MAX`] are left.
    /// O(n log n) for n groups.
    pub fn joined<'a>(children: impl IntoIterator<Item = &'a Summary>) -> Summary {
        let mut groups: Vec<ClusterBounds> = Vec::new();
        let mut all: Vec<&ClusterBounds> = children.into_iter().flat_map(|child| &child.groups).collect();
        all.sort_by(|a, b| a.kind().cmp(&b.kind()).then(a.speed.get().total_cmp(&b.speed.get())));
        for group in all {
            match groups.last_mut() {
                Some(last) if last.kind() == group.kind() && last.speed == group.speed => last.join(group),
                _ => groups.push(group.clone()),
            }
        }
        Summary { groups: of_similar_speed(groups) }
    }

    /// The most processors that a job can have.
    pub fn largest(&self) -> Procs {
        self.groups.iter().map(|group| group.procs).max().unwrap_or_default()
    }

    /// A completion time that the request cannot beat below this child; [`Time::MAX`] if all refuse it.
    pub fn completion_bound(&self, request: &BoundedRequest<'_>) -> Time {
        self.groups.iter().map(|group| group.completion_bound(request)).min().unwrap_or(Time::MAX)
    }

    /// True if this summary says something else than `reported`: other clusters, starts that are earlier by more than `least`, or later
    /// by more than that and an eighth of the wait.
    pub fn differs_from(&self, reported: &Summary, now: Time, least: Span) -> bool {
        let differs = |(new, old): (&ClusterBounds, &ClusterBounds)| {
            let starts_differ = match (&new.starts, &old.starts) {
                (Some(new), Some(old)) => new.differs_from(old, now, least),
                (new, old) => new.is_some() != old.is_some(),
            };
            let kept = (old.speed, old.procs, old.counts_resources);
            (new.speed, new.procs, new.counts_resources) != kept || starts_differ
        };
        self.groups.len() != reported.groups.len() || self.groups.iter().zip(&reported.groups).any(differs)
    }
}

/// Sorted groups, of which neighbours are joined until at most [`GROUPS_MAX`] are left: those of two kinds last, those with the least ratios of
/// their speeds first.
fn of_similar_speed(groups: Vec<ClusterBounds>) -> Vec<ClusterBounds> {
    let gap = |at: usize| {
        let (one, next) = (&groups[at - 1], &groups[at]);
        (one.kind() != next.kind(), next.speed.get() / one.speed.get())
    };
    // The first groups behind the widest gaps.
    let mut firsts: Vec<usize> = (1..groups.len()).collect();
    firsts.sort_by(|a, b| {
        let (a, b) = (gap(*a), gap(*b));
        b.0.cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    firsts.truncate(GROUPS_MAX - 1);
    let is_first: BTreeSet<usize> = firsts.into_iter().collect();
    let mut joined: Vec<ClusterBounds> = Vec::new();
    for (at, group) in groups.into_iter().enumerate() {
        match joined.last_mut() {
            Some(last) if !is_first.contains(&at) => last.join(&group),
            _ => joined.push(group),
        }
    }
    joined
}
