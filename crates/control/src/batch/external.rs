//! The mirror of an external batch system, as a machine without input or output.
//!
//! The mirror takes listings and the outcomes of its commands. It estimates by planning the listed queue as the batch system
//! does ([`pliant_policy::nodes`]). Each plan depends on the present state alone, so a replay gives the same estimates.
//! [`System`] holds the differences between batch systems.
//!
//! Three properties of real batch systems shape the rest:
//!
//! - A command may be carried out without an answer. So commands are idempotent, and are repeated until they are answered
//!   ([`unanswered`](crate::batch::BatchSystem::unanswered)).
//! - A controller that was killed may forget jobs. So the driver inspects the folder of a job that is no longer listed
//!   ([`Command::Inspect`]), and the job is submitted again only if no run has claimed its folder.
//! - A job may then be queued twice. The claim in its folder lets only one of the two run.
//!
//! A *tentative* job, for instance a sibling, is an ordinary job to the batch system. Its start gate waits for
//! [`Command::Release`] and gives up after a while, so that a release may be too late ([`Event::ReleasedTooLate`]).
//!
//! Cost: a listing is linear in its jobs; the first query after a change, or in a new second, plans the queue once.

mod allowed;
mod batch_system;
mod cluster_snapshot;
mod competing;
mod current_listing;
mod job;
mod learning;
mod local_jobs;
mod node_resources;
#[cfg(test)]
mod oar_tests;
mod own_reservation;
mod partitions;
mod planning;
mod system;
mod target_partition;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use pliant_model::{JobId, Procs, Time, Walltimes};
use pliant_policy::alternatives;
use pliant_policy::batch::Submission;
use pliant_policy::nodes::Rules;
use pliant_policy::runtimes::limit_usage::{Expect, GroupShares, LimitUsage};
use serde::{Deserialize, Serialize};

use crate::batch::{self, Effects, StatusUpdate};
use crate::job::Exit;
use crate::listing::{Changes, ListedJob, Listing, Phase};

pub use allowed::AllowedOptions;
pub use cluster_snapshot::WITHOUT_LIMIT;
use job::Job;
pub use job::{Command, Event, Queue, RELEASE_TIMEOUT, WithdrawalOutcome};
use node_resources::NodeResources;
use planning::Plans;
pub use system::{OAR, SLURM, System};
use target_partition::TargetPartition;

/// The mirror of an external batch system.
pub struct External {
    system: System,
    rules: Rules,
    /// The partition of jobs that name none; none for the default one.
    partition: Option<String>,
    /// Others that are compared for jobs that name none.
    more_partitions: Vec<String>,
    /// What jobs may name.
    allowed: AllowedOptions,
    /// How long other users' jobs are expected to run.
    expect: Expect,
    /// How much of their walltimes ended jobs used.
    limit_usage: LimitUsage,
    mirror: Listing,
    jobs: BTreeMap<JobId, Job>,
    /// The lowest and the highest job number that were submitted.
    numbers: Option<(JobId, JobId)>,
    /// Jobs that have ended or were withdrawn, and are being removed from the queue.
    removing: BTreeSet<JobId>,
    /// The plans of the present state, by partition.
    plans: Plans,
    /// The number of plans so far.
    #[cfg(test)]
    planned: usize,
}

/// The state of a mirror, as data.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Dump {
    system: System,
    rules: Rules,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    partition: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    more_partitions: Vec<String>,
    #[serde(default, skip_serializing_if = "AllowedOptions::is_empty")]
    allowed: AllowedOptions,
    expect: Expect,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    used: Vec<GroupShares>,
    mirror: Listing,
    jobs: Vec<Job>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    numbers: Option<(JobId, JobId)>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    removing: BTreeSet<JobId>,
}

impl Dump {
    /// Whether it is the state of a server with that policy.
    pub fn is_of(&self, policy: &str) -> bool {
        self.system.name() == policy
    }
}

impl Default for External {
    fn default() -> External {
        External::new()
    }
}

impl External {
    /// The mirror of a Slurm cluster, before the first listing.
    pub fn new() -> External {
        External::of(System::Slurm)
    }

    /// The mirror of a batch system, before the first listing.
    pub fn of(system: System) -> External {
        External::restore(Dump {
            system,
            rules: system.rules(),
            partition: None,
            more_partitions: Vec::new(),
            allowed: AllowedOptions::default(),
            expect: Expect::Limits,
            used: Vec::new(),
            mirror: Listing::default(),
            jobs: Vec::new(),
            numbers: None,
            removing: BTreeSet::new(),
        })
    }

