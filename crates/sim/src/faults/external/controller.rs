//! The controller of an external batch system: a queue and nodes that behave as Slurm's.
//!
//! It saves its state every few seconds. After a kill it restarts from its saved state: later submissions, releases and
//! cancellations are forgotten, and ids given since then are given again.

use std::collections::BTreeMap;
use std::sync::Arc;

use pliant_control::listing::{
    CoreLayout, ListedJob, Listing, NodeAllocation, Phase, State, Status, WaitReason,
};
use pliant_model::{Resources, Span, Time};

use super::super::daemon::ORIGIN;
use super::folders::RunFolder;
use super::node_resources::{NodeResources, RequestedNodes};

/// How long an ended job stays in the queue, in milliseconds.
const KEEPS_ENDED_FOR: u64 = 20_000;

/// A job of the queue. Times are in milliseconds.
#[derive(Clone, Debug)]
pub(super) struct QueueEntry {
    /// The job number in its tag; none without a tag of a server.
    pub(super) number: Option<u32>,
    /// The folder passed to its program; none for a local user's job.
    pub(super) folder: Option<RunFolder>,
    pub(super) requested: RequestedNodes,
    pub(super) walltime: u64,
    /// Its supervisor waits at the start gate of that number before it runs the job.
    pub(super) tentative: bool,
    /// An administrator holds it until then.
    pub(super) admin_held_until: u64,
    submitted: u64,
    pub(super) stage: Stage,
}

/// A submission to the controller.
#[derive(Clone, Debug)]
pub(in super::super) struct Submission {
    pub(super) number: Option<u32>,
    pub(super) folder: Option<RunFolder>,
    pub(super) cores: u32,
    /// What it needs besides.
    pub(super) resources: Option<Arc<Resources>>,
    pub(super) walltime: u64,
    pub(super) held: bool,
    pub(super) tentative: bool,
}

/// The stage of a job in the queue.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Stage {
    Held,
    Pending,
    Runs { since: u64, on: Vec<NodeAllocation> },
    Over { end: JobEnd, since: Option<u64>, at: u64 },
}

/// How a job ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum JobEnd {
    Completed,
    Failed,
    Cancelled,
    NodeFailed,
}

/// The status of one job, as the controller reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct JobStatus {
    pub(super) phase: Phase,
    pub(super) ever_started: bool,
    /// An administrator holds it.
    pub(super) admin_held: bool,
}

/// A request to the controller.
#[derive(Clone, Debug)]
pub(in super::super) enum ControllerRequest {
    /// Finds the jobs with that tag.
    Find(u32),
    Submit(Submission),
    Hold(String),
    Release(String),
    /// Cancels the job only if it waits.
    CancelWaiting(String),
    Cancel(String),
    /// Returns the status of the job of that id, if it has that tag.
    Status(u32, String),
    /// Lists all jobs, at that time on the clock of the server.
    List(Time),
}

/// An answer of the controller; `Nothing` if none came in time.
#[derive(Clone, Debug)]
pub(in super::super) enum ControllerAnswer {
    Nothing,
    Ids(Vec<String>),
    Done,
    Unknown,
    NotWaiting,
    Job(Option<JobStatus>),
    Listing(Box<Listing>),
}

#[derive(Clone, Default)]
struct Saved {
    jobs: BTreeMap<u64, QueueEntry>,
    next: u64,
}

/// Each job whose id is a multiple of this waits for another reason than processors, for at most so many milliseconds.
const OTHER_REASON_EVERY: u64 = 7;
const OTHER_REASON_FOR: u64 = 300_000;

/// The controller. What it saved survives its process: see [`Controller::restart`].
pub(super) struct Controller {
    nodes: NodeResources,
    /// It starts jobs that lack memory, GPUs or licences ([`super::Bug::OverCommits`]).
    pub(super) counts_cores_alone: bool,
    /// It places jobs as if each of their tasks had one core ([`super::Bug::SplitsTasks`]).
    pub(super) splits_tasks: bool,
    pub(super) jobs: BTreeMap<u64, QueueEntry>,
    next: u64,
    saved: Saved,
}

impl QueueEntry {
    pub(super) fn status(&self, now: u64) -> JobStatus {
        let ever_started = match &self.stage {
            Stage::Held | Stage::Pending => false,
            Stage::Runs { .. } => true,
            Stage::Over { since, .. } => since.is_some(),
        };
        JobStatus { phase: self.phase(), ever_started, admin_held: self.is_admin_held(now) }
    }

    fn phase(&self) -> Phase {
        match &self.stage {
            Stage::Held | Stage::Pending => Phase::Waiting,
            Stage::Runs { .. } => Phase::Running,
            Stage::Over { .. } => Phase::Ended,
        }
    }

