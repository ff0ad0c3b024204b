//! Jobs that wait here since the batch system takes no more jobs of their accounts at the moment. They are tried again with longer and
//! longer pauses, one job of an account at a time: however many wait, the batch system is asked no more often.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pliant_control::batch;
use pliant_control::batch::external::Event;
use pliant_control::server::{self, Server};
use pliant_model::JobId;
use pliant_site::accounts::AccountName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Job;
use crate::host::Mailbox;

/// The shortest and the longest pause before a job is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// How often a job is tried before another one of its account is: some limits concern large jobs alone.
const TRIES_MAX: u32 = 10;
/// How often a job that waits looks whether it is to be submitted at all.
const LOOKS_EVERY: Duration = Duration::from_secs(5);

/// The accounts whose jobs wait here; those of the server's own user have none.
#[derive(Clone, Default, Debug)]
pub(super) struct Limits(Arc<Mutex<BTreeMap<Option<AccountName>, Account>>>);

/// The jobs of an account that wait here.
#[derive(Clone, Debug)]
struct Account {
    /// The turn of the one that is tried next.
    turn: Arc<Semaphore>,
    /// The pause before it is.
    pause: Arc<Mutex<Duration>>,
}

/// A job that waits here and whose turn it is. Dropped, it is the turn of the next one.
#[derive(Debug)]
pub(super) struct Waiting {
    account: Account,
    tries: u32,
    _turn: OwnedSemaphorePermit,
}

impl Waiting {
    /// The job was taken: the next one may be as well, and is tried at once.
    pub(super) fn taken(self) {
        *self.account.pause.lock() = Duration::ZERO;
    }
}

impl Limits {
    /// Waits until a job is to be tried again that the batch system does not take for a limit; `waiting` is what this returned before.
    /// None if it is not to be submitted any more.
    pub(super) async fn wait(
        &self,
        mailbox: &Mailbox<Server>,
        job: &Job,
        limit: &(dyn fmt::Display + Sync),
        waiting: Option<Waiting>,
    ) -> Option<Waiting> {
        if waiting.is_none() {
            tracing::warn!(job = job.number, %limit, "waits at this server until the batch system takes it");
            let event = Event::Limited { job: JobId(job.number), why: limit.to_string() };
            // A server that has stopped finds out again.
            let _ = mailbox.send(server::Event::Batch(batch::Event::External(event)));
        }
        let number = job.number;
        tokio::select! {
            waiting = self.turn(job, waiting) => Some(waiting),
            () = unwanted(mailbox, number) => None,
        }
    }

    /// Waits for a job's turn and for the pause.
    async fn turn(&self, job: &Job, waiting: Option<Waiting>) -> Waiting {
        let account = match &waiting {
            Some(waiting) => waiting.account.clone(),
            None => self.0.lock().entry(job.account().cloned()).or_insert_with(Account::new).clone(),
        };
        let kept = waiting.filter(|waiting| waiting.tries < TRIES_MAX);
        let mut waiting = match kept {
            Some(waiting) => waiting,
            None => {
                let turn = account.turn.clone().acquire_owned().await;
                let _turn = turn.expect("the turns of an account are never closed");
                Waiting { account, tries: 0, _turn }
            }
        };
        let pause = {
            let mut next = waiting.account.pause.lock();
            let pause = *next;
            *next = (pause * 2).clamp(PAUSES.0, PAUSES.1);
            pause
        };
        tokio::time::sleep(pause).await;
        waiting.tries += 1;
        waiting
    }
}

impl Account {
    fn new() -> Account {
        Account { turn: Arc::new(Semaphore::new(1)), pause: Arc::new(Mutex::new(PAUSES.0)) }
    }
}

/// Ends when a job is not to be submitted any more.
pub(super) async fn unwanted(mailbox: &Mailbox<Server>, number: u32) {
    loop {
        if let Ok(true) = mailbox.ask(move |server, _| server.is_unwanted(number)).await {
            return;
        }
        tokio::time::sleep(LOOKS_EVERY).await;
    }
}
