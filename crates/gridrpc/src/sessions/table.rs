//! The table of sessions, and the stages of a session. Nothing here waits.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use parking_lot::Condvar;
use pliant_client::calls::bytes_of;

use super::{Deliver, NewSession, REPORTED_MAX, RESULT_BYTES_MAX, SessionId, UNREPORTED_MAX};
use crate::code::{Code, Failure, Outcome};
use crate::federation::{CallOutcome, Results, RunningCall};
use crate::handles::HandleAddress;

/// The last ID. It outlives the table: an ID from before `grpc_finalize` is not that of a later session.
static LAST: AtomicI32 = AtomicI32::new(0);

/// Where a session is.
pub(super) enum Stage {
    /// No server has accepted it yet; it may have ended all the same, in between.
    Starting(Option<CallOutcome>),
    /// Under way.
    Running,
    /// It has completed, and its outputs are not written.
    Completed(Results),
    /// A thread writes its outputs.
    Delivering,
    /// Its outputs are written, or it has none: its outcome.
    Settled(Outcome),
}

/// Whether the program has cancelled a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cancellation {
    /// It has not.
    None,
    /// It has, and no server has accepted that.
    Requested,
    /// It has, and a server has accepted it.
    Accepted,
}

/// Which function reports the end of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reporter {
    /// One that probes: functions that wait report it, too.
    Probe,
    /// One that waits, or cancels.
    Wait,
}

/// A session.
pub(super) struct Session {
    pub(super) handle: (HandleAddress, u64),
    pub(super) running: Option<Arc<dyn RunningCall>>,
    pub(super) stage: Stage,
    is_asynchronous: bool,
    cancellation: Cancellation,
    deliver: Option<Deliver>,
    waiters: Vec<Arc<Condvar>>,
    /// Its number among the sessions that have ended and that no function that waits has reported.
    ended: Option<u64>,
    /// Its number among the failed sessions that are not given yet.
    failed: Option<u64>,
    /// True once a function has reported its end.
    is_reported: bool,
}

/// The sessions of the library.
pub(super) struct Table {
    is_open: bool,
    sessions: HashMap<SessionId, Session>,
    /// Asynchronous sessions that are running.
    running: usize,
    /// Threads that write outputs.
    delivering: usize,
    /// Bytes of outputs that are not written.
    result_bytes: usize,
    /// Counts the ends.
    orders: u64,
    /// Asynchronous sessions that have ended and that no function that waits has reported, in the order of their ends.
    ended: BTreeMap<u64, SessionId>,
    /// Sessions that have failed and are not given yet, in the same order.
    failed: BTreeMap<u64, SessionId>,
    /// The oldest are forgotten first.
    reported: VecDeque<SessionId>,
}

impl Table {
    pub(super) fn new() -> Table {
        Table {
            is_open: true,
            sessions: HashMap::new(),
            running: 0,
            delivering: 0,
            result_bytes: 0,
            orders: 0,
            ended: BTreeMap::new(),
            failed: BTreeMap::new(),
            reported: VecDeque::new(),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// True while a thread writes outputs.
    pub(super) fn is_delivering(&self) -> bool {
        self.delivering > 0
    }

    /// Ends all of it; returns the threads that wait.
    pub(super) fn close(&mut self) -> Vec<Arc<Condvar>> {
        self.is_open = false;
        self.sessions.values_mut().flat_map(|session| std::mem::take(&mut session.waiters)).collect()
    }

    /// Adds a session that starts, unless too much is unreported.
    pub(super) fn insert(&mut self, new: NewSession) -> Outcome<SessionId> {
        let NewSession { handle, is_asynchronous, deliver } = new;
        if is_asynchronous {
            self.expect_free()?;
        }
        let next = |last: i32| last.checked_add(1).unwrap_or(1);
        let id = loop {
            let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
            let id = next(last.expect("the next ID is always some"));
            if !self.sessions.contains_key(&id) {
                break id;
            }
        };
        let session = Session {
            handle,
            running: None,
            stage: Stage::Starting(None),
            is_asynchronous,
            cancellation: Cancellation::None,
            deliver: Some(deliver),
            waiters: Vec::new(),
            ended: None,
            failed: None,
            is_reported: false,
        };
        self.sessions.insert(id, session);
        Ok(id)
    }

    /// An error if the program has left too many sessions, or too large outputs, unreported.
    fn expect_free(&self) -> Outcome {
        let unreported = self.sessions.len() - self.reported.len();
        let found = if unreported >= UNREPORTED_MAX {
            format!("fewer than {UNREPORTED_MAX} sessions that are not reported, found {unreported}")
        } else if self.result_bytes >= RESULT_BYTES_MAX {
            let found = self.result_bytes;
            format!("less than {RESULT_BYTES_MAX} bytes of outputs that are not written, found {found}")
        } else {
            return Ok(());
        };
        let hint = "wait for sessions, probe them or cancel them before more calls are started";
        Err(Failure::new(Code::OtherErrorCode, format!("expected {found}\nhint: {hint}")))
    }

    pub(super) fn remove(&mut self, id: SessionId) {
        let Some(session) = self.sessions.remove(&id) else { return };
        if let Some(order) = session.failed {
            self.failed.remove(&order);
        }
        if let Some(order) = session.ended {
            self.ended.remove(&order);
        }
        if let Stage::Completed(results) = session.stage {
            self.result_bytes -= bytes_of(&results);
        }
    }

    pub(super) fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(&id)
    }

    pub(super) fn session_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.sessions.get_mut(&id)
    }

