//! The snapshot of a batch system that is not Pliant's, as a machine without input or output.
//!
//! It is told listings, of which it keeps a mirror, and what came of the commands that it gives. It estimates by
//! planning the mirror as the batch system does ([`pliant_policy::nodes`]), every plan made from the state of that
//! moment alone: told the same again, it says the same. What differs between batch systems is in [`System`].
//!
//! What a real batch system does to those who rely on it shapes the rest. A command may be carried out although nobody
//! answered, so each is the same however often it is done, and is given again until it is answered
//! ([`unanswered`](crate::batch::BatchSystem::unanswered)). A controller that was killed forgets jobs that it had taken, so a job that is listed no
//! more is looked up in its own folder ([`Command::Inspect`]): only where nobody claimed it, it is submitted again. A job
//! may be there twice then; the claim in its folder lets one of them run.
//!
//! A *tentative* job, the copy of one that waits at another server, is queued like any other: no batch system knows of such
//! a thing. Whoever starts it waits there to be told ([`Command::Release`]) and gives up after a while, so that a release
//! may come too late ([`Event::ReleasedTooLate`]); until then nobody has begun it, whatever becomes of it.
//!
//! Cost: a listing is linear in its jobs; the first question after a change, or in a new second, is one plan of the queue.

mod batch_system;
mod cluster_snapshot;
mod current_listing;
mod job;
mod learning;
mod local_jobs;
#[cfg(test)]
mod oar_tests;
mod planning;
mod system;
mod target_partition;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use pliant_model::{JobId, Procs, Time, Walltimes};
use pliant_policy::alternatives;
use pliant_policy::batch::Submission;
use pliant_policy::nodes::{Nodes, Rules};
use pliant_policy::runtimes::limit_usage::{Expect, GroupShares, LimitUsage};
use serde::{Deserialize, Serialize};

use crate::batch::{self, Effects, StatusUpdate};
use crate::job::Exit;
use crate::listing::{Changes, ListedJob, Listing, Phase};

pub use cluster_snapshot::WITHOUT_LIMIT;
use job::Job;
pub use job::{Command, Event, Queue, RELEASE_TIMEOUT, WithdrawalOutcome};
pub use system::{OAR, SLURM, System};
use target_partition::TargetPartition;

/// An external batch system as it is known here.
pub struct External {
    system: System,
    rules: Rules,
    /// Where jobs are submitted to; none for the default partition.
    partition: Option<String>,
    /// How long others' jobs are taken to run.
    expect: Expect,
    /// What those that ended have taught.
    used: LimitUsage,
    mirror: Listing,
    jobs: BTreeMap<JobId, Job>,
    /// The lowest and the highest number that was submitted here.
    numbers: Option<(JobId, JobId)>,
    /// Jobs that are over for us, and are being taken out of the queue.
    removing: BTreeSet<JobId>,
    /// The plan of the state as it is, at that time.
    plan: Option<(Time, Nodes)>,
    /// How many plans were made.
    #[cfg(test)]
    plans: usize,
}

/// The state of an external batch system's snapshot, as data.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Dump {
    system: System,
    rules: Rules,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    partition: Option<String>,
    expect: Expect,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    used: Vec<GroupShares>,
    mirror: Listing,
    ours: Vec<Job>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    numbers: Option<(JobId, JobId)>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    removing: BTreeSet<JobId>,
}

impl Dump {
    /// Whether it is of a server with that policy.
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
    /// A Slurm cluster of which nothing was listed yet.
    pub fn new() -> External {
        External::of(System::Slurm)
    }

    /// One of which nothing was listed yet.
    pub fn of(system: System) -> External {
        External::restore(Dump {
            system,
            rules: system.rules(),
            partition: None,
            expect: Expect::Limits,
            used: Vec::new(),
            mirror: Listing::default(),
            ours: Vec::new(),
            numbers: None,
            removing: BTreeSet::new(),
        })
    }

    /// The one that had this dump.
    pub fn restore(dump: Dump) -> External {
        let Dump { system, rules, partition, expect, used, mirror, ours, numbers, removing } = dump;
        let jobs = ours.into_iter().map(|job| (job.submission.job, job)).collect();
        External {
            system,
            rules,
            partition,
            expect,
            used: LimitUsage::restore(&used),
            mirror,
            jobs,
            numbers,
            removing,
            plan: None,
            #[cfg(test)]
            plans: 0,
        }
    }

    /// Queues a job, held or not.
    fn queue(&mut self, now: Time, submission: Submission, held: bool, effects: &mut Effects) {
        self.submit_job(now, Job::new(submission, held), effects);
    }

