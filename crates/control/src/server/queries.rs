//! What a server is asked without being changed.

use crate::payload::Payload;
use std::collections::BTreeSet;

use pliant_model::{Estimate, JobId, Procs, Request, Speed, Time};
use pliant_policy::completion::is_earlier;
use pliant_policy::nodes;
use pliant_policy::tuning::Tuner;

use super::admission::WALLTIME_MAX;
use super::{Refused, Server, ServerJob};
use crate::access::Caller;
use crate::agent::DiscoveryResult;
use crate::batch::{self, Run, Usage};
use crate::estimation_vector::EstimationVector;
use crate::explain::{Explanation, Release, Wait};
use crate::handoff::{Movable, ServerSnapshot};
use crate::job::{JobRecord, JobState, SizeChoice, Work, avoided_servers};
use crate::listing::Listing;
use crate::local::LocalJob;
use crate::names::{Handle, Key, Name, User};
use crate::reason::Cause;
use crate::server_info::ServerInfo;

impl Server {
    /// What the work would get if it were submitted now; none if it never fits.
    pub fn estimate(&mut self, now: Time, work: &Work) -> Option<Estimate> {
        self.estimate_at(now, &work.request(JobId(self.next), now), self.config.speed).ok()
    }

    /// What a request would get if it came now, as if the cluster had that speed.
    pub(super) fn estimate_at(
        &mut self,
        now: Time,
        request: &Request,
        speed: Speed,
    ) -> Result<Estimate, Refused> {
        self.estimate_with(self.config.tuner, now, request, speed)
    }

    fn estimate_with(
        &mut self,
        tuner: Tuner,
        now: Time,
        request: &Request,
        speed: Speed,
    ) -> Result<Estimate, Refused> {
        if let Some(why) = self.batch.closed() {
            return Err(Refused::Other(Cause::BatchSystem.because(why)));
        }
        let bounds = self.batch.bounds();
        let available = bounds.procs.unwrap_or(self.procs());
        let too_large = Refused::TooLarge { needed: request.procs, available };
        // An external batch system may have the processors, and none of them up.
        let no_room = match self.batch.mirror() {
            None => too_large.clone(),
            Some(_) => Refused::Other(Cause::BatchSystem.because(format!(
                "the nodes that can be used at the moment have no room for {} processors",
                request.procs
            ))),
        };
        let Some(mut walltimes) = request.on(available, speed) else { return Err(too_large) };
        if let Some(most) = bounds.walltime {
            let walltime = walltimes.at(walltimes.most());
            walltimes = walltimes.within(most).ok_or(Refused::TooLong { walltime, most })?;
        }
        let estimate = self.batch.estimate(now, &walltimes, tuner).ok_or(no_room)?;
        match estimate.walltime {
            walltime if walltime > WALLTIME_MAX => Err(Refused::TooLong { walltime, most: WALLTIME_MAX }),
            _ => Ok(estimate),
        }
    }

    /// What a request gives up for other jobs if it is queued as chosen; none if nothing completes it earlier.
    pub(super) fn size_choice(
        &mut self,
        now: Time,
        request: &Request,
        speed: Speed,
        chosen: &Estimate,
    ) -> Option<SizeChoice> {
        if self.config.tuner.is_greedy() {
            return None;
        }
        let earliest = self.estimate_with(Tuner::Exact, now, request, speed).ok()?;
        let Usage { running, waiting, .. } = self.usage();
        let choice = SizeChoice { earliest, other_jobs: running + waiting };
        is_earlier(&earliest, chosen).then_some(choice)
    }

    /// The answer to a user's question, `needed` being what it would run: an estimation vector, or why not.
    pub fn answer(&mut self, now: Time, info: &ServerInfo, user: &User, needed: &Work) -> DiscoveryResult {
        let Usage { free, waiting, .. } = self.usage();
        let request = needed.request(JobId(self.next), now).owned_by(user.owner());
        let estimate = match self.estimate_at(now, &request, self.config.speed) {
            Ok(estimate) => estimate,
            Err(refused) => {
                let refusals = vec![(info.name.clone(), refused.reason())];
                return DiscoveryResult { refusals, ..DiscoveryResult::default() };
            }
        };
        let vector = EstimationVector {
            server: info.name.clone(),
            address: info.address.clone(),
            rank: info.rank,
            estimate,
            speed: self.config.speed,
            procs: self.procs(),
            free,
            queue_length: waiting,
        };
        DiscoveryResult { vectors: vec![vector], ..DiscoveryResult::default() }
    }

    /// How busy the cluster is.
    pub fn usage(&self) -> Usage {
        self.batch.usage()
    }

    /// A job in memory: one that has not ended, or only just.
    pub fn job(&self, number: u32) -> Option<&JobRecord> {
        Some(&self.jobs.get(&number)?.record)
    }

    /// What a job is to run.
    pub fn payload(&self, number: u32) -> Option<&Payload> {
        Some(&self.jobs.get(&number)?.payload)
    }

    /// The jobs that run, how, and whether they were asked to end: what a restarted driver looks for outside.
    pub fn running(&self) -> impl Iterator<Item = (&JobRecord, &Run, bool)> {
        let runs = self.jobs.values().filter(|kept| kept.record.state == JobState::Active);
        runs.filter_map(|kept| Some((&kept.record, kept.run.as_ref()?, kept.cancelling)))
    }

