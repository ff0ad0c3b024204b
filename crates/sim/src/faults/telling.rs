//! Daemons are told what happens, write it down, and then have carried out what follows.

use pliant_control::agent::Agent;
use pliant_control::server::Server;
use pliant_control::{agent, batch, client, server};
use rand::Rng;

use super::Bug;
use super::calls::Response;
use super::daemon::Daemon;
use super::lines::Down;
use super::world::{World, WorldEvent};
use crate::kernel::Peer;

impl World {
    pub(super) fn due(&mut self, peer: Peer, life: u32) {
        if !self.is_up(peer) || self.life(peer) != life {
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
                    self.tell_agent(index, agent::Event::Due);
                }
            }
            Peer::Server(index) => {
                let daemon = &mut self.servers[index].daemon;
                let is_due = |daemon: &mut Daemon<Server>| {
                    Some(daemon.clock.now(now)).zip(daemon.node.machine.next_due())
                };
                daemon.due = None;
                if is_due(daemon).is_some_and(|(now, due)| due <= now) {
                    self.tell_server(index, server::Event::Due);
                }
            }
            Peer::Client(_) => {}
        }
        self.plan_due(peer);
    }

    /// Sees to it that a daemon is told in time.
    pub(super) fn plan_due(&mut self, peer: Peer) {
        let now = self.queue.now();
        let at = match peer {
            Peer::Agent(index) => self.agents[index].daemon.next_due(now),
            Peer::Server(index) => self.servers[index].daemon.next_due(now),
            Peer::Client(_) => None,
        };
        if let Some(at) = at {
            let life = self.life(peer);
            self.after(at - now, WorldEvent::Due(peer, life));
        }
    }

    pub(super) fn tell_agent(&mut self, index: usize, event: agent::Event) {
        if !self.agents[index].daemon.node.up {
            return;
        }
        self.note(|world| {
            format!("{} is told {}", world.agents[index].name, super::trace::agent_event(&event))
        });
        let at_once = self.agents[index].daemon.tell(self.queue.now(), event, true);
        for command in at_once {
            self.agent_wants(index, command, None);
        }
        self.checks.agent_changed(index, &self.agents[index].daemon);
        self.plan_commit(Peer::Agent(index));
        self.plan_due(Peer::Agent(index));
    }

    pub(super) fn tell_server(&mut self, index: usize, event: server::Event) {
        if !self.servers[index].daemon.node.up {
            return;
        }
        self.note(|world| {
            format!("{} is told {}", world.servers[index].name, super::trace::server_event(&event))
        });
        let is_forgotten =
            self.bug == Some(Bug::ForgetsAnswers) && matches!(event, server::Event::Answered { .. });
        self.servers[index].daemon.tell(self.queue.now(), event, !is_forgotten);
        self.check_server(index);
        if self.bug == Some(Bug::ActsEarly) {
            let todo = self.servers[index].daemon.node.take_commands();
            todo.into_iter().for_each(|(command, number)| self.server_wants(index, command, number));
        }
        self.plan_commit(Peer::Server(index));
        self.plan_due(Peer::Server(index));
    }

    pub(super) fn check_server(&mut self, index: usize) {
        let World { checks, servers, .. } = self;
        checks.server_changed(index, servers);
    }

    pub(super) fn plan_commit(&mut self, peer: Peer) {
        let committing = match peer {
            Peer::Agent(index) => self.agents[index].daemon.begins_commit(),
            Peer::Server(index) => self.servers[index].daemon.begins_commit(),
            Peer::Client(_) => false,
        };
        if committing {
            let stalls = self.plan.faults.stalled > 0 && self.strikes(self.plan.faults.stalled);
            let most = if stalls { 60_000 } else { self.plan.faults.commit };
            let most = if self.is_stormy() { most } else { 20 };
            let (pause, life) = (self.rng.random_range(0..=most), self.life(peer));
            self.after(pause, WorldEvent::Commit(peer, life));
        }
    }

    pub(super) fn commit(&mut self, peer: Peer, life: u32) {
        if !self.is_up(peer) || self.life(peer) != life {
            return;
        }
        let snapshot = self.rng.random_ratio(1, 10);
        let cut = self.strikes(self.plan.faults.cut);
        match peer {
            Peer::Agent(index) => {
                let todo = self.agents[index].daemon.commit(self.queue.now(), snapshot);
                let most = if cut { self.rng.random_range(0..=todo.len()) } else { todo.len() };
                todo.into_iter()
                    .take(most)
                    .for_each(|(command, number)| self.agent_wants(index, command, number));
            }
            Peer::Server(index) => {
                self.checks.accepted(index, &self.servers[index].daemon);
                let todo = self.servers[index].daemon.commit(self.queue.now(), snapshot);
                let most = if cut { self.rng.random_range(0..=todo.len()) } else { todo.len() };
                todo.into_iter()
                    .take(most)
                    .for_each(|(command, number)| self.server_wants(index, command, number));
                let waiting = std::mem::take(&mut self.servers[index].daemon.waiting);
                waiting.into_iter().for_each(|call| self.give_verdict(index, call));
            }
            Peer::Client(_) => {}
        }
        let went_back = match peer {
            Peer::Agent(index) => self.agents[index].daemon.node.went_back,
            Peer::Server(index) => self.servers[index].daemon.node.went_back,
            Peer::Client(_) => false,
        };
        if went_back {
            self.wrong(
                "back",
                format!("an older record replaces a newer one in the archive of {}", self.name_of(peer)),
            );
        }
        if cut {
            self.crash(peer);
        }
        self.plan_commit(peer);
    }

    /// Does what a server wants.
    pub(super) fn server_wants(&mut self, index: usize, command: server::Command, number: Option<u64>) {
        use server::Command;
        let me = Peer::Server(index);
        match command {
            Command::Reply { to, answer } => self.server_replies(index, to, answer),
            Command::Call { to, id, call } => self.call_server(index, to.name.as_str(), id, call),
            Command::Batch(batch::Command::Run(run)) => {
                let (pause, life) = (self.rng.random_range(0..100), self.life(me));
                self.after(pause, WorldEvent::Begins(index, life, run));
            }
            Command::Batch(batch::Command::Terminate { job }) => self.terminate(index, job),
            Command::Batch(batch::Command::External(command)) => self.external_wants(index, command),
            Command::Report(record) => {
                if let Some(number) = number {
                    self.tell_news(me, number, record);
                }
            }
            Command::Subjob(command) => self.subjob_command(index, command),
            // What local users did is kept for replays.
            Command::Archive(_) | Command::ArchiveLocal(_) => {}
            Command::Freed => self.freed(me),
        }
    }

    /// Does what an agent wants.
    pub(super) fn agent_wants(&mut self, index: usize, command: agent::Command, number: Option<u64>) {
        use agent::{Command, Requester};
        let me = Peer::Agent(index);
        match command {
            Command::Query { child, discovery, query } => {
                self.down(self.peers[&child], Down::Question(discovery, query))
            }
            Command::Acknowledge { child, sequence } => {
                self.down(self.peers[&child], Down::Acknowledge(sequence))
            }
            Command::Answer { to: Requester::Client(token), found } => {
                let found = client::Event::Found(found);
                self.respond(token.0, Response::Client(found));
            }
            Command::Answer { to: Requester::Parent(own), found } => self.answer_up(me, own, found),
            Command::ReportStatus(record) => {
                if let Some(number) = number {
                    self.tell_news(me, number, record);
                }
            }
            Command::Announce => self.announce(me),
            Command::Freed => self.freed(me),
            Command::Answer { to: Requester::ReallocationCycle, .. }
            | Command::ReportReallocation { .. }
            | Command::Configured { .. }
            | Command::Archive(_) => {}
        }
    }
}
