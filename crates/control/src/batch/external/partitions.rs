//! Partitions of one cluster, which are compared as clusters are: each has a plan of its own.

use pliant_model::{Request, Resources, Speed, Speedup, Time};
use pliant_policy::batch::Submission;
use pliant_policy::tuning::Tuner;

use super::External;
use super::target_partition::TargetPartition;
use crate::batch::Bounds;

impl External {
    /// The partition of that name; the server's own if there is none.
    pub(super) fn target<'a>(&'a self, partition: Option<&'a str>) -> TargetPartition<'a> {
        TargetPartition::of(&self.mirror, partition.or(self.partition.as_deref()))
    }

    /// The partitions in which a request may run, none for the server's own; or why it may run in none.
    pub(super) fn candidates(&self, resources: Option<&Resources>) -> Result<Vec<Option<String>>, String> {
        let named = resources.map(|resources| &resources.batch).filter(|options| !options.is_empty());
        let own =
            || self.target(None).name().map(str::to_owned).into_iter().chain(self.more_partitions.clone());
        if let Some(why) = named.and_then(|options| self.allowed.forbids(options, own().collect())) {
            return Err(why);
        }
        Ok(match named {
            Some(options) if !options.partitions.is_empty() => {
                let own = |name: &String| self.target(None).name() == Some(name);
                options.partitions.iter().map(|name| (!own(name)).then(|| name.clone())).collect()
            }
            _ => std::iter::once(None).chain(self.more_partitions.iter().cloned().map(Some)).collect(),
        })
    }

    /// The partition in which a job of one size starts first; none for the server's own.
    pub(super) fn partition_for(&mut self, now: Time, submission: &Submission) -> Option<String> {
        let Submission { job, procs, walltime, submit, resources, .. } = submission;
        let mut candidates = self.candidates(resources.as_deref()).unwrap_or_default();
        if candidates.len() < 2 {
            return candidates.pop().flatten();
        }
        let rigid = Request::new(*job, now, *procs, *walltime, Speedup::Rigid);
        let request = Request { resources: resources.clone(), ..rigid };
        let mut best: Option<(Time, Option<String>)> = None;
        for partition in candidates {
            let target = self.target(partition.as_deref());
            let Bounds { procs: most_procs, walltime: most_walltime } = target.bounds();
            let is_too_long = most_walltime.is_some_and(|most| *walltime > most);
            if is_too_long || target.closed().is_some() {
                continue;
            }
            let most_procs = most_procs.unwrap_or(target.capacity());
            let Some(walltimes) = request.on(most_procs, Speed::REFERENCE) else { continue };
            let plan = self.current_plan(now, partition.as_deref());
            let estimate =
                plan.and_then(|plan| plan.estimate_behind(now, &walltimes, Tuner::Exact, usize::MAX));
            // It may be one that may start only later.
            if let Some(start) = estimate.map(|estimate| estimate.start.max(*submit))
                && best.as_ref().is_none_or(|(first, _)| start < *first)
            {
                best = Some((start, partition));
            }
        }
        best.and_then(|(_, partition)| partition)
    }
}
