//! Bounds on when work could complete on the servers of a child.

use pliant_model::{Procs, Request, Span, Speed, Speedup, Time};

use super::ServiceSet;
use super::similar::joined_by_similarity;
use crate::batch::PlanBounds;
use crate::profile::FreePlan;
use crate::tuning::{BoundedClusters, SlackSizing, Tuner, chosen_bound, slack};

/// The most groups in a summary. Similar ones are joined.
pub const GROUPS_MAX: usize = 256;

/// Bounds of one cluster, or of some similar clusters.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ClusterBounds {
    /// The fastest speed.
    pub speed: Speed,
    /// The slowest one.
    pub slowest: Speed,
    /// The most processors that a job can have.
    pub procs: Procs,
    /// Whether one of the clusters counts more than processors: else it takes no job that needs more.
    pub counts_resources: bool,
    /// What is free and when; none if nothing is known of it.
    pub plan: Option<FreePlan>,
    /// How a size is chosen, if that follows from the plan.
    pub sizing: Option<SlackSizing>,
}

/// What a child reports to its parent: bounds for each group of its clusters that accept work. Without groups it accepts none.
#[derive(Clone, PartialEq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Summary {
    /// The groups, the fastest ones last.
    pub groups: Vec<ClusterBounds>,
    /// The services of the servers; none if nothing is known of them.
    pub services: Option<ServiceSet>,
}

/// A request whose completion is bounded on several clusters.
pub struct BoundedRequest<'a> {
    request: &'a Request,
    now: Time,
    /// When it may start.
    from: Time,
    /// A size is chosen as the plan says.
    is_plain: bool,
}

impl<'a> BoundedRequest<'a> {
    /// A request that comes at `now`, and may start at `from`.
    pub fn new(request: &'a Request, now: Time, from: Time) -> BoundedRequest<'a> {
        let has_gpus = matches!(request.speedup, Speedup::GpuTable(_));
        let is_plain = request.resources.is_none() && !has_gpus;
        BoundedRequest { request, now, from: from.max(now), is_plain }
    }

    /// The same request if a size that completes first may be chosen, whatever the tuner prefers.
    #[must_use]
    pub fn in_any_size(self) -> BoundedRequest<'a> {
        BoundedRequest { is_plain: false, ..self }
    }
}

impl ClusterBounds {
    /// A cluster with its plan, on which sizes are chosen by `tuner`.
    pub fn planned(
        speed: Speed,
        procs: Procs,
        counts_resources: bool,
        plan: Option<PlanBounds>,
        tuner: Tuner,
    ) -> ClusterBounds {
        let jobs = plan.as_ref().and_then(|plan| plan.jobs);
        let sizing = match (tuner, jobs) {
            (Tuner::Slack { slack, share }, Some(jobs)) => {
                let floor = slack::least_procs(share, procs, jobs);
                Some(SlackSizing { slack_thousandths: slack.0, floor_least: floor, floor_most: floor })
            }
            _ => None,
        };
        let plan = plan.map(|plan| plan.free);
        ClusterBounds { speed, slowest: speed, procs, counts_resources, plan, sizing }
    }

    /// A cluster of which only the speed is known.
    pub fn unknown(speed: Speed) -> ClusterBounds {
        ClusterBounds::planned(speed, Procs(u32::MAX), true, None, Tuner::Exact)
    }

    /// A completion time that the request cannot beat on these clusters; [`Time::MAX`] if they refuse it. Bounds later than `until` may be
    /// any other time after it.
    fn completion_bound(&self, bounded: &BoundedRequest<'_>, until: Time) -> Time {
        let request = bounded.request;
        // On the smallest cluster: a request for so many processors of a node can be too large for the largest one only.
        if !(self.counts_resources || request.needs_one_node(Procs::ONE)) {
            return Time::MAX;
        }
        let Some(walltimes) = request.on(self.procs, self.speed) else { return Time::MAX };
        let idle = bounded.from + walltimes.at(walltimes.most());
        let Some(plan) = self.plan.as_ref().filter(|_| idle < until) else { return idle };
        let sizing = self.sizing.filter(|_| bounded.is_plain);
        let (procs, speeds) = (self.procs, (self.speed, self.slowest));
        let clusters = BoundedClusters { procs, speeds, plan, sizing };
        // A size is chosen as if the request started now, and starts later then.
        chosen_bound(&clusters, bounded.now, until, request).max(idle)
    }

