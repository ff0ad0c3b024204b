//! Reallocation cycles: the agent proposes better clusters for the waiting jobs below it (paper 000, section 3.2.2).
//!
//! A cycle asks every server below for its queue, runs the *same* policy as the simulator on these snapshots, and proposes
//! each move to the server that has the job, one after another in the order of the decisions. The servers check each
//! proposal against their present state and carry it out between them ([`crate::handoff`]). A proposal therefore promises
//! nothing, and a cycle journals nothing: the next cycle decides a lost move again.
//!
//! Jobs of local users, pinned jobs, held jobs and started jobs are in the snapshots and are never moved. A job that its
//! batch system does not plan (its partition is down, a limit is reached) moves to any server that can start it, and for a
//! while not back ([`crate::job::avoided_servers`]). A closed server, or one where such jobs wait, gets no proposals. The jobs
//! of a drained server move to any other server, even if they complete later there. A
//! server that does not answer takes no part. The moves of the algorithms that cancel everything are carried out like those
//! of the regular one, one job at a time; jobs that stay keep their position in the queue. Sibling jobs are proposed as
//! soon as a job waits, and in every cycle for the jobs that lack one on some server.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use pliant_model::{ClusterId, Estimate, JobId, Reason, Span, Time};
use pliant_policy::batch::{BatchScheduler, LocalPolicy};
use pliant_policy::federation::{Admission, FederatedCluster, Federation, Tracked};
use pliant_policy::nodes::Nodes;
use pliant_policy::reallocation::{Algorithm, Reallocation, reallocate};
use serde::{Deserialize, Serialize};

use super::{Agent, Command, DiscoveryQuery, DiscoveryResult, DiscoverySubject, Requester, audit};
use crate::access::Caller;
use crate::audit::{Actor, AuditAct};
use crate::handoff::{Movable, MoveOutcome, MoveProposal, ServerSnapshot, StayReason};
use crate::names::Token;
use crate::names::{Handle, Name, User};

/// The time within which a target has to prepare, its files included.
const TIMEOUT: Span = Span(60);

/// The reallocation of waiting jobs by an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReallocationConfig {
    /// The policy, with its period, threshold and window.
    pub policy: Reallocation,
    /// Also starts a cycle when a job has ended before its walltime, at least this long after the last cycle; none starts
    /// cycles only by the period.
    pub early: Option<Span>,
}

/// An operator's change of the reallocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReallocationChange {
    /// Reallocate by this configuration.
    Set(ReallocationConfig),
    /// Reallocate no jobs.
    Off,
}

impl fmt::Display for ReallocationChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReallocationConfig { policy, early } = match self {
            Self::Set(config) => config,
            Self::Off => return f.write_str("off"),
        };
        let Reallocation { algorithm, heuristic, period, threshold, window } = policy;
        write!(
            f,
            "algorithm={algorithm} heuristic={heuristic} period={}s threshold={}s window={window} early=",
            period.0, threshold.0
        )?;
        match early {
            Some(pause) => write!(f, "{}s", pause.0),
            None => f.write_str("off"),
        }
    }
}

impl Agent {
    /// Takes over an operator's change of the reallocation; none returns to the configuration.
    pub(super) fn configure(
        &mut self,
        now: Time,
        change: Option<ReallocationChange>,
        by: Option<User>,
        commands: &mut Vec<Command>,
    ) {
        self.operator_change = change;
        if let Some(by) = by {
            let why = change.map_or_else(|| "reset".to_owned(), |change| change.to_string());
            audit(now, Actor::Operator(by), AuditAct::Configure, why, commands);
        }
    }
}

/// A proposed move of a cycle, with its outcome.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProposedMove {
    /// The job.
    pub job: Handle,
    /// The server where the job waits.
    pub from: Name,
    /// The server where the job would complete earlier.
    pub to: Name,
    /// The expected completion at `from`; [`Time::MAX`] if the job is not planned there.
    pub before: Time,
    /// The estimate of `to`.
    pub expected: Estimate,
    /// True to queue a sibling job at `to`, instead of a move.
    pub sibling: bool,
    /// The outcome; none in a dry run.
    pub outcome: Option<MoveOutcome>,
}