    /// The job that a key was given, in memory.
    pub fn job_of_key(&self, key: &Key) -> Option<&JobRecord> {
        self.job(*self.keys.get(key)?)
    }

    /// Every job in memory, in the order of acceptance.
    pub fn jobs(&self) -> impl Iterator<Item = &JobRecord> {
        self.jobs.values().map(|kept| &kept.record)
    }

    /// The number here of a job that a user holds, whether it was accepted here or came from elsewhere.
    pub fn number_of(&self, job: &Handle) -> Option<u32> {
        // A guest has a number here that is in no handle of ours.
        let is_guest = || self.jobs.get(&job.number).is_some_and(|kept| kept.record.handle != *job);
        let own = || Some(job.number).filter(|_| job.server == self.config.name && !is_guest());
        self.numbers.get(job).copied().or_else(own)
    }

    /// Whether files that were sent under a key are of use: a job in memory has it, or one that another server may hand
    /// over.
    pub fn wants_files_of(&self, key: &Key) -> bool {
        let handed = || self.held().any(|handoff| handoff.key == *key);
        self.job_of_key(key).is_some() || handed() || self.has_subjob_of(key)
    }

    /// The server for an agent that looks for better places: what a listing shows, and which jobs may be moved.
    pub fn snapshot(&mut self, now: Time, info: &ServerInfo) -> ServerSnapshot {
        let (queue, nodes) = (self.batch.snapshot(now), self.batch.nodes(now));
        let held_back = self.batch.kept();
        let planned: BTreeSet<JobId> = self.batch.waiting(now).iter().map(|one| one.job).collect();
        let movable = |kept: &ServerJob| {
            let ServerJob { number, record, .. } = kept;
            let waits = record.state == JobState::Queued && *record.server() == self.config.name;
            let is_free = !record.pinned && !self.leaving.contains_key(number);
            let job = JobId(*number);
            let has_a_place = planned.contains(&job) || self.batch.is_stuck(now, job);
            let may = waits && is_free && has_a_place && !held_back.contains(&job);
            may.then(|| Movable {
                number: *number,
                job: record.handle.clone(),
                key: record.key,
                work: record.work.clone(),
                submitted: record.submitted,
                owner: record.owner.owner(),
                moves: record.hops.len() as u32,
                copies: self.copies_of(*number).cloned().collect(),
                avoids: avoided_servers(&record.hops, now),
            })
        };
        let movable = self.jobs.values().filter_map(movable).collect();
        let info = ServerInfo { procs: self.procs(), ..info.clone() };
        let closed = self.closed_to_others();
        ServerSnapshot { info, tuner: self.config.tuner, queue, nodes, movable, closed }
    }

    /// Why no job is taken over from elsewhere at the moment.
    pub(super) fn closed_to_others(&self) -> Option<String> {
        self.batch.closed().or_else(|| self.batch.limited())
    }

    /// The processors of its cluster.
    pub fn procs(&self) -> Procs {
        self.batch.capacity().unwrap_or(self.config.procs)
    }

    /// What an external batch system listed last.
    pub fn mirror(&self) -> Option<&Listing> {
        self.batch.mirror()
    }

    /// The snapshot of a cluster that is planned by its nodes; none if it is not.
    pub fn nodes(&mut self, now: Time) -> Option<nodes::ClusterSnapshot> {
        self.batch.nodes(now)
    }

    /// The jobs of local users on its cluster that run or wait.
    pub fn local_jobs(&self) -> Vec<LocalJob> {
        self.batch.local_jobs()
    }

    /// Commands to its batch system that nobody has answered: a restarted driver carries them out again.
    pub fn unanswered(&self) -> Vec<batch::Command> {
        self.batch.unanswered()
    }

    /// What it is called.
    pub fn name(&self) -> &Name {
        &self.config.name
    }

    /// What the user holds of the job of that number.
    pub(super) fn handle(&self, number: u32) -> Handle {
        Handle { server: self.config.name.clone(), number }
    }

    /// How many jobs of a user wait.
    pub fn waiting_of(&self, owner: &User) -> usize {
        self.waiting.get(owner).map_or(0, |count| *count as usize)
    }

    /// Why a job is where it is; none if the caller may not know of it.
    pub fn explain(&mut self, now: Time, number: u32, caller: &Caller) -> Option<Explanation> {
        let record = self.job(number)?.clone();
        if !caller.may_access(&record.owner) {
            return None;
        }
        let is_here = record.state == JobState::Queued && *record.server() == self.config.name;
        let waits = if is_here { self.wait(now, number, caller) } else { None };
        let unplanned = || self.batch.unplanned(JobId(number));
        let unplanned = if is_here && waits.is_none() { unplanned() } else { None };
        Some(Explanation { record, at: now, waits, unplanned })
    }

    fn wait(&mut self, now: Time, number: u32, caller: &Caller) -> Option<Wait> {
        let waiting = self.batch.waiting(now);
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
        let copies = self.copies_of(number).cloned().collect();
        Some(Wait { ahead: ahead as u32, plan, free: Procs(free.0), until, copies })
    }
}
