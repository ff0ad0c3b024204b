//! Jobs as the federation records them: the request, the promise and the result.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pliant_model::{
    Estimate, JobId, MoveReason, Procs, Request, Resources, Span, SpanMs, Speed, Speedup, Time,
};
use serde::{Deserialize, Serialize};

use crate::names::{Handle, Key, Name, User};
use crate::reason::DiscoverySummary;
use crate::signed::{HandoffSignature, SignedClaim};

/// The state of a job, named as in PSI/J (Portable Submission Interface for Jobs).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum JobState {
    /// Accepted by the server, not yet in its batch system's queue.
    New,
    /// Waits in the queue.
    Queued,
    /// Runs.
    Active,
    /// The process ended with exit code 0.
    Completed,
    /// The job ended in any other way: see [`JobRecord::exit`].
    Failed,
    /// Cancelled by its owner or an operator.
    Canceled,
}

impl JobState {
    /// Every state, in the order in which a job goes through them.
    pub const ALL: [JobState; 6] = [
        JobState::New,
        JobState::Queued,
        JobState::Active,
        JobState::Completed,
        JobState::Failed,
        JobState::Canceled,
    ];

    /// True if the state is final.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled)
    }

    /// The name in user interfaces and scripts.
    pub fn word(self) -> &'static str {
        match self {
            Self::New => "NEW",
            Self::Queued => "QUEUED",
            Self::Active => "ACTIVE",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Canceled => "CANCELED",
        }
    }

    /// The state with that name.
    pub fn from_word(word: &str) -> Option<JobState> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// The shape of requested work, on a cluster of speed 1.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Work {
    /// The processors that `walltime` refers to.
    pub procs: Procs,
    /// Walltime on `procs` processors of speed 1.
    pub walltime: Span,
    /// True if it is the same on processors of every speed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub fixed_time: bool,
    /// The change of the walltime with the number of processors.
    pub speedup: Speedup,
    /// What it needs besides processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Arc<Resources>>,
    /// The earliest start; none if it may start at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<Time>,
    /// The latest completion; none if it may complete at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// How far it stands back behind other jobs of its owner: those with a lower number go first.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub nice: u32,
    /// How often it is run again, from its beginning, after a node failed under it.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub requeue: u32,
}

impl Work {
    /// Whether it names a partition, an account or a quality of service: these are of the cluster that accepted it.
    pub fn names_batch_options(&self) -> bool {
        self.resources.as_ref().is_some_and(|needed| !needed.batch.is_empty())
    }

    /// Work that needs nothing but processors.
    pub fn new(procs: Procs, walltime: Span, speedup: Speedup) -> Work {
        Work {
            procs,
            walltime,
            fixed_time: false,
            speedup,
            resources: None,
            begin: None,
            deadline: None,
            nice: 0,
            requeue: 0,
        }
    }

    /// The request that policies see.
    pub fn request(&self, id: JobId, submit: Time) -> Request {
        let Work { procs, walltime, fixed_time, speedup, resources, .. } = self.clone();
        Request { fixed_time, resources, ..Request::new(id, submit, procs, walltime, speedup) }
    }

    /// The same estimate, but not before the work may start.
    pub fn not_before_begin(&self, estimate: Estimate) -> Estimate {
        Estimate { start: estimate.start.max(self.begin.unwrap_or(estimate.start)), ..estimate }
    }

    /// From when the work waits for processors, if it was submitted at that time: not before it may start. Its age counts from then on.
    pub fn eligible(&self, submitted: Time) -> Time {
        submitted.max(self.begin.unwrap_or(submitted))
    }

    /// The GPUs in all of this work in a shape that it gets on processors of `speed`; none if it asks for none. A table may have
    /// given it 0.
    pub fn gpus_in(&self, procs: Procs, walltime: Span, speed: Speed) -> Option<u32> {
        if matches!(self.speedup, Speedup::GpuTable(_)) {
            return Some(self.request(JobId(0), Time::ZERO).gpus_at(speed, procs, walltime));
        }
        let Resources { gpus, nodes, .. } = self.resources.as_deref()?;
        let all = gpus.as_ref()?.count.in_all(procs);
        // Each of a fixed number of nodes has equally many.
        Some(nodes.map_or(all, |nodes| all.div_ceil(nodes.max(1)).saturating_mul(nodes)))
    }