/// The report of a reallocation cycle.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReallocationReport {
    /// Why no cycle ran.
    pub refused: Option<String>,
    /// The number of servers that sent their queues.
    pub servers: u32,
    /// Servers that sent none.
    pub silent: Vec<Name>,
    /// Servers that take no jobs from others at the moment, each with its reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<(Name, String)>,
    /// The number of jobs that could be moved.
    pub movable: u32,
    /// The moves, in the order in which they were decided.
    pub proposals: Vec<ProposedMove>,
}

/// A reallocation cycle.
pub(super) struct ReallocationCycle {
    reply: Option<Token>,
    dry_run: bool,
    policy: Reallocation,
    /// Another cycle follows at once.
    again: bool,
    /// The proposals that are still to be made; none before the queues are known.
    left: Option<VecDeque<(ProposedMove, MoveProposal)>>,
    /// The proposal that is being carried out.
    current: Option<ProposedMove>,
    /// Servers that did not answer: no further proposal involves them.
    silent: BTreeSet<Name>,
    report: ReallocationReport,
}

impl Agent {
    /// The reallocation in force: an operator's last change, or the configuration.
    pub fn reallocation(&self) -> Option<ReallocationConfig> {
        match self.operator_change {
            Some(ReallocationChange::Set(reallocation)) => Some(reallocation),
            Some(ReallocationChange::Off) => None,
            None => self.config.reallocation,
        }
    }

    /// When the next cycle begins; never while no job waits. A current cycle does not count: cycles are not journaled, so
    /// journaled events must not depend on them.
    pub(super) fn next_cycle(&self) -> Option<Time> {
        let ReallocationConfig { policy, early } = self.reallocation()?;
        if self.jobs.waiting() == 0 {
            return None;
        }
        let period = policy.period.0.max(1);
        // Every multiple of the period starts a cycle, from the first one at which a job waits.
        let after_last = self.last_cycle.map_or(Time(i64::MIN), |last| last + Span(1));
        let earliest = after_last.max(self.waits_since);
        let regular = Time(((earliest.0.max(1) - 1).div_euclid(period) + 1) * period);
        let early = early
            .filter(|_| self.freed)
            .map(|pause| self.last_cycle.map_or(Time(i64::MIN), |last| last + pause));
        let at_once = self.arrived && policy.algorithm == Algorithm::Siblings;
        early.into_iter().chain([regular]).chain(at_once.then_some(Time(i64::MIN))).min()
    }

    /// Starts a cycle if one is due. During another cycle, a job that needs its siblings and a cluster that is free early
    /// wait for its end; the cycle covers the rest of the queue. A dry run is always followed by a cycle.
    pub(super) fn start_due_cycle(&mut self, now: Time, commands: &mut Vec<Command>) {
        let Some(ReallocationConfig { policy, .. }) = self.reallocation() else { return };
        if self.next_cycle().is_some_and(|at| at <= now) {
            self.last_cycle = Some(now);
            let arrived = std::mem::take(&mut self.arrived) && policy.algorithm == Algorithm::Siblings;
            let freed = std::mem::take(&mut self.freed);
            match &mut self.cycle {
                // The current cycle does not know of the event, or moves nothing.
                Some(cycle) => cycle.again |= arrived || freed || cycle.dry_run,
                None => self.start_cycle(now, None, false, policy, commands),
            }
        }
    }

