//! Rounds: the agent looks at the waiting jobs below it and proposes better places (paper 000, section 3.2.2).
//!
//! A round asks every server below for its queue, runs the *same* policy as the simulator on these snapshots, and
//! proposes each move to the server that has the job, one after another in the order in which they were decided. The
//! servers check each against their present state and carry it out between them ([`crate::handoff`]), so a proposal
//! promises nothing and nothing of a round is journaled: one that is lost is decided anew in the next.
//!
//! What cannot be moved is seen in the snapshots and never touched: jobs of local users, jobs whose users chose the server,
//! jobs that somebody holds back, jobs that have started. One that its batch system does not plan (its partition is down, a
//! limit is reached) goes wherever there is a place for it, and for a while not back ([`crate::job::avoided`]); a server that
//! is closed, or where such jobs wait, is offered none. A server that does not answer takes no part. The moves of the
//! algorithms that cancel everything are carried out like those of the regular one, one job at a time, and jobs that stay
//! keep their place in the queue. Copies are proposed as soon as a job waits, and in every round for those that have none
//! somewhere.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pliant_model::{ClusterId, Estimate, JobId, Reason, Span, Time};
use pliant_policy::batch::{BatchScheduler, LocalPolicy};
use pliant_policy::federation::{FederatedCluster, Federation, Tracked};
use pliant_policy::nodes::Nodes;
use pliant_policy::reallocation::{Algorithm, Reallocation, reallocate};
use serde::{Deserialize, Serialize};

use super::{Agent, Command, DiscoveryQuery, DiscoveryResult, DiscoverySubject, Requester};
use crate::access::Caller;
use crate::handoff::{Movable, MoveOutcome, MoveProposal, ServerSnapshot, StayReason};
use crate::names::Token;
use crate::names::{Handle, Name, User};

/// How long a target may take to prepare, its files included.
const TIMEOUT: Span = Span(60);

/// How an agent moves waiting jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReallocationConfig {
    /// The policy, with its period, threshold and window.
    pub policy: Reallocation,
    /// Also looks around when a job has ended before its walltime, but not sooner than this after the last time; none
    /// only looks around every period.
    pub early: Option<Span>,
}

/// What an operator said last of how waiting jobs are moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Like this.
    Set(ReallocationConfig),
    /// Not at all.
    Off,
}

/// One proposal of a round, and what came of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Proposal {
    /// The job.
    pub job: Handle,
    /// Where it waits.
    pub from: Name,
    /// Where it would complete earlier.
    pub to: Name,
    /// The completion that is expected of it where it waits; [`Time::MAX`] if it is not planned there.
    pub before: Time,
    /// What the other server would give it.
    pub expected: Estimate,
    /// Not to move it, but to queue a copy of it there.
    pub copy: bool,
    /// What came of it; none in a dry run.
    pub outcome: Option<MoveOutcome>,
}

/// What came of a round.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Why there was none.
    pub refused: Option<String>,
    /// How many servers showed their queues.
    pub servers: u32,
    /// Which did not.
    pub silent: Vec<Name>,
    /// Which take no jobs from elsewhere at the moment, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<(Name, String)>,
    /// How many jobs could have been moved.
    pub movable: u32,
    /// The moves, in the order in which they were decided.
    pub proposals: Vec<Proposal>,
}

/// A round under way.
pub(super) struct ReallocationCycle {
    reply: Option<Token>,
    dry_run: bool,
    policy: Reallocation,
    /// Another one is to follow at once.
    again: bool,
    /// The proposals that are not made yet; none before the queues are known.
    left: Option<VecDeque<(Proposal, MoveProposal)>>,
    /// The one that is being carried out.
    current: Option<Proposal>,
    /// Servers that did not answer: nothing more is proposed to them or of their jobs.
    silent: BTreeSet<Name>,
    report: Report,
}