    /// The same work on the fewest allowed processors only, which has the highest throughput when many such works wait.
    /// None if its speedup model allows no size.
    pub fn narrowest(&self) -> Option<Work> {
        let request = self.request(JobId(0), Time::ZERO);
        let walltimes = request.on(Procs(u32::MAX), Speed::REFERENCE)?;
        // On fewer it would have none on some of its nodes.
        let nodes = request.resources.as_ref().and_then(|needed| needed.nodes).map(Procs);
        let procs =
            walltimes.least().max(nodes.filter(|nodes| *nodes <= walltimes.most()).unwrap_or_default());
        let walltime = walltimes.at(procs);
        let resources = request.resources_at(Speed::REFERENCE, procs, walltime);
        Some(Work { procs, walltime, speedup: Speedup::Rigid, resources, ..self.clone() })
    }
}

/// How a job's process ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// The process exited with this code.
    Code(i32),
    /// The process died by this signal, which neither the walltime nor a cancellation sent.
    Signal(i32),
    /// The job exceeded its walltime and was killed.
    OverWalltime,
    /// The job used more memory, processes or disk space than it may and was killed: what it exceeded.
    OverLimit(String),
    /// The job was cancelled.
    Cancelled,
    /// The program could not be started; the reason.
    NotStarted(String),
    /// The end was not observed: the machine or the job's supervisor went down during the run; how that was found. The job
    /// is not run again: it may not be, or not any more ([`Work::requeue`]).
    Lost(String),
}

impl Exit {
    /// The final state of a job with this exit.
    pub fn state(&self) -> JobState {
        match self {
            Self::Code(0) => JobState::Completed,
            Self::Cancelled => JobState::Canceled,
            _ => JobState::Failed,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::OverWalltime => write!(f, "over its walltime"),
            Self::OverLimit(what) => write!(f, "over a limit: {what}"),
            Self::Cancelled => write!(f, "cancelled"),
            Self::NotStarted(why) => write!(f, "could not be started: {why}"),
            Self::Lost(why) => write!(f, "lost: {why}"),
        }
    }
}

/// An estimate that was compared before a job was submitted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ComparedEstimate {
    /// The server that gave the estimate.
    pub server: Name,
    /// The estimate.
    pub estimate: Estimate,
}

/// The most changes of the estimate of a job that are kept.
pub const ESTIMATES_MAX: usize = 32;

/// A changed plan of a waiting job.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct EstimateChange {
    /// When the server noticed the change.
    pub at: Time,
    /// The plan from then on.
    pub plan: Estimate,
}

/// A move of a waiting job from one server to another.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Hop {
    /// The server where the job waited.
    pub from: Name,
    /// The server where the job waits from then on.
    pub to: Name,
    /// The successful attempt: see [`HandoffId`](crate::handoff::HandoffId).
    pub attempt: u32,
    /// When the new server took the job.
    pub at: Time,
    /// The completion that was expected at `from`; [`Time::MAX`] if the job was not planned there.
    pub before: Time,
    /// The estimate that the new server promised.
    pub expected: Estimate,
    /// The reason for the move.
    pub reason: MoveReason,
    /// The signature of the server `from`. None in what that server says itself, and in what agents keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<Box<HandoffSignature>>,
}

impl Hop {
    /// True if two records say the same move.
    pub fn is_same(&self, other: &Hop) -> bool {
        (&self.from, &self.to, self.attempt) == (&other.from, &other.to, other.attempt)
    }
}

/// How long a job first avoids a server that did not plan it.
const AVOIDED_FOR: Span = Span(3_600);

