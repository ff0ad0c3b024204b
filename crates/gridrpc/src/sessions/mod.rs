//! Sessions: calls under way and calls that have ended, and the functions that wait for them.
//!
//! A session ends on a thread of the federation. Its outputs are written later, by the thread of the program whose function
//! first reports the end; so the library writes into the memory of the program only while the program calls it. A session
//! that was reported stays known until [`REPORTED_MAX`] later ones were reported, too. IDs are counted up, and come again only after
//! 2^31 sessions, if they are free then.
//!
//! One lock guards the table, and is released while a thread waits, cancels or writes outputs. A session keeps who waits for
//! it, so that an end wakes only these threads.

mod table;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::code::{Code, Failure, Outcome, not_initialized};
use crate::federation::{Results, RunningCall};
use crate::handles::HandleAddress;
use table::{Session, Stage, Table};

/// The ID of a session.
pub(crate) type SessionId = i32;
/// No session.
pub(crate) const VOID: SessionId = -1;
/// How many sessions are known after their end was reported.
pub(crate) const REPORTED_MAX: usize = 1 << 16;

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
    /// Notified for those who wait for any session.
    any: Condvar,
}

impl Sessions {
    pub(crate) fn new() -> Sessions {
        Sessions { table: Mutex::new(Table::new()), any: Condvar::new() }
    }

    /// The ID of a call that is about to start. Other functions see it from [`Sessions::accepted`] on.
    pub(crate) fn begin(&self, new: NewSession) -> Outcome<SessionId> {
        let mut table = self.open()?;
        Ok(table.insert(new))
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
    pub(crate) fn ended(&self, id: SessionId, outcome: Outcome<Results>) {
        let mut table = self.table.lock();
        match table.session_mut(id) {
            // It is not known outside yet.
            Some(Session { stage: Stage::Starting(early), .. }) => *early = Some(outcome),
            Some(Session { stage: Stage::Running, .. }) => self.end(&mut table, id, outcome),
            _ => {}
        }
    }

    fn end(&self, table: &mut Table, id: SessionId, outcome: Outcome<Results>) {
        let (waiters, is_last) = table.end(id, outcome);
        wake(&waiters);
        if is_last {
            // Nothing is left to wait for.
            self.any.notify_all();
        } else {
            self.any.notify_one();
        }
    }

    /// Waits for the end of a call that no other function sees, and forgets it. Its own failure is the outcome.
    pub(crate) fn finish(&self, id: SessionId) -> Outcome {
        let mut table = self.open()?;
        self.wait_for_end(&mut table, &[id], |table| table.has_ended(id))?;
        let outcome = self.report(&mut table, id);
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
            self.wait_for_end(table, &[*id], |table| table.has_ended(*id))?;
        }
        let mut outcome = Ok(());
        for id in ids {
            // One that is not known any more was reported by another thread, long ago.
            if table.session(*id).is_some() {
                outcome = outcome.and(session_failed(self.report(table, *id)));
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
                return Ok((id, session_failed(self.report(&mut table, id))));
            }
            self.wait_for_end(&mut table, ids, |table| table.one_ended(ids).is_some())?;
        }
    }

    /// Waits for every session that was started before and is not reported yet.
    pub(crate) fn wait_all(&self) -> Outcome {
        let mut table = self.open()?;
        let ids = table.unreported();
        self.wait_each(&mut table, &ids)
    }

    /// Waits for any session that is not reported yet; none if there is none.
    pub(crate) fn wait_any(&self) -> Outcome<Option<Ended>> {
        let mut table = self.open()?;
        loop {
            if let Some(id) = table.first_ended() {
                return Ok(Some((id, session_failed(self.report(&mut table, id)))));
            }
            if !table.has_unreported() {
                return Ok(None);
            }
            self.any.wait(&mut table);
            expect_open(&table)?;
        }
    }

    /// Whether a session has ended: its outcome if so.
    pub(crate) fn probe(&self, id: SessionId) -> Outcome {
        let mut table = self.open()?;
        table.expect_known(&[id])?;
        match table.has_ended(id) {
            true => session_failed(self.report(&mut table, id)),
            false => Err(Failure::new(Code::NotCompleted, format!("session {id} is under way"))),
        }
    }

    /// One of these sessions that has ended; none if none has.
    pub(crate) fn probe_or(&self, ids: &[SessionId]) -> Outcome<Option<Ended>> {
        let mut table = self.open()?;
        table.expect_known(ids)?;
        Ok(table.one_ended(ids).map(|id| (id, session_failed(self.report(&mut table, id)))))
    }

