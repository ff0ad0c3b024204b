//! Carries out the commands of a server's machine: replies, executions, status updates.

use std::sync::Arc;

use pliant_control::batch;
use pliant_control::handoff::MoveOutcome;
use pliant_control::job::{JobRecord, JobState};
use pliant_control::local::LocalJob;
use pliant_control::names::Handle;
use pliant_control::payload::Payload;
use pliant_control::server::{Answer, Command, Server};
use pliant_journal::{Durability, LocalJobRow};
use pliant_model::Time;
use pliant_telemetry::names;
use tokio::sync::broadcast;

use super::closures::Closures;
use super::cluster::Cluster;
use super::execution::observer::JobObserver;
use super::execution::{Execution, ExecutionId, Program, Runner};
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

    fn callers(&self) -> usize {
        self.replies.len() + self.ends.len()
    }

    fn durability_of_due(&self, machine: &Server, commands: &[Command]) -> Durability {
        durability_of_starts(machine, commands)
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

/// What the journal must survive before jobs are started. The start of a call of a resident process need not survive a failure of the
/// host: after one, no call that waited or ran is begun.
fn durability_of_starts(machine: &Server, commands: &[Command]) -> Durability {
    let runs = commands.iter().filter_map(|command| match command {
        Command::Batch(batch::Command::Run(run)) => machine.job(run.job.0).zip(machine.payload(run.job.0)),
        _ => None,
    });
    let is_call = |(_, payload): &(_, &Payload)| Program::is_resident_call(payload);
    let calls: Vec<&Handle> = runs.filter(is_call).map(|(record, _)| &record.handle).collect();
    let is_of_call = |command: &Command| match command {
        Command::Batch(batch::Command::Run(run)) => {
            machine.job(run.job.0).is_some_and(|record| calls.contains(&&record.handle))
        }
        Command::Report(record) => calls.contains(&&record.handle),
        _ => false,
    };
    if commands.iter().all(is_of_call) { Durability::Process } else { Durability::Power }
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

#[cfg(test)]
pub(super) mod tests {
    use pliant_control::job::Work;
    use pliant_control::names::{Key, Token};
    use pliant_control::reason::DiscoverySummary;
    use pliant_control::server::{Event, ServerConfig, Submit, WaitingLimits};
    use pliant_model::{Procs, Span, Speed, Speedup};
    use pliant_policy::tuning::Tuner;
    use serde_json::json;

    use super::*;

    /// A server of two processors.
    pub(in crate::server) fn server(now: Time) -> Server {
        let config = ServerConfig {
            name: "lyon".parse().unwrap(),
            address: String::new(),
            procs: Procs(2),
            speed: Speed::REFERENCE,
            policy: "cbf".to_owned(),
            tuner: Tuner::Exact,
            waiting: WaitingLimits::of_jobs(10),
            host: None,
        };
        Server::new(config, now).unwrap()
    }

    /// What says of a program that a resident process carries it out.
    pub(in crate::server) fn call() -> Payload {
        Payload::of(&json!({ "prepared": { "name": "f", "call": { "resident": { "idle_s": 1 } } } }))
    }

    /// The submission of a job of one processor.
    pub(in crate::server) fn submit(key: u8, payload: Payload) -> Event {
        let submit = Submit {
            key: Key([key; 16]),
            owner: "alice".parse().unwrap(),
            name: "test".to_owned(),
            work: Work::new(Procs(1), Span(60), Speedup::Rigid),
            own_time: false,
            pinned: false,
            latest: None,
            compared: Vec::new(),
            discovery: DiscoverySummary::default(),
            payload,
            sample: None,
            claim: None,
        };
        Event::Submit { reply: Token(1), submit: Box::new(submit) }
    }

    #[test]
    fn only_starts_of_calls_need_not_survive_a_failure_of_the_host() {
        use Durability::{Power, Process};
        let command_call = || Payload::of(&json!({ "prepared": { "name": "f", "call": { "program": [] } } }));
        let job = || Payload::of(&json!({ "prepared": { "name": "pi" } }));
        for (payloads, expected) in [
            (vec![], Process),
            (vec![call()], Process),
            (vec![call(), call()], Process),
            (vec![command_call()], Power),
            (vec![call(), job()], Power),
            (vec![Payload::default()], Power),
        ] {
            let (mut machine, mut commands) = (server(Time(0)), Vec::new());
            let count = payloads.len();
            for (key, payload) in (1..).zip(payloads) {
                machine.on(Time(0), submit(key, payload), &mut commands);
            }
            commands.clear();
            machine.on(Time(0), Event::Due, &mut commands);
            let is_run = |command: &&Command| matches!(command, Command::Batch(batch::Command::Run(_)));
            assert_eq!(commands.iter().filter(is_run).count(), count);
            assert_eq!(durability_of_starts(&machine, &commands), expected, "{commands:?}");
            let reply = Command::Reply { to: Token(1), answer: Answer::NoSuchJob };
            commands.push(reply);
            assert_eq!(durability_of_starts(&machine, &commands), Power, "something else waits for it");
        }
    }
}