/// The servers that a job must not return to for now. It waited there without a plan, for a reason that a snapshot may not
/// show (a reservation, a limit on its owner), so these servers would always seem better. A server is avoided for an hour,
/// and each further time for twice as long.
pub fn avoided_servers(hops: &[Hop], now: Time) -> Vec<Name> {
    let mut until: BTreeMap<&Name, (Time, Span)> = BTreeMap::new();
    for hop in hops.iter().filter(|hop| hop.before == Time::MAX) {
        let (end, pause) = until.entry(&hop.from).or_insert((Time(i64::MIN), AVOIDED_FOR));
        *end = hop.at + *pause;
        *pause = Span((pause.0 * 2).min(i64::MAX / 8));
    }
    until.into_iter().filter(|(_, (end, _))| now < *end).map(|(server, _)| server.clone()).collect()
}

/// The server from which a job came to that one last, by its path; none if the job was submitted there.
pub fn handed_over_by<'a>(hops: &'a [Hop], to: &Name) -> Option<&'a Name> {
    hops.iter().rev().find(|hop| hop.to == *to).map(|hop| &hop.from)
}

/// The record of a job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobRecord {
    /// The job's ID.
    pub handle: Handle,
    /// The key of the submission.
    pub key: Key,
    /// The job's owner.
    pub owner: User,
    /// The service, or the script's name.
    pub name: String,
    /// The requested work.
    pub work: Work,
    /// The job's state.
    pub state: JobState,
    /// When it was accepted.
    pub submitted: Time,
    /// The estimate that the server promised on acceptance: the shape in which the job was queued, its start and
    /// completion.
    pub expected: Estimate,
    /// The processors that it runs or ran on: fewer than expected for a folded job.
    pub procs: Procs,
    /// The walltime on these processors.
    pub walltime: Span,
    /// When it started.
    pub started: Option<Time>,
    /// When it ended.
    pub ended: Option<Time>,
    /// The exit, once it has ended.
    pub exit: Option<Exit>,
    /// How often it was queued again after a node had failed under it: the number of its earlier runs.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub requeues: u32,
    /// The estimates that were compared; empty in status updates to agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compared: Vec<ComparedEstimate>,
    /// The summary of the discovery; empty in status updates to agents.
    #[serde(default, skip_serializing_if = "DiscoverySummary::is_empty")]
    pub discovery: DiscoverySummary,
    /// True if the user chose the server: the job is not moved.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pinned: bool,
    /// The moves of the job since it was accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<Hop>,
    /// The runtime sample for its service, once the job has ended well: on a processor of speed 1 and the fewest that the
    /// work takes, divided by the factor of the arguments. Scripts give none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_runtime: Option<SpanMs>,
    /// The runtime in the same terms, but not divided by the factor of the arguments; of a batch the mean of its instances.
    /// Servers of earlier versions do not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<SpanMs>,
    /// The size that would have completed first, if the server chose another one for the sake of other jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_choice: Option<SizeChoice>,
    /// The GPUs in all in that shape. None if the work asks for none, and from servers of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// How its server planned it while it waited, as that changed; empty in status updates to agents, and after a move.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub estimates: Vec<EstimateChange>,
    /// The user's signature. None in what agents keep, in archives, and for clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Box<SignedClaim>>,
}

/// The cost of a size that the server chose for the sake of other jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SizeChoice {
    /// The estimate for the size that completes first.
    pub earliest: Estimate,
    /// The number of other jobs that ran or waited on the cluster.
    pub other_jobs: u32,
}

/// True if a flag is not set: serialization then omits the field.
pub(crate) fn is_false(value: &bool) -> bool {
    !value
}

impl JobRecord {
    /// Gives the job a shape on processors of `speed`.
    pub(crate) fn shape(&mut self, procs: Procs, walltime: Span, speed: Speed) {
        (self.procs, self.walltime) = (procs, walltime);
        self.gpus = self.work.gpus_in(procs, walltime, speed);
    }

    /// The last instant at which the job can start and end before its deadline, by its expected walltime; none without a deadline.
    pub fn latest_start(&self) -> Option<Time> {
        Some(self.work.deadline? - self.expected.walltime)
    }

