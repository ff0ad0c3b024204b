//! What is looked at after every event. Of a daemon that is down what its journal says is looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use pliant_control::agent::Agent;
use pliant_control::job::{Exit, JobRecord, JobState};
use pliant_control::names::{Handle, Key};
use pliant_control::server::{Answer, Command, Server};

use super::daemon::Daemon;
use super::world::ServerNode;

/// Something that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which checker says so.
    pub checker: &'static str,
    /// What it has found.
    pub what: String,
}

impl Violation {
    pub(super) fn new(checker: &'static str, what: String) -> Violation {
        Violation { checker, what }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.checker, self.what)
    }
}

impl std::error::Error for Violation {}

/// How a job stands at one server.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Place {
    /// It waits here, and may be started.
    waits: bool,
    runs: bool,
    ended: bool,
    /// It was withdrawn here, and the target has to take it.
    leaves: bool,
}

impl Place {
    /// This server has started the job, or may.
    fn claims(self) -> bool {
        self.waits || self.runs || self.ended
    }
}

/// What is known of an accepted job.
#[derive(Default)]
struct Accepted {
    starts: u32,
    /// Its owner was told that it is cancelled when it had started so often.
    cancelled: Option<u32>,
    /// How it ended, as the last server's archive has it.
    last: Option<JobRecord>,
}

/// What was seen so far.
pub(super) struct Checks {
    pub(super) violation: Option<Violation>,
    jobs: BTreeMap<Handle, Accepted>,
    keys: BTreeMap<Key, Handle>,
    places: Vec<BTreeMap<Handle, Place>>,
    /// How far each agent knew each job to be.
    progress: Vec<BTreeMap<Handle, (usize, u8)>>,
    /// Jobs that others than their owners have cancelled, and jobs whose processes were killed.
    cancelled: BTreeSet<Handle>,
    killed: BTreeSet<Handle>,
}

impl Checks {
    pub(super) fn new(servers: usize, agents: usize) -> Checks {
        Checks {
            violation: None,
            jobs: BTreeMap::new(),
            keys: BTreeMap::new(),
            places: vec![BTreeMap::new(); servers],
            progress: vec![BTreeMap::new(); agents],
            cancelled: BTreeSet::new(),
            killed: BTreeSet::new(),
        }
    }

