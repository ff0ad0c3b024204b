//! What the commands of a server's requests mean outside: answers, runs, status updates for those who listen.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pliant_control::names::{Key, User};
use pliant_control::optional::server::{
    Answer, Command, Event, Journaled, Process, RequestKey, RequestState, TimedEvent, UserShare,
};
use pliant_model::{Time, TimeMs};
use pliant_site::JobFolder;
use pliant_telemetry::names;
use pliant_wire::bounds::OUTPUT_BYTES_MAX;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};

use crate::host::{Driver, DurableRecord, Replies};
use crate::server::execution::observer::{Observer, RequestObserver};
use crate::server::execution::{End, Execution, ExecutionId, Runner, blocking};

/// How many ends a slow listener may be behind.
const BEHIND: usize = 4_096;
/// Of how many ended requests of one user files are removed at the same time.
const REMOVED_AT_ONCE: usize = 2;

/// An answer, and the share of its caller.
pub(super) type Answered = (Answer, Option<UserShare>);
/// The end of a request, and the share of its user.
pub(super) type Ended = (u32, RequestState, Option<UserShare>);

/// Those who listen to one exploration.
type Streams = Vec<mpsc::Sender<Ended>>;

/// Those who listen to the ends of an exploration's requests.
#[derive(Clone, Default)]
pub(super) struct Listeners(Arc<Mutex<HashMap<(User, Key), Streams>>>);

impl Listeners {
    /// Begins to listen. A listener that is too slow gets nothing more, and asks again.
    pub(super) fn listen(&self, user: &User, exploration: Key) -> mpsc::Receiver<Ended> {
        let (sender, receiver) = mpsc::channel(BEHIND);
        let mut listeners = self.0.lock();
        // Those who have gone leave nothing behind.
        listeners.retain(|_, senders| {
            senders.retain(|sender| !sender.is_closed());
            !senders.is_empty()
        });
        listeners.entry((user.clone(), exploration)).or_default().push(sender);
        receiver
    }

    fn notify(&self, user: &User, exploration: Key, ended: &Ended) {
        if let Some(senders) = self.0.lock().get_mut(&(user.clone(), exploration)) {
            senders.retain(|sender| sender.try_send(ended.clone()).is_ok());
        }
    }
}

/// The files of ended requests are removed, but for the outputs, which their users may ask for again. A process of the account removes them,
/// which its user can stop: that delays those of the same user alone.
pub(super) struct Leftovers {
    runtime: Handle,
    /// The places of users of whom files are being removed.
    places: Arc<Mutex<HashMap<User, Arc<Semaphore>>>>,
}

impl Leftovers {
    /// None yet. They are removed on that runtime.
    pub(super) fn new(runtime: Handle) -> Leftovers {
        Leftovers { runtime, places: Arc::default() }
    }

    /// Removes those of a user's request, whose folder that is. What cannot be removed now goes with the exploration.
    fn remove(&self, user: User, dir: PathBuf) {
        self.when_in_turn(user, async move {
            let removed = blocking(&dir, |dir| match dir.exists() {
                true => JobFolder::at(dir)?.keep_outputs(OUTPUT_BYTES_MAX as u64),
                // It was no program, or did not begin.
                false => Ok(()),
            });
            if let Err(error) = removed.await {
                tracing::warn!(%error, dir = %dir.display(), "the files of an ended request cannot be removed");
            }
        });
    }

    fn when_in_turn(&self, user: User, removal: impl Future<Output = ()> + Send + 'static) {
        let new = || Arc::new(Semaphore::new(REMOVED_AT_ONCE));
        let own = self.places.lock().entry(user.clone()).or_insert_with(new).clone();
        let places = self.places.clone();
        self.runtime.spawn(async move {
            // It is never closed.
            if let Ok(_place) = own.acquire().await {
                removal.await;
            }
            let mut places = places.lock();
            drop(own);
            if places.get(&user).is_some_and(|own| Arc::strong_count(own) == 1) {
                places.remove(&user);
            }
        });
    }
}

