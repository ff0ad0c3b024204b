//! Crashes and restarts.

use pliant_control::optional::explore;
use pliant_control::optional::server::{Event, Process};
use pliant_model::SpanMs;
use rand::Rng;

use super::{Bug, Class, NetworkEvent, Peer, World};

impl World<'_> {
    pub(super) fn schedule_crash(&mut self) {
        let mean = self.faults.crash_every.0;
        if mean > 0 {
            let after = SpanMs(self.rng.random_range(1..=2 * mean));
            if self.queue.now() + after < self.faults.until {
                self.schedule(self.queue.now() + after, Class::Fault, NetworkEvent::Crash);
            }
        }
    }

    /// Crashes a random peer, which may be down already.
    pub(super) fn crash_random_peer(&mut self) {
        let (clients, servers) = (self.clients.len(), self.servers.len());
        let first = if self.faults.clients_never_crash { clients } else { 0 };
        let number = self.rng.random_range(first..=clients + servers);
        self.crash(match number {
            client if client < clients => Peer::Client(client),
            server if server < clients + servers => Peer::Server(server - clients),
            _ => Peer::Agent,
        });
        self.schedule_crash();
    }

    /// Crashes a client or a daemon. Its journal survives, messages to it are lost.
    pub(super) fn crash(&mut self, peer: Peer) {
        let crashed = match peer {
            Peer::Client(user) if self.clients[user].node.up => self.clients[user].node.crash().map(|_| ()),
            Peer::Server(at) if self.servers[at].node.up => self.servers[at].node.crash().map(|_| ()),
            Peer::Agent if std::mem::take(&mut self.agent_up) => Ok(()),
            Peer::Client(_) | Peer::Server(_) | Peer::Agent => return,
        };
        self.violations.extend(crashed.err());
        self.counts.crashes += 1;
        if let Peer::Client(user) = peer {
            let client = &self.clients[user];
            self.counts.crashed_without_servers +=
                u32::from(client.node.machine.is_discovering() && !client.open.is_empty());
        }
        let downtime = SpanMs(self.rng.random_range(1..=(2 * self.faults.downtime.0).max(1)));
        self.schedule(self.queue.now() + downtime, Class::Fault, NetworkEvent::Restart(peer));
    }

    /// Restarts a peer from its journal.
    pub(super) fn restart(&mut self, peer: Peer) {
        match peer {
            Peer::Agent => self.agent_up = true,
            Peer::Server(at) => self.restart_server(at),
            Peer::Client(user) => {
                let client = &mut self.clients[user];
                client.node.up = true;
                client.open.clear();
                client.cancelling.clear();
                client.cancelling_one.clear();
                client.silent.clear();
                client.query_pending = false;
                let started = client.started;
                self.excuse(user);
                if started {
                    self.deliver_to_client(user, explore::Event::Resumed);
                }
            }
        }
    }

    fn restart_server(&mut self, at: usize) {
        let server = &mut self.servers[at];
        if self.bug == Some(Bug::ForgetsJournal) {
            server.node.lose_journal();
        }
        server.node.up = true;
        server.due = None;
        // The crash may have interrupted these decisions.
        let processes: Vec<Process> = server.node.machine.processes().collect();
        let missed = std::mem::take(&mut server.missed);
        let has_ended = |request| {
            missed
                .iter()
                .any(|event| matches!(event, Event::Ended { request: ended, .. } if *ended == request))
        };
        for Process { request, core, ending, .. } in processes {
            if !self.servers[at].running.contains_key(&request) && !has_ended(request) {
                self.run_process(at, request, core);
            }
            if ending {
                self.end_process(at, request);
            }
        }
        for event in missed {
            self.deliver_process_end(at, event);
        }
        self.deliver_to_server(at, Event::Due);
    }
}
