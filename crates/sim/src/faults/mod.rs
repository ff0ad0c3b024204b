//! Fault schedules: the machines of `pliant-control` under faults that are drawn from a seed.
//!
//! A schedule is a small federation with 5 to 60 jobs. Daemons and clients crash and restart, clocks jump, connections break,
//! messages are lost, duplicated, delayed and reordered, and owners cancel jobs. Meanwhile agents move waiting jobs or submit
//! siblings of them. As live, a daemon journals an event before it executes the commands that follow, takes snapshots, and
//! restarts from its journal; processes outlive their server.
//!
//! These invariants are checked after every event:
//!
//! - `bound`: some server is responsible for every accepted job, and no job ends without a valid reason;
//! - `two servers`: no two servers may start the same job, also by what their journals hold;
//! - `once`: a job is accepted once and started once;
//! - `cores`: no core runs two jobs;
//! - `resources`: a job gets the memory, GPUs, local disk space and licences that it needs, and nothing that another job has; no node of
//!   an external cluster is over-committed;
//! - `drained`: a server that an operator knows to be drained accepts no job, and prepares none of other servers or of launches;
//! - `held`: no job starts that an operator knows to be held;
//! - `deferred`: no job starts before the instant from which its owner lets it start;
//! - `deadline`: Pliant's own batch system starts no job that could end after its deadline;
//! - `banned`: the same as `drained` for the jobs of a user whom an operator knows to be banned there, and Pliant's own batch system
//!   starts none of them;
//! - `limited`: Pliant's own batch system starts no job over the limits that an operator knows its user to have;
//! - `waiting`: no server accepts or prepares a job with which more would wait than its configuration allows, or than the limits
//!   that an operator knows its user to have;
//! - `prioritised`: a job in the queue of Pliant's own batch system has the priority that an operator knows it to have;
//! - `configured`: an agent reallocates by the last change of which an operator knows that it holds, or by one that followed it;
//! - `asked`: a discovery that has found no server, and no silent one, has asked every server, whatever the summaries of daemons say;
//! - `back`: no record of a job in an agent or an archive goes back to an earlier state.
//!
//! These are checked after the last fault:
//!
//! - `settled`: within bounded time every job has ended, no handoff or sibling is left, and every update is acknowledged;
//! - `resolves`: every handle leads to the job's last server, and the master agent has a record of it;
//! - `record`: the master agent's record equals that of the last server;
//! - `cancelled`: a job whose owner was notified of its cancellation does not run;
//! - `journal`: a replay of every journal gives the same commands and the same state.
//!
//! Module `launches` adds launches of applications on several clusters, and what is checked of them.
//!
//! The same seed gives the same schedule. Tests inject a [`Bug`] to see that the checkers find it.

mod arrivals;
mod bans;
mod calls;
mod checks;
mod clients;
mod connections;
mod daemon;
mod deferrals;
mod drains;
mod event_delivery;
mod external;
mod holds;
mod injection;
mod launches;
mod limits;
mod plan;
mod priorities;
mod processes;
mod reallocations;
mod requeues;
mod resources;
mod settle;
mod summaries;
mod trace;
mod world;

pub use checks::Violation;

use world::World;

use crate::counters::add_each;

/// A bug that is injected into a driver or imitated on behalf of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// A source does not journal the answers of targets.
    ForgetsAnswers,
    /// Daemons execute commands before the event is durable.
    ActsEarly,
    /// A restarted server has lost the jobs that it had prepared for other servers.
    ForgetsPrepared,
    /// A target starts a job that it has only prepared.
    StartsPrepared,
    /// A source sends the commit before it has withdrawn the job.
    CommitsEarly,
    /// A source takes a missing answer to its commit for success.
    SilenceIsSuccess,
    /// A restarted server runs again the jobs that ran before.
    RunsAgain,
    /// A source answers with a decision that is not durable yet.
    DecidesEarly,
    /// A target starts a sibling without a start permit, and a server starts a subjob without a decision.
    StartsWithoutPermit,
    /// A source permits a sibling to start without withdrawing the job.
    PermitsWithoutWithdrawal,
    /// Daemons do not send unacknowledged status updates again over a new connection.
    ForgetsUpdates,
    /// A supervisor on an external cluster runs a job that another supervisor has claimed.
    IgnoresClaims,
    /// A supervisor on an external cluster runs a sibling without waiting at its start gate.
    SkipsStartGate,
    /// A withdrawal from an external batch system leaves the folder of the job.
    LeavesFolders,
    /// A server identifies its jobs in an external batch system by their ids alone, without their tags.
    TrustsIds,
    /// A server takes a job that an external batch system has forgotten for a cancelled one.
    ForgottenIsCancelled,
    /// A server does not remove the remaining jobs of its own from an external queue.
    LeavesQueuedJobs,
    /// A restarted server has lost its subjobs.
    ForgetsSubjobs,
    /// A coordinator takes a queued subjob for a prepared one.
    QueuedIsPrepared,
    /// A coordinator takes a missing answer to its end decision for an ended subjob.
    SilenceIsEnd,
    /// A restarted server has lost that it is drained.
    DrainedAccepts,
    /// A restarted server releases the jobs that operators hold.
    HeldStarts,
    /// A restarted server has lost which users are banned.
    BannedAccepts,
    /// A restarted server ends the bans of operators.
    BannedStarts,
    /// A restarted server has lost the limits of users.
    ForgetsLimits,
    /// A server has users run and queue more than their limits allow.
    IgnoresLimits,
    /// A restarted server bounds no bytes of waiting jobs.
    ForgetsWaitingBytes,
    /// A drained server prepares jobs of other servers.
    DrainedPrepares,
    /// A restarted server has lost the priorities that operators have given to waiting jobs.
    ForgetsPriorities,
    /// A restarted agent has lost an operator's change of the reallocation.
    ForgetsReallocation,
    /// A restarted server has lost what its running jobs have of its host besides processors.
    ForgetsHeldResources,
    /// A server that submits a job to an external batch system a second time does not say what it needs besides processors.
    LosesRequestedResources,
    /// An external batch system counts cores alone.
    OverCommits,
    /// An external batch system places the processors of a task on several nodes.
    SplitsTasks,
    /// Servers start jobs before the instants from which they may start.
    IgnoresBegin,
    /// A restarted server has lost how often jobs were queued again.
    ForgetsRequeues,
}

