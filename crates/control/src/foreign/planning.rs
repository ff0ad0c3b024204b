//! What is planned of the mirror, and when a plan is made anew.
//!
//! A plan is that of the state as it is, at a second. Whatever changes the picture ends it; a job that is submitted in the
//! same second is put behind it, as it is behind all others there: those of a burst cost a search each, and not a plan.

use std::collections::BTreeSet;

use pliant_model::{Estimate, Span, Time};
use pliant_policy::batch::{BatchScheduler, Submission, Waiting};
use pliant_policy::nodes::{Nodes, Picture};
use pliant_policy::used::Expect;

use super::drawing::{self, Drawn};
use super::job::Job;
use super::target::Target;
use super::{Event, Foreign};
use crate::listing::{Listed, Phase};

impl Foreign {
    /// Where jobs are submitted to.
    pub(super) fn target(&self) -> Target<'_> {
        Target::of(&self.mirror, self.partition.as_deref())
    }

    /// The plan of this moment; none if the picture makes no sense.
    pub(super) fn planned(&mut self, now: Time) -> Option<&mut Nodes> {
        if self.plan.as_ref().is_none_or(|(at, _)| *at != now) {
            let nodes = Nodes::from_picture(now, &self.drawn().picture).ok()?;
            self.plan = Some((now, nodes));
            #[cfg(test)]
            {
                self.plans += 1;
            }
        }
        self.plan.as_mut().map(|(_, nodes)| nodes)
    }

    /// A job is submitted: it is behind all others.
    pub(super) fn plan_behind(&mut self, now: Time, submission: Submission) {
        match &mut self.plan {
            Some((at, nodes)) if *at == now => nodes.submit(now, submission),
            _ => self.plan = None,
        }
    }

    /// What happened ends the plan, unless no picture shows it.
    pub(super) fn plan_after(&mut self, event: &Event) {
        let _ = event;
        self.plan = None;
    }

    pub(super) fn drawn(&self) -> Drawn {
        match self.expect {
            Expect::Limits => self.drawn_with(&|_, _| None),
            Expect::History => self.drawn_with(&|job, elapsed| {
                self.used.expected(&job.owner, &job.partition, job.walltime?, elapsed)
            }),
        }
    }

    fn drawn_with(&self, expected: &dyn Fn(&Listed, Span) -> Option<Span>) -> Drawn {
        let unlisted = self.unlisted().into_iter().map(|job| job.submission);
        drawing::draw(&self.present(), &self.rules, self.target(), expected, unlisted)
    }

    /// Our waiting jobs that the listing does not show. One that it shows may not have been said to be queued yet.
    pub(super) fn unlisted(&self) -> Vec<&Job> {
        let waiting = self.jobs.values().filter(|job| !job.is_listed && job.waits());
        let mut unlisted: Vec<&Job> = waiting.collect();
        if !unlisted.is_empty() {
            let is_there = |job: &&Listed| job.phase() != Phase::Over;
            let shown: BTreeSet<u32> =
                self.mirror.jobs.iter().filter(is_there).filter_map(|job| job.ours).collect();
            unlisted.retain(|job| !shown.contains(&job.submission.job.0));
        }
        unlisted
    }

    /// When each waiting job of the listing is expected to start, by what the batch system calls it: what a plan can be
    /// judged by. A job that the batch system does not plan is left out.
    pub fn starts(&self, now: Time) -> Vec<(String, Time)> {
        self.planned_starts(now, self.drawn())
    }

    /// The same if so much were known of how long jobs run: of a job, and for how long it has run.
    pub fn starts_if(
        &self,
        now: Time,
        expected: &dyn Fn(&Listed, Span) -> Option<Span>,
    ) -> Vec<(String, Time)> {
        self.planned_starts(now, self.drawn_with(expected))
    }

    fn planned_starts(&self, now: Time, Drawn { picture, ids }: Drawn) -> Vec<(String, Time)> {
        let Ok(mut nodes) = Nodes::from_picture(now, &picture) else { return Vec::new() };
        let mut waiting: Vec<Waiting> = Vec::new();
        nodes.list(now, &mut waiting);
        let listing = self.present();
        let start = |one: Waiting| {
            let Waiting { job, plan: Estimate { start, .. } } = one;
            let (_, index) = ids.iter().find(|(one, _)| *one == job)?;
            Some((listing.jobs.get(*index)?.id.clone(), start))
        };
        waiting.into_iter().filter_map(start).collect()
    }

    pub(super) fn picture(&self) -> Picture {
        self.drawn().picture
    }
}
