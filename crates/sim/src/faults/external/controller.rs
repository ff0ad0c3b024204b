//! A batch system that is not Pliant's, as it is on its host: a queue and nodes, with the habits of Slurm.
//!
//! It saves its state every few seconds. When it is killed and started again it goes on from what it saved: submissions
//! since then are forgotten, and so are releases and cancellations; ids that were given since then are given again.

use std::collections::BTreeMap;

use pliant_control::listing::{
    CoreLayout, ListedJob, Listing, Node, NodeAllocation, Phase, State, Status, WaitReason,
};
use pliant_control::names::Handle;
use pliant_model::{Span, Time};

use super::super::daemon::ORIGIN;

/// How long a job that is over stays in the queue, in milliseconds.
const REMEMBERED: u64 = 20_000;

/// A job of the queue. Times are in milliseconds.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The number in its tag; none if it has no tag of a server.
    pub(super) number: Option<u32>,
    /// The folder that its program is given; none if it is a stranger's.
    pub(super) folder: Option<Handle>,
    pub(super) cores: u32,
    pub(super) walltime: u64,
    /// Its supervisor waits in the room of that number before it begins.
    pub(super) tentative: bool,
    /// An administrator holds it back until then.
    pub(super) kept_until: u64,
    submitted: u64,
    pub(super) stage: Stage,
}

/// What somebody submits.
#[derive(Clone, Debug)]
pub(in super::super) struct Wish {
    pub(super) number: Option<u32>,
    pub(super) folder: Option<Handle>,
    pub(super) cores: u32,
    pub(super) walltime: u64,
    pub(super) held: bool,
    pub(super) tentative: bool,
}

/// How far it is.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Stage {
    Held,
    Pending,
    Runs { since: u64, on: Vec<NodeAllocation> },
    Over { how: How, since: Option<u64>, at: u64 },
}

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum How {
    Completed,
    Failed,
    Cancelled,
}

/// What is said of one job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Glance {
    pub(super) phase: Phase,
    pub(super) ever_started: bool,
    /// An administrator holds it back.
    pub(super) kept: bool,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(in super::super) enum Ask {
    /// The jobs with that tag.
    Find(u32),
    Submit(Wish),
    Hold(String),
    Release(String),
    /// Only if it waits.
    CancelWaiting(String),
    Cancel(String),
    /// The job of that id, if it has that tag.
    Look(u32, String),
    /// Everything, at that time on the clock of whoever asks.
    List(Time),
}

/// What is answered.
#[derive(Clone, Debug)]
pub(in super::super) enum Said {
    Nothing,
    Ids(Vec<String>),
    Done,
    Unknown,
    NotWaiting,
    Job(Option<Glance>),
    Listing(Box<Listing>),
}

#[derive(Clone, Default)]
struct Saved {
    jobs: BTreeMap<u64, Entry>,
    next: u64,
}

/// Every so manieth job waits for something else than its turn, for so many milliseconds.
const STUCK_EVERY: u64 = 7;
const STUCK_FOR: u64 = 300_000;

/// The controller. It outlives nothing but its process: see [`Controller::begin_again`].
pub(super) struct Controller {
    nodes: Vec<u32>,
    pub(super) jobs: BTreeMap<u64, Entry>,
    next: u64,
    saved: Saved,
}

impl Entry {
    pub(super) fn glance(&self, now: u64) -> Glance {
        let ever_started = match &self.stage {
            Stage::Held | Stage::Pending => false,
            Stage::Runs { .. } => true,
            Stage::Over { since, .. } => since.is_some(),
        };
        Glance { phase: self.phase(), ever_started, kept: self.is_kept(now) }
    }

    fn phase(&self) -> Phase {
        match &self.stage {
            Stage::Held | Stage::Pending => Phase::Waiting,
            Stage::Runs { .. } => Phase::Running,
            Stage::Over { .. } => Phase::Ended,
        }
    }

