//! Sessions: calls under way and calls that have ended, and the functions that wait for them.
//!
//! A session ends on a thread of the federation. Its outputs are written later, by the thread of the program whose function
//! first reports the end; so the library writes into the memory of the program only while the program calls it. A session
//! that was reported stays known until [`REPORTED_MAX`] later ones were reported, too. IDs are counted up, and come again only after
//! 2^31 sessions, if they are free then.
//!
//! One lock guards the table, and is released while a thread waits, cancels or writes outputs. A session keeps the threads that wait for
//! it, so that an end wakes only these threads.

mod table;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::code::{Code, Failure, Outcome, not_initialized};
use crate::federation::{CallOutcome, Results, RunningCall};
use crate::handles::HandleAddress;
use table::{Reporter, Session, Stage, Table};

/// The ID of a session.
pub(crate) type SessionId = i32;
/// No session.
pub(crate) const VOID: SessionId = -1;
/// How many sessions are known after their end was reported.
pub(crate) const REPORTED_MAX: usize = 1 << 16;
/// How many sessions may be under way or unreported before no further one starts.
const UNREPORTED_MAX: usize = 1 << 20;
/// How many bytes of outputs may be unwritten before no further session starts.
const RESULT_BYTES_MAX: usize = if cfg!(test) { 1 << 20 } else { 1 << 30 };
/// How long a function that cancels waits for the ends of its sessions.
const CANCELLING: Duration = Duration::from_secs(60);

/// Writes the outputs of a call to where the program wants them.
pub(crate) type Deliver = Box<dyn FnOnce(Results) -> Outcome + Send>;

/// A session before a server has accepted its call.
pub(crate) struct NewSession {
    /// The handle that is called, with the number of its binding.
    pub(crate) handle: (HandleAddress, u64),
    /// False for a call that waits: no other function sees its session.
    pub(crate) is_asynchronous: bool,
    /// What writes its outputs.
    pub(crate) deliver: Deliver,
}

/// A session that has ended, and how.
pub(crate) type Ended = (SessionId, Outcome);

/// All sessions between an initialization and the end of it.
pub(crate) struct Sessions {
    table: Mutex<Table>,
    /// Notified for threads that wait for any session.
    any: Condvar,
    /// Notified when no thread writes outputs any more.
    delivered: Condvar,
}

impl Sessions {
    pub(crate) fn new() -> Sessions {
        Sessions { table: Mutex::new(Table::new()), any: Condvar::new(), delivered: Condvar::new() }
    }

    /// The ID of a call that is about to start. Other functions see it from [`Sessions::accepted`] on.
    pub(crate) fn begin(&self, new: NewSession) -> Outcome<SessionId> {
        self.open()?.insert(new)
    }

    /// Forgets a call that did not start.
    pub(crate) fn not_started(&self, id: SessionId) {
        self.table.lock().remove(id);
    }

    /// A server has accepted the call.
    pub(crate) fn accepted(&self, id: SessionId, running: Arc<dyn RunningCall>) -> Outcome {
        let mut table = self.open()?;
        let Some(session) = table.session_mut(id) else { return Ok(()) };
        session.running = Some(running);
        if let Some(outcome) = table.start(id) {
            self.end(&mut table, id, outcome);
        }
        Ok(())
    }

    /// The call has ended.
    pub(crate) fn ended(&self, id: SessionId, outcome: CallOutcome) {
        let mut table = self.table.lock();
        match table.session_mut(id) {
            // It is not known outside yet.
            Some(Session { stage: Stage::Starting(early), .. }) => *early = Some(outcome),
            Some(Session { stage: Stage::Running, .. }) => self.end(&mut table, id, outcome),
            _ => {}
        }
    }

    fn end(&self, table: &mut Table, id: SessionId, outcome: CallOutcome) {
        wake(&table.end(id, outcome));
        if table.is_any_running() {
            self.any.notify_one();
        } else {
            // Nothing is left to wait for.
            self.any.notify_all();
        }
    }

    /// Waits for the end of a call that no other function sees, and forgets it. Its own failure is the outcome.
    pub(crate) fn finish(&self, id: SessionId) -> Outcome {
        let mut table = self.open()?;
        self.wait_until(&mut table, &[id], |table| table.has_ended(id), None)?;
        let outcome = self.report(&mut table, id, Reporter::Wait)?;
        table.remove(id);
        outcome
    }