impl Agent {
    /// How waiting jobs are moved: as an operator said last, or as the configuration says.
    pub fn moving(&self) -> Option<ReallocationConfig> {
        match self.changed {
            Some(Change::Set(moving)) => Some(moving),
            Some(Change::Off) => None,
            None => self.config.moving,
        }
    }

    /// When the next round is to begin; never while nothing waits. That one is under way does not count: rounds are not
    /// journaled, and what is journaled has to follow from what was.
    pub(super) fn next_round(&self) -> Option<Time> {
        let ReallocationConfig { policy, early } = self.moving()?;
        if self.waiting == 0 {
            return None;
        }
        let period = policy.period.0.max(1);
        // Every multiple of the period is a time for a round, from the one at which something waits.
        let after_last = self.last_round.map_or(Time(i64::MIN), |last| last + Span(1));
        let earliest = after_last.max(self.waits_since);
        let regular = Time(((earliest.0.max(1) - 1).div_euclid(period) + 1) * period);
        let early = early
            .filter(|_| self.freed)
            .map(|pause| self.last_round.map_or(Time(i64::MIN), |last| last + pause));
        let at_once = self.arrived && policy.algorithm == Algorithm::Siblings;
        early.into_iter().chain([regular]).chain(at_once.then_some(Time(i64::MIN))).min()
    }

    /// Begins a round if it is time. While another one is under way, a job that needs its copies and a cluster that is
    /// free early wait for its end; the rest of the queue is being looked at. A dry run is followed by one in any case.
    pub(super) fn look_around(&mut self, now: Time, commands: &mut Vec<Command>) {
        let Some(ReallocationConfig { policy, .. }) = self.moving() else { return };
        if self.next_round().is_some_and(|at| at <= now) {
            self.last_round = Some(now);
            let arrived = std::mem::take(&mut self.arrived) && policy.algorithm == Algorithm::Siblings;
            let freed = std::mem::take(&mut self.freed);
            match &mut self.round {
                // What is under way does not know of it, or moves nothing.
                Some(round) => round.again |= arrived || freed || round.dry_run,
                None => self.begin_round(now, None, false, policy, commands),
            }
        }
    }

    /// Somebody wants a round.
    pub(super) fn reallocate(
        &mut self,
        now: Time,
        reply: Token,
        dry_run: bool,
        policy: Option<Reallocation>,
        commands: &mut Vec<Command>,
    ) {
        let policy = policy.or(self.moving().map(|moving| moving.policy));
        let refused = match policy {
            Some(policy) if self.round.is_none() => {
                return self.begin_round(now, Some(reply), dry_run, policy, commands);
            }
            Some(_) => "the agent is looking at the waiting jobs already",
            None => "the agent does not move waiting jobs",
        };
        let report = Report { refused: Some(refused.to_owned()), ..Report::default() };
        commands.push(Command::Report { to: reply, report: Box::new(report) });
    }

    fn begin_round(
        &mut self,
        now: Time,
        reply: Option<Token>,
        dry_run: bool,
        policy: Reallocation,
        commands: &mut Vec<Command>,
    ) {
        let report = Report::default();
        self.round = Some(ReallocationCycle {
            reply,
            dry_run,
            policy,
            again: false,
            left: None,
            current: None,
            silent: BTreeSet::new(),
            report,
        });
        self.ask_in_round(now, DiscoverySubject::Snapshots, None, None, commands);
    }

    fn ask_in_round(
        &mut self,
        now: Time,
        what: DiscoverySubject,
        only: Option<Name>,
        timeout: Option<Span>,
        commands: &mut Vec<Command>,
    ) {
        // No user has the name of a daemon's own questions; servers let agents ask these.
        let user: User = self.config.name.as_str().parse().expect("a daemon's name is a user's name");
        let caller = Caller { user, operator: true };
        self.ask(
            now,
            Requester::Round,
            DiscoveryQuery { what, caller, best: u32::MAX, only, timeout },
            commands,
        );
    }