    /// Restores a mirror from its dump.
    pub fn restore(dump: Dump) -> External {
        let jobs = dump.jobs.into_iter().map(|job| (job.submission.job, job)).collect();
        External {
            system: dump.system,
            rules: dump.rules,
            partition: dump.partition,
            more_partitions: dump.more_partitions,
            allowed: dump.allowed,
            expect: dump.expect,
            limit_usage: LimitUsage::restore(&dump.used),
            mirror: dump.mirror,
            jobs,
            numbers: dump.numbers,
            removing: dump.removing,
            plans: Plans::default(),
            #[cfg(test)]
            planned: 0,
        }
    }

    /// Submits a job, held or not.
    fn queue(&mut self, now: Time, submission: Submission, held: bool, effects: &mut Effects) {
        self.submit_job(now, Job::new(submission, held), effects);
    }

    /// Submits a moldable job, with its candidate sizes if the batch system chooses among sizes.
    fn queue_moldable(
        &mut self,
        now: Time,
        submission: Submission,
        walltimes: &Walltimes<'_>,
        held: bool,
        effects: &mut Effects,
    ) {
        let mut job = Job::new(submission, held);
        // Of a job that needs more than processors each size would have to be on nodes of its own.
        if self.system.is_moldable() && job.submission.resources.is_none() && walltimes.gpu_sizes().is_none()
        {
            let capacity = capacity(&self.mirror, self.partition.as_deref());
            job.alternatives = alternatives::candidate_sizes(walltimes, capacity);
        }
        self.submit_job(now, job, effects);
    }

    fn submit_job(&mut self, now: Time, mut job: Job, effects: &mut Effects) {
        let number = job.submission.job;
        job.partition = self.partition_for(now, &job.submission);
        self.append_to_plan(now, job.partition.as_deref(), job.submission.clone());
        push_command(job.queue(), effects);
        self.jobs.insert(number, job);
        self.numbers = Some(self.numbers_with(number));
    }

    fn on_external(&mut self, now: Time, event: Event, effects: &mut Effects) {
        match event {
            Event::Configured { interval, partition, more_partitions, allowed, expect } => {
                (self.rules, self.partition, self.expect) = (Rules::slurm(interval), partition, expect);
                (self.more_partitions, self.allowed) = (more_partitions, allowed);
            }
            Event::PlanningRules { rules } => self.rules = rules,
            Event::Listed(changes) => self.apply_listing(now, &changes, effects),
            Event::Queued { job, ids } => {
                let Some(job) = self.jobs.get_mut(&job).filter(|job| job.queueing) else { return };
                (job.queueing, job.ids, job.queued_at) = (false, ids, now);
                if job.limited.take().is_some() {
                    job.unplanned = None;
                    self.plans.clear();
                }
                if job.held && !job.releasing {
                    effects.updates.push(StatusUpdate::Held { job: job.submission.job });
                }
                job.unanswered().into_iter().for_each(|command| push_command(command, effects));
            }
            Event::Refused { job, why } => {
                let Some(known) = self.jobs.get(&job).filter(|job| job.queueing) else { return };
                // A job that waited at the server for a limit, and was cancelled meanwhile, is submitted no more.
                let exit = if known.cancelled { Exit::Cancelled } else { Exit::NotStarted(why) };
                self.end(job, exit, None, effects);
            }
            Event::Limited { job, why } => {
                let Some(job) = self.jobs.get_mut(&job).filter(|job| job.queueing) else { return };
                job.limited = Some(why);
                job.unplanned.get_or_insert(now);
            }
            Event::Released { job } => {
                if let Some(job) = self.jobs.get_mut(&job) {
                    let waited = job.releasing && job.withdrawing;
                    (job.held, job.releasing) = (false, false);
                    job.set_released(now);
                    if waited {
                        push_command(job.withdraw(), effects);
                    }
                }
            }
            Event::ReleasedTooLate { job } => self.released_too_late(job, effects),
            Event::Withdrawal { job, outcome } => self.withdrawal(now, job, outcome, effects),
            Event::Terminated { job } => {
                // While its submission is unanswered, only the job's folder was marked.
                if let Some(job) = self.jobs.get_mut(&job).filter(|job| !job.queueing) {
                    job.terminating = false;
                }
            }
            Event::Removed { job } => {
                self.removing.remove(&job);
            }
            Event::Unclaimed { job } => self.unclaimed(job, effects),
            Event::Ended { job, exit, started, elapsed_ms } => {
                if let Some(exit) = self.end_of_run(job, exit, started, effects) {
                    self.end(job, exit, elapsed_ms, effects);
                }
            }
            Event::NodeFailed { job, exit, started } => {
                let Some(exit) = self.end_of_run(job, exit, started, effects) else { return };
                match self.jobs.get(&job).is_some_and(|known| known.cancelled) {
                    // It is not to run again.
                    true => self.end(job, exit, None, effects),
                    false => self.remove(job, StatusUpdate::NodeFailed { job, exit }, effects),
                }
            }
        }
    }

