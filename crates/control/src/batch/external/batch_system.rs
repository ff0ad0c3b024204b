//! The trait `BatchSystem` for the mirror of an external batch system.

use std::collections::BTreeSet;

use pliant_model::{Estimate, JobId, Procs, Resources, Span, Time, Walltimes};
use pliant_policy::batch::PlanBounds;
use pliant_policy::batch::{BatchScheduler, Submission, Waiting};
use pliant_policy::nodes::ClusterSnapshot;
use pliant_policy::tuning::Tuner;

use super::cluster_snapshot::WaitingOf;
use super::job::Job;
use super::{Command, Dump, External, local_jobs, push_command};
use crate::batch::{self, BatchSystem, Bounds, Effects, StatusUpdate, Usage};
use crate::listing::{ListedJob, Listing, Phase, State, WaitReason};
use crate::local::LocalJob;

/// The shortest time without a plan after which a job is stuck.
const STUCK_AFTER: Span = Span(5);

impl BatchSystem for External {
    fn partitions_for(&self, resources: Option<&Resources>) -> Result<Vec<Option<String>>, String> {
        self.candidates(resources)
    }

    fn named_partition(&mut self, now: Time, submission: &Submission) -> Option<String> {
        let candidates = self.candidates(submission.resources.as_deref()).ok()?;
        if candidates == [None] {
            return None;
        }
        let chosen = self.partition_for(now, submission);
        self.target(chosen.as_deref()).name().map(str::to_owned)
    }

    fn estimate(
        &mut self,
        now: Time,
        partition: Option<&str>,
        walltimes: &Walltimes<'_>,
        tuner: Tuner,
    ) -> Option<Estimate> {
        // Behind all waiting jobs.
        self.current_plan(now, partition)?.estimate_behind(now, walltimes, tuner, usize::MAX)
    }

    fn counts_resources(&self) -> bool {
        true
    }

    fn submit(&mut self, now: Time, submission: Submission, effects: &mut Effects) {
        self.queue(now, submission, false, effects);
    }

    fn submit_moldable(
        &mut self,
        now: Time,
        submission: Submission,
        walltimes: &Walltimes<'_>,
        effects: &mut Effects,
    ) {
        self.queue_moldable(now, submission, walltimes, false, effects);
    }

    fn hold(&mut self, now: Time, submission: Submission, effects: &mut Effects) {
        self.queue(now, submission, true, effects);
    }

    fn hold_moldable(
        &mut self,
        now: Time,
        submission: Submission,
        walltimes: &Walltimes<'_>,
        effects: &mut Effects,
    ) {
        self.queue_moldable(now, submission, walltimes, true, effects);
    }

    fn submit_tentatively(&mut self, now: Time, submission: Submission, effects: &mut Effects) {
        self.submit_job(now, Job::tentative(submission), effects);
    }

    fn release(&mut self, _now: Time, job: JobId, effects: &mut Effects) {
        self.plans.clear();
        let Some(job) = self.jobs.get_mut(&job).filter(|job| job.held && !job.releasing) else { return };
        job.releasing = true;
        // While it was held it was not to start.
        job.unplanned = None;
        if !job.queueing {
            push_command(job.release(), effects);
        }
    }

    fn withdraw(&mut self, _now: Time, number: JobId, effects: &mut Effects) {
        self.plans.clear();
        match self.jobs.get_mut(&number) {
            Some(job) if !job.started => {
                job.withdrawing = true;
                // A pending release could prepare the job's folder again and start the job.
                if !job.queueing && !job.releasing {
                    push_command(job.withdraw(), effects);
                }
            }
            _ => effects.updates.push(StatusUpdate::NotWithdrawn { job: number }),
        }
    }

    fn cancel(&mut self, _now: Time, job: JobId, effects: &mut Effects) {
        let Some(job) = self.jobs.get_mut(&job).filter(|job| !(job.cancelled && job.terminating)) else {
            return;
        };
        self.plans.clear();
        (job.cancelled, job.terminating) = (true, true);
        // Also while its submission is unanswered: the job may be queued, and start.
        push_command(job.terminate(), effects);
    }

