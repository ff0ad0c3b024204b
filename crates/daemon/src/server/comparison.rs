//! Whether the journal is an older copy of itself. Before a server starts anything, it compares its journal with what the parent has kept
//! of it, or, if an operator has said that the journal was put back, asks what has changed since the copy was made.
//!
//! Two files in the state folder remember what a kill must not undo: that the journal was put back, and where it ended when a parent
//! refused it or was not there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pliant_control::names::Handle;
use pliant_control::server::{Event, Server};
use pliant_control::server_info::ServerInfo;
use pliant_transport::{AgentAddress, ClientTls};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tonic::Status;

use super::driver::kept;
use super::jobs_folder::{read, write};
use super::private_folder::make_private;
use super::unusable;
use crate::config::ServerFile;
use crate::host::{DaemonError, MachineHost, stopped};
use crate::uplink::{Inquiry, SILENCE, SinceCopy};

/// The file that says that the journal was put back. A backup has it.
pub(crate) const RESTORED: &str = "restored";
/// The file with the last status update of a journal that no parent has confirmed, and whether one has refused it.
const UNCONFIRMED: &str = "unconfirmed";
/// What is added there if a parent has refused the journal.
const REFUSED: &str = "refused";
/// How many records of jobs are journaled at once.
const AT_ONCE: usize = 1_000;
/// The pause between two questions.
const PAUSE: Duration = Duration::from_secs(1);

/// Records that a server's journal is an older copy that was put back: its next start asks its agent what has changed since.
///
/// # Errors
///
/// If the state folder cannot be written.
pub fn mark_restored(state: &Path) -> Result<(), DaemonError> {
    make_private(state).and_then(|()| write(&state.join(RESTORED), "")).map_err(unusable("state folder"))
}

/// The comparison of a server's journal with the parent's records.
#[derive(Clone)]
pub(super) struct Comparison {
    state: PathBuf,
    /// Where the journal ended, and up to which status update the parent had kept it.
    refused: Arc<OnceLock<(u64, u64)>>,
    halt: Arc<watch::Sender<bool>>,
}

/// What a file remembers of a journal that no parent has confirmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Unconfirmed {
    last: u64,
    refused: bool,
}

/// A recovered server, and the last status update that was certainly journaled before it started.
type Compared = (MachineHost<Server>, u64);

impl Comparison {
    /// Nothing is compared yet. What is returned with it says when the server is to stop: as `stop` does, or because the journal is refused.
    pub(super) fn new(state: &Path, stop: watch::Receiver<bool>) -> (Comparison, watch::Receiver<bool>) {
        let (halt, halted) = watch::channel(false);
        let halt = Arc::new(halt);
        let by_stop = halt.clone();
        tokio::spawn(async move {
            stopped(stop).await;
            by_stop.send_replace(true);
        });
        (Comparison { state: state.to_owned(), refused: Arc::default(), halt }, halted)
    }

    /// Compares before anything is started; none if the server is to stop.
    ///
    /// # Errors
    ///
    /// The journal is an older copy, or a file of the state folder cannot be used.
    pub(super) async fn before_start(
        &self,
        file: &ServerFile,
        info: ServerInfo,
        tls: Arc<ClientTls>,
        machine: MachineHost<Server>,
    ) -> Result<Option<Compared>, DaemonError> {
        let journal = machine.machine().journal().unwrap_or(machine.journal_id());
        let inquiry = Inquiry { info, journal: file.parents().journal(journal), tls };
        let is_restored = self.state.join(RESTORED).try_exists().map_err(unusable("state folder"))?;
        let compared = async {
            if !is_restored && !machine.machine().is_numbered() {
                // It never accepted a job.
                let loaded = machine.next_update() - 1;
                return Ok((machine, loaded));
            }
            match is_restored {
                true => self.restore(file, inquiry, machine).await,
                false => self.compare(file, inquiry, machine).await,
            }
        };
        tokio::select! {
            compared = compared => compared.map(Some),
            () = stopped(self.halt.subscribe()) => Ok(None),
        }
    }