    /// Queues a moldable job with its sizes worth trying, if the batch system is one that chooses.
    fn queue_moldable(
        &mut self,
        now: Time,
        submission: Submission,
        walltimes: &Walltimes<'_>,
        held: bool,
        effects: &mut Effects,
    ) {
        let mut job = Job::new(submission, held);
        if self.system.is_moldable() {
            let capacity = capacity(&self.mirror, self.partition.as_deref());
            job.alternatives = alternatives::candidate_sizes(walltimes, capacity);
        }
        self.submit_job(now, job, effects);
    }

    fn submit_job(&mut self, now: Time, job: Job, effects: &mut Effects) {
        let submission = job.submission;
        self.append_to_plan(now, submission);
        push_command(job.queue(), effects);
        self.jobs.insert(submission.job, job);
        self.numbers = Some(self.numbers_with(submission.job));
    }

    fn on_external(&mut self, now: Time, event: Event, effects: &mut Effects) {
        match event {
            Event::Configured { interval, partition, expect } => {
                (self.rules, self.partition, self.expect) = (Rules::slurm(interval), partition, expect);
            }
            Event::PlanningRules { rules } => self.rules = rules,
            Event::Listed(changes) => self.apply_listing(now, &changes, effects),
            Event::Queued { job, ids } => {
                let Some(job) = self.jobs.get_mut(&job).filter(|job| job.queueing) else { return };
                (job.queueing, job.ids, job.queued_at) = (false, ids, now);
                if job.held && !job.releasing {
                    effects.updates.push(StatusUpdate::Held { job: job.submission.job });
                }
                job.unanswered().into_iter().for_each(|command| push_command(command, effects));
            }
            Event::Refused { job, why } => {
                if self.jobs.get(&job).is_some_and(|job| job.queueing) {
                    self.end(job, Exit::NotStarted(why), None, effects);
                }
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
                // Of one whose submission nobody has answered only its folder was told.
                if let Some(job) = self.jobs.get_mut(&job).filter(|job| !job.queueing) {
                    job.terminating = false;
                }
            }
            Event::Removed { job } => {
                self.removing.remove(&job);
            }
            Event::Unclaimed { job } => self.unclaimed(job, effects),
            Event::Ended { job, exit, started, elapsed_ms } => {
                if matches!(exit, Exit::NotStarted(_)) && self.has_live_duplicate(job) {
                    // That one could not begin says nothing of the other.
                    return self.unclaimed(job, effects);
                }
                let Some(known) = self.jobs.get_mut(&job) else { return };
                if let Some(at) = started {
                    known.report_start(at, effects);
                }
                let exit = match exit {
                    // By us, before it began.
                    Exit::NotStarted(_) if known.cancelled => Exit::Cancelled,
                    exit => exit,
                };
                self.end(job, exit, elapsed_ms, effects);
            }
        }
    }

    /// A listing came in. Of a job that was queued in the second in which it was asked for, it says nothing yet.
    fn apply_listing(&mut self, now: Time, changes: &Changes, effects: &mut Effects) {
        if self.expect == Expect::History {
            learning::record_ended(&self.mirror, changes, &mut self.used);
        }
        let over = local_jobs::ended(&self.mirror, changes, self.partition.as_deref());
        effects.updates.extend(over.into_iter().map(StatusUpdate::LocalEnded));
        self.mirror.apply(changes);
        let mut seen: BTreeMap<JobId, Vec<&ListedJob>> = BTreeMap::new();
        for listed in &self.mirror.jobs {
            if let Some(number) = listed.ours {
                seen.entry(JobId(number)).or_default().push(listed);
            }
        }
        let mut lost_processors = Vec::new();
        let target = self.partition.as_deref();
        for (number, job) in self.jobs.iter_mut().filter(|(_, job)| !job.queueing) {
            let listed = seen.remove(number).unwrap_or_default();
            job.is_listed = !listed.is_empty();
            for one in &listed {
                if !job.ids.contains(&one.id) {
                    // Somebody carried out late what nobody had answered.
                    job.ids.push(one.id.clone());
                }
            }
            if let Some(begun) = listed.iter().find(|one| one.ever_started()) {
                // Perhaps it is over already, and its start is told when somebody has looked.
                job.adopt_size(begun);
            }
            let is_over = job.may_have_ended(&listed);
            let is_up_to_date = job.is_listed || changes.at > job.queued_at;
            job.reissue_commands(&listed, changes.at, effects);
            if let Some(waiting) = listed.iter().find(|one| one.phase() == Phase::Waits) {
                job.set_planned(
                    cluster_snapshot::may_be_planned(waiting, TargetPartition::of(&self.mirror, target)),
                    changes.at,
                );
            }
            let running = listed.iter().find(|one| one.phase() == Phase::Runs);
            if job.is_tentative() {
                match running {
                    // Whether it was heard is about to be told.
                    _ if job.releasing => {}
                    Some(_) => job.report_ready(effects),
                    None if is_over && is_up_to_date => lost_processors.push(*number),
                    None => {}
                }
                continue;
            }
            // A job that is being withdrawn has begun only if its folder is claimed: the answer to the withdrawal says so.
            if let Some(running) = running.filter(|_| !job.withdrawing) {
                job.report_start(running.started.unwrap_or(now), effects);
            }
            // One that is being withdrawn is listed as cancelled before the withdrawal is answered.
            if is_over && is_up_to_date && !job.inspecting && !job.withdrawing {
                job.inspecting = true;
                let last = listed.iter().rfind(|one| one.phase() == Phase::Over);
                push_command(job.inspect(last.map(|one| (*one).clone())), effects);
            }
        }
        let left = self.leftovers(seen);
        for job in lost_processors {
            // Nobody has begun it: it was not released.
            self.end(job, Exit::NotStarted("it lost its turn".to_owned()), None, effects);
        }
        for (job, ids) in left {
            // Submitted twice, or by a controller that worked off late what nobody waited for any more.
            self.removing.insert(job);
            push_command(Command::Remove { job, ids }, effects);
        }
    }

