//! Delivers events to daemons, commits their journals, and executes the commands that follow.

use pliant_control::agent::Agent;
use pliant_control::server::Server;
use pliant_control::{agent, batch, client, server};
use rand::Rng;

use super::Bug;
use super::calls::Response;
use super::connections::DownMessage;
use super::daemon::Daemon;
use super::world::{World, WorldEvent};
use crate::kernel::Peer;

impl World {
    pub(super) fn handle_timer(&mut self, peer: Peer, incarnation: u32) {
        if !self.is_up(peer) || self.incarnation(peer) != incarnation {
            return;
        }
        let now = self.queue.now();
        match peer {
            Peer::Agent(index) => {
                let daemon = &mut self.agents[index].daemon;
                let is_due = |daemon: &mut Daemon<Agent>| {
                    Some(daemon.clock.now(now)).zip(daemon.node.machine.next_due())
                };
                daemon.due = None;
                if is_due(daemon).is_some_and(|(now, due)| due <= now) {
                    self.deliver_to_agent(index, agent::Event::Due);
                }
            }
            Peer::Server(index) => {
                let daemon = &mut self.servers[index].daemon;
                let is_due = |daemon: &mut Daemon<Server>| {
                    Some(daemon.clock.now(now)).zip(daemon.node.machine.next_due())
                };
                daemon.due = None;
                if is_due(daemon).is_some_and(|(now, due)| due <= now) {
                    self.deliver_to_server(index, server::Event::Due);
                }
            }
            Peer::Client(_) => {}
        }
        self.schedule_timer(peer);
    }

    /// Schedules the next time event of a daemon.
    pub(super) fn schedule_timer(&mut self, peer: Peer) {
        let now = self.queue.now();
        let at = match peer {
            Peer::Agent(index) => self.agents[index].daemon.next_due(now),
            Peer::Server(index) => self.servers[index].daemon.next_due(now),
            Peer::Client(_) => None,
        };
        if let Some(at) = at {
            let incarnation = self.incarnation(peer);
            self.after(at - now, WorldEvent::Due(peer, incarnation));
        }
    }

    pub(super) fn deliver_to_agent(&mut self, index: usize, event: agent::Event) {
        if !self.agents[index].daemon.node.up {
            return;
        }
        self.log(|world| {
            format!("{} receives {}", world.agents[index].name, super::trace::agent_event(&event))
        });
        let query_commands = self.agents[index].daemon.handle(self.queue.now(), event, true);
        for command in query_commands {
            self.execute_agent_command(index, command, None);
        }
        self.checks.agent_changed(index, &self.agents[index].daemon);
        self.check_reallocation(index);
        self.schedule_commit(Peer::Agent(index));
        self.schedule_timer(Peer::Agent(index));
    }

    pub(super) fn deliver_to_server(&mut self, index: usize, event: server::Event) {
        if !self.servers[index].daemon.node.up {
            return;
        }
        self.log(|world| {
            format!("{} receives {}", world.servers[index].name, super::trace::server_event(&event))
        });
        let is_forgotten =
            self.bug == Some(Bug::ForgetsAnswers) && matches!(event, server::Event::Answered { .. });
        let arrival = self.arrival(index, &event);
        self.servers[index].daemon.handle(self.queue.now(), event, !is_forgotten);
        if let Some(arrival) = arrival {
            self.check_arrival(index, &arrival);
        }
        self.check_server(index);
        if self.bug == Some(Bug::ActsEarly) {
            let todo = self.servers[index].daemon.node.take_commands();
            todo.into_iter()
                .for_each(|(command, number)| self.execute_server_command(index, command, number));
        }
        self.schedule_commit(Peer::Server(index));
        self.schedule_timer(Peer::Server(index));
        self.summary_changed(Peer::Server(index));
    }

    pub(super) fn check_server(&mut self, index: usize) {
        let World { checks, servers, .. } = self;
        checks.server_changed(index, servers);
        self.check_priorities(index);
    }

    pub(super) fn schedule_commit(&mut self, peer: Peer) {
        let committing = match peer {
            Peer::Agent(index) => self.agents[index].daemon.starts_commit(),
            Peer::Server(index) => self.servers[index].daemon.starts_commit(),
            Peer::Client(_) => false,
        };
        if committing {
            let stalls = self.plan.faults.stalled > 0 && self.draw_fault(self.plan.faults.stalled);
            let most = if stalls { 60_000 } else { self.plan.faults.commit };
            let most = if self.has_faults() { most } else { 20 };
            let (pause, incarnation) = (self.rng.random_range(0..=most), self.incarnation(peer));
            self.after(pause, WorldEvent::Commit(peer, incarnation));
        }
    }

