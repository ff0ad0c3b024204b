//! Explorations (paper 004): a server's cores for mandatory and optional requests, besides its batch system.
//!
//! The machine is `pliant_control::optional::server` on a thread of its own, with a journal of its own in the folder
//! `optional` of the state: the two share no processor, and an exploration's many short requests are not to keep jobs
//! waiting for the disk. What a client was answered is in that journal, which leaves the time of its syncs to the system
//! (`Durability::Process`): clients of a host that lost its power say again what may have been lost. What makes sure that no mandatory request is lost
//! if a process fails is the client: it submits what it has no answer for again under the same number, and a request that was
//! completed is not run twice as long as the server remembers its exploration.

mod calls;
mod driver;
mod inputs;
mod stream;
mod upkeep;
mod work;

use std::sync::Arc;

use pliant_control::names::User;
use pliant_control::optional::server::{Config, Journaled, Requests};
use pliant_journal::{self as journal, Durability};
use pliant_model::TimeMs;
use pliant_model::rng::Draws;
use pliant_transport::Clock;
use tokio::sync::watch;

use self::driver::{Answered, Leftovers, Listeners, RequestsDriver};
use super::closures::Closures;
use super::execution::observer::{Observer, RequestObserver};
use super::execution::{Host, Runner, Timers};
use super::offer::ServiceOffer;
use super::upkeep::Removals;
use crate::config::{OptionalFile, ServerFile};
use crate::host::{DaemonError, JournalHealth, MachineHost, MachineThread, Mailbox, Replies, Settings};

pub(super) use self::work::PAUSE;

/// The requests of a server, for those who call it.
#[derive(Clone)]
pub(super) struct Explorations {
    file: OptionalFile,
    offer: ServiceOffer,
    closures: Closures,
    mailbox: Mailbox<Journaled>,
    replies: Replies<Answered, User>,
    listeners: Listeners,
    runner: Runner<RequestObserver>,
    clock: Clock,
    health: JournalHealth,
    /// Whether metrics of each user are shown.
    user_metrics: bool,
    removals: Removals,
}

impl Explorations {
    /// Why the journal cannot be written, if it cannot.
    pub(super) fn failure(&self) -> Option<String> {
        self.health.failure()
    }
}

/// The present time of a clock.
fn moment(clock: &Clock) -> TimeMs {
    TimeMs(clock.exact().as_millis() as i64)
}

/// Goes on with the requests in the journal, if the server is to take any.
pub(super) async fn start(
    file: &ServerFile,
    own: Arc<Host>,
    (offer, closures): (&ServiceOffer, &Closures),
    halted: watch::Receiver<bool>,
) -> Result<Option<(Explorations, MachineThread)>, DaemonError> {
    let Some(optional) = file.optional.clone() else { return Ok(None) };
    let user_metrics = file.http.as_ref().is_some_and(|http| http.user_metrics);
    let name = format!("requests of {}", file.name);
    let folder = file.state.join("optional");
    let config = config(&optional)?;
    let new = move |journal_id| {
        // Ties are drawn anew for each journal.
        Requests::new(Config { draws: Draws::new(journal_id, "ties"), ..config.clone() })
    };
    let again = new.clone();
    let host = MachineHost::recover(
        name,
        move || journal::open_sqlite_for(&folder, Durability::Process),
        move |journal_id, _| Journaled::new(again(journal_id)),
        Ok,
    )
    .await?;
    let configured = new(host.journal_id());
    let host = host.adapt(|requests| requests.reconfigured(configured))?;
    let (mailbox, clock, health) = (host.mailbox.clone(), host.clock, host.health.clone());
    let observer = RequestObserver { mailbox: mailbox.clone(), clock };
    let timers = {
        let observer = observer.clone();
        Timers::start(clock, move |id, end| observer.ended(id, end)).map_err(DaemonError::Thread)?
    };
    let runner = Runner::new(own, observer, Some(timers));
    for process in host.machine().requests().processes() {
        driver::run(&runner, &process, optional.first_core, true);
    }
    let (replies, listeners) = (Replies::new(&clock), Listeners::default());
    let driver = RequestsDriver {
        replies: replies.clone(),
        listeners: listeners.clone(),
        leftovers: Leftovers::new(runner.host.runtime.clone()),
        runner: runner.clone(),
        first_core: optional.first_core,
        wakes: None,
    };
    let settings = Settings { history: Settings::days(0), notices: false, ..Settings::default() };
    let thread = host.start("requests", driver, settings)?;
    let explorations = Explorations {
        file: optional,
        offer: offer.clone(),
        closures: closures.clone(),
        mailbox,
        replies,
        listeners,
        runner,
        clock,
        health,
        user_metrics,
        removals: Removals::default(),
    };
    tokio::spawn(explorations.clone().look_after(halted));
    Ok(Some((explorations, thread)))
}

fn config(file: &OptionalFile) -> Result<Config, DaemonError> {
    // The file was checked when it was read; this is for files made in memory.
    file.config().map_err(|(key, message)| {
        DaemonError::Config(crate::config::wrong_value(std::path::Path::new("in memory"), key, message))
    })
}
