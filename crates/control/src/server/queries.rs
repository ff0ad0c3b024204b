//! Queries, which do not change the server.

use crate::payload::Payload;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Bound;

use pliant_model::{Estimate, JobId, Procs, Request, Speed, Time};
use pliant_policy::batch::{PlanBounds, Submission};
use pliant_policy::completion::is_earlier;
use pliant_policy::discovery::{ClusterBounds, Summary};
use pliant_policy::nodes;
use pliant_policy::tuning::Tuner;

use super::admission::WALLTIME_MAX;
use super::nice::BEHIND_OWN;
use super::{AdmissionRefusal, Server, ServerConfig, ServerJob};
use crate::access::Caller;
use crate::agent::DiscoveryResult;
use crate::batch::{self, Run, Usage};
use crate::estimation_vector::EstimationVector;
use crate::explain::{Explanation, Release, Wait};
use crate::handoff::{Movable, ServerSnapshot};
use crate::job::{JobRecord, JobState, SizeChoice, Work, avoided_servers};
use crate::listing::{Listing, Node};
use crate::local::LocalJob;
use crate::names::{Handle, Key, Name, User};
use crate::reason::{Cause, Reason};
use crate::server_info::ServerInfo;

impl Server {
    /// The estimate for the work if it were submitted now; none if it never fits.
    pub fn estimate(&mut self, now: Time, work: &Work) -> Option<Estimate> {
        let request = work.request(JobId(self.next), now);
        self.estimate_with(self.config.tuner, now, None, &request, self.config.speed).ok()
    }

    /// The estimate for a request of a user if it came now, as if the cluster had that speed.
    pub(super) fn estimate_at(
        &mut self,
        now: Time,
        user: &User,
        request: &Request,
        speed: Speed,
    ) -> Result<Estimate, AdmissionRefusal> {
        self.estimate_with(self.config.tuner, now, Some(user), request, speed)
    }

    /// The estimate for a request of a user if it came now.
    pub(super) fn estimate_for(
        &mut self,
        user: &User,
        now: Time,
        request: &Request,
    ) -> Result<Estimate, AdmissionRefusal> {
        if let Some(reason) = self.refuses(user) {
            return Err(AdmissionRefusal::Other(reason));
        }
        self.estimate_at(now, user, request, self.config.speed)
    }

    pub(super) fn estimate_with(
        &mut self,
        tuner: Tuner,
        now: Time,
        user: Option<&User>,
        request: &Request,
        speed: Speed,
    ) -> Result<Estimate, AdmissionRefusal> {
        if let Some(reason) = self.closed() {
            return Err(AdmissionRefusal::Other(reason));
        }
        let partitions = self.batch.partitions_for(request.resources.as_deref());
        let partitions = partitions.map_err(|why| AdmissionRefusal::Other(Cause::Resources.because(why)))?;
        let estimates = partitions
            .iter()
            .map(|partition| self.estimate_in(partition.as_deref(), tuner, now, user, request, speed));
        let estimates: Vec<Result<Estimate, AdmissionRefusal>> = estimates.collect();
        // The first of equals; and why the first one takes it not, if none does.
        let best = estimates
            .iter()
            .flatten()
            .copied()
            .reduce(|best, other| if is_earlier(&other, &best) { other } else { best });
        let first = estimates.into_iter().next();
        best.map_or_else(|| first.unwrap_or(Err(AdmissionRefusal::Other(no_partition()))), Ok)
    }