    /// True if it has not ended.
    pub(super) fn is_open(&self) -> bool {
        self.phase() != Phase::Ended
    }

    /// True if an administrator holds it, which its owner cannot change.
    fn is_admin_held(&self, now: u64) -> bool {
        self.phase() == Phase::Waiting && now < self.admin_held_until
    }

    /// Holds or releases the job for its owner, unless an administrator holds it.
    fn hold(&mut self, now: u64, stage: Stage) {
        if !self.is_admin_held(now) {
            self.stage = stage;
        }
    }

    /// Why a job does not start although it may fit. Some ids wait at first for a reason that no snapshot shows.
    fn wait_reason(&self, id: u64, now: u64) -> Option<WaitReason> {
        if self.is_admin_held(now) {
            return Some(WaitReason::Other("JobHeldAdmin".to_owned()));
        }
        if !id.is_multiple_of(OTHER_REASON_EVERY)
            || now >= self.submitted + OTHER_REASON_FOR
            || self.stage != Stage::Pending
        {
            return None;
        }
        Some(match (id / OTHER_REASON_EVERY) % 2 {
            0 => WaitReason::Limit("AssocMaxJobsLimit".to_owned()),
            _ => WaitReason::Other("ReqNodeNotAvail".to_owned()),
        })
    }

    fn listed(&self, id: u64, now: u64) -> ListedJob {
        let (state, started, allocations, ended, status) = match &self.stage {
            Stage::Held => (State::Held, None, Vec::new(), None, None),
            Stage::Pending if self.is_admin_held(now) => (State::Held, None, Vec::new(), None, None),
            Stage::Pending => (State::Pending, None, Vec::new(), None, None),
            Stage::Runs { since, on } => (State::Running, Some(*since), on.clone(), None, None),
            Stage::Over { end, since, at } => {
                let (state, status) = match end {
                    JobEnd::Completed => (State::Completed, Some(Status::Code(0))),
                    JobEnd::Failed => (State::Failed, Some(Status::Code(1))),
                    JobEnd::Cancelled => (State::Cancelled, None),
                    JobEnd::NodeFailed => (State::NodeFailed, None),
                };
                let allocation = since.map(|_| NodeAllocation::new("n0", None));
                (state, *since, allocation.into_iter().collect(), Some(*at), status)
            }
        };
        ListedJob {
            id: id.to_string(),
            job_number: self.number,
            state,
            partition: "main".to_owned(),
            shape: CoreLayout {
                cores: self.requested.cores,
                exclusive: self.requested.exclusive,
                ..CoreLayout::default()
            },
            requested: self.requested.resources.clone(),
            allocations,
            walltime: Some(Span((self.walltime / 1000) as i64)),
            submitted: time(self.submitted),
            started: started.map(time),
            ended: ended.map(time),
            status,
            priority: u64::from(u32::MAX) - id,
            wait_reason: self.wait_reason(id, now),
            ..ListedJob::default()
        }
    }
}

fn time(at: u64) -> Time {
    Time(ORIGIN.0 + (at / 1000) as i64)
}

impl Controller {
    pub(super) fn new(nodes: NodeResources) -> Controller {
        Controller {
            nodes,
            counts_cores_alone: false,
            splits_tasks: false,
            jobs: BTreeMap::new(),
            next: 1,
            saved: Saved { next: 1, ..Saved::default() },
        }
    }

    pub(super) fn nodes(&self) -> &NodeResources {
        &self.nodes
    }

    /// What the running jobs have.
    fn running(&self) -> impl Iterator<Item = (&RequestedNodes, &[NodeAllocation])> {
        self.jobs.values().filter_map(|job| match &job.stage {
            Stage::Runs { on, .. } => Some((&job.requested, &on[..])),
            _ => None,
        })
    }

    /// What running jobs have of nodes or licences beyond what there is.
    pub(super) fn over_commitment(&self) -> Option<String> {
        self.nodes.free(self.running()).err()
    }

    /// Queues a job; returns its id.
    pub(super) fn submit(&mut self, now: u64, submission: Submission) -> u64 {
        let id = self.next;
        self.next += 1;
        let Submission { number, folder, cores, resources, walltime, held, tentative } = submission;
        let requested = self.nodes.requested(cores, resources.as_deref());
        let stage = if held { Stage::Held } else { Stage::Pending };
        let admin_held_until = 0;
        let entry = QueueEntry {
            number,
            folder,
            requested,
            walltime,
            tentative,
            admin_held_until,
            submitted: now,
            stage,
        };
        self.jobs.insert(id, entry);
        id
    }