    /// Waits for all of these sessions; the first failure, if any has failed.
    pub(crate) fn wait_and(&self, ids: &[SessionId]) -> Outcome {
        let mut table = self.open()?;
        table.expect_known(ids)?;
        self.wait_each(&mut table, ids)
    }

    fn wait_each(&self, table: &mut MutexGuard<'_, Table>, ids: &[SessionId]) -> Outcome {
        for id in ids {
            self.wait_until(table, &[*id], |table| table.has_ended(*id), None)?;
        }
        let mut outcome = Ok(());
        for id in ids {
            // One that is not known any more was reported by another thread, long ago.
            if table.session(*id).is_some() {
                outcome = outcome.and(session_failed(self.report(table, *id, Reporter::Wait)?));
            }
        }
        outcome
    }

    /// Waits for one of these sessions.
    pub(crate) fn wait_or(&self, ids: &[SessionId]) -> Outcome<Ended> {
        let mut table = self.open()?;
        table.expect_known(ids)?;
        if ids.is_empty() {
            return Err(Failure::new(Code::InvalidSessionId, "expected at least one session ID, found none"));
        }
        loop {
            if let Some(id) = table.one_ended(ids) {
                return Ok((id, session_failed(self.report(&mut table, id, Reporter::Wait)?)));
            }
            self.wait_until(&mut table, ids, |table| table.one_ended(ids).is_some(), None)?;
        }
    }

    /// Waits for every session that was started before and that no function that waits has reported.
    pub(crate) fn wait_all(&self) -> Outcome {
        let mut table = self.open()?;
        let ids = table.unreported();
        self.wait_each(&mut table, &ids)
    }

    /// Waits for any session that no function that waits has reported; none if there is none.
    pub(crate) fn wait_any(&self) -> Outcome<Option<Ended>> {
        let mut table = self.open()?;
        loop {
            if let Some(id) = table.first_ended() {
                return Ok(Some((id, session_failed(self.report(&mut table, id, Reporter::Wait)?))));
            }
            if !table.is_any_running() {
                return Ok(None);
            }
            self.any.wait(&mut table);
            self.expect_open(&mut table)?;
        }
    }

    /// Whether a session has ended: its outcome if so. Functions that wait report it all the same.
    pub(crate) fn probe(&self, id: SessionId) -> Outcome {
        let mut table = self.open()?;
        table.expect_known(&[id])?;
        match table.has_ended(id) {
            true => session_failed(self.report(&mut table, id, Reporter::Probe)?),
            false => Err(Failure::new(Code::NotCompleted, format!("session {id} is under way"))),
        }
    }

    /// One of these sessions that has ended; none if none has.
    pub(crate) fn probe_or(&self, ids: &[SessionId]) -> Outcome<Option<Ended>> {
        let mut table = self.open()?;
        table.expect_known(ids)?;
        let Some(id) = table.one_ended(ids) else { return Ok(None) };
        Ok(Some((id, session_failed(self.report(&mut table, id, Reporter::Probe)?))))
    }

    /// Cancels a session, and returns once it has ended. From then on, none of its outputs is written.
    pub(crate) fn cancel(&self, id: SessionId) -> Outcome {
        self.open()?.expect_known(&[id])?;
        self.cancel_each(&[id], Instant::now() + CANCELLING)
    }

    /// Cancels every session that no function that waits has reported.
    pub(crate) fn cancel_all(&self) -> Outcome {
        let ids = self.open()?.unreported();
        self.cancel_each(&ids, Instant::now() + CANCELLING)
    }

    /// Cancels these sessions, and returns once they have ended, or at that time.
    pub(crate) fn cancel_each(&self, ids: &[SessionId], until: Instant) -> Outcome {
        let calls: Vec<_> = {
            let mut table = self.open()?;
            ids.iter().map(|id| (*id, table.begin_cancel(*id))).collect()
        };
        // All at once, so that many sessions take no longer than one.
        let cancelling: Vec<_> =
            calls.into_iter().map(|(id, call)| (id, call.map(|call| call.cancel(until)))).collect();
        let (mut outcome, mut ending) = (Ok(()), Vec::new());
        for (id, accepted) in cancelling {
            match accepted.map(|wait| wait()) {
                None => ending.push(id),
                Some(Ok(())) => {
                    self.table.lock().accept_cancel(id);
                    ending.push(id);
                }
                Some(Err(failure)) => outcome = outcome.and(Err(failure)),
            }
        }
        let mut table = self.open()?;
        for id in ending {
            outcome =
                outcome.and(self.wait_until(&mut table, &[id], |table| table.is_settled(id), Some(until)));
        }
        outcome
    }