    /// True if the job never ran because its deadline could not be kept any more.
    pub fn is_given_up(&self) -> bool {
        let is_after = |ended: Time| self.latest_start().is_some_and(|latest| latest < ended);
        let did_not_start = matches!(self.exit, Some(Exit::NotStarted(_))) && self.started.is_none();
        did_not_start && self.ended.is_some_and(is_after)
    }

    /// The server that has the job.
    pub fn server(&self) -> &Name {
        self.hops.last().map_or(&self.handle.server, |hop| &hop.to)
    }

    /// The record without the signatures of its user and of its moves, which are for servers and for the agents that check them.
    pub fn without_signatures(mut self) -> JobRecord {
        self.claim = None;
        for hop in &mut self.hops {
            hop.signed = None;
        }
        self
    }

    /// The record as it is archived where the job has left: without the user's signature, which its present server needs.
    pub(crate) fn without_claim(&self) -> JobRecord {
        JobRecord { claim: None, ..self.clone() }
    }

    /// The job's progress: of two records of a job the one with more progress is newer. First its moves, then its runs and its state:
    /// three steps for each run.
    pub fn progress(&self) -> (usize, u32) {
        let state = match self.state {
            JobState::New | JobState::Queued => 0,
            JobState::Active => 1,
            JobState::Completed | JobState::Failed | JobState::Canceled => 2,
        };
        (self.hops.len(), self.requeues.saturating_mul(3).saturating_add(state))
    }

    /// From when the job waited for processors: from the instant on at which it might start, unless it started before, as a user
    /// of an external batch system may have it.
    pub fn eligible(&self) -> Time {
        let eligible = self.work.eligible(self.submitted);
        self.started.map_or(eligible, |started| eligible.min(started))
    }

    /// The start minus the expected start; negative if earlier.
    pub fn start_error(&self) -> Option<Span> {
        Some(self.started? - self.expected.start)
    }

    /// The end minus the expected completion; negative if earlier. None for a job that never ran.
    pub fn completion_error(&self) -> Option<Span> {
        self.started?;
        Some(self.ended? - self.expected.completion())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_a_distinct_name_that_is_also_serialized() {
        for state in JobState::ALL {
            assert_eq!(JobState::from_word(state.word()), Some(state));
            assert_eq!(serde_json::to_string(&state).unwrap(), format!("\"{}\"", state.word()));
        }
        assert_eq!(JobState::from_word("queued"), None);
    }

    #[test]
    fn a_job_avoids_servers_that_did_not_plan_it_for_growing_times() {
        const H: i64 = 3_600;
        let hop = |from: &str, at, before| Hop {
            from: from.parse().unwrap(),
            to: "paris".parse().unwrap(),
            attempt: 1,
            at: Time(at),
            before,
            expected: Estimate { procs: Procs(1), walltime: Span(60), start: Time(at) },
            reason: MoveReason::EarlierCompletion,
            signed: None,
        };
        let hops = [
            hop("lyon", 0, Time::MAX),
            hop("nancy", 10, Time(20)),
            hop("lyon", 2 * H, Time::MAX),
            hop("nancy", 2 * H, Time::MAX),
        ];
        let check = |hops: &[Hop], now, expected: &[&str]| {
            let found = avoided_servers(hops, Time(now));
            assert_eq!(found.iter().map(Name::as_str).collect::<Vec<_>>(), expected, "at {now}");
        };
        check(&hops[..2], H - 1, &["lyon"]);
        check(&hops[..2], H, &[]);
        check(&hops, 3 * H - 1, &["lyon", "nancy"]);
        check(&hops, 3 * H, &["lyon"]);
        check(&hops, 4 * H, &[]);
    }

    #[test]
    fn only_code_0_completes() {
        assert_eq!(Exit::Code(0).state(), JobState::Completed);
        assert_eq!(Exit::Cancelled.state(), JobState::Canceled);
        let failed = [Exit::Code(1), Exit::Signal(9), Exit::OverWalltime, Exit::NotStarted(String::new())];
        assert!(failed.iter().all(|exit| exit.state() == JobState::Failed));
    }
}