    /// How a job has ended, after its start was reported; none if it has not ended, or is not known.
    fn end_of_run(
        &mut self,
        job: JobId,
        exit: Exit,
        started: Option<Time>,
        effects: &mut Effects,
    ) -> Option<Exit> {
        if matches!(exit, Exit::NotStarted(_)) && self.has_live_duplicate(job) {
            // One of two duplicates could not start; the other may.
            self.unclaimed(job, effects);
            return None;
        }
        let known = self.jobs.get_mut(&job)?;
        if let Some(at) = started {
            known.report_start(at, effects);
        }
        Some(match exit {
            // Our cancellation came before the start.
            Exit::NotStarted(_) if known.cancelled => Exit::Cancelled,
            exit => exit,
        })
    }

    /// Applies a listing. It says nothing of a job that was queued in the same second.
    fn apply_listing(&mut self, now: Time, changes: &Changes, effects: &mut Effects) {
        if self.expect == Expect::History {
            learning::record_ended(&self.mirror, changes, &mut self.limit_usage);
        }
        let ended = local_jobs::ended(&self.mirror, changes, self.partition.as_deref());
        effects.updates.extend(ended.into_iter().map(StatusUpdate::LocalEnded));
        self.mirror.apply(changes);
        let mut seen: BTreeMap<JobId, Vec<&ListedJob>> = BTreeMap::new();
        for listed in &self.mirror.jobs {
            if let Some(number) = listed.job_number {
                seen.entry(JobId(number)).or_default().push(listed);
            }
        }
        let mut lost_processors = Vec::new();
        let own = self.partition.as_deref();
        let partitions: BTreeSet<Option<String>> =
            self.jobs.values().map(|job| job.partition.clone()).collect();
        let nodes_of = partitions.iter().map(|name| {
            let target = TargetPartition::of(&self.mirror, name.as_deref().or(own));
            (name, (target, target.resources()))
        });
        let nodes_of: BTreeMap<&Option<String>, (TargetPartition<'_>, NodeResources<'_>)> =
            nodes_of.collect();
        for (number, job) in self.jobs.iter_mut().filter(|(_, job)| !job.queueing) {
            let listed = seen.remove(number).unwrap_or_default();
            job.is_listed = !listed.is_empty();
            for one in &listed {
                if !job.ids.contains(&one.id) {
                    // The job was submitted although the command was not answered.
                    job.ids.push(one.id.clone());
                }
            }
            if let Some(started) = listed.iter().find(|one| one.ever_started()) {
                // It may have ended: its start is reported after its folder was inspected.
                job.adopt_size(started);
            }
            let may_have_ended = job.may_have_ended(&listed);
            let is_up_to_date = job.is_listed || changes.at > job.queued_at;
            job.reissue_commands(&listed, changes.at, effects);
            if let Some(waiting) = listed.iter().find(|one| one.phase() == Phase::Waiting) {
                let planned = nodes_of
                    .get(&job.partition)
                    .is_some_and(|(target, nodes)| cluster_snapshot::may_be_planned(waiting, *target, nodes));
                job.set_planned(planned, changes.at);
            }
            let running = listed.iter().find(|one| one.phase() == Phase::Running);
            if job.is_tentative() {
                match running {
                    // The answer to the release is about to come.
                    _ if job.releasing => {}
                    Some(_) => job.report_ready(effects),
                    None if may_have_ended && is_up_to_date => lost_processors.push(*number),
                    None => {}
                }
                continue;
            }
            // A job that is being withdrawn has started only if its folder is claimed: the answer to the withdrawal says so.
            if let Some(running) = running.filter(|_| !job.withdrawing) {
                job.report_start(running.started.unwrap_or(now), effects);
            }
            // A job that is being withdrawn is listed as cancelled before the withdrawal is answered.
            if may_have_ended && is_up_to_date && !job.inspecting && !job.withdrawing {
                job.inspecting = true;
                let last = listed.iter().rfind(|one| one.phase() == Phase::Ended);
                push_command(job.inspect(last.map(|one| (*one).clone())), effects);
            }
        }
        let leftovers = self.leftovers(seen);
        for job in lost_processors {
            // It was not released, so it has not started.
            self.end(
                job,
                Exit::NotStarted("it lost its processors before it was released".to_owned()),
                None,
                effects,
            );
        }
        for (job, ids) in leftovers {
            // A duplicate, or a late effect of a command that was given up.
            self.removing.insert(job);
            push_command(Command::Remove { job, ids }, effects);
        }
    }