    /// Compares with what each parent has kept.
    async fn compare(
        &self,
        file: &ServerFile,
        inquiry: Inquiry,
        machine: MachineHost<Server>,
    ) -> Result<Compared, DaemonError> {
        let unconfirmed = self.unconfirmed().map_err(unusable("state folder"))?;
        let last = machine.next_update() - 1;
        let last = unconfirmed.map_or(last, |unconfirmed| unconfirmed.last.min(last));
        let was_refused = unconfirmed.is_some_and(|unconfirmed| unconfirmed.refused);
        let has_jobs =
            machine.machine().open_jobs().next().is_some() || machine.machine().usage().waiting > 0;
        let wait = if has_jobs { Duration::from_secs(u64::from(file.parent_wait_s)) } else { Duration::ZERO };
        let mut is_compared = true;
        for agents in file.parents().each() {
            is_compared &= self.compare_with(agents, &inquiry, last, (wait, was_refused)).await?;
        }
        match is_compared {
            true => self.forget(UNCONFIRMED)?,
            false => {
                self.remember(Unconfirmed { last, refused: false }).map_err(unusable("state folder"))?;
            }
        }
        Ok((machine, last))
    }

    /// Compares with what the first of some agents that answers has kept. If none does for a while, the server goes on: an ordinary restart
    /// must not depend on another machine for ever. Says if the journal was compared.
    async fn compare_with(
        &self,
        agents: &[AgentAddress],
        inquiry: &Inquiry,
        last: u64,
        (wait, was_refused): (Duration, bool),
    ) -> Result<bool, DaemonError> {
        let attempt = if was_refused { SILENCE } else { SILENCE.min(wait.max(PAUSE)) };
        let begun = Instant::now();
        // Those that know nothing of the journal may never have been its parents.
        let mut strangers = BTreeSet::new();
        for tried in 1_usize.. {
            let at = (tried - 1) % agents.len();
            let answer = timeout(attempt, inquiry.kept(&agents[at])).await;
            match answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("the parent does not answer"))) {
                Ok(0) if last > 0 => {
                    strangers.insert(at);
                    if strangers.len() == agents.len() && !was_refused {
                        break;
                    }
                }
                Ok(kept) if kept <= last => break,
                Ok(kept) => {
                    self.refuse(last, kept);
                    return Err(DaemonError::OlderCopy { last, kept });
                }
                Err(status) if tried == 1 => {
                    let why = status.message();
                    tracing::warn!(
                        reason = why,
                        wait_s = wait.as_secs(),
                        "no parent to compare the journal with: nothing is started yet"
                    );
                }
                Err(_) => {}
            }
            if !was_refused && tried >= agents.len() && begun.elapsed() >= wait {
                tracing::warn!("no parent answers: goes on with a journal that was not compared");
                return Ok(false);
            }
            sleep(PAUSE).await;
        }
        Ok(true)
    }

    /// Asks the parents what has changed since the copy was made, and journals that.
    async fn restore(
        &self,
        file: &ServerFile,
        inquiry: Inquiry,
        machine: MachineHost<Server>,
    ) -> Result<Compared, DaemonError> {
        let jobs: Vec<Handle> = machine.machine().open_jobs().cloned().collect();
        let last = machine.machine().last_number();
        tracing::info!(
            jobs = jobs.len(),
            "the journal was put back: the agents are asked what has changed since"
        );
        let mut since = SinceCopy::default();
        for agents in file.parents().each() {
            // Each master knows the jobs of its own users.
            since.join(since_copy(agents, file.parent_wait_s, &inquiry, &jobs, last).await);
        }
        let SinceCopy { highest, known, later, .. } = since;
        tracing::info!(
            highest,
            known = known.len(),
            jobs = jobs.len(),
            later = later.len(),
            "the journal is restored"
        );
        // The agent counts the status updates of each number by themselves: those of the copy have numbers that others had.
        let restored = Event::Restored { journal: rand::random(), highest, known };
        let record = move || {
            let later = later.chunks(AT_ONCE).map(|later| Event::RestoredLater(later.to_vec()));
            let mut events = later.chain([restored]);
            events.try_fold(machine, |machine, event| machine.record_all(event, kept))
        };
        let machine = tokio::task::spawn_blocking(record).await.expect("journaling does not panic")?;
        self.forget(UNCONFIRMED)?;
        self.forget(RESTORED)?;
        let loaded = machine.next_update() - 1;
        Ok((machine, loaded))
    }

    /// The parent of a running server has compared the journal: how long that was, and up to where the parent has kept it if that is more.
    pub(super) fn compared(&self, compared: Result<(), (u64, u64)>) {
        match compared {
            Ok(()) => {
                if let Err(error) = self.forget(UNCONFIRMED) {
                    tracing::warn!(%error, "the next start compares the journal again");
                }
            }
            Err((last, kept)) => self.refuse(last, kept),
        }
    }

    /// Why the server has stopped by itself, if it has.
    pub(super) fn outcome(&self) -> Result<(), DaemonError> {
        match self.refused.get() {
            Some((last, kept)) => Err(DaemonError::OlderCopy { last: *last, kept: *kept }),
            None => Ok(()),
        }
    }

    /// Stops the server, and has later starts wait for the parent however long that takes.
    fn refuse(&self, last: u64, kept: u64) {
        if let Err(error) = self.remember(Unconfirmed { last, refused: true }) {
            tracing::error!(%error, "cannot record in the state folder that the journal is an older copy");
        }
        // The first refusal is the reason.
        let _ = self.refused.set((last, kept));
        self.halt.send_replace(true);
    }

    fn unconfirmed(&self) -> io::Result<Option<Unconfirmed>> {
        let path = self.state.join(UNCONFIRMED);
        let Some(line) = read(&path)? else { return Ok(None) };
        let (number, word) = line.split_once(' ').unwrap_or((&line, ""));
        let wrong = || {
            let why =
                format!("{}: expected a number, perhaps with `{REFUSED}`, found {line:?}", path.display());
            io::Error::new(ErrorKind::InvalidData, why)
        };
        let last = number.parse().map_err(|_| wrong())?;
        Ok(Some(Unconfirmed { last, refused: word == REFUSED }))
    }

    fn remember(&self, Unconfirmed { last, refused }: Unconfirmed) -> io::Result<()> {
        let line = if refused { format!("{last} {REFUSED}") } else { last.to_string() };
        write(&self.state.join(UNCONFIRMED), &line)
    }

    fn forget(&self, name: &str) -> Result<(), DaemonError> {
        let removed = match fs::remove_file(self.state.join(name)) {
            Ok(()) => File::open(&self.state).and_then(|folder| folder.sync_all()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        removed.map_err(unusable("state folder"))
    }
}

/// What the parents know of what has happened since a copy was made. Waits for one that has known its journal, however long that takes; if
/// all others answer, or one has answered and no further one for a while, there is none.
async fn since_copy(
    agents: &[AgentAddress],
    parent_wait_s: u32,
    inquiry: &Inquiry,
    jobs: &[Handle],
    last: u32,
) -> SinceCopy {
    let mut answers: BTreeMap<usize, SinceCopy> = BTreeMap::new();
    let mut answered: Option<Instant> = None;
    loop {
        for (at, parent) in agents.iter().enumerate() {
            match inquiry.since_copy(parent, jobs, last).await {
                Ok(answer) if answer.kept > 0 => return answer,
                Ok(answer) => {
                    answers.insert(at, answer);
                    answered.get_or_insert_with(Instant::now);
                }
                Err(status) => {
                    let (why, parent) = (status.message(), &parent.name);
                    tracing::warn!(reason = why, %parent, "cannot ask the parent: nothing is started until one answers");
                }
            }
        }
        let is_late = answered.is_some_and(|at| at.elapsed().as_secs() >= u64::from(parent_wait_s));
        if (answers.len() == agents.len() || is_late)
            && let Some(most) =
                answers.into_values().max_by_key(|answer| answer.known.len() + answer.later.len())
        {
            return most;
        }
        answers = BTreeMap::new();
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_kill_must_not_undo_is_remembered() {
        let state = tempfile::tempdir().unwrap();
        let (_stop, stopping) = watch::channel(false);
        let comparison = || Comparison::new(state.path(), stopping.clone());
        let (first, halted) = comparison();
        assert_eq!(first.unconfirmed().unwrap(), None);
        for refused in [false, true] {
            let unconfirmed = Unconfirmed { last: 12, refused };
            first.remember(unconfirmed).unwrap();
            assert_eq!(comparison().0.unconfirmed().unwrap(), Some(unconfirmed));
        }
        first.compared(Ok(()));
        assert_eq!(first.unconfirmed().unwrap(), None);
        assert!(first.outcome().is_ok() && !*halted.borrow());
        first.compared(Err((12, 20)));
        assert!(matches!(first.outcome(), Err(DaemonError::OlderCopy { last: 12, kept: 20 })));
        assert!(*halted.borrow());
        assert_eq!(comparison().0.unconfirmed().unwrap(), Some(Unconfirmed { last: 12, refused: true }));
        fs::write(state.path().join(UNCONFIRMED), "x\n").unwrap();
        let why = first.unconfirmed().unwrap_err().to_string();
        assert!(why.contains("expected a number") && why.contains("\"x\""), "{why}");
        mark_restored(state.path()).unwrap();
        first.forget(RESTORED).unwrap();
        first.forget(RESTORED).unwrap();
    }
}
