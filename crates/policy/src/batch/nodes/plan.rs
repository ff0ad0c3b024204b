//! The plan: a start for every waiting job, in order of priority, as a backfill pass makes one.
//!
//! A plan costs a search per job (`search::earliest`). A job added at the end costs one more search and delays no other;
//! every other change requires a new plan, as in the batch system itself.

use pliant_model::{JobId, Time};
use rustc_hash::FxHashMap;

use super::amounts::{Amounts, Part};
use super::catalogue::Catalogue;
use super::layout::Layout;
use super::needs::Needs;
use super::rules::{Reserve, Rules};
use super::search::{self, NodeFit, duration};
use super::snapshot::{Node, Pending};
use super::timeline::Timeline;

/// Planned starts, and what they leave free.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) layout: Layout,
    pub(super) timeline: Timeline,
    pub(super) fits: FxHashMap<JobId, NodeFit>,
    /// The first start.
    pub(super) first: Option<Time>,
    /// The first expected end of a running job.
    release: Option<Time>,
}

impl Plan {
    /// A plan of nothing but what is reserved. `held` are the ends, nodes and needs of the running jobs.
    pub(super) fn new<'a>(
        now: Time,
        rules: &Rules,
        (nodes, catalogue): (&[Node], &Catalogue),
        held: impl Iterator<Item = (Time, &'a [Part], &'a Needs)>,
    ) -> Plan {
        let layout = Layout::new(nodes, catalogue, rules);
        let mut timeline = Timeline::new(layout.rows.clone(), now);
        let mut release: Option<Time> = None;
        for (end, on, needs) in held {
            timeline.hold(end, &layout.held(on, needs, nodes), &layout.rules);
            release = Some(release.map_or(end, |first| first.min(end)));
        }
        for reserved in &catalogue.reserved {
            let mut parts = layout.reserved(reserved);
            if layout.rules.reserve == Reserve::Nodes {
                // Cores are held as by a running job, or if they are not yet, their nodes are reserved as by a planned one.
                let is_of_cores =
                    |part: &Part| timeline.rows().is_node(part.node) && part.taken != Amounts::ALL;
                let (mut cores, whole): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(is_of_cores);
                parts = whole;
                if (reserved.from..reserved.until).contains(&now) {
                    timeline.hold(reserved.until, &cores, &layout.rules);
                } else {
                    cores.iter_mut().for_each(|part| part.taken = Amounts::ALL);
                    parts.extend(cores);
                }
            }
            timeline.take(reserved.from, reserved.until, &parts);
        }
        Plan { layout, timeline, fits: FxHashMap::default(), first: None, release }
    }

    /// Plans all of `pending`: first those with an announced start that is in the future and possible, then the others.
    pub(super) fn fill(&mut self, now: Time, pending: &[Pending]) {
        if self.layout.rules.published {
            let open = pending.iter().filter(|job| !job.blocked);
            for job in open {
                if !self.fits.contains_key(&job.job) {
                    self.take_over(now, job);
                }
            }
        }
        let announces = self.layout.rules.reserve == Reserve::Nodes;
        // A job that may not begin yet is not part of a pass that announces starts.
        let later = |job: &Pending| announces && job.begin.is_some_and(|begin| begin > now);
        for round in [false, true] {
            for job in pending.iter().filter(|job| later(job) == round) {
                if !self.fits.contains_key(&job.job) {
                    self.push(now, job);
                }
            }
        }
    }

    /// Plans one more job behind all others.
    pub(super) fn push(&mut self, now: Time, job: &Pending) {
        if job.blocked {
            return;
        }
        let from = job.begin.map_or(now, |begin| begin.max(now));
        let Layout { rules, .. } = &self.layout;
        let (shape, walltime) = (self.layout.shape(&job.shape), duration(job, rules));
        if let Some(fit) = search::earliest(&self.timeline, rules, &shape, walltime, from) {
            self.reserve(job, fit);
        }
    }

    fn take_over(&mut self, now: Time, job: &Pending) {
        let from = job.begin.map_or(now, |begin| begin.max(now));
        let Some(published) = job.published.as_ref().filter(|one| one.start >= from) else {
            return;
        };
        let Layout { rules, .. } = &self.layout;
        let (shape, walltime) = (self.layout.shape(&job.shape), duration(job, rules));
        let on = |nodes: &[u32]| search::at(&self.timeline, rules, &shape, walltime, published.start, nodes);
        let named = if self.layout.is_pool() { &[] } else { &published.nodes[..] };
        if let Some(fit) = on(named).or_else(|| on(&[])) {
            self.reserve(job, fit);
        }
    }

    /// Reserves a free allocation for a job.
    pub(super) fn reserve(&mut self, job: &Pending, fit: NodeFit) {
        let Layout { rules, .. } = &self.layout;
        self.timeline.reserve(fit.start, duration(job, rules), &fit.on, rules);
        self.first = Some(self.first.map_or(fit.start, |first| first.min(fit.start)));
        self.fits.insert(job.job, fit);
    }

    /// True if a planned event before `now` has not happened.
    pub(super) fn overtaken(&self, now: Time) -> bool {
        [self.first, self.release].into_iter().flatten().any(|expected| expected < now)
    }
}
