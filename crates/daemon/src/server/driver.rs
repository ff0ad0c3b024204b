//! Carries out the commands of a server's machine: replies, executions, status updates.

use std::sync::Arc;

use pliant_control::batch;
use pliant_control::handoff::MoveOutcome;
use pliant_control::job::{JobRecord, JobState};
use pliant_control::local::LocalJob;
use pliant_control::server::{Answer, Command, Server};
use pliant_journal::LocalJobRow;
use pliant_model::Time;
use pliant_telemetry::names;
use tokio::sync::broadcast;

use super::closures::Closures;
use super::cluster::Cluster;
use super::execution::observer::JobObserver;
use super::execution::{Execution, ExecutionId, Runner};
use super::job_ends::JobEnds;
use super::offer::FreeProcs;
use super::peer_servers::PeerServers;
use super::subjobs::SubjobDriver;
use super::submitted::keep_without_start;
use super::user_metrics::UserMetrics;
use crate::audit;
use crate::host::{Driver, DurableRecord, JournalHealth, Replies, json, observe_accuracy, row};
use crate::uplink::Upward;

/// Carries out what a server wants done.
pub(super) struct ServerDriver {
    pub(super) replies: Replies<Answer>,
    pub(super) runner: Runner<JobObserver>,
    /// The batch system, if it is not the embedded one.
    pub(super) cluster: Option<Cluster>,
    pub(super) peers: PeerServers,
    pub(super) subjobs: SubjobDriver,
    pub(super) changes: broadcast::Sender<Arc<JobRecord>>,
    /// Who waits for the ends of jobs.
    pub(super) ends: JobEnds,
    pub(super) upward: Upward,
    /// The free processors that the agent is notified of.
    pub(super) free: FreeProcs,
    /// What operators have closed, for those who ask outside the machine.
    pub(super) closures: Closures,
    /// If metrics by user are shown.
    pub(super) users: Option<UserMetrics>,
    /// The health of the journal, and with it the space of the disk.
    pub(super) health: JournalHealth,
}

impl Driver<Server> for ServerDriver {
    fn keeps(&mut self, command: &Command) -> DurableRecord {
        kept(command)
    }

    fn carry_out(&mut self, machine: &Server, _now: Time, command: Command, notice: Option<u64>) {
        match command {
            Command::Reply { to, answer } => {
                count(&answer);
                self.replies.answer(to, answer);
            }
            Command::Batch(batch::Command::Run(run)) => {
                if let Some(execution) = Execution::of_run(&self.runner.host, machine, &run) {
                    self.runner.start(execution);
                }
            }
            Command::Batch(batch::Command::Terminate { job }) => self.runner.end(ExecutionId::Job(job)),
            Command::Batch(batch::Command::External(command)) => {
                if let Some(cluster) = &self.cluster {
                    cluster.carry_out(machine, command);
                }
            }
            Command::Call { to, id, call } => self.peers.call(to, id, call),
            Command::Report(record) => {
                if let Some(users) = &self.users {
                    users.note(&record);
                }
                if let Some(sequence) = notice {
                    self.upward.status_update(sequence);
                }
                let record = Arc::from(record);
                self.ends.reported(&record);
                // There may be no watchers.
                let _ = self.changes.send(record);
            }
            Command::Subjob(command) => self.subjobs.carry_out(machine, command),
            // The last space of the disk is for the journal.
            Command::KeepSubmitted { record, payload } if self.health.shortage().is_none() => {
                keep_without_start(&self.runner.host, &record, &payload);
            }
            Command::KeepSubmitted { .. } | Command::ArchiveLocal(_) | Command::Audit(_) => {}
            Command::Freed => self.upward.freed(),
            Command::Archive(record) => {
                if record.server() == machine.name() {
                    observe_accuracy(&record);
                } else {
                    metrics::counter!(names::JOBS_MOVED).increment(1);
                    self.abandon(&record);
                }
            }
        }
    }

    fn synced(&mut self, notice: u64) {
        self.upward.status_update(notice);
    }

    fn committed(&mut self, machine: &Server) {
        let usage = machine.usage();
        self.free.set(usage.free);
        self.closures.update(machine);
        self.upward.summary_changed();
        metrics::gauge!(names::QUEUE_LENGTH).set(f64::from(usage.waiting));
        metrics::gauge!(names::FREE_PROCS).set(f64::from(usage.free.0));
        for (state, count) in [(JobState::Queued, usage.waiting), (JobState::Active, usage.running)] {
            metrics::gauge!(names::JOBS, "state" => state.word()).set(f64::from(count));
        }
    }
}

impl ServerDriver {
    /// Removes the uploads of a job that waits elsewhere now.
    fn abandon(&self, record: &JobRecord) {
        let host = self.runner.host.clone();
        let sent = host.sent_files(&record.owner, record.key, &record.hops);
        self.runner.host.runtime.spawn_blocking(move || {
            if let Err(error) = host.store.abandon(&sent) {
                tracing::warn!(%error, "cannot remove the files of a job that was moved");
            }
        });
    }
}

/// What a command keeps in the journal.
pub(super) fn kept(command: &Command) -> DurableRecord {
    match command {
        Command::Report(record) => DurableRecord::StatusUpdate(json(record)),
        Command::Archive(record) => DurableRecord::Ended(Box::new(row(record))),
        Command::ArchiveLocal(job) => DurableRecord::Local(local_row(job)),
        Command::Audit(record) => DurableRecord::Audit(audit::row(record)),
        _ => DurableRecord::Nothing,
    }
}

/// The row of a run of a local user's job.
fn local_row(job: &LocalJob) -> LocalJobRow {
    let record = serde_json::to_string(job).expect("local jobs are plain data with text keys");
    LocalJobRow { ended: job.ended.unwrap_or(job.submitted).0, record }
}

fn count(answer: &Answer) {
    match answer {
        Answer::Accepted(_) => metrics::counter!(names::SUBMISSIONS_ACCEPTED).increment(1),
        Answer::Refused(refused) => {
            metrics::counter!(names::SUBMISSIONS_REFUSED, "reason" => refused.word()).increment(1);
        }
        Answer::MoveOutcome(MoveOutcome::Stays(why)) => {
            metrics::counter!(names::MOVES_REFUSED, "reason" => why.word()).increment(1);
        }
        Answer::Known(_)
        | Answer::Cancelling(_)
        | Answer::Elsewhere(_)
        | Answer::Handoff(_)
        | Answer::NotPrepared(_)
        | Answer::Decision(_)
        | Answer::Subjob(_)
        | Answer::Drained(_)
        | Answer::Banned(_)
        | Answer::Limited(_)
        | Answer::Forgotten(_)
        | Answer::Job(_)
        | Answer::Unsuited(_)
        | Answer::MoveOutcome(MoveOutcome::Moved(_) | MoveOutcome::SiblingQueued(_))
        | Answer::NoSuchJob => {}
    }
}