    /// The estimate in a partition, the server's own if none is named.
    fn estimate_in(
        &mut self,
        partition: Option<&str>,
        tuner: Tuner,
        now: Time,
        user: Option<&User>,
        request: &Request,
        speed: Speed,
    ) -> Result<Estimate, AdmissionRefusal> {
        if let Some(why) = self.batch.closed_partition(partition) {
            return Err(AdmissionRefusal::Other(Cause::BatchSystem.because(why)));
        }
        if let Some(needed) = request.resources.as_deref()
            && !self.batch.counts_resources()
            && !(self.batch.mirror().is_none() && request.needs_one_node(self.procs()))
        {
            return Err(AdmissionRefusal::Other(uncounted(needed)));
        }
        let bounds = self.batch.bounds(partition);
        let available = bounds.procs.unwrap_or(self.procs());
        let own_limit = user.and_then(|user| self.procs_limit(user)).filter(|(most, _)| *most < available);
        let too_large = match own_limit {
            Some((_, limits)) => {
                let why = limits.never_runs(request.procs).unwrap_or_else(|| limits.act_about_running());
                AdmissionRefusal::Other(Cause::TooLarge.because(why))
            }
            None => AdmissionRefusal::TooLarge { needed: request.procs, available },
        };
        let available = own_limit.map_or(available, |(most, _)| most);
        // All nodes of an external batch system may be down.
        let is_up = |node: &Node| node.unusable.is_none();
        let all_up = self.batch.mirror().is_none_or(|mirror| mirror.nodes.iter().all(is_up));
        let no_room = match (self.batch.mirror(), &request.resources) {
            (_, Some(needed)) if !all_up => AdmissionRefusal::Other(
                Cause::BatchSystem.because(format!("no nodes that are up have what it needs: {needed}")),
            ),
            (_, Some(needed)) => AdmissionRefusal::Other(
                Cause::Resources.because(format!("no nodes of this cluster have what it needs: {needed}")),
            ),
            (None, None) => too_large.clone(),
            (Some(_), None) => AdmissionRefusal::Other(
                Cause::BatchSystem
                    .because(format!("the nodes that are up do not have {} processors", request.procs)),
            ),
        };
        let counts = self.batch.counts_resources();
        let Some(mut walltimes) = request.where_counted(available, speed, counts) else {
            return Err(match request.on(available, speed) {
                Some(_) => AdmissionRefusal::Other(uncounted("a table of times whose sizes all have GPUs")),
                None => too_large,
            });
        };
        if let Some(most) = bounds.walltime {
            let walltime = walltimes.at(walltimes.most());
            walltimes = walltimes.within(most).ok_or(AdmissionRefusal::TooLong { walltime, most })?;
        }
        let mut estimate = self.batch.estimate(now, partition, &walltimes, tuner).ok_or(no_room)?;
        if let Some(user) = user {
            estimate = self.within_limits(now, user, estimate)?;
        }
        match estimate.walltime {
            walltime if walltime > WALLTIME_MAX => {
                Err(AdmissionRefusal::TooLong { walltime, most: WALLTIME_MAX })
            }
            _ => Ok(estimate),
        }
    }

    /// What a request gives up for other jobs if it is queued as chosen; none if no size completes it earlier.
    pub(super) fn size_choice(
        &mut self,
        now: Time,
        user: &User,
        (request, speed): (&Request, Speed),
        chosen: &Estimate,
    ) -> Option<SizeChoice> {
        if self.config.tuner.is_greedy() {
            return None;
        }
        let earliest = self.estimate_with(Tuner::Exact, now, Some(user), request, speed).ok()?;
        let Usage { running, waiting, .. } = self.usage();
        let choice = SizeChoice { earliest, other_jobs: running + waiting };
        is_earlier(&earliest, chosen).then_some(choice)
    }

    /// Answers a discovery query for the work `needed` with an estimation vector or a refusal.
    pub fn answer(&mut self, now: Time, info: &ServerInfo, user: &User, needed: &Work) -> DiscoveryResult {
        let Usage { free, waiting, .. } = self.usage();
        let request = needed.request(JobId(self.next), now).owned_by(user.owner());
        let estimate = match self.refuses(user) {
            Some(reason) => Err(AdmissionRefusal::Other(reason)),
            None => self.estimate_work(now, user, needed, (&request, self.config.speed)),
        };
        let estimate = match estimate {
            Ok(estimate) => estimate,
            Err(refused) => {
                let refusals = vec![(info.name.clone(), refused.reason())];
                return DiscoveryResult { refusals, ..DiscoveryResult::default() };
            }
        };
        let resources = request.resources_at(self.config.speed, estimate.procs, estimate.walltime);
        let submission = Submission::new(request.id, estimate.procs, estimate.walltime);
        let partition = self.batch.named_partition(now, &Submission { resources, ..submission });
        let vector = EstimationVector {
            server: info.name.clone(),
            address: info.address.clone(),
            rank: info.rank,
            estimate,
            speed: self.config.speed,
            procs: self.procs(),
            free,
            queue_length: waiting,
            partition,
        };
        DiscoveryResult { vectors: vec![vector], ..DiscoveryResult::default() }
    }

