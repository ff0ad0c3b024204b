//! Fault schedules: the machines of `pliant-control` under faults that are drawn from a seed.
//!
//! A schedule is a small federation with 5 to 40 jobs whose daemons crash and come back, whose clocks jump, whose
//! messages are lost, doubled, late and out of order, whose lines break, and whose clients crash and change their
//! minds, while agents move waiting jobs all the time, or spread copies of them. Daemons are modelled as the live ones are: a journal
//! that is written before anything is carried out, snapshots, processes that outlive their server (module `daemon`). After
//! every event it is checked that
//!
//! - `bound`: an accepted job is bound to a server, and never ends without having ended;
//! - `two servers`: no two servers may start it, also by what their journals say;
//! - `once`: it is accepted once and started once;
//! - `cores`: no core has two jobs;
//! - `back`: what an agent knows of it, and what archives have of it, never goes back;
//!
//! and when the faults have stopped that everything is `settled` within bounded time: every job has ended, nothing
//! is held or on its way, and no copy is left; that every handle `resolves`, from server to server and at the master agent, whose `record` is the
//! last server's; that what an owner was told to be `cancelled` does not run; and that every `journal` told again
//! gives the same commands and the same state.
//!
//! Launches of applications on several clusters at once are beside the jobs if that is wanted; what is checked of them is in
//! module `launches`.
//!
//! The same seed gives the same schedule. A [`Bug`] is put in on purpose, to see that the checkers find it.

mod calls;
mod checks;
mod clients;
mod daemon;
mod external;
mod injection;
mod launches;
mod lines;
mod plan;
mod processes;
mod settle;
mod telling;
mod trace;
mod world;

pub use checks::Violation;

use world::World;

use crate::counters::add_each;

/// A mistake of a driver, or of a machine as its driver can imitate it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// What targets answer is not journaled.
    ForgetsAnswers,
    /// Commands are carried out before the event is durable.
    ActsEarly,
    /// A restarted server has forgotten what it holds for others.
    ForgetsHolds,
    /// A target starts what it is to hold.
    StartsHeld,
    /// A source says commit before it has withdrawn the job.
    CommitsEarly,
    /// A source takes silence after the commit for a yes.
    SilenceIsYes,
    /// A restarted server runs again what ran.
    RunsAgain,
    /// A source judges by what is not durable yet.
    JudgesEarly,
    /// A target starts a copy when its turn has come, whatever its source says; a server so its subjob of a launch.
    StartsUnasked,
    /// A source lets a copy start without withdrawing the job.
    ConsentsUnlocked,
    /// News that were not acknowledged are not sent again over a new line.
    ForgetsNews,
    /// A supervisor on an external cluster runs its job although another one has claimed it.
    IgnoresClaims,
    /// A supervisor on an external cluster runs a copy without waiting for word from its source.
    WaitsForNobody,
    /// The folder of a job that was withdrawn from an external batch system stays where it was.
    LeavesFolders,
    /// Jobs of an external batch system are taken for ours by their ids alone.
    TrustsIds,
    /// A job that an external batch system has forgotten is taken for one that was cancelled.
    ForgottenIsOver,
    /// What is left of a job in an external queue is not removed.
    LeavesCopies,
    /// A restarted server has forgotten its subjobs of launches.
    ForgetsSubjobs,
    /// A coordinator takes a subjob for held that is only queued.
    QueuedIsHeld,
    /// A coordinator takes silence after the end of a launch for a yes.
    SilenceIsOver,
}

/// What a federation is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Batch {
    /// Pliant's own batch systems everywhere.
    Embedded,
    /// External ones at some servers, or at all.
    Mixed,
    /// Pliant's own everywhere, and applications are launched on several clusters at once.
    Launching,
}

/// What a schedule was like that ended well.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Summary {
    /// Events.
    pub events: u64,
    /// Jobs that were accepted.
    pub jobs: u64,
    /// Handoffs that succeeded.
    pub moves: u64,
    /// Those of them that were copies.
    pub copies: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
    /// How often daemons crashed.
    pub crashes: u64,
    /// Launches that are over.
    pub launches: u64,
    /// Those of them of which something ran.
    pub ran: u64,
    /// Those of these that completed.
    pub completed: u64,
}

add_each!(Summary { events, jobs, moves, copies, cancelled, crashes, launches, ran, completed });

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Summary { events, jobs, moves, copies, cancelled, crashes, launches, ran, completed } = self;
        write!(
            f,
            "{events} events, {crashes} crashes, {jobs} jobs, {moves} moves ({copies} by copies), {cancelled} jobs \
             cancelled, {launches} launches ({ran} ran, {completed} of these completed)"
        )
    }
}

/// Runs the schedule of a seed: how it was, or the first thing that was wrong.
pub fn run(seed: u64, batch: Batch, bug: Option<Bug>) -> Result<Summary, Violation> {
    let mut world = World::new(seed, batch, bug, false);
    world.run().map(|()| world.summary())
}

/// The schedule of a seed in one line per event, up to the first thing that was wrong.
pub fn trace(seed: u64, batch: Batch, bug: Option<Bug>) -> Vec<String> {
    let mut world = World::new(seed, batch, bug, true);
    let ended = world.run();
    let mut lines = world.trace.take().unwrap_or_default();
    lines.extend(ended.err().map(|violation| violation.to_string()));
    lines
}