    /// A server has accepted the session; its outcome if it has ended already.
    pub(super) fn start(&mut self, id: SessionId) -> Option<CallOutcome> {
        let session = self.sessions.get_mut(&id)?;
        self.running += usize::from(session.is_asynchronous);
        match std::mem::replace(&mut session.stage, Stage::Running) {
            Stage::Starting(early) => early,
            _ => None,
        }
    }

    /// A running session has ended; returns the threads that wait for it.
    pub(super) fn end(&mut self, id: SessionId, outcome: CallOutcome) -> Vec<Arc<Condvar>> {
        let Some(session) = self.sessions.get_mut(&id) else { return Vec::new() };
        session.running = None;
        self.running -= usize::from(session.is_asynchronous);
        let waiters = std::mem::take(&mut session.waiters);
        let is_requested = session.cancellation != Cancellation::None;
        // What ends otherwise while no server has accepted the cancellation keeps its outcome: the cancellation may fail.
        if session.cancellation == Cancellation::Accepted
            || (is_requested && outcome == CallOutcome::Cancelled)
        {
            session.deliver = None;
            session.stage = Stage::Settled(Err(cancelled(id)));
            self.retire(id);
            return waiters;
        }
        self.orders += 1;
        let order = self.orders;
        if session.is_asynchronous {
            session.ended = Some(order);
            self.ended.insert(order, id);
        }
        let failure = match outcome {
            CallOutcome::Completed(results) => {
                self.result_bytes += bytes_of(&results);
                session.stage = Stage::Completed(results);
                return waiters;
            }
            CallOutcome::Failed(failure) => failure,
            CallOutcome::Cancelled => {
                Failure::new(Code::SessionFailed, "the call was cancelled by another client")
            }
        };
        session.deliver = None;
        session.stage = Stage::Settled(Err(failure));
        if session.is_asynchronous {
            session.failed = Some(order);
            self.failed.insert(order, id);
        }
        waiters
    }

    /// Takes the outputs of a session that has completed, if they are not written: the caller writes them and calls [`Table::settle`].
    pub(super) fn claim(&mut self, id: SessionId) -> Option<(Results, Deliver)> {
        let results = self.take_results(id)?;
        let deliver = self.sessions.get_mut(&id)?.deliver.take()?;
        self.delivering += 1;
        Some((results, deliver))
    }

    fn take_results(&mut self, id: SessionId) -> Option<Results> {
        let session = self.sessions.get_mut(&id)?;
        match std::mem::replace(&mut session.stage, Stage::Delivering) {
            Stage::Completed(results) => {
                self.result_bytes -= bytes_of(&results);
                Some(results)
            }
            other => {
                session.stage = other;
                None
            }
        }
    }

    /// The outputs of a claimed session are written, or could not be; returns the threads that wait for that.
    pub(super) fn settle(&mut self, id: SessionId, outcome: Outcome) -> Vec<Arc<Condvar>> {
        self.delivering -= 1;
        let Some(session) = self.sessions.get_mut(&id) else { return Vec::new() };
        if outcome.is_err() && session.is_asynchronous {
            self.orders += 1;
            session.failed = Some(self.orders);
            self.failed.insert(self.orders, id);
        }
        session.stage = Stage::Settled(outcome);
        std::mem::take(&mut session.waiters)
    }

    /// A function reports the end of a session: functions that wait for any session do not report it again after one that waits.
    pub(super) fn begin_report(&mut self, id: SessionId, by: Reporter) {
        if by == Reporter::Wait
            && let Some(order) = self.sessions.get_mut(&id).and_then(|session| session.ended.take())
        {
            self.ended.remove(&order);
        }
    }

    /// A function has reported the outcome of a session that is settled.
    pub(super) fn retire(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        // The others are forgotten at once.
        if !session.is_asynchronous || std::mem::replace(&mut session.is_reported, true) {
            return;
        }
        self.reported.push_back(id);
        while self.reported.len() > REPORTED_MAX {
            if let Some(oldest) = self.reported.pop_front() {
                self.remove(oldest);
            }
        }
    }

