//! Queries to servers, their commands, and jobs as simulated processes.

use pliant_control::agent::{self, DiscoveryQuery, DiscoveryResult, DiscoverySubject};
use pliant_control::batch;
use pliant_control::client;
use pliant_control::handoff::Reply;
use pliant_control::job::Exit;
use pliant_control::reason::Cause;
use pliant_control::server::{self, Answer};
use pliant_model::{ClusterId, JobId, JobOutcome, MapReason, Procs, Reason, Time, runtime_at};

use super::driver::{Driver, Submitted};
use super::network::{Link, NetworkMessage};
use crate::kernel::{Peer, server_info};

impl Driver<'_> {
    /// Answers a query at a server.
    pub(super) fn answer(&mut self, now: Time, index: usize, discovery: u64, ask: &DiscoveryQuery) {
        let info = server_info(&self.servers[index].node.machine, index);
        let child = info.name.clone();
        let found = match &ask.subject {
            DiscoverySubject::Snapshots => {
                let snapshots = vec![self.servers[index].node.machine.snapshot(now, &info)];
                DiscoveryResult { snapshots, ..DiscoveryResult::default() }
            }
            DiscoverySubject::Move(proposal) => {
                return self.deliver_move_proposal(now, index, discovery, proposal.clone());
            }
            DiscoverySubject::Work(work) | DiscoverySubject::InPlace { work, .. } => {
                self.servers[index].node.machine.answer(now, &info, &ask.caller.user, work)
            }
            DiscoverySubject::Service { .. } => {
                let refusals = vec![(info.name, Cause::NotOffered.because("offers no services"))];
                DiscoveryResult { refusals, ..DiscoveryResult::default() }
            }
        };
        self.send_up(now, Peer::Server(index), agent::Event::Answered { child, discovery, found });
    }

    /// Executes a command of a server.
    pub(super) fn execute_server_command(&mut self, now: Time, index: usize, command: server::Command) {
        match command {
            server::Command::Call { to, id, call } => self.call(now, index, &to.name, id, call),
            server::Command::Reply { to, answer } => {
                let event = match answer {
                    Answer::MoveOutcome(outcome) => return self.send_move_outcome(now, index, to, outcome),
                    Answer::Handoff(reply) => return self.reply_to_server(now, to, reply),
                    Answer::NotPrepared(why) => return self.reply_to_server(now, to, Reply::Refused(why)),
                    Answer::Decision(decision) => return self.send_start_decision(now, to, decision),
                    Answer::Accepted(record) => client::Event::Accepted(record),
                    Answer::Refused(refused) => client::Event::Refused(refused),
                    Answer::Known(_) => {
                        return self.send(now, Link::ClientServer, NetworkMessage::Known(to));
                    }
                    Answer::Cancelling(_) | Answer::Elsewhere(_) | Answer::NoSuchJob => {
                        return debug_assert!(false, "no client cancels jobs");
                    }
                    Answer::Subjob(_) => return debug_assert!(false, "no client launches applications"),
                    Answer::Drained(_)
                    | Answer::Banned(_)
                    | Answer::Limited(_)
                    | Answer::Forgotten(_)
                    | Answer::Job(_)
                    | Answer::Unsuited(_) => {
                        return debug_assert!(false, "no operator acts");
                    }
                };
                self.send(now, Link::ClientServer, NetworkMessage::Client(to, event));
            }
            server::Command::Batch(batch::Command::Run(run)) => self.start(now, index, &run),
            server::Command::Batch(batch::Command::Terminate { .. }) => {
                debug_assert!(false, "no client cancels jobs");
            }
            server::Command::Batch(batch::Command::External(_)) => {
                debug_assert!(false, "every batch system is embedded");
            }
            server::Command::Report(record) => {
                let node = &mut self.servers[index].node;
                let (child, sequence) = (node.machine.config().name.clone(), node.number_update());
                self.send_up(
                    now,
                    Peer::Server(index),
                    agent::Event::StatusUpdate { child, sequence, record },
                );
            }
            // The run keeps the outcomes. An archived record of a job that has not ended is that of a move.
            server::Command::Archive(record) => {
                if let Some(hop) = record.hops.last().filter(|_| !record.state.is_final()) {
                    self.record_move(index, &record.handle, hop);
                }
            }
            server::Command::Subjob(_) => debug_assert!(false, "no client launches applications"),
            server::Command::Audit(_) | server::Command::KeepSubmitted { .. } => {}
            server::Command::ArchiveLocal(_) | server::Command::Freed => {
                debug_assert!(false, "every batch system is embedded")
            }
        }
    }

    /// Starts a process and schedules its end from the log's runtime.
    fn start(&mut self, now: Time, index: usize, run: &batch::Run) {
        let machine = &self.servers[index].node.machine;
        let hops = machine.job(run.job.0).map_or(&[][..], |record| &record.hops);
        let (moves, moved) = (hops.len() as u32, hops.last().map(|hop| Reason::Moved(hop.reason)));
        let payload = machine.payload(run.job.0).and_then(|payload| payload.read::<u32>().ok());
        let job = payload.and_then(|job| Some((job, self.submitted.remove(&job)?)));
        let Some((number, Submitted { job, managed })) = job else {
            return debug_assert!(false, "job {} of server {index} started twice", run.job);
        };
        let end = now + runtime_at(&job, run.walltime);
        self.plan_end(end, index, run.job);
        let reason = if managed { MapReason::EarliestCompletion } else { MapReason::Local };
        self.outcomes[number as usize] = Some(JobOutcome {
            log_id: job.log_id,
            cluster: ClusterId(index as u32),
            submit: job.submit,
            start: now,
            end,
            procs: Procs(run.cores.len() as u32),
            walltime: run.walltime,
            moves,
            managed,
            reason: moved.unwrap_or(Reason::Mapped(reason)),
        });
    }

    /// Delivers the end of a process to its server.
    pub(super) fn deliver_job_end(&mut self, now: Time, index: usize, job: JobId) {
        let ended = batch::Event::Ended { job, exit: Exit::Code(0), elapsed_ms: None };
        self.deliver_to_server(now, index, server::Event::Batch(ended));
    }
}
