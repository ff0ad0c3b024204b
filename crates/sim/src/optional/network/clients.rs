//! Clients: the driver that the library is to be.

use pliant_control::names::Token;
use pliant_control::optional::explore::{self, Submission};
use pliant_control::optional::server::{Event, RequestKey, RequestState, Submit};
use pliant_control::payload::Payload;
use pliant_model::{SpanMs, TimeMs};

use super::{AGAIN, Bug, Class, NetworkEvent, Peer, Timer, ToClient, World};

impl World<'_> {
    pub(super) fn tell_client(&mut self, user: usize, event: explore::Event) {
        if !self.clients[user].node.up {
            return;
        }
        let forgets = self.bug == Some(Bug::ForgetsSent)
            && event == explore::Event::Resumed
            && self.clients[user].node.machine.looks_for_servers();
        let (now, node) = (self.queue.now(), &mut self.clients[user].node);
        node.handle(now, event, true);
        let commands = node.commit(now, false);
        if !self.faults.clients_stay && self.strikes(self.faults.cut_short) {
            self.seen.cut_short += 1;
            return self.crash(Peer::Client(user));
        }
        for (command, _) in commands {
            match command {
                explore::Command::Submit(_) if forgets => {}
                command => self.carry_out_for(user, command),
            }
        }
    }

    fn carry_out_for(&mut self, user: usize, command: explore::Command) {
        match command {
            explore::Command::Discover { .. } => self.ask_agent(user),
            explore::Command::Submit(submission) => {
                let number = submission.number;
                self.clients[user].open.insert(number, submission);
                let sent = self.in_turn(user);
                self.wait_for(user, sent, Class::ToServer, Timer::Submission(number));
            }
            explore::Command::Cancel { server } => {
                let server = self.by_name[&server];
                self.clients[user].cancelling.insert(server);
                let sent = self.in_turn(user);
                self.wait_for(user, sent, Class::ToServer, Timer::Cancellation(server));
            }
            explore::Command::CancelOne { server, number, attempt } => {
                let server = self.by_name[&server];
                self.seen.cancelled += 1;
                self.clients[user].cancelling_one.insert((server, number), attempt);
                self.cancel_one_soon(user, server, number);
            }
            explore::Command::Recall(submission) => {
                let (number, server) = (submission.number, self.by_name[&submission.server]);
                self.clients[user].cancelling_one.insert((server, number), submission.attempt);
                self.clients[user].open.insert(number, submission);
                self.cancel_one_soon(user, server, number);
            }
            explore::Command::Withdraw { server, number, attempt } => {
                let (key, owner) = (self.request(user, number), self.clients[user].user.clone());
                let server = self.by_name[&server];
                let reply = Token(user as u64);
                self.send_to_server(server, Event::Withdraw { reply, key, attempt, user: owner });
            }
            explore::Command::Expect { server } => {
                let server = self.by_name[&server];
                self.send(Class::ToServer, || NetworkEvent::Expect(user, server));
            }
            explore::Command::WakeAt(at) => self.wait_for(user, at, Class::ClientDue, Timer::Due),
            explore::Command::Done(_) => {
                self.clients[user].open.clear();
                self.tally.left(self.queue.now(), user);
            }
        }
    }

    /// A client sends one message after the other: when the next one leaves.
    fn in_turn(&mut self, user: usize) -> TimeMs {
        let client = &mut self.clients[user];
        client.free = client.free.max(self.queue.now()) + self.scenario.pace;
        client.free
    }

    pub(super) fn wait_for(&mut self, user: usize, at: TimeMs, class: Class, timer: Timer) {
        let incarnation = self.clients[user].node.incarnation;
        self.schedule(at, class, NetworkEvent::Timer(user, incarnation, timer));
    }

    /// A client comes to a time that it has waited for, unless it has crashed since.
    pub(super) fn timer(&mut self, user: usize, incarnation: u32, timer: Timer) {
        let client = &self.clients[user];
        if !client.node.up || client.node.incarnation != incarnation {
            return;
        }
        match timer {
            Timer::Due => self.tell_client(user, explore::Event::Due),
            Timer::Submission(number) => self.submit(user, number),
            Timer::Cancellation(server) => self.cancel(user, server),
            Timer::CancellationOfOne(server, number) => self.cancel_one(user, server, number),
            Timer::Unanswered(question) => self.unanswered(user, question),
            Timer::Look => self.look(user),
        }
    }

    fn request(&self, user: usize, number: u32) -> RequestKey {
        RequestKey { exploration: self.clients[user].key, number }
    }

    /// Sends a submission, for the first time or again.
    fn submit(&mut self, user: usize, number: u32) {
        let client = &self.clients[user];
        let Some(submission) = client.open.get(&number) else { return };
        let forgets = self.bug == Some(Bug::ForgetsWeights);
        let submit = Submit {
            key: self.request(user, number),
            user: client.user.clone(),
            weight: if forgets { 1 } else { submission.weight },
            kind: submission.kind,
            attempt: submission.attempt,
            deadline: Some(submission.deadline),
            payload: Payload::default(),
        };
        let server = self.by_name[&submission.server];
        if self.gives_up(user, server) {
            return;
        }
        let event = Event::Submit { reply: Token(user as u64), submit: Box::new(submit) };
        self.tally.submissions += 1;
        self.send_to_server(server, event);
        if self.bug != Some(Bug::SendsOnce) {
            self.wait_for(user, self.queue.now() + AGAIN, Class::ClientDue, Timer::Submission(number));
        }
    }

    fn cancel(&mut self, user: usize, server: usize) {
        let client = &self.clients[user];
        if !client.cancelling.contains(&server) {
            return;
        }
        let (exploration, owner) = (client.key, client.user.clone());
        if self.gives_up(user, server) {
            return;
        }
        self.send_to_server(server, Event::CancelAll { reply: Token(user as u64), exploration, user: owner });
        self.wait_for(user, self.queue.now() + AGAIN, Class::ClientDue, Timer::Cancellation(server));
    }

    /// Has a cancellation sent after the dispatcher's other commands are noted: if its server is given up then, they are given up
    /// with it, and the dispatcher is notified after them.
    fn cancel_one_soon(&mut self, user: usize, server: usize, number: u32) {
        self.wait_for(user, self.queue.now(), Class::ToServer, Timer::CancellationOfOne(server, number));
    }

    fn cancel_one(&mut self, user: usize, server: usize, number: u32) {
        let client = &self.clients[user];
        let Some(attempt) = client.cancelling_one.get(&(server, number)).copied() else { return };
        let (key, owner) = (self.request(user, number), client.user.clone());
        if self.gives_up(user, server) {
            return;
        }
        self.send_to_server(server, Event::Cancel { reply: Token(user as u64), key, attempt, user: owner });
        self.wait_for(
            user,
            self.queue.now() + AGAIN,
            Class::ClientDue,
            Timer::CancellationOfOne(server, number),
        );
    }

    /// Something is to be sent to a server, of which an answer is expected. True if it has been silent for too long: then it
    /// gets nothing more, and the dispatcher is told.
    fn gives_up(&mut self, user: usize, at: usize) -> bool {
        let client = &mut self.clients[user];
        let since = *client.silent.entry(at).or_insert(self.queue.now());
        let timeout = self.faults.timeout;
        if timeout == SpanMs::ZERO || self.queue.now() - since < timeout {
            return false;
        }
        client.silent.remove(&at);
        client.cancelling.remove(&at);
        client.cancelling_one.retain(|(server, _), _| *server != at);
        let name = self.servers[at].name.clone();
        client.open.retain(|_, submission| submission.server != name);
        // Also what the word for is still under way: the machine gives it to others as well.
        self.released.extend(client.node.machine.sent_to(&name).map(|number| (user, number)));
        self.seen.given_up += 1;
        self.look_soon(user);
        if self.bug != Some(Bug::LosesWithServer) {
            self.tell_client(user, explore::Event::Lost(name));
        }
        true
    }

    pub(super) fn told_client(&mut self, user: usize, told: ToClient) {
        if !self.clients[user].node.up {
            return;
        }
        match told {
            ToClient::Found(question, servers) => self.told_servers(user, question, &servers),
            ToClient::AllCancelled(server) => {
                self.hears(user, server);
                self.clients[user].cancelling.remove(&server);
            }
            ToClient::Refused(server, id) => {
                self.hears(user, server);
                self.told_refused(user, server, id);
            }
            ToClient::Expected(server, prospects) => {
                self.hears(user, server);
                let server = self.servers[server].name.clone();
                self.tell_client(user, explore::Event::Expected { server, prospects });
            }
            ToClient::Stands(server, id, state) => {
                self.hears(user, server);
                if self.answers_cancellation(user, server, id, state) {
                    self.clients[user].cancelling_one.remove(&(server, id.0));
                }
                match state {
                    RequestState::Waiting | RequestState::Running => {}
                    RequestState::Cancelled => self.told_withdrawn(user, server, id),
                    RequestState::Completed => self.told_ended(user, server, id.0, true),
                    RequestState::Failed => self.told_ended(user, server, id.0, false),
                }
            }
        }
    }

    /// Whether a server answers a cancellation, and not a submission before it or the cancellation of an earlier attempt: then
    /// the request is over, or the server has a later attempt, which is wanted.
    fn answers_cancellation(
        &self,
        user: usize,
        at: usize,
        (number, attempt): (u32, u32),
        state: RequestState,
    ) -> bool {
        let client = &self.clients[user];
        let is_over = !matches!(state, RequestState::Waiting | RequestState::Running);
        let is_later = |sent: &Submission| sent.attempt > attempt && self.by_name[&sent.server] == at;
        let is_wanted = client.open.get(&number).is_some_and(is_later);
        client.cancelling_one.get(&(at, number)) == Some(&attempt) && (is_over || is_wanted)
    }

    /// A server is not silent.
    fn hears(&mut self, user: usize, server: usize) {
        self.clients[user].silent.remove(&server);
    }

    /// A request is over, whether or not the client still knows it at that server.
    fn told_ended(&mut self, user: usize, at: usize, number: u32, completed: bool) {
        let server = self.servers[at].name.clone();
        if self.clients[user].open.get(&number).is_some_and(|sent| sent.server == server) {
            self.clients[user].open.remove(&number);
        }
        self.tell_client(user, explore::Event::Ended { number, server, completed });
    }

    /// A server does not take an attempt of a request. A copy of it that comes later may be taken all the same.
    fn told_refused(&mut self, user: usize, at: usize, id: (u32, u32)) {
        if self.closes(user, at, id) {
            let (number, server) = (id.0, self.servers[at].name.clone());
            self.seen.refused += 1;
            self.released.insert((user, number));
            self.look_soon(user);
            self.tell_client(user, explore::Event::Refused { number, server });
        }
    }

    /// A server does not have an attempt of a request any more. If it is the present one, another server gets it.
    fn told_withdrawn(&mut self, user: usize, at: usize, (number, attempt): (u32, u32)) {
        if self.closes(user, at, (number, attempt)) {
            let server = self.servers[at].name.clone();
            self.tell_client(user, explore::Event::Withdrawn { number, attempt, server });
        }
    }

    /// Takes that attempt of a request at that server off what is open. False if it is not open.
    fn closes(&mut self, user: usize, at: usize, (number, attempt): (u32, u32)) -> bool {
        let is_it = |sent: &Submission| sent.attempt == attempt && self.by_name[&sent.server] == at;
        let open = self.clients[user].open.get(&number).is_some_and(is_it);
        if open {
            self.clients[user].open.remove(&number);
        }
        open
    }
}