    /// Begins to cancel a session: the call to cancel, if it is under way. Outputs that are not written never are.
    pub(super) fn begin_cancel(&mut self, id: SessionId) -> Option<Arc<dyn RunningCall>> {
        let session = self.sessions.get_mut(&id)?;
        if let Stage::Running = session.stage {
            if session.cancellation == Cancellation::None {
                session.cancellation = Cancellation::Requested;
            }
            return session.running.clone();
        }
        self.drop_results(id);
        None
    }

    /// A server has accepted the cancellation of a session, which may have completed in between.
    pub(super) fn accept_cancel(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.cancellation = Cancellation::Accepted;
        }
        self.drop_results(id);
    }

    /// Drops the outputs of a session that are not written. The function that cancels reports the end; a failure stays the outcome.
    fn drop_results(&mut self, id: SessionId) {
        if self.take_results(id).is_some()
            && let Some(session) = self.sessions.get_mut(&id)
        {
            session.deliver = None;
            session.stage = Stage::Settled(Err(cancelled(id)));
        }
        if self.is_settled(id) {
            self.begin_report(id, Reporter::Wait);
            self.retire(id);
        }
    }

    /// An error if one of these is not a session that the program knows.
    pub(super) fn expect_known(&self, ids: &[SessionId]) -> Outcome {
        let is_known = |id: &SessionId| {
            self.sessions.get(id).is_some_and(|session| {
                session.is_asynchronous && !matches!(session.stage, Stage::Starting(_))
            })
        };
        match ids.iter().find(|id| !is_known(id)) {
            Some(unknown) => Err(invalid(*unknown)),
            None => Ok(()),
        }
    }

    /// True unless the session is under way.
    pub(super) fn has_ended(&self, id: SessionId) -> bool {
        let stage = self.sessions.get(&id).map(|session| &session.stage);
        !matches!(stage, Some(Stage::Starting(_) | Stage::Running))
    }

    /// True unless the session may still change.
    pub(super) fn is_settled(&self, id: SessionId) -> bool {
        self.sessions.get(&id).is_none_or(|session| matches!(session.stage, Stage::Settled(_)))
    }

    /// One of these that has ended, preferably one that no function that waits has reported.
    pub(super) fn one_ended(&self, ids: &[SessionId]) -> Option<SessionId> {
        let is_unreported =
            |id: &&SessionId| self.sessions.get(id).is_some_and(|session| session.ended.is_some());
        let ended = |id: &&SessionId| self.has_ended(**id);
        ids.iter().find(is_unreported).or_else(|| ids.iter().find(ended)).copied()
    }

    /// The session that ended first and that no function that waits has reported.
    pub(super) fn first_ended(&self) -> Option<SessionId> {
        self.ended.first_key_value().map(|(_, id)| *id)
    }

    /// True if an asynchronous session is under way.
    pub(super) fn is_any_running(&self) -> bool {
        self.running > 0
    }

    /// The asynchronous sessions that no function that waits has reported, the oldest first.
    pub(super) fn unreported(&self) -> Vec<SessionId> {
        let is_unreported = |session: &Session| {
            session.is_asynchronous
                && (session.ended.is_some() || matches!(session.stage, Stage::Running | Stage::Delivering))
        };
        let unreported = self.sessions.iter().filter(|(_, session)| is_unreported(session));
        let mut ids: Vec<SessionId> = unreported.map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// How a session failed, if it has.
    pub(super) fn failure(&self, id: SessionId) -> Option<Failure> {
        match &self.sessions.get(&id)?.stage {
            Stage::Settled(outcome) => outcome.as_ref().err().cloned(),
            _ => None,
        }
    }

    pub(super) fn take_failed(&mut self) -> Option<SessionId> {
        let (_, id) = self.failed.pop_first()?;
        if let Some(session) = self.sessions.get_mut(&id) {
            session.failed = None;
        }
        Some(id)
    }

    pub(super) fn add_waiter(&mut self, id: SessionId, waiter: &Arc<Condvar>) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.waiters.push(waiter.clone());
        }
    }

    pub(super) fn remove_waiter(&mut self, id: SessionId, waiter: &Arc<Condvar>) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.waiters.retain(|other| !Arc::ptr_eq(other, waiter));
        }
    }

    /// How many threads wait for the end of a session, and how many sessions are known.
    #[cfg(test)]
    pub(super) fn counts(&self, id: SessionId) -> (usize, usize) {
        (self.sessions.get(&id).map_or(0, |session| session.waiters.len()), self.sessions.len())
    }
}

/// The error of an ID that is not that of a session.
pub(super) fn invalid(id: SessionId) -> Failure {
    Failure::new(
        Code::InvalidSessionId,
        format!(
            "expected the ID of a session, found {id}: no call has returned it since grpc_initialize, or {REPORTED_MAX} later \
             sessions were reported"
        ),
    )
}

fn cancelled(id: SessionId) -> Failure {
    Failure::new(Code::SessionFailed, format!("session {id} was cancelled"))
}
