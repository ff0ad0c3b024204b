//! Clients: the driver that the library is to be.

use pliant_control::optional::explore::{self, Offer, Submission};
use pliant_control::optional::server::{Event, RequestKey, Standing, Submit};
use pliant_control::server::Token;

use super::{AGAIN, Bug, Class, Happening, Server, ToClient, World};

impl World<'_> {
    pub(super) fn tell_client(&mut self, user: usize, event: explore::Event) {
        if !self.clients[user].up {
            return;
        }
        let mut commands = Vec::new();
        self.clients[user].machine.on(self.now, event, &mut commands);
        for command in commands {
            match command {
                explore::Command::Discover { .. } => {
                    let offer =
                        |server: &Server| Offer { server: server.name.clone(), cores: self.scenario.cores };
                    let offers = self.servers.iter().map(offer).collect();
                    self.tell_client(user, explore::Event::Found(offers));
                }
                explore::Command::Submit(submission) => {
                    let client = &mut self.clients[user];
                    client.free = client.free.max(self.now) + self.scenario.pace;
                    let (sent, number) = (client.free, submission.number);
                    client.open.insert(number, submission);
                    self.schedule(sent, Class::ToServer, Happening::Again(user, number));
                }
                explore::Command::Cancel { server } => {
                    let server = self.by_name[&server];
                    let client = &mut self.clients[user];
                    client.cancelling.push(server);
                    client.free = client.free.max(self.now) + self.scenario.pace;
                    let sent = client.free;
                    self.schedule(sent, Class::ToServer, Happening::CancelAgain(user, server));
                }
                explore::Command::CancelOne { server, number, attempt } => {
                    let (key, owner) = (self.request(user, number), self.clients[user].user.clone());
                    let server = self.by_name[&server];
                    let reply = Token(user as u64);
                    self.send_to_server(server, Event::Cancel { reply, key, attempt, user: owner });
                }
                explore::Command::Withdraw { server, number, attempt } => {
                    let (key, owner) = (self.request(user, number), self.clients[user].user.clone());
                    let server = self.by_name[&server];
                    let reply = Token(user as u64);
                    self.send_to_server(server, Event::Withdraw { reply, key, attempt, user: owner });
                }
                explore::Command::Expect { server } => {
                    let server = self.by_name[&server];
                    self.send(Class::ToServer, || Happening::Expect(user, server));
                }
                explore::Command::WakeAt(at) => {
                    self.schedule(at, Class::ClientDue, Happening::ClientDue(user))
                }
                explore::Command::Done(_) => {
                    self.clients[user].open.clear();
                    self.tally.left(self.now, user);
                }
            }
        }
    }

    pub(super) fn request(&self, user: usize, number: u32) -> RequestKey {
        RequestKey { exploration: self.clients[user].key, number }
    }

    /// Sends a submission, for the first time or again.
    pub(super) fn again(&mut self, user: usize, number: u32) {
        let client = &self.clients[user];
        let Some(submission) = client.open.get(&number).filter(|_| client.up) else { return };
        let submit = Submit {
            key: self.request(user, number),
            user: client.user.clone(),
            weight: submission.weight,
            kind: submission.kind,
            attempt: submission.attempt,
            deadline: Some(submission.deadline),
            launch: String::new(),
        };
        let server = self.by_name[&submission.server];
        let event = Event::Submit { reply: Token(user as u64), submit: Box::new(submit) };
        self.tally.submissions += 1;
        self.send_to_server(server, event);
        if self.bug != Some(Bug::SendsOnce) {
            self.schedule(self.now + AGAIN, Class::ClientDue, Happening::Again(user, number));
        }
    }

    pub(super) fn cancel_again(&mut self, user: usize, server: usize) {
        let client = &self.clients[user];
        if !client.up || !client.cancelling.contains(&server) {
            return;
        }
        let (exploration, owner) = (client.key, client.user.clone());
        self.send_to_server(server, Event::CancelAll { reply: Token(user as u64), exploration, user: owner });
        self.schedule(self.now + AGAIN, Class::ClientDue, Happening::CancelAgain(user, server));
    }

    pub(super) fn told_client(&mut self, user: usize, told: ToClient) {
        if !self.clients[user].up {
            return;
        }
        let (server, number, completed) = match told {
            ToClient::AllCancelled(server) => {
                return self.clients[user].cancelling.retain(|waiting| *waiting != server);
            }
            ToClient::Refused(server, number) => {
                self.clients[user].open.remove(&number);
                let server = self.servers[server].name.clone();
                return self.tell_client(user, explore::Event::Refused { number, server });
            }
            ToClient::Expected(server, prospects) => {
                let server = self.servers[server].name.clone();
                return self.tell_client(user, explore::Event::Expected { server, prospects });
            }
            ToClient::Stands(server, id, Standing::Cancelled) => {
                return self.told_withdrawn(user, server, id);
            }
            ToClient::Stands(_, _, Standing::Waiting | Standing::Running) => return,
            ToClient::Stands(server, (number, _), standing) => {
                (server, number, standing == Standing::Completed)
            }
        };
        if self.clients[user].open.get(&number).is_some_and(|sent| self.by_name[&sent.server] == server) {
            self.clients[user].open.remove(&number);
        }
        let server = self.servers[server].name.clone();
        self.tell_client(user, explore::Event::Ended { number, server, completed });
    }

    /// A server does not have an attempt of a request any more. If it is the present one, another server gets it.
    fn told_withdrawn(&mut self, user: usize, at: usize, (number, attempt): (u32, u32)) {
        let is_it = |sent: &Submission| sent.attempt == attempt && self.by_name[&sent.server] == at;
        if self.clients[user].open.get(&number).is_some_and(is_it) {
            self.clients[user].open.remove(&number);
            let server = self.servers[at].name.clone();
            self.tell_client(user, explore::Event::Withdrawn { number, attempt, server });
        }
    }
}
