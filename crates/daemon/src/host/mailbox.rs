//! Events and questions for a machine, from all callers, for the one thread that changes it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};
use pliant_control::names::User;
use pliant_control::replay::Machine;
use pliant_journal::Durability;
use pliant_model::Time;
use pliant_telemetry::names;
use pliant_transport::Clock;
use tokio::sync::oneshot;

use super::user_locks::UserLocks;

/// How many events may wait before those of clients are rejected.
const WAITING_MAX: usize = 10_000;
/// How many bytes of clients' events may wait.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// What a machine is asked, and where its answer goes.
pub(super) type Question<M> = Box<dyn FnOnce(&mut M, Time) + Send>;

/// An input of the machine's thread.
pub(super) enum Input<M: Machine> {
    Event(M::Event, Waits),
    Question(Question<M>),
    Acknowledged(u64),
    /// To be answered once everything that came before is durable.
    Barrier(oneshot::Sender<()>),
    /// To be answered if the daemon still leads.
    LeaderCheck(oneshot::Sender<()>),
    Stop,
}

/// Events that were sent and are not taken in: while the journal cannot be written, they pile up.
#[derive(Default)]
struct Waiting {
    events: AtomicUsize,
    bytes: AtomicUsize,
}

impl Waiting {
    /// Shows how many there are now.
    fn show(&self) {
        metrics::gauge!(names::EVENTS_WAITING).set(self.events.load(Ordering::Relaxed) as f64);
    }
}

/// An event's slot among those that wait, freed when dropped.
pub(super) struct Waits {
    waiting: Arc<Waiting>,
    /// How long it is, if a client says.
    pub(super) bytes: usize,
    /// What the commit of the event must survive before what follows from it is carried out.
    pub(super) durability: Durability,
}

impl Waits {
    fn among(waiting: &Arc<Waiting>, bytes: usize, durability: Durability) -> Waits {
        waiting.events.fetch_add(1, Ordering::Relaxed);
        waiting.bytes.fetch_add(bytes, Ordering::Relaxed);
        waiting.show();
        Waits { waiting: waiting.clone(), bytes, durability }
    }

    /// True if there are more than there may be, this one included.
    fn is_too_much(&self) -> bool {
        self.waiting.events.load(Ordering::Relaxed) > WAITING_MAX
            || self.waiting.bytes.load(Ordering::Relaxed) > WAITING_BYTES_MAX
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        // The machine has the event: see `Mailbox::ask_briefly`.
        self.waiting.events.fetch_sub(1, Ordering::Release);
        self.waiting.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.waiting.show();
    }
}

/// The machine and its clock, for readers.
pub(super) struct Shared<M> {
    machine: Mutex<M>,
    clock: Clock,
}

impl<M> Shared<M> {
    pub(super) fn new(machine: M, clock: Clock) -> Shared<M> {
        Shared { machine: Mutex::new(machine), clock }
    }

    pub(super) fn machine(&self) -> MutexGuard<'_, M> {
        self.machine.lock()
    }

    /// The machine and the time. The clock is read while the machine is locked, so that time never goes back for
    /// the caller.
    pub(super) fn at_present(&self) -> (MutexGuard<'_, M>, Time) {
        let machine = self.machine();
        (machine, self.clock.now())
    }
}

/// Where to send events and questions for the machine.
pub struct Mailbox<M: Machine> {
    sender: Sender<Input<M>>,
    waiting: Arc<Waiting>,
    shared: LateMachine<M>,
    /// The locks of those who ask long questions.
    user_locks: UserLocks,
}

/// Where the machine will be, once it runs.
type LateMachine<M> = Arc<OnceLock<Arc<Shared<M>>>>;

impl<M: Machine> Clone for Mailbox<M> {
    fn clone(&self) -> Self {
        Mailbox {
            sender: self.sender.clone(),
            waiting: self.waiting.clone(),
            shared: self.shared.clone(),
            user_locks: self.user_locks.clone(),
        }
    }
}

/// The daemon has stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped;

/// Why a client's event was rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rejected {
    /// Too much waits already; nothing was sent.
    Busy,
    /// The daemon has stopped.
    Stopped,
}

impl<M: Machine> Mailbox<M> {
    /// Sends the machine an event that has happened.
    pub fn send(&self, event: M::Event) -> Result<(), Stopped> {
        self.send_durable(event, Durability::Power)
    }

    /// As [`Mailbox::send`], where the commit of the event must survive no more than that.
    pub fn send_durable(&self, event: M::Event, durability: Durability) -> Result<(), Stopped> {
        let waits = Waits::among(&self.waiting, 0, durability);
        self.sender.send(Input::Event(event, waits)).map_err(|_| Stopped)
    }

    /// Sends the machine an event that a client wants, of so many bytes, unless too much waits already.
    pub fn try_send(&self, event: M::Event, bytes: usize) -> Result<(), Rejected> {
        self.try_send_durable(event, bytes, Durability::Power)
    }

