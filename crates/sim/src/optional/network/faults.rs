//! Crashes, and what comes back.

use pliant_control::optional::explore;
use pliant_control::optional::server::{Event, Requests};
use pliant_model::SpanMs;
use rand::Rng;

use super::{AWAY, Bug, Class, Happening, Peer, Server, World};

impl World<'_> {
    pub(super) fn schedule_crash(&mut self) {
        let mean = self.weather.crash_every.0;
        if mean > 0 {
            let after = SpanMs(self.rng.random_range(1..=2 * mean));
            if self.now + after < self.weather.until {
                self.schedule(self.now + after, Class::Fault, Happening::Crash);
            }
        }
    }

    /// A client or a server is gone. What it was told is in its journal; what was on its way to it is lost.
    pub(super) fn crash_somebody(&mut self) {
        let number = self.rng.random_range(0..self.clients.len() + self.servers.len());
        let peer = match number.checked_sub(self.clients.len()) {
            Some(server) => Peer::Server(server),
            None => Peer::Client(number),
        };
        let up = match peer {
            Peer::Client(user) => std::mem::take(&mut self.clients[user].up),
            Peer::Server(at) => std::mem::take(&mut self.servers[at].up),
        };
        if up {
            self.crashes += 1;
            self.schedule(self.now + AWAY, Class::Fault, Happening::Back(peer));
        }
        self.schedule_crash();
    }

    /// It begins again with the state that was written.
    pub(super) fn back(&mut self, peer: Peer) {
        match peer {
            Peer::Server(at) => {
                let server = &mut self.servers[at];
                if self.bug == Some(Bug::ForgetsJournal) {
                    server.journal.clear();
                }
                server.machine = retold(server);
                self.servers[at].up = true;
                self.servers[at].due = None;
                for event in std::mem::take(&mut self.servers[at].missed) {
                    self.tell_server(at, event);
                }
                self.tell_server(at, Event::Due);
            }
            Peer::Client(user) => {
                let client = &mut self.clients[user];
                client.up = true;
                client.open.clear();
                if client.began {
                    self.tell_client(user, explore::Event::Resumed);
                    for server in self.clients[user].cancelling.clone() {
                        self.cancel_again(user, server);
                    }
                }
            }
        }
    }
}

/// The machine of a server, by its journal.
pub(super) fn retold(server: &Server) -> Requests {
    let mut machine = server.first.clone();
    for (at, event) in &server.journal {
        machine.on(*at, event.clone(), &mut Vec::new());
    }
    machine
}
