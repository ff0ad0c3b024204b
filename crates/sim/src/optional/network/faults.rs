//! Crashes, and what comes back.

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

    /// Somebody crashes, who may be away already.
    pub(super) fn crash_somebody(&mut self) {
        let (clients, servers) = (self.clients.len(), self.servers.len());
        let first = if self.faults.clients_stay { clients } else { 0 };
        let number = self.rng.random_range(first..=clients + servers);
        self.crash(match number {
            client if client < clients => Peer::Client(client),
            server if server < clients + servers => Peer::Server(server - clients),
            _ => Peer::Agent,
        });
        self.schedule_crash();
    }

    /// A client or a daemon is gone. What it was told is in its journal; what was on its way to it is lost.
    pub(super) fn crash(&mut self, peer: Peer) {
        let crashed = match peer {
            Peer::Client(user) if self.clients[user].node.up => self.clients[user].node.crash().map(|_| ()),
            Peer::Server(at) if self.servers[at].node.up => self.servers[at].node.crash().map(|_| ()),
            Peer::Agent if std::mem::take(&mut self.agent_up) => Ok(()),
            Peer::Client(_) | Peer::Server(_) | Peer::Agent => return,
        };
        self.violations.extend(crashed.err());
        self.seen.crashes += 1;
        if let Peer::Client(user) = peer {
            let client = &self.clients[user];
            self.seen.crashed_looking +=
                u32::from(client.node.machine.is_discovering() && !client.open.is_empty());
        }
        let away = SpanMs(self.rng.random_range(1..=(2 * self.faults.away.0).max(1)));
        self.schedule(self.queue.now() + away, Class::Fault, NetworkEvent::Back(peer));
    }

    /// It begins again with the state that was written.
    pub(super) fn back(&mut self, peer: Peer) {
        match peer {
            Peer::Agent => self.agent_up = true,
            Peer::Server(at) => self.server_back(at),
            Peer::Client(user) => {
                let client = &mut self.clients[user];
                client.node.up = true;
                client.open.clear();
                client.cancelling.clear();
                client.cancelling_one.clear();
                client.silent.clear();
                client.asks = false;
                let began = client.began;
                self.excuse(user);
                if began {
                    self.tell_client(user, explore::Event::Resumed);
                }
            }
        }
    }

    fn server_back(&mut self, at: usize) {
        let server = &mut self.servers[at];
        if self.bug == Some(Bug::ForgetsJournal) {
            server.node.lose_journal();
        }
        server.node.up = true;
        server.due = None;
        // What was decided, and perhaps not done.
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
            self.server_told_of_end(at, event);
        }
        self.tell_server(at, Event::Due);
    }
}
