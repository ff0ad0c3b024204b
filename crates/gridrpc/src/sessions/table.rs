//! The table of sessions, and the stages of a session. Nothing here waits.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use parking_lot::Condvar;

use super::{Deliver, NewSession, REPORTED_MAX, SessionId};
use crate::code::{Code, Failure, Outcome};
use crate::federation::{Results, RunningCall};
use crate::handles::HandleAddress;

/// The last ID. It outlives the table: an ID from before `grpc_finalize` is not that of a later session.
static LAST: AtomicI32 = AtomicI32::new(0);

/// Where a session is.
pub(super) enum Stage {
    /// No server has accepted it yet; it may have ended all the same, in between.
    Starting(Option<Outcome<Results>>),
    /// Under way.
    Running,
    /// It has ended as the number `order` of all sessions, and no function has reported it.
    Ended { order: u64, outcome: Outcome<Results> },
    /// A thread writes its outputs.
    Delivering,
    /// It was reported, with this outcome.
    Reported(Outcome),
}

/// A session.
pub(super) struct Session {
    pub(super) handle: (HandleAddress, u64),
    pub(super) running: Option<Arc<dyn RunningCall>>,
    pub(super) stage: Stage,
    is_asynchronous: bool,
    /// How many threads cancel it.
    cancelling: u32,
    deliver: Option<Deliver>,
    waiters: Vec<Arc<Condvar>>,
    /// Its number among the failed sessions that are not given yet.
    failed: Option<u64>,
}

/// The sessions of the library.
pub(super) struct Table {
    is_open: bool,
    sessions: HashMap<SessionId, Session>,
    /// Asynchronous sessions that are running, or ended and not claimed.
    unreported: usize,
    /// Counts the ends.
    orders: u64,
    /// Asynchronous sessions that have ended and are not claimed, in the order of their ends.
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
            unreported: 0,
            orders: 0,
            ended: BTreeMap::new(),
            failed: BTreeMap::new(),
            reported: VecDeque::new(),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Ends all of it; who waits.
    pub(super) fn close(&mut self) -> Vec<Arc<Condvar>> {
        self.is_open = false;
        self.sessions.values_mut().flat_map(|session| std::mem::take(&mut session.waiters)).collect()
    }

    pub(super) fn insert(&mut self, new: NewSession) -> SessionId {
        let next = |last: i32| last.checked_add(1).unwrap_or(1);
        let id = loop {
            let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
            let id = next(last.expect("the next ID is always some"));
            if !self.sessions.contains_key(&id) {
                break id;
            }
        };
        let NewSession { handle, is_asynchronous, deliver } = new;
        let session = Session {
            handle,
            running: None,
            stage: Stage::Starting(None),
            is_asynchronous,
            cancelling: 0,
            deliver: Some(deliver),
            waiters: Vec::new(),
            failed: None,
        };
        self.sessions.insert(id, session);
        id
    }

    pub(super) fn remove(&mut self, id: SessionId) {
        if let Some(order) = self.sessions.remove(&id).and_then(|session| session.failed) {
            self.failed.remove(&order);
        }
    }