    /// True if it is not over.
    pub(super) fn is_there(&self) -> bool {
        self.phase() != Phase::Ended
    }

    /// True if it waits, and would whatever its owner did.
    fn is_kept(&self, now: u64) -> bool {
        self.phase() == Phase::Waiting && now < self.kept_until
    }

    /// Is held by its owner, or released. There is one hold: an administrator's is not the owner's to change.
    fn hold(&mut self, now: u64, stage: Stage) {
        if !self.is_kept(now) {
            self.stage = stage;
        }
    }

    /// What keeps a job from starting, but for its turn: some jobs, by their ids, wait for something else at first, which no
    /// snapshot shows.
    fn waits_for(&self, id: u64, now: u64) -> Option<WaitReason> {
        if self.is_kept(now) {
            return Some(WaitReason::Other("JobHeldAdmin".to_owned()));
        }
        if !id.is_multiple_of(STUCK_EVERY)
            || now >= self.submitted + STUCK_FOR
            || self.stage != Stage::Pending
        {
            return None;
        }
        Some(match (id / STUCK_EVERY) % 2 {
            0 => WaitReason::Limit("AssocMaxJobsLimit".to_owned()),
            _ => WaitReason::Other("ReqNodeNotAvail".to_owned()),
        })
    }

    fn listed(&self, id: u64, now: u64) -> ListedJob {
        let (state, started, places, ended, status) = match &self.stage {
            Stage::Held => (State::Held, None, Vec::new(), None, None),
            Stage::Pending if self.is_kept(now) => (State::Held, None, Vec::new(), None, None),
            Stage::Pending => (State::Pending, None, Vec::new(), None, None),
            Stage::Runs { since, on } => (State::Running, Some(*since), on.clone(), None, None),
            Stage::Over { how, since, at } => {
                let (state, status) = match how {
                    How::Completed => (State::Completed, Some(Status::Code(0))),
                    How::Failed => (State::Failed, Some(Status::Code(1))),
                    How::Cancelled => (State::Cancelled, None),
                };
                let place = since.map(|_| NodeAllocation { node: "n0".to_owned(), cores: None });
                (state, *since, place.into_iter().collect(), Some(*at), status)
            }
        };
        ListedJob {
            id: id.to_string(),
            ours: self.number,
            state,
            partition: "main".to_owned(),
            shape: CoreLayout { cores: self.cores, ..CoreLayout::default() },
            allocations: places,
            walltime: Some(Span((self.walltime / 1000) as i64)),
            submitted: time(self.submitted),
            started: started.map(time),
            ended: ended.map(time),
            status,
            priority: u64::from(u32::MAX) - id,
            wait_reason: self.waits_for(id, now),
            ..ListedJob::default()
        }
    }
}

fn time(at: u64) -> Time {
    Time(ORIGIN.0 + (at / 1000) as i64)
}

impl Controller {
    pub(super) fn new(nodes: Vec<u32>) -> Controller {
        Controller { nodes, jobs: BTreeMap::new(), next: 1, saved: Saved { next: 1, ..Saved::default() } }
    }

    pub(super) fn cores(&self) -> u32 {
        self.nodes.iter().sum()
    }

    /// Takes a job.
    pub(super) fn submit(&mut self, now: u64, wish: Wish) -> u64 {
        let id = self.next;
        self.next += 1;
        let Wish { number, folder, cores, walltime, held, tentative } = wish;
        let stage = if held { Stage::Held } else { Stage::Pending };
        let kept_until = 0;
        let entry = Entry { number, folder, cores, walltime, tentative, kept_until, submitted: now, stage };
        self.jobs.insert(id, entry);
        id
    }