    /// Starts a cycle at a caller's request.
    pub(super) fn request_cycle(
        &mut self,
        now: Time,
        reply: Token,
        dry_run: bool,
        policy: Option<Reallocation>,
        commands: &mut Vec<Command>,
    ) {
        let policy = policy.or(self.reallocation().map(|reallocation| reallocation.policy));
        let refused = match policy {
            Some(policy) if self.cycle.is_none() => {
                return self.start_cycle(now, Some(reply), dry_run, policy, commands);
            }
            Some(_) => "a reallocation cycle is already running",
            None => "the agent does not reallocate waiting jobs",
        };
        let report =
            ReallocationReport { refused: Some(refused.to_owned()), ..ReallocationReport::default() };
        commands.push(Command::ReportReallocation { to: reply, report: Box::new(report) });
    }

    fn start_cycle(
        &mut self,
        now: Time,
        reply: Option<Token>,
        dry_run: bool,
        policy: Reallocation,
        commands: &mut Vec<Command>,
    ) {
        let report = ReallocationReport::default();
        self.cycle = Some(ReallocationCycle {
            reply,
            dry_run,
            policy,
            again: false,
            left: None,
            current: None,
            silent: BTreeSet::new(),
            report,
        });
        self.query_in_cycle(now, DiscoverySubject::Snapshots, None, None, commands);
    }

    fn query_in_cycle(
        &mut self,
        now: Time,
        subject: DiscoverySubject,
        only: Option<Name>,
        timeout: Option<Span>,
        commands: &mut Vec<Command>,
    ) {
        // No user has the name of a daemon, and servers let agents send these queries.
        let user: User = self.config.name.as_str().parse().expect("a daemon's name is a user's name");
        let caller = Caller { user, operator: true };
        self.start_discovery(
            now,
            Requester::ReallocationCycle,
            DiscoveryQuery { subject, caller, best: u32::MAX, only, timeout, latest: None },
            commands,
        );
    }

    /// Handles the answer to a query of the cycle.
    pub(super) fn handle_cycle_answer(
        &mut self,
        now: Time,
        mut found: DiscoveryResult,
        commands: &mut Vec<Command>,
    ) {
        let Some(cycle) = &mut self.cycle else { return };
        match cycle.current.take() {
            Some(proposed) => {
                let silent = MoveOutcome::Stays(StayReason::NoAnswer);
                match &found.outcome {
                    None => cycle.silent.insert(proposed.from.clone()),
                    Some(outcome) => *outcome == silent && cycle.silent.insert(proposed.to.clone()),
                };
                let outcome = Some(found.outcome.unwrap_or(silent));
                cycle.report.proposals.push(ProposedMove { outcome, ..proposed });
            }
            None => {
                // The jobs of other masters' users are in the queues, and are not moved.
                let is_own = |job: &Movable| self.share.has(job.owner);
                found.snapshots.iter_mut().for_each(|snapshot| snapshot.movable.retain(is_own));
                cycle.decide(now, found);
            }
        }
        self.propose_next(now, commands);
    }

    fn propose_next(&mut self, now: Time, commands: &mut Vec<Command>) {
        let Some(cycle) = &mut self.cycle else { return };
        match cycle.next() {
            Some((proposed, proposal)) => {
                let from = proposed.from.clone();
                cycle.current = Some(proposed);
                let timeout = Some(proposal.timeout + Span(5));
                self.query_in_cycle(
                    now,
                    DiscoverySubject::Move(Box::new(proposal)),
                    Some(from),
                    timeout,
                    commands,
                );
            }
            None => {
                let Some(ReallocationCycle { reply, report, again, .. }) = self.cycle.take() else { return };
                if let Some(to) = reply {
                    commands.push(Command::ReportReallocation { to, report: Box::new(report) });
                }
                if let Some(ReallocationConfig { policy, .. }) = self.reallocation().filter(|_| again) {
                    self.start_cycle(now, None, false, policy, commands);
                }
            }
        }
    }
}