    /// The answer to a question of the round.
    pub(super) fn round_found(&mut self, now: Time, found: DiscoveryResult, commands: &mut Vec<Command>) {
        let Some(round) = &mut self.round else { return };
        match round.current.take() {
            Some(proposal) => {
                let silent = MoveOutcome::Stays(StayReason::Silent);
                match &found.outcome {
                    None => round.silent.insert(proposal.from.clone()),
                    Some(outcome) => *outcome == silent && round.silent.insert(proposal.to.clone()),
                };
                let outcome = Some(found.outcome.unwrap_or(silent));
                round.report.proposals.push(Proposal { outcome, ..proposal });
            }
            None => round.decide(now, found),
        }
        self.next_proposal(now, commands);
    }

    fn next_proposal(&mut self, now: Time, commands: &mut Vec<Command>) {
        let Some(round) = &mut self.round else { return };
        match round.next() {
            Some((proposal, order)) => {
                let from = proposal.from.clone();
                round.current = Some(proposal);
                let timeout = Some(order.timeout + Span(5));
                self.ask_in_round(
                    now,
                    DiscoverySubject::Order(Box::new(order)),
                    Some(from),
                    timeout,
                    commands,
                );
            }
            None => {
                let Some(ReallocationCycle { reply, report, again, .. }) = self.round.take() else { return };
                if let Some(to) = reply {
                    commands.push(Command::Report { to, report: Box::new(report) });
                }
                if let Some(ReallocationConfig { policy, .. }) = self.moving().filter(|_| again) {
                    self.begin_round(now, None, false, policy, commands);
                }
            }
        }
    }
}

impl ReallocationCycle {
    /// What is to be proposed next. A server that is silent would cost its timeout each time.
    fn next(&mut self) -> Option<(Proposal, MoveProposal)> {
        loop {
            let (proposal, order) = self.left.as_mut()?.pop_front()?;
            if !self.silent.contains(&proposal.from) && !self.silent.contains(&proposal.to) {
                return Some((proposal, order));
            }
            let outcome = Some(MoveOutcome::Stays(StayReason::Silent));
            self.report.proposals.push(Proposal { outcome, ..proposal });
        }
    }