    /// How a session failed: no error if it has not failed.
    pub(crate) fn failure(&self, id: SessionId) -> Outcome<Option<Failure>> {
        let table = self.open()?;
        table.expect_known(&[id])?;
        Ok(table.failure(id))
    }

    /// A session that has failed, each once.
    pub(crate) fn take_failed(&self) -> Outcome<Option<SessionId>> {
        Ok(self.open()?.take_failed())
    }

    /// The handle that a session was started with, and the number of its binding.
    pub(crate) fn handle(&self, id: SessionId) -> Outcome<(HandleAddress, u64)> {
        let table = self.open()?;
        table.expect_known(&[id])?;
        Ok(table.session(id).expect("it is known").handle)
    }

    /// How many threads wait for the end of a session, and how many sessions are known.
    #[cfg(test)]
    pub(crate) fn counts(&self, id: SessionId) -> (usize, usize) {
        self.table.lock().counts(id)
    }

    /// Lets every function return, now and later.
    pub(crate) fn close(&self) {
        let waiters = self.table.lock().close();
        wake(&waiters);
        self.any.notify_all();
    }

    fn open(&self) -> Outcome<MutexGuard<'_, Table>> {
        let mut table = self.table.lock();
        self.expect_open(&mut table)?;
        Ok(table)
    }

    /// An error if the library is closed, once no thread writes outputs: they may be those of the function that asks.
    fn expect_open(&self, table: &mut MutexGuard<'_, Table>) -> Outcome {
        if table.is_open() {
            return Ok(());
        }
        while table.is_delivering() {
            self.delivered.wait(table);
        }
        Err(not_initialized())
    }

    /// Waits until a condition holds that changes with these sessions, at most until a time.
    fn wait_until(
        &self,
        table: &mut MutexGuard<'_, Table>,
        ids: &[SessionId],
        condition: impl Fn(&Table) -> bool,
        until: Option<Instant>,
    ) -> Outcome {
        let mut waiter = None;
        while !condition(table) {
            let waiter = waiter.get_or_insert_with(|| Arc::new(Condvar::new()));
            ids.iter().for_each(|id| table.add_waiter(*id, waiter));
            let is_late = match until {
                Some(until) => waiter.wait_until(table, until).timed_out(),
                None => {
                    waiter.wait(table);
                    false
                }
            };
            ids.iter().for_each(|id| table.remove_waiter(*id, waiter));
            self.expect_open(table)?;
            if is_late && !condition(table) {
                let seconds = CANCELLING.as_secs();
                let text = format!(
                    "expected sessions {ids:?} to end within {seconds} seconds, found them under way"
                );
                return Err(Failure::new(Code::CommunicationFailed, text));
            }
        }
        Ok(())
    }

    /// Reports a session that has ended, which writes its outputs if this was not done before: its outcome, unless the library is closed.
    fn report(&self, table: &mut MutexGuard<'_, Table>, id: SessionId, by: Reporter) -> Outcome<Outcome> {
        table.begin_report(id, by);
        loop {
            if let Some((results, deliver)) = table.claim(id) {
                // The lock is released, since outputs may be large.
                let outcome = MutexGuard::unlocked(table, || delivered(deliver, results));
                wake(&table.settle(id, outcome));
                if !table.is_delivering() {
                    self.delivered.notify_all();
                }
            }
            match table.session(id).map(|session| &session.stage) {
                Some(Stage::Settled(outcome)) => {
                    let outcome = outcome.clone();
                    table.retire(id);
                    return Ok(outcome);
                }
                // Another thread writes the outputs.
                Some(_) => self.wait_until(table, &[id], |table| table.is_settled(id), None)?,
                None => return Err(table::invalid(id)),
            }
        }
    }
}

fn wake(waiters: &[Arc<Condvar>]) {
    for waiter in waiters {
        waiter.notify_all();
    }
}

/// Writes outputs; a panic on the way is a failure.
fn delivered(deliver: Deliver, results: Results) -> Outcome {
    let panicked =
        |_| Err(Failure::new(Code::OtherErrorCode, "the library failed when it wrote the outputs"));
    catch_unwind(AssertUnwindSafe(|| deliver(results))).unwrap_or_else(panicked)
}

/// What waiting functions report of a session with that outcome.
fn session_failed(outcome: Outcome) -> Outcome {
    outcome.map_err(|failure| failure.with_code(Code::SessionFailed))
}