    pub(super) fn commit(&mut self, peer: Peer, incarnation: u32) {
        if !self.is_up(peer) || self.incarnation(peer) != incarnation {
            return;
        }
        let snapshot = self.rng.random_ratio(1, 10);
        let cut = self.draw_fault(self.plan.faults.cut);
        match peer {
            Peer::Agent(index) => {
                let todo = self.agents[index].daemon.commit(self.queue.now(), snapshot);
                let most = if cut { self.rng.random_range(0..=todo.len()) } else { todo.len() };
                todo.into_iter()
                    .take(most)
                    .for_each(|(command, number)| self.execute_agent_command(index, command, number));
            }
            Peer::Server(index) => {
                self.checks.accepted(index, &self.servers[index].daemon);
                let todo = self.servers[index].daemon.commit(self.queue.now(), snapshot);
                let most = if cut { self.rng.random_range(0..=todo.len()) } else { todo.len() };
                todo.into_iter()
                    .take(most)
                    .for_each(|(command, number)| self.execute_server_command(index, command, number));
                let waiting = std::mem::take(&mut self.servers[index].daemon.waiting);
                waiting.into_iter().for_each(|call| self.send_decision(index, call));
            }
            Peer::Client(_) => {}
        }
        let regressed = match peer {
            Peer::Agent(index) => self.agents[index].daemon.node.regressed,
            Peer::Server(index) => self.servers[index].daemon.node.regressed,
            Peer::Client(_) => false,
        };
        if regressed {
            self.report_violation(
                "back",
                format!("an older record replaces a newer one in the archive of {}", self.name_of(peer)),
            );
        }
        if cut {
            self.crash(peer);
        }
        self.schedule_commit(peer);
    }

    /// Executes a command of a server.
    pub(super) fn execute_server_command(
        &mut self,
        index: usize,
        command: server::Command,
        number: Option<u64>,
    ) {
        use server::Command;
        let me = Peer::Server(index);
        match command {
            Command::Reply { to, answer } => self.send_server_answer(index, to, answer),
            Command::Call { to, id, call } => self.call_server(index, to.name.as_str(), id, call),
            Command::Batch(batch::Command::Run(run)) => {
                let (pause, incarnation) = (self.rng.random_range(0..100), self.incarnation(me));
                self.after(pause, WorldEvent::ProcessStart(index, incarnation, run));
            }
            Command::Batch(batch::Command::Terminate { job }) => self.terminate(index, job),
            Command::Batch(batch::Command::External(command)) => {
                self.execute_external_command(index, command)
            }
            Command::Report(record) => {
                if let Some(number) = number {
                    self.send_update(me, number, record);
                }
            }
            Command::Subjob(command) => self.subjob_command(index, command),
            // Records of local users serve replays only.
            Command::KeepSubmitted { .. }
            | Command::Archive(_)
            | Command::ArchiveLocal(_)
            | Command::Audit(_) => {}
            Command::Freed => self.report_freed(me),
        }
    }

    /// Executes a command of an agent.
    pub(super) fn execute_agent_command(
        &mut self,
        index: usize,
        command: agent::Command,
        number: Option<u64>,
    ) {
        use agent::{Command, Requester};
        let me = Peer::Agent(index);
        match command {
            Command::Query { child, discovery, query } => {
                self.send_down(self.peers[&child], DownMessage::Question(discovery, query))
            }
            Command::Acknowledge { child, sequence } => {
                self.send_down(self.peers[&child], DownMessage::Acknowledge(sequence))
            }
            Command::Answer { to: Requester::Client(token), found } => {
                self.check_asked(&found);
                let found = client::Event::Found(found);
                self.respond(token.0, Response::Client(found));
            }
            Command::Answer { to: Requester::Parent(own), found } => self.send_answer_up(me, own, found),
            Command::ReportStatus(record) => {
                if let Some(number) = number {
                    self.send_update(me, number, record);
                }
            }
            Command::Announce => {
                self.announce(me);
                self.summary_changed(me);
            }
            Command::Summarise => self.summary_changed(me),
            Command::Freed => self.report_freed(me),
            Command::RefuseStatus { child, job, why } => {
                let what = format!("agent {index} refuses what {child} reports of {job}: {why}");
                self.report_violation("reports", what);
            }
            Command::Configured { to } => self.change_confirmed(index, to),
            Command::Answer { to: Requester::ReallocationCycle, .. }
            | Command::ReportReallocation { .. }
            | Command::Forgotten { .. }
            | Command::Audit(_)
            | Command::Archive(_) => {}
        }
    }
}