    /// Cancels a session, and returns once it has ended. From then on, none of its outputs is written.
    pub(crate) fn cancel(&self, id: SessionId) -> Outcome {
        {
            let table = self.open()?;
            table.expect_known(&[id])?;
        }
        self.cancel_each(vec![id])
    }

    /// Cancels every session that is not reported yet.
    pub(crate) fn cancel_all(&self) -> Outcome {
        let ids = self.open()?.unreported();
        self.cancel_each(ids)
    }

    fn cancel_each(&self, ids: Vec<SessionId>) -> Outcome {
        let mut calls = Vec::new();
        {
            let mut table = self.open()?;
            for id in &ids {
                calls.extend(table.begin_cancel(*id).map(|running| (*id, running)));
            }
            if !table.has_unreported() {
                self.any.notify_all();
            }
        }
        // All at once, so that many sessions take no longer than one.
        let cancelling: Vec<_> = calls.into_iter().map(|(id, running)| (id, running.cancel())).collect();
        let mut outcome = Ok(());
        for (id, wait) in cancelling {
            let own = wait();
            if own.is_err() {
                self.table.lock().cancel_failed(id);
            }
            outcome = outcome.and(own);
        }
        outcome?;
        let mut table = self.open()?;
        for id in ids {
            self.wait_for_end(&mut table, &[id], |table| table.is_reported(id))?;
        }
        Ok(())
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

    /// How many sessions are known: no valid array of different IDs is longer.
    pub(crate) fn known(&self) -> Outcome<usize> {
        Ok(self.open()?.known())
    }

    /// Lets every function return, now and later.
    pub(crate) fn close(&self) {
        let waiters = self.table.lock().close();
        wake(&waiters);
        self.any.notify_all();
    }

    fn open(&self) -> Outcome<MutexGuard<'_, Table>> {
        let table = self.table.lock();
        expect_open(&table)?;
        Ok(table)
    }

    /// Waits until that is so of one of these sessions.
    fn wait_for_end(
        &self,
        table: &mut MutexGuard<'_, Table>,
        ids: &[SessionId],
        is_so: impl Fn(&Table) -> bool,
    ) -> Outcome {
        let mut waiter = None;
        while !is_so(table) {
            let waiter = waiter.get_or_insert_with(|| Arc::new(Condvar::new()));
            ids.iter().for_each(|id| table.add_waiter(*id, waiter));
            waiter.wait(table);
            ids.iter().for_each(|id| table.remove_waiter(*id, waiter));
            expect_open(table)?;
        }
        Ok(())
    }

    /// Reports a session that has ended: writes its outputs if this was not done before.
    fn report(&self, table: &mut MutexGuard<'_, Table>, id: SessionId) -> Outcome {
        loop {
            if let Some((outcome, deliver)) = table.claim(id) {
                if !table.has_unreported() {
                    self.any.notify_all();
                }
                let had_failed = outcome.is_err();
                // The lock is released, since outputs may be large.
                let deliver = || outcome.and_then(|results| delivered(deliver, results));
                let outcome = MutexGuard::unlocked(table, deliver);
                let waiters = table.report(id, outcome.clone(), outcome.is_err() && !had_failed);
                wake(&waiters);
                return outcome;
            }
            match table.session(id).map(|session| &session.stage) {
                Some(Stage::Reported(outcome)) => return outcome.clone(),
                // Another thread writes the outputs.
                Some(_) => self.wait_for_end(table, &[id], |table| table.is_reported(id))?,
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

/// Outputs that are written; a panic on the way is a failure.
fn delivered(deliver: Option<Deliver>, results: Results) -> Outcome {
    let Some(deliver) = deliver else { return Ok(()) };
    let panicked =
        |_| Err(Failure::new(Code::OtherErrorCode, "the library failed when it wrote the outputs"));
    catch_unwind(AssertUnwindSafe(|| deliver(results))).unwrap_or_else(panicked)
}

/// What waiting functions report of a session with that outcome.
fn session_failed(outcome: Outcome) -> Outcome {
    outcome.map_err(|failure| failure.with_code(Code::SessionFailed))
}

fn expect_open(table: &Table) -> Outcome {
    match table.is_open() {
        true => Ok(()),
        false => Err(not_initialized()),
    }
}