/// Carries out what a server's requests want done.
pub(super) struct RequestsDriver {
    /// Calls that wait for an answer, each with its user.
    pub(super) replies: Replies<Answered, User>,
    pub(super) listeners: Listeners,
    pub(super) leftovers: Leftovers,
    pub(super) runner: Runner<RequestObserver>,
    /// The first of the cores that requests are pinned to.
    pub(super) first_core: Option<u32>,
    /// When the machine is notified next that time has passed.
    pub(super) wakes: Option<TimeMs>,
}

impl Driver<Journaled> for RequestsDriver {
    fn keeps(&mut self, _command: &Command) -> DurableRecord {
        DurableRecord::Nothing
    }

    fn carry_out(&mut self, machine: &Journaled, _now: Time, command: Command, _notice: Option<u64>) {
        let share = |user: &User| {
            let share = machine.requests().share(machine.at(), user)?;
            Some(UserShare { user: user.clone(), share })
        };
        match command {
            Command::Reply { to, answer } => {
                self.replies.answer_with(to, |user| (answer, share(user)));
            }
            Command::Run { request, .. } => {
                let process = machine.requests().processes().find(|process| process.request == request);
                if let Some(process) = process {
                    run(&self.runner, &process, self.first_core, false);
                }
            }
            Command::End { request } => self.runner.end(ExecutionId::Request(request)),
            Command::ReportState { key, state } => {
                metrics::counter!(names::OPTIONAL_ENDED, "outcome" => word(state)).increment(1);
                let RequestKey { exploration, number } = key;
                if let Some(user) = machine.requests().owner(exploration) {
                    self.leftovers.remove(user.clone(), self.runner.host.request_dir(key));
                    self.listeners.notify(user, exploration, &(number, state, share(user)));
                }
            }
        }
    }

    fn committed(&mut self, machine: &Journaled) {
        let wakes = machine.next_wake();
        if wakes == self.wakes {
            return;
        }
        self.wakes = wakes;
        let Some(at) = wakes else { return };
        let left = (at - super::moment(&self.runner.observer.clock)).0.max(0).unsigned_abs();
        let mailbox = self.runner.observer.mailbox.clone();
        self.runner.host.runtime.spawn(async move {
            tokio::time::sleep(Duration::from_millis(left)).await;
            // A server that has stopped has nothing to decide.
            let _ = mailbox.send(TimedEvent { at, event: Event::Due });
        });
    }
}

/// Runs a request, or goes on with one that ran before a restart.
pub(super) fn run(
    runner: &Runner<RequestObserver>,
    process: &Process,
    first_core: Option<u32>,
    restarted: bool,
) {
    match Execution::of_request(&runner.host, process, first_core) {
        Ok(execution) if restarted => runner.resume(execution, process.ending),
        Ok(execution) => runner.start(execution),
        Err(error) => {
            let why = format!("what was journaled of it cannot be read: {error}");
            tracing::error!(%error, "a request cannot be run: its journaled program makes no sense");
            runner.observer.ended(ExecutionId::Request(process.request), End::NotStarted(why));
        }
    }
}

fn word(state: RequestState) -> &'static str {
    match state {
        RequestState::Waiting | RequestState::Running => "running",
        RequestState::Completed => "completed",
        RequestState::Failed => "failed",
        RequestState::Cancelled => "cancelled",
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_user_whose_files_are_not_removed_delays_no_other() {
        let leftovers = Leftovers::new(Handle::current());
        let user = |name: &str| -> User { name.parse().unwrap() };
        let stuck = Arc::new(Semaphore::new(0));
        for _ in 0..10 {
            let stuck = stuck.clone();
            leftovers.when_in_turn(user("alice"), async move { drop(stuck.acquire().await) });
        }
        let (done, was_done) = oneshot::channel();
        leftovers.when_in_turn(user("bob"), async move { done.send(()).unwrap() });
        was_done.await.unwrap();
        assert!(leftovers.places.lock().contains_key(&user("alice")));
        stuck.add_permits(1);
        while !leftovers.places.lock().is_empty() {
            tokio::task::yield_now().await;
        }
    }
}
