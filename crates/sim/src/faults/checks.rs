//! The checks after every event. For a daemon that is down they read what its journal holds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use pliant_control::agent::Agent;
use pliant_control::job::{Exit, JobRecord, JobState};
use pliant_control::names::{Handle, Key, User};
use pliant_control::server::{Answer, Command, Server};

use super::daemon::Daemon;
use super::deferrals::is_too_late;
use super::limits::KnownLimits;
use super::world::ServerNode;

/// An invariant that does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The checker that found it.
    pub checker: &'static str,
    /// What the checker found.
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

/// The state of a job at one server.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Presence {
    /// It waits here and may be started.
    waits: bool,
    runs: bool,
    ended: bool,
    /// It was withdrawn here, and the target of the move has to take it.
    leaves: bool,
}

impl Presence {
    /// True if this server has started the job or may start it.
    fn claims(self) -> bool {
        self.waits || self.runs || self.ended
    }
}

/// What the checker keeps of an accepted job.
#[derive(Default)]
struct Accepted {
    starts: u32,
    /// The number of its starts when its owner was notified that it is cancelled.
    cancelled: Option<u32>,
    /// Its final record, from the archive of its last server.
    last: Option<JobRecord>,
}

/// The state of the checker.
pub(super) struct Checks {
    pub(super) violation: Option<Violation>,
    jobs: BTreeMap<Handle, Accepted>,
    keys: BTreeMap<Key, Handle>,
    presences: Vec<BTreeMap<Handle, Presence>>,
    /// The latest progress of each job that each agent has recorded.
    progress: Vec<BTreeMap<Handle, (usize, u32)>>,
    /// Jobs cancelled by an administrator, and jobs whose processes were killed.
    cancelled: BTreeSet<Handle>,
    killed: BTreeSet<Handle>,
    /// How often nodes have failed under each job.
    node_failures: BTreeMap<Handle, u32>,
    /// Servers that an operator knows to be drained.
    pub(super) drained: BTreeSet<usize>,
    /// Jobs that an operator knows to be held.
    held: BTreeSet<Handle>,
    /// Users whom an operator knows to be banned at a server.
    pub(super) banned: BTreeSet<(usize, User)>,
    /// Jobs that had started when an operator knew their owner to be banned.
    pub(super) started_before_bans: BTreeSet<Handle>,
    /// Limits that an operator knows, by server and user.
    pub(super) limits: BTreeMap<(usize, User), KnownLimits>,
}

impl Checks {
    pub(super) fn new(servers: usize, agents: usize) -> Checks {
        Checks {
            violation: None,
            jobs: BTreeMap::new(),
            keys: BTreeMap::new(),
            presences: vec![BTreeMap::new(); servers],
            progress: vec![BTreeMap::new(); agents],
            cancelled: BTreeSet::new(),
            killed: BTreeSet::new(),
            node_failures: BTreeMap::new(),
            drained: BTreeSet::new(),
            held: BTreeSet::new(),
            banned: BTreeSet::new(),
            started_before_bans: BTreeSet::new(),
            limits: BTreeMap::new(),
        }
    }