    /// When work could start here, for the parent: bounds, and none for work if the server accepts none at the moment.
    pub fn summary(&mut self, now: Time) -> Summary {
        if self.closed().is_some() {
            return Summary::default();
        }
        // The partitions of an external batch system have other sizes, and no more than all nodes together.
        let of_nodes = |listing: &Listing| {
            let cores = listing.nodes.iter().map(|node| node.cores);
            Procs(cores.fold(0, u32::saturating_add))
        };
        let procs = self.batch.mirror().map_or(Procs(0), of_nodes).max(self.procs());
        let counts_resources = self.batch.counts_resources();
        let mut plan = self.batch.plan_bounds(now);
        if self.batch.bounds(None).walltime.is_some() {
            // Sizes that take longer cannot be chosen.
            plan = plan.map(|plan| PlanBounds { jobs: None, ..plan });
        }
        let ServerConfig { speed, tuner, .. } = self.config;
        Summary::of(ClusterBounds::planned(speed, procs, counts_resources, plan, tuner))
    }

    /// How busy the cluster is.
    pub fn usage(&self) -> Usage {
        self.batch.usage()
    }

    /// A job in memory: it has not ended, or only just.
    pub fn job(&self, number: u32) -> Option<&JobRecord> {
        Some(&self.jobs.get(&number)?.record)
    }

    /// What a job runs.
    pub fn payload(&self, number: u32) -> Option<&Payload> {
        Some(&self.jobs.get(&number)?.payload)
    }

    /// The running jobs, how they run, and whether they are being cancelled: a restarted driver looks for these.
    pub fn running(&self) -> impl Iterator<Item = (&JobRecord, &Run, bool)> {
        let runs = self.jobs.values().filter(|entry| entry.record.state == JobState::Active);
        runs.filter_map(|entry| Some((&entry.record, entry.run.as_ref()?, entry.cancelling)))
    }

    /// The job in memory that was submitted with this key.
    pub fn job_of_key(&self, key: &Key) -> Option<&JobRecord> {
        self.job(*self.keys.get(key)?)
    }

    /// Every job in memory, in the order of acceptance.
    pub fn jobs(&self) -> impl Iterator<Item = &JobRecord> {
        self.jobs.values().map(|entry| &entry.record)
    }

    /// The jobs in memory after a number here, each with its own, in the order of acceptance.
    pub fn jobs_after(&self, number: u32) -> impl Iterator<Item = (u32, &JobRecord)> {
        let after = (Bound::Excluded(number), Bound::Unbounded);
        self.jobs.range(after).map(|(number, entry)| (*number, &entry.record))
    }

    /// The number here of the job with this handle.
    pub fn number_of(&self, job: &Handle) -> Option<u32> {
        // The number of a job from another server is in none of our handles.
        let is_from_elsewhere =
            || self.jobs.get(&job.number).is_some_and(|entry| entry.record.handle != *job);
        let own = || Some(job.number).filter(|_| job.server == self.config.name && !is_from_elsewhere());
        self.numbers.get(job).copied().or_else(own)
    }

    /// Whether files that were sent under a key are needed: a job in memory, a prepared job or a subjob has that key.
    pub fn needs_files_of(&self, key: &Key) -> bool {
        let handed = || self.prepared().any(|handoff| handoff.key == *key);
        self.job_of_key(key).is_some() || handed() || self.has_subjob_of(key)
    }

    /// The snapshot for an agent's reallocation cycle: the queue, and which jobs may move.
    pub fn snapshot(&mut self, now: Time, info: &ServerInfo) -> ServerSnapshot {
        let (queue, nodes) = (self.batch.snapshot(now), self.batch.planned_nodes(now));
        let held_back = self.batch.held_jobs();
        let planned: BTreeSet<JobId> = self.batch.waiting(now).iter().map(|one| one.job).collect();
        let movable = |entry: &ServerJob| {
            let ServerJob { number, record, .. } = entry;
            let waits = record.state == JobState::Queued && *record.server() == self.config.name;
            let is_free = !record.pinned
                && !record.work.names_batch_options()
                && entry.started_before.is_none()
                && entry.deferred.is_none()
                && !self.outgoing.contains_key(number)
                && !self.banned.contains_key(&record.owner);
            let job = JobId(*number);
            let is_planned = planned.contains(&job) || self.batch.is_stuck(now, job);
            let may = waits && is_free && is_planned && !held_back.contains(&job);
            may.then(|| Movable {
                number: *number,
                job: record.handle.clone(),
                key: record.key,
                work: record.work.clone(),
                submitted: record.work.eligible(record.submitted),
                owner: record.owner.owner(),
                moves: record.hops.len() as u32,
                siblings: self.sibling_servers(*number).cloned().collect(),
                avoids: avoided_servers(&record.hops, now),
            })
        };
        let movable = self.jobs.values().filter_map(movable).collect();
        let info = ServerInfo { procs: self.procs(), ..info.clone() };
        let closed = self.closed_to_others();
        let drained = self.drained.is_some();
        ServerSnapshot { info, tuner: self.config.tuner, queue, nodes, movable, closed, drained }
    }