    /// Only the first one counts.
    pub(super) fn wrong(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    /// The jobs that were accepted.
    pub(super) fn accepted_jobs(&self) -> impl Iterator<Item = &Handle> {
        self.jobs.keys()
    }

    /// How the jobs have ended.
    pub(super) fn last_records(&self) -> impl Iterator<Item = &JobRecord> + Clone {
        self.jobs.values().filter_map(|job| job.last.as_ref())
    }

    /// It is about to be durable that jobs were accepted.
    pub(super) fn accepted(&mut self, index: usize, daemon: &Daemon<Server>) {
        for command in daemon.node.about_to_follow() {
            if let Command::Reply { answer: Answer::Accepted(record), .. } = command {
                let known = self.keys.entry(record.key).or_insert_with(|| record.handle.clone());
                if *known != record.handle {
                    let what = format!(
                        "c{index} accepts {} as {}, it is {known} already",
                        record.key, record.handle
                    );
                    return self.wrong(Violation::new("once", what));
                }
                self.jobs.entry(record.handle.clone()).or_default();
            }
        }
    }

    /// A client was told that its job is accepted.
    pub(super) fn told_accepted(&mut self, handle: &Handle, key: Key) {
        if self.keys.get(&key) != Some(handle) {
            self.wrong(Violation::new(
                "bound",
                format!("{handle} was told to be accepted, no journal says so"),
            ));
        }
    }

    /// A process begins.
    pub(super) fn started(&mut self, index: usize, record: &JobRecord) {
        let job = self.jobs.entry(record.handle.clone()).or_default();
        job.starts += 1;
        let starts = job.starts;
        if starts > 1 {
            let what = format!("{} is run again, by c{index}: {starts} times", record.handle);
            self.wrong(Violation::new("once", what));
        }
    }

    /// Somebody else than its owner has cancelled a job.
    pub(super) fn cancelled_by_others(&mut self, job: &Handle) {
        self.cancelled.insert(job.clone());
    }

    /// The processes of a job were killed, with its supervisor.
    pub(super) fn killed(&mut self, job: &Handle) {
        self.killed.insert(job.clone());
    }

    /// An owner was told that a job has ended or is about to be ended.
    pub(super) fn cancelled(&mut self, record: &JobRecord) {
        if let Some(job) = self.jobs.get_mut(&record.handle) {
            job.cancelled = Some(job.starts);
        }
    }

    /// The state of a server has changed.
    pub(super) fn server_changed(&mut self, index: usize, servers: &[ServerNode]) {
        let mut places: BTreeMap<Handle, Place> = BTreeMap::new();
        let machine = &servers[index].daemon.node.machine;
        for (record, is_withdrawn) in machine.jobs_and_withdrawn() {
            let is_here = *record.server() == servers[index].name;
            let place = places.entry(record.handle.clone()).or_default();
            match record.state {
                _ if !is_here => {}
                JobState::New | JobState::Queued if is_withdrawn => place.leaves = true,
                JobState::New | JobState::Queued => place.waits = true,
                JobState::Active => place.runs = true,
                JobState::Completed | JobState::Failed | JobState::Canceled => place.ended = true,
            }
            let is_excused = match &record.exit {
                Some(Exit::Lost(_)) => self.killed.contains(&record.handle),
                Some(Exit::NotStarted(_)) => self.cancelled.contains(&record.handle),
                _ => true,
            };
            if let Some(exit) = record.exit.as_ref().filter(|_| !is_excused) {
                let what = format!("{} has ended at c{index} without an end: {exit}", record.handle);
                self.violation.get_or_insert(Violation::new("bound", what));
            }
        }
        let before = std::mem::replace(&mut self.places[index], places);
        let after = self.places[index].clone();
        let changed =
            before.iter().filter(|(job, place)| after.get(*job) != Some(*place)).map(|(job, _)| job);
        let changed = changed.chain(after.keys().filter(|job| !before.contains_key(*job)));
        for job in changed {
            self.check_place(job, servers);
        }
    }

    fn check_place(&mut self, job: &Handle, servers: &[ServerNode]) {
        let at = |has: fn(Place) -> bool| -> Vec<usize> {
            let places = self.places.iter().enumerate();
            places
                .filter(|(_, places)| places.get(job).is_some_and(|one| has(*one)))
                .map(|(at, _)| at)
                .collect()
        };
        let (claims, leaves) = (at(Place::claims), at(|place| place.leaves));
        if claims.len() > 1 {
            let what = format!("servers {claims:?} may start or have started {job}");
            return self.wrong(Violation::new("two servers", what));
        }
        let ended = |server: &ServerNode| {
            let records = [server.daemon.node.archived(job), server.daemon.node.about_to_be_archived(job)];
            records.into_iter().flatten().any(|record| record.state.is_final())
        };
        if claims.is_empty() && leaves.is_empty() && self.jobs.contains_key(job) && !servers.iter().any(ended)
        {
            self.wrong(Violation::new("bound", format!("no server is bound to {job}")));
        }
    }

    /// The state of an agent has changed.
    pub(super) fn agent_changed(&mut self, index: usize, daemon: &Daemon<Agent>) {
        for record in daemon.node.machine.jobs() {
            let progress = record.progress();
            match self.progress[index].get_mut(&record.handle) {
                Some(known) if *known > progress => {
                    let what = format!("a{index} has {} back from {known:?} to {progress:?}", record.handle);
                    return self.wrong(Violation::new("back", what));
                }
                Some(known) => *known = progress,
                None => {
                    self.progress[index].insert(record.handle.clone(), progress);
                }
            }
        }
    }

    /// An agent has lost what its journal does not say.
    pub(super) fn agent_crashed(&mut self, index: usize, daemon: &Daemon<Agent>) {
        let known = daemon.node.archive().chain(daemon.node.machine.jobs());
        self.progress[index] = known.map(|record| (record.handle.clone(), record.progress())).collect();
    }

    /// A job is at its end: `record` is what its last server has of it. What is wrong with that.
    pub(super) fn ended(&mut self, record: &JobRecord) -> Result<(), Violation> {
        let handle = &record.handle;
        let Some(Accepted { starts, cancelled, last }) = self.jobs.get_mut(handle) else { return Ok(()) };
        let wrong = |checker, what| Err(Violation::new(checker, what));
        let was_cancelled = record.exit == Some(Exit::Cancelled);
        *last = Some(record.clone());
        match (*starts, &record.exit) {
            (_, None) => wrong("settled", format!("{handle} has not ended: {}", record.state)),
            _ if self.cancelled.contains(handle) || self.killed.contains(handle) => Ok(()),
            (0, Some(exit)) if !was_cancelled => {
                wrong("once", format!("{handle} never ran, and ended with {exit}"))
            }
            (0, Some(_)) if cancelled.is_none() => {
                wrong("cancelled", format!("{handle} was cancelled, and its owner never heard of it"))
            }
            (starts, Some(exit)) if cancelled.is_some_and(|before| before < starts) && !was_cancelled => {
                wrong("cancelled", format!("{handle} ran after it was cancelled, and ended with {exit}"))
            }
            _ => Ok(()),
        }
    }
}
