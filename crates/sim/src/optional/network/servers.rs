//! Servers and their processes.

use pliant_control::optional::server::{Answer, Command, Event, Exit, RequestKey, RequestState};
use pliant_model::{SpanMs, TimeMs};
use pliant_policy::optional::{Kind, RequestId};

use super::super::tally::RunEnd;
use super::{Bug, Class, ClientMessage, NetworkEvent, Peer, World};

impl World<'_> {
    pub(super) fn deliver_to_server(&mut self, at: usize, event: Event) {
        if !self.servers[at].node.up {
            // The sender repeats a message that needs an answer.
            return self.excuse_client_of(&NetworkEvent::ToServer(at, event));
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
        if self.bug == Some(Bug::EndsAnyRequest)
            && matches!(&event, Event::Submit { submit, .. } if submit.kind == Kind::Mandatory)
            && let Some(running) = server.running.keys().next().copied()
        {
            self.end_process(at, running);
        }
        let (now, node) = (self.queue.now(), &mut self.servers[at].node);
        node.handle(now, event, true);
        let commands = node.commit(now, false);
        let after = self.servers[at].node.machine.queue().optional();
        (before..after).for_each(|_| self.tally.add_stored());
        (after..before).for_each(|_| self.tally.remove_stored());
        self.check_bound(at);
        if self.draw_fault(self.faults.after_commit) {
            self.counts.after_commit += 1;
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
            self.deliver_to_server(at, Event::Due);
        }
    }

    /// Sends a client its prospects at a server that is up.
    pub(super) fn send_prospects(&mut self, user: usize, at: usize) {
        if !self.servers[at].node.up {
            return;
        }
        let client = &self.clients[user];
        let prospects = self.servers[at].node.machine.prospects(self.queue.now(), client.key, &client.user);
        self.send_to_client(user, ClientMessage::Prospects(at, prospects));
    }

    /// Executes a command of a server; `key` is the request and attempt of the event that caused it.
    pub(super) fn carry_out(&mut self, at: usize, key: Option<(RequestKey, u32)>, command: Command) {
        match command {
            Command::Reply { to, answer } => {
                let (number, attempt) = key.map_or((0, 0), |(key, attempt)| (key.number, attempt));
                let message = match answer {
                    Answer::State(state) => ClientMessage::State(at, (number, attempt), state),
                    Answer::AllCancelled => ClientMessage::AllCancelled(at),
                    Answer::Refused(_) => ClientMessage::Refused(at, (number, attempt)),
                };
                self.send_to_client(to.0 as usize, message);
            }
            Command::ReportState { key, state } => {
                let user = self.by_key[&key.exploration];
                self.send_to_client(user, ClientMessage::State(at, (key.number, 0), state));
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

    /// Handles the end of a process, which completed or was ended before.
    pub(super) fn process_ended(&mut self, at: usize, request: RequestId, since: TimeMs) {
        let Some((started, core)) = self.servers[at].running.remove(&request) else { return };
        if started != since {
            self.servers[at].running.insert(request, (started, core));
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
        // A request that its client has cancelled after it gave the server up may be ended.
        let is_wanted = self.servers[at].node.machine.request_state(key) != Some(RequestState::Cancelled);
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
        self.deliver_process_end(at, Event::Ended { request, exit, at: ended });
    }

    /// Delivers the end of a process to its server, after the restart if the server is down.
    pub(super) fn deliver_process_end(&mut self, at: usize, event: Event) {
        if self.servers[at].node.up {
            self.deliver_to_server(at, event);
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