    /// Waiting entries of jobs that have ended or were withdrawn.
    fn leftovers(&self, mut seen: BTreeMap<JobId, Vec<&ListedJob>>) -> Vec<(JobId, Vec<String>)> {
        seen.retain(|number, _| !self.jobs.contains_key(number) && !self.removing.contains(number));
        let left = seen.into_iter().filter_map(|(job, listed)| {
            // Jobs of an earlier journal are left alone.
            self.numbers.filter(|(lowest, highest)| (*lowest..=*highest).contains(&job))?;
            let waiting = listed.iter().filter(|one| one.phase() == Phase::Waiting);
            let ids: Vec<String> = waiting.map(|one| one.id.clone()).collect();
            (!ids.is_empty()).then_some((job, ids))
        });
        left.collect()
    }

    /// A tentative job was released after its start gate gave up.
    fn released_too_late(&mut self, number: JobId, effects: &mut Effects) {
        let is_asked = |job: &&Job| job.is_tentative() && job.releasing;
        let Some(job) = self.jobs.get(&number).filter(is_asked) else { return };
        if job.cancelled {
            return self.end(number, Exit::Cancelled, None, effects);
        }
        // As it never runs, a pending withdrawal has succeeded.
        let withdrawn = job.withdrawing;
        self.jobs.remove(&number);
        let (job, updates) = (number, &mut effects.updates);
        updates.push(if withdrawn {
            StatusUpdate::Withdrawn { job }
        } else {
            StatusUpdate::ReleasedTooLate { job }
        });
    }

    fn withdrawal(&mut self, now: Time, number: JobId, outcome: WithdrawalOutcome, effects: &mut Effects) {
        let Some(job) = self.jobs.get_mut(&number).filter(|job| job.withdrawing) else { return };
        job.withdrawing = false;
        match outcome {
            // It was cancelled meanwhile.
            WithdrawalOutcome::Withdrawn if job.cancelled => self.end(number, Exit::Cancelled, None, effects),
            WithdrawalOutcome::Withdrawn => {
                self.jobs.remove(&number);
                effects.updates.push(StatusUpdate::Withdrawn { job: number });
            }
            WithdrawalOutcome::Started => {
                // A killed controller may restore the hold with which the withdrawal began.
                job.was_held = true;
                job.set_released(now);
                let is_it =
                    |one: &&ListedJob| one.job_number == Some(number.0) && one.phase() == Phase::Running;
                // A listing without changes is not delivered.
                if let Some(running) = self.mirror.jobs.iter().find(is_it).filter(|_| !job.is_tentative()) {
                    job.report_start(running.started.unwrap_or(now), effects);
                }
                effects.updates.push(StatusUpdate::NotWithdrawn { job: number });
            }
        }
    }

    /// The batch system has forgotten a job that has not started.
    fn unclaimed(&mut self, number: JobId, effects: &mut Effects) {
        let has_live_duplicate = self.has_live_duplicate(number);
        let duplicates = self.mirror.jobs.iter().filter(|one| one.job_number == Some(number.0));
        let is_held = duplicates.into_iter().any(job::is_held_by_us);
        let Some(job) = self.jobs.get_mut(&number).filter(|job| job.inspecting) else { return };
        job.inspecting = false;
        if has_live_duplicate {
            // Only the other duplicate can run now.
            return job.release_again(is_held, effects);
        }
        if job.cancelled {
            return self.end(number, Exit::Cancelled, None, effects);
        }
        // The answer to a withdrawal will say the same.
        if !job.withdrawing {
            job.resubmit();
            push_command(job.queue(), effects);
        }
    }

    /// True if a listed entry of the job has not ended, while another one has, as it was submitted twice.
    fn has_live_duplicate(&self, job: JobId) -> bool {
        self.mirror.jobs.iter().any(|one| one.job_number == Some(job.0) && one.phase() != Phase::Ended)
    }

    fn end(&mut self, job: JobId, exit: Exit, elapsed_ms: Option<u64>, effects: &mut Effects) {
        self.remove(job, StatusUpdate::Ended { job, exit, elapsed_ms }, effects);
    }

    /// Removes a job that has ended, as the update says. A repeated end is ignored.
    fn remove(&mut self, job: JobId, end: StatusUpdate, effects: &mut Effects) {
        if self.jobs.remove(&job).is_some() {
            effects.updates.push(end);
        }
    }
}

/// The processors of a partition; of the default one if none is named.
pub fn capacity(listing: &Listing, partition: Option<&str>) -> Procs {
    TargetPartition::of(listing, partition).capacity()
}

fn push_command(command: Command, effects: &mut Effects) {
    effects.commands.push(batch::Command::External(command));
}
