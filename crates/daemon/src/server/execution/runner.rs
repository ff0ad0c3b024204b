//! Starts executions, finds them again after a restart, follows them and ends them.
//!
//! What keeps an execution from being lost or started twice is its folder (`pliant_site::processes`), which is looked at first, after
//! a restart or not. An execution that its machine wants, and whose folder says that it was never started, is started; one whose
//! outcome is unknown is reported as lost, or run again if it is a request.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pliant_site::JobFolder;
use pliant_site::processes::{self, AccountFailures, Ending, ProcessState, Running};
use tokio::sync::watch;

use self::resident::CallRun;
use super::observer::Observer;
use super::{End, Execution, ExecutionId, Failure, Host, MISSING, Timers, Work, blocking, complaint, find};
use crate::host::stopped;

/// The pause before something is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// How long what runs as an account may keep a job from its start, if the walltime of the job is shorter.
const ACCOUNT_TIMEOUT_MIN: Duration =
    if cfg!(test) { Duration::from_secs(2) } else { processes::ACCOUNT_TIMEOUT_MIN };

/// Runs things on this host for one machine.
#[derive(Clone)]
pub(in crate::server) struct Runner<O> {
    pub(in crate::server) host: Arc<Host>,
    pub(in crate::server) observer: O,
    /// For pauses; none if the machine has none.
    timers: Option<Timers>,
    /// How each execution is asked for its end.
    stops: Arc<Mutex<HashMap<ExecutionId, watch::Sender<bool>>>>,
}

/// Why an execution was not started.
enum NotStarted {
    /// Its end was asked for.
    Cancelled,
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for NotStarted {
    fn from(error: E) -> NotStarted {
        NotStarted::Failed(error.into())
    }
}

impl<O: Observer> Runner<O> {
    /// Runs nothing yet.
    pub(in crate::server) fn new(host: Arc<Host>, observer: O, timers: Option<Timers>) -> Runner<O> {
        Runner { host, observer, timers, stops: Arc::default() }
    }

    /// Starts what was never started, and reports its end.
    pub(in crate::server) fn start(&self, execution: Execution) {
        self.begin(execution, false, false);
    }

    /// Goes on with what was to run when the server went down; `ending` says that its end was asked for.
    pub(in crate::server) fn resume(&self, execution: Execution, ending: bool) {
        self.begin(execution, true, ending);
    }

    /// Ends what was started or resumed, unless it has ended. Its end is reported.
    pub(in crate::server) fn end(&self, id: ExecutionId) {
        match (self.stops.lock().get(&id), &self.timers) {
            (Some(stop), _) => drop(stop.send_replace(true)),
            (None, Some(timers)) => timers.end(id),
            (None, None) => {}
        }
    }

    fn begin(&self, execution: Execution, restarted: bool, ending: bool) {
        if let (Work::Pause(until), Some(timers)) = (&execution.work, &self.timers) {
            timers.begin(execution.id, *until);
            if ending {
                timers.end(execution.id);
            }
            return;
        }
        let (stop, stopping) = watch::channel(ending);
        self.stops.lock().insert(execution.id, stop);
        let (own, execution) = (self.clone(), Arc::new(execution));
        self.host.runtime.spawn(async move {
            let call = execution.call().map(Arc::new);
            let resident = call.as_ref().filter(|call| call.is_resident());
            let end = own.run(&execution, resident, restarted, &stopping).await;
            if let Some(call) = &call {
                own.keep_data(&execution, call, &end).await;
            }
            if let End::Recorded { exit, .. } = &end
                && !exit.left.is_empty()
            {
                tracing::warn!(job = %execution, processes = ?exit.left, "a job has ended with processes that its user may not signal: end them as root");
            }
            own.stops.lock().remove(&execution.id);
            match resident {
                // It has no instances, and no tasks.
                Some(_) => own.observer.ended_call(execution.id, end),
                None => own.report(&execution, end).await,
            }
        });
    }