    /// As [`Mailbox::try_send`], where the commit of the event must survive no more than that.
    pub fn try_send_durable(
        &self,
        event: M::Event,
        bytes: usize,
        durability: Durability,
    ) -> Result<(), Rejected> {
        let waits = Waits::among(&self.waiting, bytes, durability);
        if waits.is_too_much() {
            return Err(Rejected::Busy);
        }
        self.sender.send(Input::Event(event, waits)).map_err(|_| Rejected::Stopped)
    }

    /// Asks the machine something that changes nothing, after everything that was sent before. What was sent may not
    /// be durable yet: see [`Mailbox::settled`].
    pub async fn ask<A: Send + 'static>(
        &self,
        question: impl FnOnce(&mut M, Time) -> A + Send + 'static,
    ) -> Result<A, Stopped> {
        let (sender, receiver) = oneshot::channel();
        let question: Question<M> = Box::new(move |machine, now| {
            // The caller may have gone.
            let _ = sender.send(question(machine, now));
        });
        self.sender.send(Input::Question(question)).map_err(|_| Stopped)?;
        receiver.await.map_err(|_| Stopped)
    }

    /// As [`Mailbox::ask`], but at once if the machine is not being changed: what was sent just before may not be in it
    /// yet. For estimates, which are out of date when they arrive anyway.
    pub async fn glance<A: Send + 'static>(
        &self,
        question: impl FnOnce(&mut M, Time) -> A + Send + 'static,
    ) -> Result<A, Stopped> {
        if let Some((mut machine, now)) = self.at_once() {
            return Ok(question(&mut machine, now));
        }
        self.ask(question).await
    }

    /// As [`Mailbox::ask`], for what takes no time to answer: without the machine's thread, if it has all events that were sent before.
    pub async fn ask_briefly<A: Send + 'static>(
        &self,
        question: impl FnOnce(&mut M, Time) -> A + Send + 'static,
    ) -> Result<A, Stopped> {
        if self.waiting.events.load(Ordering::Acquire) == 0
            && let Some((mut machine, now)) = self.at_once()
        {
            return Ok(question(&mut machine, now));
        }
        self.ask(question).await
    }

    /// The machine and the time, if it is not being changed and is not due.
    fn at_once(&self) -> Option<(MutexGuard<'_, M>, Time)> {
        let shared = self.shared.get()?;
        let machine = shared.machine.try_lock()?;
        let now = shared.clock.now();
        machine.next_due().is_none_or(|due| due > now).then_some((machine, now))
    }

    /// As [`Mailbox::ask`], but one question of a user at a time: the user's further ones wait outside of the mailbox. For what
    /// takes the machine long to answer.
    pub async fn ask_alone<A: Send + 'static>(
        &self,
        user: &User,
        question: impl FnOnce(&mut M, Time) -> A + Send + 'static,
    ) -> Result<A, Stopped> {
        let lock = self.user_locks.take(user).await;
        let locked = move |machine: &mut M, now: Time| {
            // Held until the answer, also if the caller goes before: the question is still in the mailbox.
            let _lock = lock;
            question(machine, now)
        };
        self.ask(locked).await
    }

    /// Waits until everything that was sent before survives a power failure.
    pub async fn settled(&self) -> Result<(), Stopped> {
        let (sender, receiver) = oneshot::channel();
        self.sender.send(Input::Barrier(sender)).map_err(|_| Stopped)?;
        receiver.await.map_err(|_| Stopped)
    }

    /// Waits until it is known that this daemon leads, that is, that no other one has taken its journal over. The future of one that
    /// has lost its journal never ends: the daemon does. To be awaited right before something is done outside of the journal.
    pub async fn leads(&self) {
        let (sender, receiver) = oneshot::channel();
        let sent = self.sender.send(Input::LeaderCheck(sender));
        if sent.is_err() || receiver.await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The parent has kept the status updates up to there.
    pub fn acknowledged(&self, sequence: u64) {
        // A daemon that has stopped asks again when it starts.
        let _ = self.sender.send(Input::Acknowledged(sequence));
    }

    /// Ends the loop once what was sent before is done.
    pub fn stop(&self) {
        let _ = self.sender.send(Input::Stop);
    }
}

/// A mailbox and its other end.
pub(crate) fn mailbox<M: Machine>() -> (Mailbox<M>, Inbox<M>) {
    let (sender, receiver) = mpsc::channel();
    let shared = LateMachine::default();
    let mailbox =
        Mailbox { sender, waiting: Arc::default(), shared: shared.clone(), user_locks: UserLocks::default() };
    (mailbox, Inbox { receiver, shared })
}

/// The other end of a mailbox.
pub(crate) struct Inbox<M: Machine> {
    pub(super) receiver: Receiver<Input<M>>,
    shared: LateMachine<M>,
}

impl<M: Machine> Inbox<M> {
    /// Shows the machine to readers from now on.
    pub(super) fn show(&self, shared: Arc<Shared<M>>) {
        // There is one inbox, and one machine that runs on it.
        let _ = self.shared.set(shared);
    }
}
