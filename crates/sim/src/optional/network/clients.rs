//! Clients, driven as the client library drives them.

use pliant_control::names::Token;
use pliant_control::optional::explore::{self, RequestSubmission};
use pliant_control::optional::server::{Event, RequestKey, RequestState, Submit};
use pliant_control::payload::Payload;
use pliant_model::{SpanMs, TimeMs};

use super::{Bug, Class, ClientMessage, NetworkEvent, Peer, REPEAT_AFTER, Timer, World};

impl World<'_> {
    pub(super) fn deliver_to_client(&mut self, user: usize, event: explore::Event) {
        if !self.clients[user].node.up {
            return;
        }
        let forgets = self.bug == Some(Bug::ForgetsSent)
            && event == explore::Event::Resumed
            && self.clients[user].node.machine.is_discovering();
        let (now, node) = (self.queue.now(), &mut self.clients[user].node);
        node.handle(now, event, true);
        let commands = node.commit(now, false);
        if !self.faults.clients_never_crash && self.draw_fault(self.faults.after_commit) {
            self.counts.after_commit += 1;
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
            explore::Command::Discover { .. } => self.query_agent(user),
            explore::Command::Submit(submission) => {
                let number = submission.number;
                self.clients[user].open.insert(number, submission);
                let sent = self.next_send_time(user);
                self.set_timer(user, sent, Class::ToServer, Timer::RequestSubmission(number));
            }
            explore::Command::Cancel { server } => {
                let server = self.by_name[&server];
                self.clients[user].cancelling.insert(server);
                let sent = self.next_send_time(user);
                self.set_timer(user, sent, Class::ToServer, Timer::Cancellation(server));
            }
            explore::Command::CancelOne { server, number, attempt } => {
                let server = self.by_name[&server];
                self.counts.cancelled += 1;
                self.clients[user].cancelling_one.insert((server, number), attempt);
                self.schedule_cancel_one(user, server, number);
            }
            explore::Command::Recall(submission) => {
                let (number, server) = (submission.number, self.by_name[&submission.server]);
                self.clients[user].cancelling_one.insert((server, number), submission.attempt);
                self.clients[user].open.insert(number, submission);
                self.schedule_cancel_one(user, server, number);
            }
            explore::Command::Withdraw { server, number, attempt } => {
                let (key, owner) = (self.request(user, number), self.clients[user].user.clone());
                let server = self.by_name[&server];
                let reply = Token(user as u64);
                self.send_to_server(server, Event::Withdraw { reply, key, attempt, user: owner });
            }
            explore::Command::Expect { server } => {
                let server = self.by_name[&server];
                self.send(Class::ToServer, || NetworkEvent::QueryProspects(user, server));
            }
            explore::Command::WakeAt(at) => self.set_timer(user, at, Class::ClientDue, Timer::Due),
            explore::Command::Done(_) => {
                self.clients[user].open.clear();
                self.tally.left(self.queue.now(), user);
            }
        }
    }

    /// When a client sends its next message, after its earlier ones.
    fn next_send_time(&mut self, user: usize) -> TimeMs {
        let client = &mut self.clients[user];
        client.free = client.free.max(self.queue.now()) + self.scenario.pace;
        client.free
    }

    pub(super) fn set_timer(&mut self, user: usize, at: TimeMs, class: Class, timer: Timer) {
        let incarnation = self.clients[user].node.incarnation;
        self.schedule(at, class, NetworkEvent::Timer(user, incarnation, timer));
    }

    /// Handles a timer of a client, unless the client has crashed since.
    pub(super) fn timer(&mut self, user: usize, incarnation: u32, timer: Timer) {
        let client = &self.clients[user];
        if !client.node.up || client.node.incarnation != incarnation {
            return;
        }
        match timer {
            Timer::Due => self.deliver_to_client(user, explore::Event::Due),
            Timer::RequestSubmission(number) => self.submit(user, number),
            Timer::Cancellation(server) => self.cancel(user, server),
            Timer::CancellationOfOne(server, number) => self.cancel_one(user, server, number),
            Timer::Unanswered(query) => self.query_unanswered(user, query),
            Timer::Query => self.query_if_due(user),
        }
    }

    fn request(&self, user: usize, number: u32) -> RequestKey {
        RequestKey { exploration: self.clients[user].key, number }
    }

    /// Sends a submission for the first time or again.
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
        if self.give_up_if_silent(user, server) {
            return;
        }
        let event = Event::Submit { reply: Token(user as u64), submit: Box::new(submit) };
        self.tally.submissions += 1;
        self.send_to_server(server, event);
        if self.bug != Some(Bug::SendsOnce) {
            self.set_timer(
                user,
                self.queue.now() + REPEAT_AFTER,
                Class::ClientDue,
                Timer::RequestSubmission(number),
            );
        }
    }

    fn cancel(&mut self, user: usize, server: usize) {
        let client = &self.clients[user];
        if !client.cancelling.contains(&server) {
            return;
        }
        let (exploration, owner) = (client.key, client.user.clone());
        if self.give_up_if_silent(user, server) {
            return;
        }
        self.send_to_server(server, Event::CancelAll { reply: Token(user as u64), exploration, user: owner });
        self.set_timer(user, self.queue.now() + REPEAT_AFTER, Class::ClientDue, Timer::Cancellation(server));
    }

    /// Schedules a cancellation after the dispatcher's other commands of this event. If its server is given up meanwhile, the
    /// cancellation is dropped before the dispatcher is notified.
    fn schedule_cancel_one(&mut self, user: usize, server: usize, number: u32) {
        self.set_timer(user, self.queue.now(), Class::ToServer, Timer::CancellationOfOne(server, number));
    }

    fn cancel_one(&mut self, user: usize, server: usize, number: u32) {
        let client = &self.clients[user];
        let Some(attempt) = client.cancelling_one.get(&(server, number)).copied() else { return };
        let (key, owner) = (self.request(user, number), client.user.clone());
        if self.give_up_if_silent(user, server) {
            return;
        }
        self.send_to_server(server, Event::Cancel { reply: Token(user as u64), key, attempt, user: owner });
        self.set_timer(
            user,
            self.queue.now() + REPEAT_AFTER,
            Class::ClientDue,
            Timer::CancellationOfOne(server, number),
        );
    }

    /// Gives a server up before a message to it, if it has been silent for longer than the timeout. Returns whether it did; the
    /// dispatcher is notified then.
    fn give_up_if_silent(&mut self, user: usize, at: usize) -> bool {
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
        // Also requests whose answer is in transit: the machine gives them to other servers too.
        self.released.extend(client.node.machine.sent_to(&name).map(|number| (user, number)));
        self.counts.given_up += 1;
        self.query_agent_soon(user);
        if self.bug != Some(Bug::HidesLostServer) {
            self.deliver_to_client(user, explore::Event::Lost(name));
        }
        true
    }

    pub(super) fn receive_client_message(&mut self, user: usize, message: ClientMessage) {
        if !self.clients[user].node.up {
            return;
        }
        match message {
            ClientMessage::Found(query, servers) => self.deliver_offers(user, query, &servers),
            ClientMessage::AllCancelled(server) => {
                self.record_answer(user, server);
                self.clients[user].cancelling.remove(&server);
            }
            ClientMessage::Refused(server, id) => {
                self.record_answer(user, server);
                self.deliver_refusal(user, server, id);
            }
            ClientMessage::Prospects(server, prospects) => {
                self.record_answer(user, server);
                let server = self.servers[server].name.clone();
                self.deliver_to_client(user, explore::Event::Expected { server, prospects });
            }
            ClientMessage::State(server, id, state) => {
                self.record_answer(user, server);
                if self.answers_cancellation(user, server, id, state) {
                    self.clients[user].cancelling_one.remove(&(server, id.0));
                }
                match state {
                    RequestState::Waiting | RequestState::Running => {}
                    RequestState::Cancelled => self.deliver_withdrawal(user, server, id),
                    RequestState::Completed => self.deliver_end(user, server, id.0, true),
                    RequestState::Failed => self.deliver_end(user, server, id.0, false),
                }
            }
        }
    }

    /// True if a state answers the cancellation of this attempt, not an earlier submission or cancellation: the request has
    /// ended, or the server has a later attempt that is still needed.
    fn answers_cancellation(
        &self,
        user: usize,
        at: usize,
        (number, attempt): (u32, u32),
        state: RequestState,
    ) -> bool {
        let client = &self.clients[user];
        let is_over = !matches!(state, RequestState::Waiting | RequestState::Running);
        let is_later = |sent: &RequestSubmission| sent.attempt > attempt && self.by_name[&sent.server] == at;
        let is_wanted = client.open.get(&number).is_some_and(is_later);
        client.cancelling_one.get(&(at, number)) == Some(&attempt) && (is_over || is_wanted)
    }

    /// Records that a server has answered.
    fn record_answer(&mut self, user: usize, server: usize) {
        self.clients[user].silent.remove(&server);
    }

    /// Delivers the end of a request, whether or not the client still has it at that server.
    fn deliver_end(&mut self, user: usize, at: usize, number: u32, completed: bool) {
        let server = self.servers[at].name.clone();
        if self.clients[user].open.get(&number).is_some_and(|sent| sent.server == server) {
            self.clients[user].open.remove(&number);
        }
        self.deliver_to_client(user, explore::Event::Ended { number, server, completed });
    }

    /// Delivers the refusal of an attempt. A duplicate of the submission may still be accepted later.
    fn deliver_refusal(&mut self, user: usize, at: usize, id: (u32, u32)) {
        if self.close_attempt(user, at, id) {
            let (number, server) = (id.0, self.servers[at].name.clone());
            self.counts.refused += 1;
            self.released.insert((user, number));
            self.query_agent_soon(user);
            self.deliver_to_client(user, explore::Event::Refused { number, server });
        }
    }

    /// Delivers the withdrawal of an attempt. If it is the current attempt, another server gets the request.
    fn deliver_withdrawal(&mut self, user: usize, at: usize, (number, attempt): (u32, u32)) {
        if self.close_attempt(user, at, (number, attempt)) {
            let server = self.servers[at].name.clone();
            self.deliver_to_client(user, explore::Event::Withdrawn { number, attempt, server });
        }
    }

    /// Removes an attempt at a server from the open submissions. False if it is not open.
    fn close_attempt(&mut self, user: usize, at: usize, (number, attempt): (u32, u32)) -> bool {
        let is_attempt =
            |sent: &RequestSubmission| sent.attempt == attempt && self.by_name[&sent.server] == at;
        let open = self.clients[user].open.get(&number).is_some_and(is_attempt);
        if open {
            self.clients[user].open.remove(&number);
        }
        open
    }
}