    /// What waits in the queue of jobs that are over for us.
    fn leftovers(&self, mut seen: BTreeMap<JobId, Vec<&ListedJob>>) -> Vec<(JobId, Vec<String>)> {
        seen.retain(|number, _| !self.jobs.contains_key(number) && !self.removing.contains(number));
        let left = seen.into_iter().filter_map(|(job, listed)| {
            // Those of an earlier journal are not ours to touch.
            self.numbers.filter(|(lowest, highest)| (*lowest..=*highest).contains(&job))?;
            let waiting = listed.iter().filter(|one| one.phase() == Phase::Waits);
            let ids: Vec<String> = waiting.map(|one| one.id.clone()).collect();
            (!ids.is_empty()).then_some((job, ids))
        });
        left.collect()
    }

    /// A tentative job was released too late: whoever was to start it has gone.
    fn released_too_late(&mut self, number: JobId, effects: &mut Effects) {
        let is_asked = |job: &&Job| job.is_tentative() && job.releasing;
        let Some(job) = self.jobs.get(&number).filter(is_asked) else { return };
        if job.cancelled {
            return self.end(number, Exit::Cancelled, None, effects);
        }
        // As it never runs, it is withdrawn if that was asked for.
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
            // It was asked to end meanwhile, and has.
            WithdrawalOutcome::Withdrawn if job.cancelled => self.end(number, Exit::Cancelled, None, effects),
            WithdrawalOutcome::Withdrawn => {
                self.jobs.remove(&number);
                effects.updates.push(StatusUpdate::Withdrawn { job: number });
            }
            WithdrawalOutcome::Started => {
                // A controller that is killed may go on with the hold that the withdrawal began with.
                job.was_held = true;
                job.set_released(now);
                let is_it = |one: &&ListedJob| one.ours == Some(number.0) && one.phase() == Phase::Runs;
                // A listing that says the same again is not told.
                if let Some(running) = self.mirror.jobs.iter().find(is_it).filter(|_| !job.is_tentative()) {
                    job.report_start(running.started.unwrap_or(now), effects);
                }
                effects.updates.push(StatusUpdate::NotWithdrawn { job: number });
            }
        }
    }

    /// The batch system has forgotten a job that nobody has begun.
    fn unclaimed(&mut self, number: JobId, effects: &mut Effects) {
        let has_live_duplicate = self.has_live_duplicate(number);
        let copies = self.mirror.jobs.iter().filter(|one| one.ours == Some(number.0));
        let is_held = copies.into_iter().any(job::is_held_by_us);
        let Some(job) = self.jobs.get_mut(&number).filter(|job| job.inspecting) else { return };
        job.inspecting = false;
        if has_live_duplicate {
            // Nobody has begun it, so that this one has to.
            return job.release_again(is_held, effects);
        }
        if job.cancelled {
            return self.end(number, Exit::Cancelled, None, effects);
        }
        // Whoever withdraws it finds that out, too.
        if !job.withdrawing {
            job.resubmit();
            push_command(job.queue(), effects);
        }
    }

    /// True if a job is listed that is not over: as a copy of one that is, if it was submitted twice.
    fn has_live_duplicate(&self, job: JobId) -> bool {
        self.mirror.jobs.iter().any(|one| one.ours == Some(job.0) && one.phase() != Phase::Over)
    }

    fn end(&mut self, job: JobId, exit: Exit, elapsed_ms: Option<u64>, effects: &mut Effects) {
        // An end that is told twice is no news.
        if self.jobs.remove(&job).is_some() {
            effects.updates.push(StatusUpdate::Ended { job, exit, elapsed_ms });
        }
    }
}

/// The processors that jobs of a partition may have; of the default one if none is named.
pub fn capacity(listing: &Listing, partition: Option<&str>) -> Procs {
    TargetPartition::of(listing, partition).capacity()
}

fn push_command(command: Command, effects: &mut Effects) {
    effects.commands.push(batch::Command::External(command));
}