impl ReallocationCycle {
    /// The next proposal. A silent server would cost its timeout each time.
    fn next(&mut self) -> Option<(ProposedMove, MoveProposal)> {
        loop {
            let (proposed, proposal) = self.left.as_mut()?.pop_front()?;
            if !self.silent.contains(&proposed.from) && !self.silent.contains(&proposed.to) {
                return Some((proposed, proposal));
            }
            let outcome = Some(MoveOutcome::Stays(StayReason::NoAnswer));
            self.report.proposals.push(ProposedMove { outcome, ..proposed });
        }
    }

    /// Decides the moves, once the queues are known.
    fn decide(&mut self, now: Time, found: DiscoveryResult) {
        let DiscoveryResult { mut snapshots, silent, .. } = found;
        snapshots.sort_by(|a, b| (a.info.rank, &a.info.name).cmp(&(b.info.rank, &b.info.name)));
        snapshots.dedup_by(|a, b| a.info.name == b.info.name);
        let federation = federation_snapshot(&snapshots, now);
        self.report.servers = federation.servers.len() as u32;
        self.report.silent = silent;
        self.report.silent.extend(federation.left_out.iter().cloned());
        let closed = |one: &&ServerSnapshot| Some((one.info.name.clone(), one.closed.clone()?));
        self.report.closed = federation.servers.iter().filter_map(closed).collect();
        self.report.movable = federation.jobs.len() as u32;
        let FederationSnapshot { servers, jobs, mut federation, .. } = federation;
        let server = |cluster: ClusterId| &servers[cluster.index()].info;
        let moves = reallocate(&self.policy, &mut federation, now);
        let sibling = self.policy.algorithm == Algorithm::Siblings;
        let proposals = moves.into_iter().filter_map(|one| {
            let job = jobs.get(one.job.0 as usize)?.job.clone();
            let (from, to) = (server(one.from), server(one.to));
            let proposed = ProposedMove {
                job: job.clone(),
                from: from.name.clone(),
                to: to.name.clone(),
                before: one.before,
                expected: one.estimate,
                sibling,
                outcome: None,
            };
            let proposal = MoveProposal {
                job,
                to: to.name.clone(),
                address: to.address.clone(),
                expected: one.estimate,
                gain: (self.policy.algorithm == Algorithm::Regular).then_some(self.policy.threshold),
                reason: one.reason,
                timeout: TIMEOUT,
                sibling,
            };
            Some((proposed, proposal))
        });
        let proposals: VecDeque<(ProposedMove, MoveProposal)> = proposals.collect();
        if self.dry_run {
            self.report.proposals = proposals.into_iter().map(|(proposed, _)| proposed).collect();
            self.left = Some(VecDeque::new());
        } else {
            self.left = Some(proposals);
        }
    }
}

/// Snapshots of queues, as one federation.
struct FederationSnapshot<'a> {
    federation: Federation,
    /// By cluster.
    servers: Vec<&'a ServerSnapshot>,
    /// By job number.
    jobs: Vec<&'a Movable>,
    /// Servers with an invalid snapshot: an unknown policy or an impossible queue.
    left_out: Vec<Name>,
}