    fn is_cancelling(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|job| job.cancelled)
    }

    fn on(&mut self, now: Time, event: batch::Event, effects: &mut Effects) {
        match event {
            batch::Event::External(event) => {
                self.invalidate_plan(&event);
                self.on_external(now, event, effects);
            }
            batch::Event::Ended { job, exit, elapsed_ms } => {
                self.plans.clear();
                self.end(job, exit, elapsed_ms, effects);
            }
            batch::Event::NodeFailed { job, exit } => {
                self.plans.clear();
                self.remove(job, StatusUpdate::NodeFailed { job, exit }, effects);
            }
        }
    }

    fn due(&mut self, _now: Time, _effects: &mut Effects) {}

    /// Never: the driver lists jobs by its own clock.
    fn next_due(&self) -> Option<Time> {
        None
    }

    fn plan(&mut self, now: Time, job: JobId) -> Option<Estimate> {
        let partition = self.partition_of(job);
        self.current_plan(now, partition.as_deref())?.plan(now, job)
    }

    /// Those of the server's own partition.
    fn waiting(&mut self, now: Time) -> Vec<Waiting> {
        self.waiting_in(now, None)
    }

    fn waiting_with(&mut self, now: Time, job: JobId) -> Vec<Waiting> {
        let partition = self.partition_of(job);
        self.waiting_in(now, partition.as_deref())
    }

    fn usage(&self) -> Usage {
        let count = |phase| self.mirror.jobs.iter().filter(|job| job.phase() == phase).count() as u32;
        let limited = self.jobs.values().filter(|job| job.limited.is_some()).count();
        let unlisted = self.unlisted_anywhere() + limited;
        let ClusterSnapshot { nodes, running, reserved, .. } = self.snapshot(WaitingOf::Partition);
        let mut free: Vec<u32> = nodes.iter().map(|node| if node.up { node.cores.0 } else { 0 }).collect();
        let present = reserved.iter().filter(|one| (one.from..one.until).contains(&self.mirror.at));
        let held = running.iter().flat_map(|holder| &holder.on);
        for share in held.chain(present.flat_map(|one| &one.on)) {
            let node = &mut free[share.node as usize];
            *node = share.cores.map_or(0, |cores| node.saturating_sub(cores.0));
        }
        Usage {
            free: Procs(free.iter().sum()),
            running: count(Phase::Running),
            waiting: count(Phase::Waiting) + unlisted as u32,
        }
    }

    fn capacity(&self) -> Option<Procs> {
        Some(self.target(None).capacity())
    }

    /// None if jobs may go to several partitions, each with a plan of its own.
    fn plan_bounds(&mut self, now: Time) -> Option<PlanBounds> {
        let is_only = self.more_partitions.is_empty() && self.allowed.partitions.is_empty();
        let plan = self.current_plan(now, None).filter(|_| is_only)?.plan_bounds(now)?;
        // The batch system has limits and choices of its own.
        Some(PlanBounds { jobs: None, ..plan })
    }

    fn bounds(&self, partition: Option<&str>) -> Bounds {
        let target = self.target(partition);
        let Bounds { procs, walltime } = target.bounds();
        // A partition has other nodes than the server's own one.
        Bounds { procs: procs.or_else(|| partition.map(|_| target.capacity())), walltime }
    }

    fn closed(&self) -> Option<String> {
        if self.mirror == Listing::default() {
            return Some("the batch system has not answered yet".to_owned());
        }
        // Jobs can go to others.
        let has_others = !(self.more_partitions.is_empty() && self.allowed.partitions.is_empty());
        self.closed_partition(None).filter(|_| !has_others)
    }

    fn closed_partition(&self, partition: Option<&str>) -> Option<String> {
        self.target(partition).closed()
    }

    fn unplanned(&self, job: JobId) -> Option<String> {
        if let Some(why) = self.jobs.get(&job).and_then(|job| job.limited.as_ref()) {
            return Some(format!("the batch system takes no more jobs of the user at the moment ({why})"));
        }
        let present = self.current_listing();
        let listed =
            present.jobs.iter().find(|one| one.job_number == Some(job.0) && one.phase() == Phase::Waiting);
        let target = self.target(self.jobs.get(&job).and_then(|job| job.partition.as_deref()));
        let Some(listed) = listed else { return target.closed() };
        Some(match &listed.wait_reason {
            _ if listed.state == State::Held => "a user or an administrator holds it".to_owned(),
            Some(WaitReason::Jobs(which)) => format!("it waits for other jobs ({which})"),
            Some(WaitReason::Limit(which)) => format!("a limit is reached ({which})"),
            Some(WaitReason::Never(why)) => format!("it never starts as it is ({why})"),
            Some(WaitReason::Other(why)) => format!("the batch system says {why}"),
            Some(WaitReason::Time(_)) | None => {
                target.closed().unwrap_or_else(|| "it does not fit on the nodes that are up".to_owned())
            }
        })
    }

    fn is_stuck(&self, now: Time, job: JobId) -> bool {
        // Two planning passes, as a reason may last a moment only. A listing without changes is not delivered.
        let timeout = Span((2 * self.rules.interval.0).max(STUCK_AFTER.0));
        let unplanned = self.jobs.get(&job).and_then(|job| job.unplanned);
        unplanned.is_some_and(|since| since + timeout <= now)
    }

    fn is_unwanted(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_none_or(|job| job.cancelled || job.withdrawing)
    }

    fn is_cancelled(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_none_or(|job| job.cancelled)
    }

    fn limited(&self) -> Option<String> {
        let waiting = self.mirror.jobs.iter().filter(|job| job.phase() == Phase::Waiting);
        // A limit on what a job names itself does not concern other jobs.
        let names_options = |listed: &ListedJob| {
            let job = listed.job_number.and_then(|number| self.jobs.get(&JobId(number)));
            job.is_some_and(|job| {
                job.submission.resources.as_ref().is_some_and(|needs| !needs.batch.is_empty())
            })
        };
        let others = waiting.filter(|job| self.is_ours(job) && !names_options(job));
        let mut limits = others.filter_map(|job| match &job.wait_reason {
            // A limit on each job does not concern other jobs.
            Some(WaitReason::Limit(which)) if !which.contains("PerJob") => Some(which),
            _ => None,
        });
        limits
            .next()
            .map(|which| format!("jobs already wait there for a limit of the batch system ({which})"))
    }

    fn held_jobs(&self) -> BTreeSet<JobId> {
        let present = self.current_listing();
        let held = present.jobs.iter().filter(|one| one.state == State::Held && self.is_ours(one));
        held.filter_map(|one| one.job_number.map(JobId)).collect()
    }

    fn snapshot(&mut self, _now: Time) -> pliant_policy::batch::Dump {
        pliant_policy::batch::Dump::default()
    }

    fn nodes(&mut self, _now: Time) -> Option<ClusterSnapshot> {
        Some(External::snapshot(self, WaitingOf::Partition))
    }

    fn planned_nodes(&mut self, _now: Time) -> Option<ClusterSnapshot> {
        Some(External::snapshot(self, WaitingOf::Competing))
    }

    fn mirror(&self) -> Option<&Listing> {
        Some(&self.mirror)
    }

    fn local_jobs(&self) -> Vec<LocalJob> {
        local_jobs::current(&self.mirror, self.partition.as_deref())
    }

    fn unanswered(&self) -> Vec<batch::Command> {
        let listed = |job: JobId| self.mirror.jobs.iter().filter(move |one| one.job_number == Some(job.0));
        let inspections = self.jobs.values().filter(|job| job.inspecting);
        let inspections = inspections.map(|job| job.inspect(listed(job.submission.job).next_back().cloned()));
        let removals = self.removing.iter().map(|job| {
            let waiting = listed(*job).filter(|one| one.phase() == Phase::Waiting);
            Command::Remove { job: *job, ids: waiting.map(|one| one.id.clone()).collect() }
        });
        let commands = self.jobs.values().flat_map(Job::unanswered).chain(inspections).chain(removals);
        commands.map(batch::Command::External).collect()
    }

    fn dump(&mut self, _now: Time) -> batch::Dump {
        // A restored mirror plans anew, so this one must do so as well.
        self.plans.clear();
        batch::Dump::External(Box::new(Dump {
            system: self.system,
            rules: self.rules.clone(),
            partition: self.partition.clone(),
            more_partitions: self.more_partitions.clone(),
            allowed: self.allowed.clone(),
            expect: self.expect,
            used: self.limit_usage.dump(),
            mirror: self.mirror.clone(),
            jobs: self.jobs.values().cloned().collect(),
            numbers: self.numbers,
            removing: self.removing.clone(),
        }))
    }
}