    /// Executes a request and returns the answer.
    pub(super) fn execute(&mut self, now: u64, ask: &ControllerRequest) -> ControllerAnswer {
        match ask {
            ControllerRequest::Find(number) => {
                let found = self.jobs.iter().filter(|(_, job)| job.number == Some(*number));
                ControllerAnswer::Ids(found.map(|(id, _)| id.to_string()).collect())
            }
            ControllerRequest::Submit(submission) => {
                ControllerAnswer::Ids(vec![self.submit(now, submission.clone()).to_string()])
            }
            ControllerRequest::Hold(id) => self.change(id, |job| job.hold(now, Stage::Held)),
            ControllerRequest::Release(id) => self.change(id, |job| job.hold(now, Stage::Pending)),
            ControllerRequest::CancelWaiting(id) | ControllerRequest::Cancel(id) => self.change(id, |job| {
                job.stage = Stage::Over { end: JobEnd::Cancelled, since: None, at: now };
            }),
            ControllerRequest::Status(number, id) => {
                let job = id.parse().ok().and_then(|id: u64| self.jobs.get(&id));
                ControllerAnswer::Job(
                    job.filter(|job| job.number == Some(*number)).map(|job| job.status(now)),
                )
            }
            ControllerRequest::List(at) => {
                let jobs = self.jobs.iter().map(|(id, job)| job.listed(*id, now)).collect();
                let listing = Listing::new(*at, self.nodes.listed(), jobs);
                let counted = self.nodes.counted();
                ControllerAnswer::Listing(Box::new(Listing { counted, ..listing }))
            }
        }
    }

    /// Changes a waiting job.
    fn change(&mut self, id: &str, change: impl FnOnce(&mut QueueEntry)) -> ControllerAnswer {
        let Some(job) = id.parse().ok().and_then(|id: u64| self.jobs.get_mut(&id)) else {
            return ControllerAnswer::Unknown;
        };
        match job.phase() {
            Phase::Waiting => change(job),
            Phase::Running => return ControllerAnswer::Done,
            Phase::Ended => return ControllerAnswer::NotWaiting,
        }
        ControllerAnswer::Done
    }

    /// Ends a running job.
    pub(super) fn end(&mut self, id: u64, end: JobEnd, now: u64) {
        if let Some(QueueEntry { stage, .. }) = self.jobs.get_mut(&id)
            && let Stage::Runs { since, .. } = stage
        {
            *stage = Stage::Over { end, since: Some(*since), at: now };
        }
    }

    /// Starts the jobs that fit, in the order of their ids, and forgets jobs that ended long ago. Returns the started ids.
    pub(super) fn start(&mut self, now: u64) -> Vec<u64> {
        self.jobs
            .retain(|_, job| !matches!(&job.stage, Stage::Over { at, .. } if at + KEEPS_ENDED_FOR <= now));
        let cores_alone = |requested: &RequestedNodes| RequestedNodes {
            cores: requested.cores,
            ..RequestedNodes::default()
        };
        // The bug counts as if jobs asked for cores alone.
        let counted = |requested: &RequestedNodes| match self.counts_cores_alone {
            true => cores_alone(requested),
            false => requested.clone(),
        };
        let running: Vec<(RequestedNodes, Vec<NodeAllocation>)> =
            self.running().map(|(requested, on)| (counted(requested), on.to_vec())).collect();
        let mut started = Vec::new();
        // More than there is runs only because of the bug: then nothing more starts.
        let free = self.nodes.free(running.iter().map(|(requested, on)| (requested, &on[..])));
        let Ok(mut free) = free else { return started };
        let (counts_cores_alone, splits_tasks) = (self.counts_cores_alone, self.splits_tasks);
        for (id, job) in self.jobs.iter_mut().filter(|(_, job)| job.stage == Stage::Pending) {
            if job.wait_reason(*id, now).is_some() {
                continue;
            }
            let placed = match counts_cores_alone {
                true => self.nodes.place(&mut free, &cores_alone(&job.requested)),
                false if splits_tasks => self.nodes.place(&mut free, &job.requested.without_tasks()),
                false => self.nodes.place(&mut free, &job.requested),
            };
            if let Some(on) = placed {
                job.stage = Stage::Runs { since: now, on };
                started.push(*id);
            }
        }
        started
    }

    /// Saves its state.
    pub(super) fn save(&mut self) {
        self.saved = Saved { jobs: self.jobs.clone(), next: self.next };
    }

    /// Restarts from the saved state. Returns the jobs that it had before.
    pub(super) fn restart(&mut self) -> BTreeMap<u64, QueueEntry> {
        let Saved { jobs, next } = self.saved.clone();
        self.next = next;
        std::mem::replace(&mut self.jobs, jobs)
    }
}