/// Builds one federation of the queues. Movable jobs are numbered in the order of submission, all other jobs after them.
fn federation_snapshot(snapshots: &[ServerSnapshot], now: Time) -> FederationSnapshot<'_> {
    let mut jobs: Vec<(usize, &Movable)> = Vec::new();
    for (cluster, snapshot) in snapshots.iter().enumerate() {
        jobs.extend(snapshot.movable.iter().map(|job| (cluster, job)));
    }
    // During a handoff a job may be in two snapshots: the server that got it last counts.
    jobs.sort_by(|(_, a), (_, b)| {
        (a.submitted, a.key, &a.job, b.moves).cmp(&(b.submitted, b.key, &b.job, a.moves))
    });
    jobs.dedup_by(|(_, later), (_, earlier)| later.job == earlier.job);
    let mut numbers: Vec<BTreeMap<JobId, JobId>> = vec![BTreeMap::new(); snapshots.len()];
    for (number, (cluster, job)) in (0..).zip(&jobs) {
        numbers[*cluster].insert(JobId(job.number), JobId(number));
    }
    let mut next = jobs.len() as u32;
    let mut fresh = || {
        next += 1;
        JobId(next - 1)
    };
    let (mut clusters, mut servers, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    let mut cluster_ids: Vec<Option<ClusterId>> = vec![None; snapshots.len()];
    for (index, snapshot) in snapshots.iter().enumerate() {
        let known = &mut numbers[index];
        let info = &snapshot.info;
        match scheduler(snapshot, now, |job| *known.entry(job).or_insert_with(&mut fresh)) {
            Some(scheduler) => {
                cluster_ids[index] = Some(ClusterId(clusters.len() as u32));
                clusters.push(FederatedCluster {
                    procs: info.procs,
                    speed: info.speed,
                    tuner: snapshot.tuner,
                    scheduler,
                    admission: admission(snapshot),
                });
                servers.push(snapshot);
            }
            None => left_out.push(info.name.clone()),
        }
    }
    let tracked = (0..).zip(&jobs).filter_map(|(number, (cluster, job))| {
        let request = job.work.request(JobId(number), job.submitted).owned_by(job.owner);
        let reason = Reason::Mapped(pliant_model::MapReason::EarliestCompletion);
        Some(Tracked { request, cluster: cluster_ids[*cluster]?, moves: job.moves, reason })
    });
    let mut federation = Federation::from_clusters(clusters, tracked.collect::<Vec<_>>());
    for (number, (_, job)) in (0..).zip(&jobs) {
        for (cluster, snapshot) in (0..).zip(&servers) {
            if job.siblings.contains(&snapshot.info.name) {
                federation.add_sibling(JobId(number), ClusterId(cluster));
            }
            if job.avoids.contains(&snapshot.info.name) {
                federation.exclude(JobId(number), ClusterId(cluster));
            }
        }
    }
    FederationSnapshot { federation, servers, jobs: jobs.into_iter().map(|(_, job)| job).collect(), left_out }
}

/// Whether a server takes jobs from others.
fn admission(snapshot: &ServerSnapshot) -> Admission {
    match &snapshot.closed {
        _ if snapshot.drained => Admission::Drained,
        Some(_) => Admission::Closed,
        None => Admission::Open,
    }
}

/// The batch system of a snapshot, with its jobs renumbered; none if the snapshot is invalid.
fn scheduler(
    snapshot: &ServerSnapshot,
    now: Time,
    mut number: impl FnMut(JobId) -> JobId,
) -> Option<Box<dyn BatchScheduler>> {
    if snapshot.info.procs.0 == 0 {
        // The server has not listed its cluster yet.
        return None;
    }
    let own: Option<LocalPolicy> = snapshot.info.policy.parse().ok();
    // Servers of earlier versions do not say on which nodes their jobs are.
    let knows_nodes = snapshot.queue.running.is_empty() || !snapshot.queue.on_nodes.is_empty();
    if let (Some(nodes), Some(policy)) = (&snapshot.nodes, own.as_ref().filter(|_| knows_nodes)) {
        let mut scheduler = policy.scheduler_on(&nodes.to_declared().ok()?, now).ok()?;
        scheduler.restore(now, &snapshot.queue.clone().renumbered(number)).ok()?;
        return Some(scheduler);
    }
    if let Some(nodes) = &snapshot.nodes {
        let mut nodes = nodes.clone();
        nodes.running.iter_mut().for_each(|one| one.job = number(one.job));
        nodes.pending.iter_mut().for_each(|one| one.job = number(one.job));
        return Some(Box::new(Nodes::from_snapshot(now, &nodes).ok()?));
    }
    let queue = snapshot.queue.clone().renumbered(number);
    let mut scheduler = own?.scheduler(snapshot.info.procs, now);
    scheduler.restore(now, &queue).ok()?;
    Some(scheduler)
}