    /// Reports a violation. The first one stays.
    pub(super) fn report_violation(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    /// The jobs that were accepted.
    pub(super) fn accepted_jobs(&self) -> impl Iterator<Item = &Handle> {
        self.jobs.keys()
    }

    /// The final records of all jobs.
    pub(super) fn last_records(&self) -> impl Iterator<Item = &JobRecord> + Clone {
        self.jobs.values().filter_map(|job| job.last.as_ref())
    }

    /// Records the jobs whose acceptance the next commit makes durable.
    pub(super) fn accepted(&mut self, index: usize, daemon: &Daemon<Server>) {
        for command in daemon.node.pending_commands() {
            if let Command::Reply { answer: Answer::Accepted(record), .. } = command {
                if self.drained.contains(&index) && !self.keys.contains_key(&record.key) {
                    let what = format!("c{index} accepts {} although it is drained", record.handle);
                    return self.report_violation(Violation::new("drained", what));
                }
                let is_banned = self.banned.contains(&(index, record.owner.clone()));
                if is_banned && !self.keys.contains_key(&record.key) {
                    let what =
                        format!("c{index} accepts {} although {} is banned", record.handle, record.owner);
                    return self.report_violation(Violation::new("banned", what));
                }
                let known = self.keys.entry(record.key).or_insert_with(|| record.handle.clone());
                if *known != record.handle {
                    let what = format!(
                        "c{index} accepts {} as {}, it was accepted as {known} before",
                        record.key, record.handle
                    );
                    return self.report_violation(Violation::new("once", what));
                }
                self.jobs.entry(record.handle.clone()).or_default();
            }
        }
    }

    /// Records that an operator knows a server to be drained.
    pub(super) fn drained(&mut self, index: usize) {
        self.drained.insert(index);
    }

    /// Records that an operator has a server resume, from now on.
    pub(super) fn resumed(&mut self, index: usize) {
        self.drained.remove(&index);
    }

    /// Records that an operator knows a job to be held.
    pub(super) fn held(&mut self, job: Handle) {
        self.held.insert(job);
    }

    /// Records that an operator releases a job, from now on.
    pub(super) fn released(&mut self, job: &Handle) {
        self.held.remove(job);
    }

    /// Checks the acceptance that a client received against the journals.
    pub(super) fn check_acceptance(&mut self, handle: &Handle, key: Key) {
        if self.keys.get(&key) != Some(handle) {
            self.report_violation(Violation::new(
                "bound",
                format!("{handle} was reported as accepted, no journal has that"),
            ));
        }
    }

    /// Records the start of a job's process.
    pub(super) fn started(&mut self, index: usize, record: &JobRecord) {
        if self.held.contains(&record.handle) {
            let what = format!("c{index} starts {} although it is held", record.handle);
            self.report_violation(Violation::new("held", what));
        }
        let job = self.jobs.entry(record.handle.clone()).or_default();
        job.starts += 1;
        let starts = job.starts;
        let lost = self.node_failures.get(&record.handle).copied().unwrap_or(0);
        if starts > 1 + lost.min(record.work.requeue) {
            let what = format!("c{index} runs {} again, {starts} times in all", record.handle);
            self.report_violation(Violation::new("once", what));
        }
    }

    /// Records that an administrator has cancelled a job.
    pub(super) fn cancelled_by_admin(&mut self, job: &Handle) {
        self.cancelled.insert(job.clone());
    }

    /// Records that the processes of a job were killed together with its supervisor.
    pub(super) fn killed(&mut self, job: &Handle) {
        self.killed.insert(job.clone());
    }

    /// Records that a node has failed under a job.
    pub(super) fn node_failed(&mut self, job: &Handle) {
        *self.node_failures.entry(job.clone()).or_default() += 1;
    }

    /// True if an administrator has cancelled a job.
    pub(super) fn is_cancelled_by_admin(&self, job: &Handle) -> bool {
        self.cancelled.contains(job)
    }

    /// Records that an owner was notified that a job has ended or is being ended.
    pub(super) fn cancelled(&mut self, record: &JobRecord) {
        if let Some(job) = self.jobs.get_mut(&record.handle) {
            job.cancelled = Some(job.starts);
        }
    }

    /// Checks the jobs of a server whose state has changed.
    pub(super) fn server_changed(&mut self, index: usize, servers: &[ServerNode]) {
        let mut presences: BTreeMap<Handle, Presence> = BTreeMap::new();
        let machine = &servers[index].daemon.node.machine;
        let now = servers[index].daemon.clock.last();
        for (record, is_withdrawn) in machine.jobs_and_withdrawn() {
            let is_here = *record.server() == servers[index].name;
            let presence = presences.entry(record.handle.clone()).or_default();
            match record.state {
                _ if !is_here => {}
                JobState::New | JobState::Queued if is_withdrawn => presence.leaves = true,
                JobState::New | JobState::Queued => presence.waits = true,
                JobState::Active => presence.runs = true,
                JobState::Completed | JobState::Failed | JobState::Canceled => presence.ended = true,
            }
            let is_excused = match &record.exit {
                Some(Exit::Lost(_)) => {
                    let job = &record.handle;
                    self.killed.contains(job) || self.node_failures.contains_key(job)
                }
                Some(Exit::NotStarted(_)) => {
                    self.cancelled.contains(&record.handle) || is_too_late(record, now)
                }
                _ => true,
            };
            if let Some(exit) = record.exit.as_ref().filter(|_| !is_excused) {
                let what = format!("{} has ended at c{index} for no valid reason: {exit}", record.handle);
                self.violation.get_or_insert(Violation::new("bound", what));
            }
        }
        let before = std::mem::replace(&mut self.presences[index], presences);
        let after = self.presences[index].clone();
        let changed =
            before.iter().filter(|(job, presence)| after.get(*job) != Some(*presence)).map(|(job, _)| job);
        let changed = changed.chain(after.keys().filter(|job| !before.contains_key(*job)));
        for job in changed {
            self.check_place(job, servers);
        }
    }

    fn check_place(&mut self, job: &Handle, servers: &[ServerNode]) {
        let at = |has: fn(Presence) -> bool| -> Vec<usize> {
            let presences = self.presences.iter().enumerate();
            presences
                .filter(|(_, presences)| presences.get(job).is_some_and(|one| has(*one)))
                .map(|(at, _)| at)
                .collect()
        };
        let (claims, leaves) = (at(Presence::claims), at(|presence| presence.leaves));
        if claims.len() > 1 {
            let what = format!("servers {claims:?} may start or have started {job}");
            return self.report_violation(Violation::new("two servers", what));
        }
        let ended = |server: &ServerNode| {
            let records = [server.daemon.node.archived(job), server.daemon.node.pending_archived(job)];
            records.into_iter().flatten().any(|record| record.state.is_final())
        };
        if claims.is_empty() && leaves.is_empty() && self.jobs.contains_key(job) && !servers.iter().any(ended)
        {
            self.report_violation(Violation::new("bound", format!("no server is responsible for {job}")));
        }
    }

    /// Checks that no record of an agent goes back to an earlier state.
    pub(super) fn agent_changed(&mut self, index: usize, daemon: &Daemon<Agent>) {
        for record in daemon.node.machine.jobs() {
            let progress = record.progress();
            match self.progress[index].get_mut(&record.handle) {
                Some(known) if *known > progress => {
                    let what = format!("a{index} sets {} back from {known:?} to {progress:?}", record.handle);
                    return self.report_violation(Violation::new("back", what));
                }
                Some(known) => *known = progress,
                None => {
                    self.progress[index].insert(record.handle.clone(), progress);
                }
            }
        }
    }

    /// Resets the recorded progress of an agent to what its journal holds after a crash.
    pub(super) fn agent_crashed(&mut self, index: usize, daemon: &Daemon<Agent>) {
        let known = daemon.node.archive().chain(daemon.node.machine.jobs());
        self.progress[index] = known.map(|record| (record.handle.clone(), record.progress())).collect();
    }

    /// Checks the final record that a job's last server has.
    pub(super) fn ended(&mut self, record: &JobRecord) -> Result<(), Violation> {
        let handle = &record.handle;
        let Some(Accepted { starts, cancelled, last }) = self.jobs.get_mut(handle) else { return Ok(()) };
        let wrong = |checker, what| Err(Violation::new(checker, what));
        let was_cancelled = record.exit == Some(Exit::Cancelled);
        *last = Some(record.clone());
        match (*starts, &record.exit) {
            (_, None) => wrong("settled", format!("{handle} has not ended: {}", record.state)),
            _ if self.cancelled.contains(handle) || self.killed.contains(handle) => Ok(()),
            // When it was too late was checked when it ended.
            (0, Some(Exit::NotStarted(_))) if record.work.deadline.is_some() => Ok(()),
            (0, Some(exit)) if !was_cancelled => {
                wrong("once", format!("{handle} ended with {exit} but never ran"))
            }
            (0, Some(_)) if cancelled.is_none() => {
                wrong("cancelled", format!("{handle} was cancelled, and its owner was not notified"))
            }
            (starts, Some(exit)) if cancelled.is_some_and(|before| before < starts) && !was_cancelled => {
                wrong("cancelled", format!("{handle} ran after its cancellation and ended with {exit}"))
            }
            _ => Ok(()),
        }
    }
}