    /// The queues are known: decides what is to be moved.
    fn decide(&mut self, now: Time, found: DiscoveryResult) {
        let DiscoveryResult { mut snapshots, silent, .. } = found;
        snapshots.sort_by(|a, b| (a.info.rank, &a.info.name).cmp(&(b.info.rank, &b.info.name)));
        snapshots.dedup_by(|a, b| a.info.name == b.info.name);
        let drawn = draw(&snapshots, now);
        self.report.servers = drawn.drawn.len() as u32;
        self.report.silent = silent;
        self.report.silent.extend(drawn.left_out.iter().cloned());
        let closed = |one: &&ServerSnapshot| Some((one.info.name.clone(), one.closed.clone()?));
        self.report.closed = drawn.drawn.iter().filter_map(closed).collect();
        self.report.movable = drawn.jobs.len() as u32;
        let FederationSnapshot { drawn, jobs, mut federation, .. } = drawn;
        let server = |cluster: ClusterId| &drawn[cluster.index()].info;
        let moves = reallocate(&self.policy, &mut federation, now);
        let copy = self.policy.algorithm == Algorithm::Siblings;
        let proposals = moves.into_iter().filter_map(|one| {
            let job = jobs.get(one.job.0 as usize)?.job.clone();
            let (from, to) = (server(one.from), server(one.to));
            let proposal = Proposal {
                job: job.clone(),
                from: from.name.clone(),
                to: to.name.clone(),
                before: one.before,
                expected: one.estimate,
                copy,
                outcome: None,
            };
            let order = MoveProposal {
                job,
                to: to.name.clone(),
                address: to.address.clone(),
                expected: one.estimate,
                gain: (self.policy.algorithm == Algorithm::Regular).then_some(self.policy.threshold),
                reason: one.reason,
                timeout: TIMEOUT,
                sibling: copy,
            };
            Some((proposal, order))
        });
        let proposals: VecDeque<(Proposal, MoveProposal)> = proposals.collect();
        if self.dry_run {
            self.report.proposals = proposals.into_iter().map(|(proposal, _)| proposal).collect();
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
    drawn: Vec<&'a ServerSnapshot>,
    /// By number.
    jobs: Vec<&'a Movable>,
    /// Servers whose snapshots make no sense here: of a policy that is not known, or of no possible queue.
    left_out: Vec<Name>,
}

/// Draws the queues as one federation. The jobs that may be moved are numbered in the order in which they were
/// submitted, and all others after them.
fn draw(snapshots: &[ServerSnapshot], now: Time) -> FederationSnapshot<'_> {
    let mut jobs: Vec<(usize, &Movable)> = Vec::new();
    for (cluster, snapshot) in snapshots.iter().enumerate() {
        jobs.extend(snapshot.movable.iter().map(|job| (cluster, job)));
    }
    // A job that is just being taken over may be in two snapshots: the server it came to last counts.
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
    let (mut clusters, mut drawn, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    let mut places: Vec<Option<ClusterId>> = vec![None; snapshots.len()];
    for (index, snapshot) in snapshots.iter().enumerate() {
        let known = &mut numbers[index];
        let info = &snapshot.info;
        match scheduler(snapshot, now, |job| *known.entry(job).or_insert_with(&mut fresh)) {
            Some(scheduler) => {
                places[index] = Some(ClusterId(clusters.len() as u32));
                clusters.push(FederatedCluster {
                    procs: info.procs,
                    speed: info.speed,
                    tuner: snapshot.tuner,
                    scheduler,
                    open: snapshot.closed.is_none(),
                });
                drawn.push(snapshot);
            }
            None => left_out.push(info.name.clone()),
        }
    }
    let tracked = (0..).zip(&jobs).filter_map(|(number, (cluster, job))| {
        let request = job.work.request(JobId(number), job.submitted).owned_by(job.owner);
        let reason = Reason::Mapped(pliant_model::MapReason::EarliestCompletion);
        Some(Tracked { request, cluster: places[*cluster]?, moves: job.moves, reason })
    });
    let mut federation = Federation::from_clusters(clusters, tracked.collect::<Vec<_>>());
    for (number, (_, job)) in (0..).zip(&jobs) {
        for (cluster, snapshot) in (0..).zip(&drawn) {
            if job.siblings.contains(&snapshot.info.name) {
                federation.add_sibling(JobId(number), ClusterId(cluster));
            }
            if job.avoids.contains(&snapshot.info.name) {
                federation.exclude(JobId(number), ClusterId(cluster));
            }
        }
    }
    FederationSnapshot { federation, drawn, jobs: jobs.into_iter().map(|(_, job)| job).collect(), left_out }
}

/// The batch system of a snapshot, with its jobs under other numbers; none if the snapshot makes no sense.
fn scheduler(
    snapshot: &ServerSnapshot,
    now: Time,
    mut number: impl FnMut(JobId) -> JobId,
) -> Option<Box<dyn BatchScheduler>> {
    if snapshot.info.procs.0 == 0 {
        // Nothing was listed of its cluster yet.
        return None;
    }
    if let Some(nodes) = &snapshot.nodes {
        let mut nodes = nodes.clone();
        nodes.running.iter_mut().for_each(|one| one.job = number(one.job));
        nodes.pending.iter_mut().for_each(|one| one.job = number(one.job));
        return Some(Box::new(Nodes::from_snapshot(now, &nodes).ok()?));
    }
    let queue = snapshot.queue.clone().renumbered(number);
    let policy: LocalPolicy = snapshot.info.policy.parse().ok()?;
    let mut scheduler = policy.scheduler(snapshot.info.procs, now);
    scheduler.restore(now, &queue).ok()?;
    Some(scheduler)
}
