//! Failures of the host between two starts of a server that has resident services.
//!
//! Calls of resident processes are journaled without waiting for the disk, and so are the records in their folders. A kill of the server
//! loses none of that; a power failure may. So a server with resident services notes in which boot of its host it runs. When it starts in
//! another one, the numbers of the jobs that the journal may lack are skipped, and no call that was handed over, or may have been, is
//! begun again: its node has failed.

use std::io;
use std::path::{Path, PathBuf};

use pliant_control::batch;
use pliant_control::job::{Exit, JobRecord, JobState};
use pliant_control::server::{Event, Server};
use pliant_model::JobId;
use pliant_site::processes;

use super::driver::kept;
use super::execution::{Execution, ExecutionId, Program};
use super::jobs_folder::{read, write};
use super::private_folder::make_private;
use crate::host::{DaemonError, MachineHost, Mailbox};

/// The file in the state folder that names the boot.
const FILE: &str = "boot";

/// The boot of the host in which a server runs.
pub(super) struct Boot {
    file: PathBuf,
    present: String,
    /// The server ran in another boot before.
    is_other: bool,
}

impl Boot {
    /// Compares the boot with that of the last run.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or not be written at the first start with a resident service.
    pub(super) fn read(state: &Path, has_residents: bool) -> io::Result<Boot> {
        Boot::compared(state, has_residents, processes::boot_id())
    }

    fn compared(state: &Path, has_residents: bool, present: String) -> io::Result<Boot> {
        let file = state.join(FILE);
        let last = read(&file)?;
        if last.is_none() && has_residents {
            make_private(state)?;
            write(&file, &present)?;
        }
        let is_other = last.is_some_and(|last| last != present);
        Ok(Boot { file, present, is_other })
    }

    /// Whether the host failed, or was restarted, since the server ran last.
    pub(super) fn is_other(&self) -> bool {
        self.is_other
    }

    /// Ends the calls that waited for processors when the host failed: they may have been started, and the journal may lack that.
    ///
    /// # Errors
    ///
    /// The journal cannot be written.
    pub(super) async fn end_waiting(
        &self,
        mut host: MachineHost<Server>,
    ) -> Result<MachineHost<Server>, DaemonError> {
        if !self.is_other {
            return Ok(host);
        }
        let ended = move || {
            let machine = host.machine();
            let waits = |number, record: &JobRecord| {
                record.state == JobState::Queued
                    && machine.payload(number).is_some_and(Program::is_resident_call)
            };
            let waiting = machine.jobs_after(0).filter(|(number, record)| waits(*number, record));
            let waiting: Vec<JobId> = waiting.map(|(number, _)| JobId(number)).collect();
            for job in waiting {
                tracing::info!(job = job.0, "its host was restarted before the call was concluded");
                host = host.record_all(Event::Batch(node_failed(job)), kept)?;
            }
            Ok(host)
        };
        tokio::task::spawn_blocking(ended).await.expect("journaling does not panic")
    }

    /// Reports a call that ran, or waited for its turn, when the host failed. False if it is none, and is to be resumed.
    pub(super) fn has_ended(
        &self,
        execution: &Execution,
        cancelling: bool,
        mailbox: &Mailbox<Server>,
    ) -> bool {
        let ExecutionId::Job(job) = execution.id else { return false };
        if !self.is_other || !execution.is_resident() {
            return false;
        }
        tracing::info!(job = %execution, "its host was restarted before the call was concluded");
        let event = match cancelling {
            true => batch::Event::Ended { job, exit: Exit::Cancelled, elapsed_ms: None },
            false => node_failed(job),
        };
        // A server that has stopped finds it again.
        let _ = mailbox.send(Event::Batch(event));
        true
    }

    /// Notes the present boot, once what the last one has left is journaled.
    pub(super) async fn noted(self, mailbox: Mailbox<Server>) {
        if !self.is_other || mailbox.settled().await.is_err() {
            return;
        }
        let written = tokio::task::spawn_blocking(move || write(&self.file, &self.present)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(%error, "cannot note the boot of the host: calls count as lost at the next start, too");
        }
    }
}

fn node_failed(job: JobId) -> batch::Event {
    batch::Event::NodeFailed { job, exit: Exit::Lost(processes::Lost::HostRestarted.to_string()) }
}

#[cfg(test)]
mod tests {
    use pliant_control::payload::Payload;

    use super::super::driver::tests::{call, server, submit};
    use super::*;

    #[test]
    fn a_server_without_resident_services_has_nothing_to_compare() {
        let state = tempfile::tempdir().unwrap();
        let boot = |has_residents, present: &str| {
            Boot::compared(state.path(), has_residents, present.to_owned()).unwrap().is_other()
        };
        assert!(!boot(false, "one") && !boot(false, "two"));
        assert!(!boot(true, "two"), "its first start");
        assert!(!boot(true, "two"));
        assert!(boot(true, "three"));
        assert!(boot(true, "three"), "until what was left is journaled");
    }

    #[tokio::test]
    async fn calls_that_waited_when_the_host_failed_are_lost_and_jobs_wait_on() {
        let root = tempfile::tempdir().unwrap();
        let journal = pliant_journal::open_sqlite(root.path()).unwrap();
        let mut machine = MachineHost::of(journal, |_, now| server(now), |_| Err("new".to_owned())).unwrap();
        for (key, payload) in [(1, call()), (2, call()), (3, Payload::default())] {
            machine = machine.record_all(submit(key, payload), kept).unwrap();
        }
        let boot = |present: &str| Boot::compared(root.path(), true, present.to_owned()).unwrap();
        let states = |machine: &MachineHost<Server>| {
            let states = machine.machine().jobs_after(0).map(|(_, record)| record.state);
            states.collect::<Vec<_>>()
        };
        machine = boot("one").end_waiting(machine).await.unwrap();
        assert_eq!(states(&machine), [JobState::Queued; 3], "the same boot");
        machine = boot("two").end_waiting(machine).await.unwrap();
        assert_eq!(states(&machine), [JobState::Failed, JobState::Failed, JobState::Queued]);
        let exit = machine.machine().job(1).unwrap().exit.clone();
        assert!(matches!(&exit, Some(Exit::Lost(why)) if why.contains("restarted")), "{exit:?}");
    }
}