/// The kind of a federation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FederationKind {
    /// Every server has Pliant's own batch system.
    Embedded,
    /// Some or all servers have external batch systems.
    Mixed,
    /// Every server has Pliant's own batch system, and applications are launched on several clusters at once.
    Launching,
}

/// The counts of a schedule without violations.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Summary {
    /// Events.
    pub events: u64,
    /// Accepted jobs.
    pub jobs: u64,
    /// Successful handoffs.
    pub moves: u64,
    /// Times that jobs were queued again after a node had failed.
    pub requeues: u64,
    /// Successful handoffs to a sibling that started first.
    pub sibling_moves: u64,
    /// Cancelled jobs.
    pub cancelled: u64,
    /// Crashes of daemons.
    pub crashes: u64,
    /// Ended launches.
    pub launches: u64,
    /// Ended launches of which a subjob ran.
    pub ran: u64,
    /// Completed launches.
    pub completed: u64,
}

add_each!(Summary {
    events,
    jobs,
    moves,
    requeues,
    sibling_moves,
    cancelled,
    crashes,
    launches,
    ran,
    completed
});

/// The journal of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordedJournal {
    /// What kind of machine it is.
    pub machine: &'static str,
    /// Its events as JSON, in order.
    pub events: Vec<String>,
    /// Its state as JSON.
    pub state: String,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Summary {
            events,
            jobs,
            moves,
            requeues,
            sibling_moves,
            cancelled,
            crashes,
            launches,
            ran,
            completed,
        } = self;
        write!(
            f,
            "{events} events, {crashes} crashes, {jobs} jobs, {moves} moves ({sibling_moves} by siblings), \
             {requeues} requeues, {cancelled} jobs cancelled, {launches} launches ({ran} ran, {completed} of these completed)"
        )
    }
}

/// Runs the schedule of a seed. Returns its counts or the first violation.
pub fn run(seed: u64, kind: FederationKind, bug: Option<Bug>) -> Result<Summary, Violation> {
    let mut world = World::new(seed, kind, bug, false);
    world.run().map(|()| world.summary())
}

/// The journals of a schedule at its end, each with its machine: `server`, `agent` or `coordinator`.
pub fn journals(seed: u64, kind: FederationKind) -> Vec<RecordedJournal> {
    let mut world = World::new(seed, kind, None, false);
    // What was journaled before a violation is recorded as well.
    let _ = world.run();
    let now = world.queue.now();
    let servers = world.servers.iter_mut().map(|server| ("server", server.daemon.recorded(now)));
    let agents = world.agents.iter_mut().map(|agent| ("agent", agent.daemon.recorded(now)));
    let coordinator = std::iter::once(("coordinator", world.launches.coordinator.recorded(now)));
    let all = servers.chain(agents).chain(coordinator);
    all.map(|(machine, (events, state))| RecordedJournal { machine, events, state }).collect()
}

/// Traces the schedule of a seed in one line per event, up to the first violation.
pub fn trace(seed: u64, kind: FederationKind, bug: Option<Bug>) -> Vec<String> {
    let mut world = World::new(seed, kind, bug, true);
    let ended = world.run();
    let mut lines = world.trace.take().unwrap_or_default();
    lines.extend(ended.err().map(|violation| violation.to_string()));
    lines
}