    pub(super) fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(&id)
    }

    pub(super) fn session_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.sessions.get_mut(&id)
    }

    /// How many sessions are known.
    pub(super) fn known(&self) -> usize {
        self.sessions.len()
    }

    /// A server has accepted the session; its outcome if it has ended already.
    pub(super) fn start(&mut self, id: SessionId) -> Option<Outcome<Results>> {
        let session = self.sessions.get_mut(&id)?;
        self.unreported += usize::from(session.is_asynchronous);
        match std::mem::replace(&mut session.stage, Stage::Running) {
            Stage::Starting(early) => early,
            _ => None,
        }
    }

    /// A running session has ended: who waits for it, and whether it was the last one that any function may wait for.
    pub(super) fn end(&mut self, id: SessionId, outcome: Outcome<Results>) -> (Vec<Arc<Condvar>>, bool) {
        let Some(session) = self.sessions.get_mut(&id) else { return (Vec::new(), false) };
        session.running = None;
        let waiters = std::mem::take(&mut session.waiters);
        if session.cancelling > 0 {
            session.deliver = None;
            session.stage = Stage::Reported(Err(cancelled(id)));
            self.unreported -= usize::from(session.is_asynchronous);
            self.retire(id);
            return (waiters, self.unreported == 0);
        }
        self.orders += 1;
        let order = self.orders;
        if session.is_asynchronous {
            self.ended.insert(order, id);
            if outcome.is_err() {
                session.failed = Some(order);
                self.failed.insert(order, id);
            }
        }
        session.stage = Stage::Ended { order, outcome };
        (waiters, false)
    }

    /// Takes a session that has ended and is not reported, to write its outputs.
    pub(super) fn claim(&mut self, id: SessionId) -> Option<(Outcome<Results>, Option<Deliver>)> {
        let session = self.sessions.get_mut(&id)?;
        if !matches!(session.stage, Stage::Ended { .. }) {
            return None;
        }
        let Stage::Ended { order, outcome } = std::mem::replace(&mut session.stage, Stage::Delivering) else {
            return None;
        };
        self.ended.remove(&order);
        self.unreported -= usize::from(session.is_asynchronous);
        Some((outcome, session.deliver.take()))
    }

    /// A claimed session is reported: who waits for that. `is_new` if it failed when its outputs were written.
    pub(super) fn report(&mut self, id: SessionId, outcome: Outcome, is_new: bool) -> Vec<Arc<Condvar>> {
        let Some(session) = self.sessions.get_mut(&id) else { return Vec::new() };
        if is_new && session.is_asynchronous {
            self.orders += 1;
            session.failed = Some(self.orders);
            self.failed.insert(self.orders, id);
        }
        session.stage = Stage::Reported(outcome);
        let (waiters, is_asynchronous) = (std::mem::take(&mut session.waiters), session.is_asynchronous);
        // The other ones are forgotten at once.
        if is_asynchronous {
            self.retire(id);
        }
        waiters
    }

    fn retire(&mut self, id: SessionId) {
        self.reported.push_back(id);
        while self.reported.len() > REPORTED_MAX {
            if let Some(oldest) = self.reported.pop_front() {
                self.remove(oldest);
            }
        }
    }

    /// Begins to cancel a session: the call to cancel, if it is under way. What has ended without a report ends here.
    pub(super) fn begin_cancel(&mut self, id: SessionId) -> Option<Arc<dyn RunningCall>> {
        let session = self.sessions.get_mut(&id)?;
        match &session.stage {
            Stage::Running => {
                session.cancelling += 1;
                session.running.clone()
            }
            Stage::Ended { .. } => {
                let (outcome, _unwritten) = self.claim(id)?;
                let outcome = outcome.and(Err(cancelled(id)));
                let session = self.sessions.get_mut(&id)?;
                session.stage = Stage::Reported(outcome);
                self.retire(id);
                None
            }
            _ => None,
        }
    }

    /// The call could not be cancelled.
    pub(super) fn cancel_failed(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.cancelling = session.cancelling.saturating_sub(1);
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
    pub(super) fn is_reported(&self, id: SessionId) -> bool {
        self.sessions.get(&id).is_none_or(|session| matches!(session.stage, Stage::Reported(_)))
    }

    /// One of these that has ended: rather one that was not reported.
    pub(super) fn one_ended(&self, ids: &[SessionId]) -> Option<SessionId> {
        let unreported = |id: &&SessionId| {
            self.sessions.get(id).is_some_and(|session| matches!(session.stage, Stage::Ended { .. }))
        };
        let ended = |id: &&SessionId| self.has_ended(**id);
        ids.iter().find(unreported).or_else(|| ids.iter().find(ended)).copied()
    }

    /// The session that ended first and is not reported.
    pub(super) fn first_ended(&self) -> Option<SessionId> {
        self.ended.first_key_value().map(|(_, id)| *id)
    }

    /// True if a session is running, or ended and not claimed.
    pub(super) fn has_unreported(&self) -> bool {
        self.unreported > 0
    }

    /// The asynchronous sessions that were not reported, the oldest first.
    pub(super) fn unreported(&self) -> Vec<SessionId> {
        let is_unreported = |session: &Session| {
            session.is_asynchronous && !matches!(session.stage, Stage::Starting(_) | Stage::Reported(_))
        };
        let unreported = self.sessions.iter().filter(|(_, session)| is_unreported(session));
        let mut ids: Vec<SessionId> = unreported.map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// How a session failed, if it has.
    pub(super) fn failure(&self, id: SessionId) -> Option<Failure> {
        match &self.sessions.get(&id)?.stage {
            Stage::Ended { outcome, .. } => outcome.as_ref().err().cloned(),
            Stage::Reported(outcome) => outcome.as_ref().err().cloned(),
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