    /// What tells groups apart that are joined last.
    pub(super) fn kind(&self) -> (bool, bool, bool) {
        (self.counts_resources, self.plan.is_some(), self.sizing.is_some())
    }

    /// Several clusters as one group; none if there are none.
    pub(super) fn joined(clusters: &[&ClusterBounds]) -> Option<ClusterBounds> {
        let mut joined = (*clusters.first()?).clone();
        for other in &clusters[1..] {
            joined.speed = faster(joined.speed, other.speed);
            if other.slowest.get() < joined.slowest.get() {
                joined.slowest = other.slowest;
            }
            joined.procs = joined.procs.max(other.procs);
            joined.counts_resources |= other.counts_resources;
            match (&mut joined.sizing, &other.sizing) {
                (Some(sizing), Some(other)) => sizing.join(other),
                (sizing, _) => *sizing = None,
            }
        }
        let plans: Option<Vec<&FreePlan>> = clusters.iter().map(|one| one.plan.as_ref()).collect();
        joined.plan = plans.and_then(FreePlan::joined);
        Some(joined)
    }

    /// True if these are other bounds than `reported`, by more than `least`.
    fn differs_from(&self, reported: &ClusterBounds, now: Time, least: Span) -> bool {
        let plans_differ = match (&self.plan, &reported.plan) {
            (Some(new), Some(old)) => new.differs_from(old, now, least),
            (new, old) => new.is_some() != old.is_some(),
        };
        let kept = |of: &ClusterBounds| (of.speed, of.slowest, of.procs, of.counts_resources, of.sizing);
        kept(self) != kept(reported) || plans_differ
    }
}

/// The faster of two speeds.
fn faster(one: Speed, other: Speed) -> Speed {
    if other.get() > one.get() { other } else { one }
}

impl Summary {
    /// The summary of one cluster.
    pub fn of(cluster: ClusterBounds) -> Summary {
        Summary { groups: vec![cluster], services: None }
    }

    /// The summary of several children. Similar groups are joined until at most [`GROUPS_MAX`] are left.
    pub fn joined<'a>(children: impl IntoIterator<Item = &'a Summary>) -> Summary {
        Summary::joined_to(GROUPS_MAX, children)
    }

    /// The same with at most so many groups.
    pub(super) fn joined_to<'a>(most: usize, children: impl IntoIterator<Item = &'a Summary>) -> Summary {
        let children: Vec<&Summary> = children.into_iter().collect();
        let services = ServiceSet::joined(children.iter().map(|child| child.services.as_ref()));
        let all: Vec<&ClusterBounds> = children.into_iter().flat_map(|child| &child.groups).collect();
        let mut groups = joined_by_similarity(all, most);
        groups.sort_by(|a, b| a.speed.get().total_cmp(&b.speed.get()));
        Summary { groups, services }
    }

    /// False if no server below this child has the service and accepts work.
    pub fn may_have_service(&self, name: &str) -> bool {
        let has_service = self.services.as_ref().is_none_or(|services| services.may_have(name));
        has_service && !self.groups.is_empty()
    }

    /// The most processors that a job can have.
    pub fn largest(&self) -> Procs {
        self.groups.iter().map(|group| group.procs).max().unwrap_or_default()
    }

    /// A completion time that the request cannot beat below this child; [`Time::MAX`] if all refuse it.
    pub fn completion_bound(&self, request: &BoundedRequest<'_>) -> Time {
        // The fastest first: they leave the least to look at.
        let groups = self.groups.iter().rev();
        groups.fold(Time::MAX, |least, group| least.min(group.completion_bound(request, least)))
    }

    /// True if this summary says something else than `reported`: other clusters or services, processors that are free earlier by more than `least`, or
    /// later by more than that and an eighth of the wait.
    pub fn differs_from(&self, reported: &Summary, now: Time, least: Span) -> bool {
        let differs = |(new, old): (&ClusterBounds, &ClusterBounds)| new.differs_from(old, now, least);
        (self.groups.len(), &self.services) != (reported.groups.len(), &reported.services)
            || self.groups.iter().zip(&reported.groups).any(differs)
    }
}