    /// Why this server takes no jobs from other servers at the moment.
    pub(super) fn closed_to_others(&self) -> Option<String> {
        let closed = self.closed().map(|reason| reason.why);
        // Jobs that move name no partition.
        closed.or_else(|| self.batch.closed_partition(None)).or_else(|| self.batch.limited())
    }

    /// The processors of its cluster.
    pub fn procs(&self) -> Procs {
        self.batch.capacity().unwrap_or(self.config.procs)
    }

    /// The last listing of an external batch system.
    pub fn mirror(&self) -> Option<&Listing> {
        self.batch.mirror()
    }

    /// The snapshot of a cluster that is planned by its nodes; none otherwise.
    pub fn nodes(&mut self, now: Time) -> Option<nodes::ClusterSnapshot> {
        self.batch.nodes(now)
    }

    /// The local users' running and waiting jobs.
    pub fn local_jobs(&self) -> Vec<LocalJob> {
        self.batch.local_jobs()
    }

    /// Unanswered commands to the batch system: a restarted driver carries them out again.
    pub fn unanswered(&self) -> Vec<batch::Command> {
        self.batch.unanswered()
    }

    /// True if a job whose submission to an external batch system is unanswered was cancelled, is to be withdrawn, or is not known.
    pub fn is_unwanted(&self, number: u32) -> bool {
        self.batch.is_unwanted(JobId(number))
    }

    /// True if a job or a subjob of an external batch system was cancelled, or is not known.
    pub fn is_cancelled(&self, number: u32) -> bool {
        self.batch.is_cancelled(JobId(number))
    }

    /// The server's name.
    pub fn name(&self) -> &Name {
        &self.config.name
    }

    /// The handle of the job with that number.
    pub(super) fn handle(&self, number: u32) -> Handle {
        Handle { server: self.config.name.clone(), number }
    }

    /// Explains where a job is and why it waits; none if the caller may not know of it.
    pub fn explain(&mut self, now: Time, number: u32, caller: &Caller) -> Option<Explanation> {
        let record = self.job(number)?.clone();
        if !caller.may_access(&record.owner) {
            return None;
        }
        let is_here = record.state == JobState::Queued && *record.server() == self.config.name;
        let is_planned = is_here && !self.is_deferred(number);
        let waits = if is_planned { self.wait(now, number, caller) } else { None };
        let held = || self.held(number).map(ToString::to_string);
        let banned = || self.banned(&record.owner).map(ToString::to_string);
        let (deferred, limited) = (|| self.deferral(number), || self.limited(number));
        let behind = || self.is_behind_own(number).then(|| BEHIND_OWN.to_owned());
        let kept = || held().or_else(banned).or_else(deferred).or_else(behind).or_else(limited);
        let unplanned = || kept().or_else(|| self.batch.unplanned(JobId(number)));
        let unplanned = if is_here && waits.is_none() { unplanned() } else { None };
        Some(Explanation { record, at: now, waits, unplanned })
    }

    fn wait(&mut self, now: Time, number: u32, caller: &Caller) -> Option<Wait> {
        let waiting = self.batch.waiting_with(now, JobId(number));
        let ahead = waiting.iter().position(|one| one.job == JobId(number))?;
        let plan = waiting[ahead].plan;
        let mut until: Vec<Release> = self
            .jobs()
            .filter(|other| other.state == JobState::Active)
            .filter_map(|other| {
                let end = other.started? + other.walltime;
                let known = caller.may_access(&other.owner).then(|| other.handle.clone());
                (end <= plan.start).then_some(Release { handle: known, end, procs: other.procs })
            })
            .collect();
        until.sort_by_key(|release| release.end);
        let Usage { free, .. } = self.usage();
        let siblings = self.sibling_servers(number).cloned().collect();
        let priority = self.batch.priority(now, JobId(number));
        let operator_priority = self.batch.job_priority(JobId(number));
        let shortages = self.batch.shortages(JobId(number), plan.procs);
        let (ahead, free) = (ahead as u32, Procs(free.0));
        Some(Wait { ahead, plan, free, until, siblings, priority, operator_priority, shortages })
    }
}

fn no_partition() -> Reason {
    Cause::BatchSystem.because("the batch system has no partition for it".to_owned())
}

/// Why a cluster that counts only processors does not take work that needs more.
fn uncounted(needed: impl fmt::Display) -> Reason {
    let why = format!(
        "expected work that needs processors only, since this cluster counts nothing else; found {needed}"
    );
    Cause::Resources.because(why)
}