    /// Does what is asked for, and says what it says then.
    pub(super) fn execute(&mut self, now: u64, ask: &Ask) -> Said {
        match ask {
            Ask::Find(number) => {
                let found = self.jobs.iter().filter(|(_, job)| job.number == Some(*number));
                Said::Ids(found.map(|(id, _)| id.to_string()).collect())
            }
            Ask::Submit(wish) => Said::Ids(vec![self.submit(now, wish.clone()).to_string()]),
            Ask::Hold(id) => self.change(id, |job| job.hold(now, Stage::Held)),
            Ask::Release(id) => self.change(id, |job| job.hold(now, Stage::Pending)),
            Ask::CancelWaiting(id) | Ask::Cancel(id) => self.change(id, |job| {
                job.stage = Stage::Over { how: How::Cancelled, since: None, at: now };
            }),
            Ask::Look(number, id) => {
                let job = id.parse().ok().and_then(|id: u64| self.jobs.get(&id));
                Said::Job(job.filter(|job| job.number == Some(*number)).map(|job| job.glance(now)))
            }
            Ask::List(at) => {
                let node = |(place, cores): (usize, &u32)| Node {
                    name: format!("n{place}"),
                    cores: *cores,
                    partitions: vec!["main".to_owned()],
                    unusable: None,
                };
                let nodes = self.nodes.iter().enumerate().map(node).collect();
                let jobs = self.jobs.iter().map(|(id, job)| job.listed(*id, now)).collect();
                Said::Listing(Box::new(Listing::new(*at, nodes, jobs)))
            }
        }
    }

    /// Changes a job that waits.
    fn change(&mut self, id: &str, change: impl FnOnce(&mut Entry)) -> Said {
        let Some(job) = id.parse().ok().and_then(|id: u64| self.jobs.get_mut(&id)) else {
            return Said::Unknown;
        };
        match job.phase() {
            Phase::Waiting => change(job),
            Phase::Running => return Said::Done,
            Phase::Ended => return Said::NotWaiting,
        }
        Said::Done
    }

    /// A job that runs is over.
    pub(super) fn over(&mut self, id: u64, how: How, now: u64) {
        if let Some(Entry { stage, .. }) = self.jobs.get_mut(&id)
            && let Stage::Runs { since, .. } = stage
        {
            *stage = Stage::Over { how, since: Some(*since), at: now };
        }
    }

    /// Starts, in the order of their ids, the jobs for which there is room, and forgets what was over long ago. Returns
    /// which.
    pub(super) fn start(&mut self, now: u64) -> Vec<u64> {
        self.jobs.retain(|_, job| !matches!(&job.stage, Stage::Over { at, .. } if at + REMEMBERED <= now));
        let mut free = self.nodes.clone();
        for job in self.jobs.values() {
            if let Stage::Runs { on, .. } = &job.stage {
                for NodeAllocation { node, cores } in on {
                    let place = node.trim_start_matches('n').parse::<usize>().unwrap_or(0);
                    free[place] -= cores.unwrap_or(0);
                }
            }
        }
        let mut started = Vec::new();
        for (id, job) in self.jobs.iter_mut().filter(|(_, job)| job.stage == Stage::Pending) {
            if job.cores > free.iter().sum() || job.waits_for(*id, now).is_some() {
                continue;
            }
            let mut left = job.cores;
            let mut on = Vec::new();
            for (place, free) in free.iter_mut().enumerate() {
                let taken = left.min(*free);
                if taken > 0 {
                    (left, *free) = (left - taken, *free - taken);
                    on.push(NodeAllocation { node: format!("n{place}"), cores: Some(taken) });
                }
            }
            job.stage = Stage::Runs { since: now, on };
            started.push(*id);
        }
        started
    }

    /// Saves its state.
    pub(super) fn save(&mut self) {
        self.saved = Saved { jobs: self.jobs.clone(), next: self.next };
    }

    /// Is started again after it was killed. Returns what it was before.
    pub(super) fn begin_again(&mut self) -> BTreeMap<u64, Entry> {
        let Saved { jobs, next } = self.saved.clone();
        self.next = next;
        std::mem::replace(&mut self.jobs, jobs)
    }
}
