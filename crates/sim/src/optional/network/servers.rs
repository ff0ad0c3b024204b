//! Servers, with the processes that they start.

use pliant_control::optional::server::{Answer, Command, Event, Exit, RequestKey, RequestState};
use pliant_model::{SpanMs, TimeMs};
use pliant_policy::optional::{Kind, RequestId};

use super::super::tally::RunEnd;
use super::{Bug, Class, NetworkEvent, Peer, ToClient, World};

impl World<'_> {
    pub(super) fn tell_server(&mut self, at: usize, event: Event) {
        if !self.servers[at].node.up {
            // Nobody listens; who wants an answer asks again.
            return self.excuse_for(&NetworkEvent::ToServer(at, event));
        }
        let server = &mut self.servers[at];
        let before = server.node.machine.queue().optional();
        let key = match &event {
            Event::Submit { submit, .. } => Some((submit.key, submit.attempt)),
            Event::Cancel { key, attempt, .. } | Event::Withdraw { key, attempt, .. } => {
                Some((*key, *attempt))
            }
            Event::Ended { request, .. } => server.node.machine.key(*request).map(|key| (key, 0)),
            Event::CancelAll { .. } | Event::Due => None,
        };
        if self.bug == Some(Bug::EndsAnybody)
            && matches!(&event, Event::Submit { submit, .. } if submit.kind == Kind::Mandatory)
            && let Some(running) = server.running.keys().next().copied()
        {
            self.end_process(at, running);
        }
        let (now, node) = (self.queue.now(), &mut self.servers[at].node);
        node.handle(now, event, true);
        let commands = node.commit(now, false);
        let after = self.servers[at].node.machine.queue().optional();
        (before..after).for_each(|_| self.tally.stored());
        (after..before).for_each(|_| self.tally.unstored());
        self.check_bound(at);
        if self.strikes(self.faults.cut_short) {
            self.seen.cut_short += 1;
            return self.crash(Peer::Server(at));
        }
        for (command, _) in commands {
            self.carry_out(at, key, command);
        }
        let server = &mut self.servers[at];
        let due = server.node.machine.next_due(self.queue.now());
        if due != server.due {
            server.due = due;
            if let Some(due) = due {
                self.schedule(due, Class::ServerDue(at), NetworkEvent::ServerDue);
            }
        }
    }

    pub(super) fn server_due(&mut self, at: usize) {
        if self.servers[at].due.is_some_and(|due| due <= self.queue.now()) {
            self.servers[at].due = None;
            self.tell_server(at, Event::Due);
        }
    }

    /// A client is told what it may expect, if anybody is there.
    pub(super) fn tell_prospects(&mut self, user: usize, at: usize) {
        if !self.servers[at].node.up {
            return;
        }
        let client = &self.clients[user];
        let prospects = self.servers[at].node.machine.prospects(self.queue.now(), client.key, &client.user);
        self.send_to_client(user, ToClient::Expected(at, prospects));
    }

    /// Does what a server wants on account of an attempt of a request.
    pub(super) fn carry_out(&mut self, at: usize, key: Option<(RequestKey, u32)>, command: Command) {
        match command {
            Command::Reply { to, answer } => {
                let (number, attempt) = key.map_or((0, 0), |(key, attempt)| (key.number, attempt));
                let told = match answer {
                    Answer::Stands(state) => ToClient::Stands(at, (number, attempt), state),
                    Answer::AllCancelled => ToClient::AllCancelled(at),
                    Answer::Refused(_) => ToClient::Refused(at, (number, attempt)),
                };
                self.send_to_client(to.0 as usize, told);
            }
            Command::Tell { key, state } => {
                let user = self.by_key[&key.exploration];
                self.send_to_client(user, ToClient::Stands(at, (key.number, 0), state));
            }
            Command::Run { request, core, .. } => self.run_process(at, request, core),
            Command::End { request } => self.end_process(at, request),
        }
    }

    pub(super) fn run_process(&mut self, at: usize, request: RequestId, core: u32) {
        let Some(key) = self.servers[at].node.machine.key(request) else {
            return self.violations.push(format!("server {at} runs {request:?}, which it does not have"));
        };
        let runtime = self.clients[self.by_key[&key.exploration]].runtime;
        let server = &mut self.servers[at];
        if server.running.values().any(|(_, other)| *other == core) {
            self.violations.push(format!("server {at} runs two requests on core {core}"));
        }
        server.running.insert(request, (self.queue.now(), core));
        let took = SpanMs(((runtime.0 as f64 / server.speed).ceil() as i64).max(1));
        let now = self.queue.now();
        self.schedule(now + took, Class::Ended, NetworkEvent::Ended(at, request, now));
        self.count_excused(at, self.by_key[&key.exploration], key.number, runtime);
    }

    pub(super) fn end_process(&mut self, at: usize, request: RequestId) {
        if let Some((since, _)) = self.servers[at].running.get(&request).copied() {
            self.schedule(self.queue.now(), Class::Ended, NetworkEvent::Ended(at, request, since));
        }
    }

    /// A process is gone: it has run for its time, or was ended before.
    pub(super) fn process_ended(&mut self, at: usize, request: RequestId, since: TimeMs) {
        let Some((began, core)) = self.servers[at].running.remove(&request) else { return };
        if began != since {
            self.servers[at].running.insert(request, (began, core));
            return;
        }
        let Some(key) = self.servers[at].node.machine.key(request) else {
            return self.violations.push(format!("server {at} has forgotten {request:?}, which runs"));
        };
        let user = self.by_key[&key.exploration];
        let (runtime, speed) = (self.clients[user].runtime, self.servers[at].speed);
        let took = self.queue.now() - since;
        let whole = took >= SpanMs(((runtime.0 as f64 / speed).ceil() as i64).max(1));
        let kind = self.kind(user, key.number);
        let exit = if whole { Exit::Completed } else { Exit::Killed };
        // One that its client has cancelled, because it was given up here, may be.
        let is_wanted = self.servers[at].node.machine.stands(key) != Some(RequestState::Cancelled);
        if !whole && self.fair && kind == Kind::Mandatory && is_wanted {
            self.violations.push(format!("mandatory request {} of user {user} was ended", key.number));
        }
        let over = self.clients[user].node.machine.is_over();
        let first = whole && !over && !self.completed[user].contains_key(&key.number);
        if whole {
            *self.completed[user].entry(key.number).or_default() += 1;
        }
        let waits = exit == Exit::Killed;
        let end = if first {
            RunEnd::Completed(kind)
        } else if waits && !over {
            RunEnd::Killed
        } else {
            RunEnd::Cancelled
        };
        self.tally.ran(self.queue.now(), user, took, speed, end);
        if end != RunEnd::Cancelled {
            self.count_late(user, took, speed);
        }
        let ended = Some(self.queue.now()).filter(|_| !self.servers[at].node.up);
        self.server_told_of_end(at, Event::Ended { request, exit, at: ended });
    }

    /// A server is told of an end; when it is back, if it is away.
    pub(super) fn server_told_of_end(&mut self, at: usize, event: Event) {
        if self.servers[at].node.up {
            self.tell_server(at, event);
        } else {
            self.servers[at].missed.push(event);
        }
    }

    pub(super) fn kind(&self, user: usize, number: u32) -> Kind {
        if number < self.clients[user].node.machine.plan().mandatory {
            Kind::Mandatory
        } else {
            Kind::Optional
        }
    }
}
