//! Explorations (paper 004): a server's cores for mandatory and optional requests, beside its batch system.
//!
//! The machine is `pliant_control::optional::server` on a thread of its own, with a journal of its own in the folder
//! `optional` of the state: the two share no processor, and an exploration's many short requests are not to keep jobs
//! waiting for the disk. What a client was answered is in that journal, which leaves the time of its syncs to the system
//! (`Durability::Process`): clients of a host that lost its power say again what may have been lost. What makes sure that no mandatory request is lost
//! whoever dies is the client: it submits what it has no answer for again under the same number, and a request that was
//! completed is not run twice as long as the server remembers its exploration.

mod calls;
mod driver;
mod launch;
mod pauses;
mod runs;
mod stream;
mod upkeep;

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use pliant_control::optional::server::{Config, Journaled, Requests};
use pliant_journal::{self as journal, Durability};
use pliant_model::TimeMs;
use pliant_staging::Store;
use pliant_transport::Clock;
use tokio::sync::watch;

use self::driver::{Calls, Listeners, RequestsDriver};
use self::pauses::Pauses;
use self::runs::{Runs, ended};
use super::launch::Host;
use super::offer::Shop;
use crate::config::{OptionalFile, ServerFile};
use crate::host::{DaemonError, MachineThread, Mailbox, RunnerError, Settings, mailbox, recover};

pub(super) use self::launch::PAUSE;

/// The requests of a server, for those who call it.
#[derive(Clone)]
pub(super) struct Explorations {
    file: OptionalFile,
    shop: Shop,
    store: Store,
    mailbox: Mailbox<Journaled>,
    calls: Calls,
    listeners: Listeners,
    runs: Runs,
    clock: Clock,
    tokens: Arc<AtomicU64>,
    failure: Arc<Mutex<Option<String>>>,
}

impl Explorations {
    /// Why the journal cannot be written, if it cannot.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }
}

/// The present time of a clock.
fn moment(clock: &Clock) -> TimeMs {
    TimeMs(clock.exact().as_millis() as i64)
}

/// What it takes to begin.
pub(super) struct Around<'a> {
    pub(super) file: &'a ServerFile,
    pub(super) host: &'a Host,
    pub(super) shop: &'a Shop,
    pub(super) store: &'a Store,
    pub(super) supervisor: &'a [OsString],
    pub(super) halted: watch::Receiver<bool>,
}

/// Goes on with the requests that the journal tells of, if the server is to take any.
pub(super) async fn start(
    around: Around<'_>,
) -> Result<Option<(Explorations, MachineThread<Journaled>)>, DaemonError> {
    let Around { file, host, shop, store, supervisor, halted } = around;
    let Some(optional) = file.optional.clone() else { return Ok(None) };
    let name = format!("requests of {}", file.name);
    let folder = file.state.join("optional");
    let of_file = optional.clone();
    let opened = tokio::task::spawn_blocking(move || -> Result<_, DaemonError> {
        let mut journal = journal::open_sqlite_for(&folder, Durability::Process)?;
        journal.claim(&name)?;
        let config = config(&of_file, journal.id())?;
        let new = |_| Journaled::new(Requests::new(config.clone()));
        let mut recovered = recover(journal.as_mut(), new, Ok)?;
        let fits = recovered.machine.fits(Requests::new(config.clone()));
        recovered.machine = fits.map_err(|why| RunnerError::Restore { why })?;
        Ok((journal, recovered))
    });
    let (journal, recovered) = opened.await.expect("recovery does not panic")?;
    let (mailbox, inbox) = mailbox::<Journaled>();
    let clock = recovered.clock;
    let pauses = {
        let mailbox = mailbox.clone();
        Pauses::start(clock, move |request, exit, at| ended(&mailbox, &clock, request, exit, at))
    };
    let pauses = pauses.map_err(DaemonError::Thread)?;
    let runs = Runs {
        pauses,
        folder: file.state.join("requests"),
        cluster: host.cluster.clone(),
        first_core: optional.first_core,
        supervisor: supervisor.to_vec().into(),
        mailbox: mailbox.clone(),
        clock,
        runtime: tokio::runtime::Handle::current(),
        stops: Arc::default(),
    };
    for process in recovered.machine.requests().processes() {
        runs.run(process, true);
    }
    let (calls, listeners) = (Calls::default(), Listeners::default());
    let failure = Arc::new(Mutex::new(None));
    let driver = RequestsDriver {
        calls: calls.clone(),
        listeners: listeners.clone(),
        runs: runs.clone(),
        failure: failure.clone(),
        wakes: None,
    };
    let settings = Settings { history: Settings::days(0), notices: false, ..Settings::default() };
    let inbox = (mailbox.clone(), inbox);
    let thread = MachineThread::start("requests", recovered, journal, driver, inbox, settings)?;
    let tokens = Arc::new(AtomicU64::new(clock.exact().as_micros() as u64));
    let explorations = Explorations {
        file: optional,
        shop: shop.clone(),
        store: store.clone(),
        mailbox,
        calls,
        listeners,
        runs,
        clock,
        tokens,
        failure,
    };
    tokio::spawn(explorations.clone().look_after(halted));
    Ok(Some((explorations, thread)))
}

fn config(file: &OptionalFile, seed: u64) -> Result<Config, DaemonError> {
    // The file was checked when it was read; this is for files made in memory.
    file.config(seed).map_err(|(key, message)| {
        DaemonError::Config(crate::config::wrong_value(std::path::Path::new("in memory"), key, message))
    })
}