    /// Runs an execution to its end.
    async fn run(
        &self,
        execution: &Arc<Execution>,
        call: Option<&Arc<CallRun>>,
        restarted: bool,
        stopping: &watch::Receiver<bool>,
    ) -> End {
        let is_stopping = || *stopping.borrow();
        // The journal may be an older copy of itself, from before a start. A call is looked for once its turn has come.
        let is_call = call.is_some() && !execution.had_started;
        let mut may_be_there = restarted;
        let mut running = match restarted || !(execution.is_repeatable() || is_call) {
            true => match self.found(execution, restarted, is_stopping()).await {
                Ok(running) => running,
                Err(end) => return end,
            },
            false => None,
        };
        loop {
            let ending = match running.take() {
                Some(running) => self.follow(execution, running, stopping).await,
                None => match self.started(execution, (call, may_be_there), stopping).await {
                    Ok(running) => self.follow(execution, running, stopping).await,
                    Err(end) => return end,
                },
            };
            let why = match ending {
                Ending::Ended(exit) => return End::Recorded { exit, asked: is_stopping(), earlier: false },
                Ending::Lost(why) if !execution.is_repeatable() => return why.into(),
                // It could record nothing before it had started something.
                Ending::Lost(_) | Ending::NeverStarted(_) if is_stopping() => return End::Cancelled,
                Ending::Lost(why) => why.to_string(),
                Ending::NeverStarted(why) => {
                    let why = why.map(|why| complaint(&why, &execution.dir));
                    let why = why.unwrap_or_else(|| "its supervisor ended without a reason".to_owned());
                    // The supervisor of a resident process may have ended before the turn of this call came.
                    if !execution.is_repeatable() && call.is_none() {
                        return End::NotStarted(why);
                    }
                    why
                }
            };
            tracing::warn!(job = %execution, why, "it is started again");
            may_be_there = true;
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// What the folder of an execution says: the run, none if it is to be started, or its end.
    async fn found(
        &self,
        execution: &Execution,
        restarted: bool,
        ending: bool,
    ) -> Result<Option<Running>, End> {
        let found = find(execution, &execution.dir).await;
        let is_expected = !restarted && matches!(found, ProcessState::NeverStarted);
        let (running, word) = match found {
            ProcessState::Running(running) => (Ok(Some(running)), "running"),
            ProcessState::Ended(exit) => (Err(End::Recorded { exit, asked: ending, earlier: true }), "ended"),
            ProcessState::NeverStarted if execution.had_started => {
                (Err(End::Lost(MISSING.to_owned())), "missing")
            }
            ProcessState::NeverStarted => (Ok(None), "never started"),
            ProcessState::Lost(_) if execution.is_repeatable() => (Ok(None), "lost"),
            ProcessState::Lost(why) => (Err(why.into()), "lost"),
        };
        if !is_expected {
            tracing::info!(job = %execution, found = word, "found after a restart");
        }
        running
    }

    /// Starts an execution as soon as there is what it takes to start one. Gives it up if what runs as its account fails for too long.
    async fn started(
        &self,
        execution: &Arc<Execution>,
        (call, may_be_there): (Option<&Arc<CallRun>>, bool),
        stopping: &watch::Receiver<bool>,
    ) -> Result<Running, End> {
        if let Some(call) = call {
            return self.started_resident(execution, (call, may_be_there), stopping).await;
        }
        let walltime = Duration::from_secs(execution.allocation.walltime.0.max(0).unsigned_abs());
        let (mut warned, mut failures) = (false, AccountFailures::default());
        loop {
            let (own, what, stopping) = (self.clone(), execution.clone(), stopping.clone());
            let start = move || own.try_start(&what, &stopping);
            let started = match tokio::task::spawn_blocking(start).await {
                Ok(started) => started,
                Err(error) if error.is_panic() => {
                    Err(Failure::lasting("internal error, the server's log says more").into())
                }
                // The runtime is shutting down, and this task with it.
                Err(_) => std::future::pending().await,
            };
            let failure = match started {
                Ok(running) => {
                    return Ok(running);
                }
                Err(NotStarted::Cancelled) => return Err(End::Cancelled),
                Err(NotStarted::Failed(failure)) => failure,
            };
            // A request is tried again, as its client would, but others wait for its core.
            let at_most = walltime.max(ACCOUNT_TIMEOUT_MIN);
            let is_bounded = failure.is_of_account || !failure.may_pass;
            let is_lasting = !failure.may_pass && !execution.is_repeatable();
            if is_lasting || is_bounded && failures.last_too_long(&execution.dir, at_most) {
                tracing::warn!(job = %execution, error = failure.reason, "cannot be started");
                return Err(End::NotStarted(failure.public));
            }
            if !std::mem::replace(&mut warned, true) {
                tracing::warn!(job = %execution, reason = failure.reason, "cannot be started at the moment: tried again until it can");
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Makes the folder ready and starts the supervisor, unless the end is asked for.
    fn try_start(
        &self,
        execution: &Execution,
        stopping: &watch::Receiver<bool>,
    ) -> Result<Running, NotStarted> {
        let unless_cancelled = || if *stopping.borrow() { Err(NotStarted::Cancelled) } else { Ok(()) };
        unless_cancelled()?;
        let ready = execution.prepare(&self.host, &[])?;
        unless_cancelled()?;
        let allocation = &execution.allocation;
        tracing::info!(
            job = %execution, request = ready.request, procs = allocation.procs.0, cores = allocation.cores, "run"
        );
        self.observer.starting(execution);
        let _entered = self.host.runtime.enter();
        Ok(processes::spawn(&self.host.supervisor, &execution.dir)?)
    }

    /// Follows a run to its end, for which it is asked as soon as `stopping` says so.
    async fn follow(
        &self,
        execution: &Execution,
        mut running: Running,
        stopping: &watch::Receiver<bool>,
    ) -> Ending {
        let mut asked = false;
        let mut progress = std::pin::pin!(self.observer.progress(execution));
        let mut is_followed = true;
        loop {
            let ending = tokio::select! {
                ending = running.ended() => ending,
                () = stopped(stopping.clone()), if !asked => {
                    asked = match blocking(&execution.dir, processes::terminate).await {
                        Ok(()) => true,
                        Err(error) => {
                            tracing::error!(job = %execution, %error, "cannot be ended: tried again until it can");
                            tokio::time::sleep(AGAIN).await;
                            false
                        }
                    };
                    continue;
                }
                () = &mut progress, if is_followed => {
                    is_followed = false;
                    continue;
                }
            };
            match ending {
                Ok(ending) => return ending,
                // Nothing may be concluded from that, least of all that it has ended.
                Err(error) => {
                    tracing::error!(job = %execution, %error, "cannot see whether it has ended: looking again");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    /// Reports an end. The records of a request that was killed are discarded first: it may be run again, and what a restarted
    /// server finds in the folder of a request is of its present run. The files of an account are removed only when it is: its user
    /// can keep them from being removed, and others wait for the core.
    async fn report(&self, execution: &Execution, end: End) {
        if execution.is_repeatable() && end.of_request().0 == pliant_control::optional::server::Exit::Killed {
            let mut retry = super::Retry::new("discard the records of a request", execution);
            let discard = |dir: &Path| JobFolder::at(dir)?.discard();
            while let Err(error) = blocking(&execution.dir, discard).await {
                retry.after(&error).await;
            }
        }
        self.observer.details(execution).await;
        self.observer.ended(execution.id, end);
    }
}

mod resident;
#[cfg(test)]
mod tests;
