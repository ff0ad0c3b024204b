//! Calls between clients, servers and the master agent: requests and answers that may be lost, doubled, late, and
//! overtake one another.

use pliant_control::access::Caller;
use pliant_control::agent::{self, DiscoveryQuery, Requester};
use pliant_control::client;
use pliant_control::handoff::{self, Handoff, HandoffDecision, HandoffId, Reply};
use pliant_control::job::JobRecord;
use pliant_control::names::Handle;
use pliant_control::names::Token;
use pliant_control::server::{self, Answer, Submit};
use rand::Rng;

use super::Bug;
use super::launches;
use super::world::{World, WorldEvent};
use crate::kernel::Peer;

/// What somebody takes for the source's consent who has none.
const UNLOCKED: HandoffDecision = HandoffDecision::Commit { cancelled: false, attempts: 0 };

/// A call under way. Its number is the token that its receiver is told.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) from: Peer,
    pub(super) to: Peer,
    pub(super) by: Party,
}

/// Who waits for an answer.
#[derive(Clone)]
pub(super) enum Party {
    /// A client, in that life.
    Client(u32),
    /// The owner of that job.
    Owner(u32),
    /// The source of a handoff, in that life.
    Source(u32, HandoffId),
    /// The target of one, which asks.
    Target(u32, HandoffId),
    /// An agent, by the server's own number of its question.
    Order(u64),
    /// Somebody who asks about a launch.
    Launch(launches::Party),
}

/// What is asked.
#[derive(Clone)]
pub(super) enum Request {
    Discover(Box<DiscoveryQuery>),
    Submit(Box<Submit>),
    Cancel(Handle, Caller),
    Prepare(Box<Handoff>),
    Commit(HandoffId, bool, u32),
    Abort(HandoffId),
    Inquire,
    Ready(HandoffId),
    Launch(Box<launches::Asked>),
}

/// What is answered.
#[derive(Clone)]
pub(super) enum Response {
    Client(client::Event),
    /// The client's job has ended long ago.
    Known(Handle),
    Cancel(Cancelled),
    Reply(Reply),
    Decision(HandoffDecision),
    Launch(Box<launches::Answered>),
}

/// What an owner is told who cancels.
#[derive(Clone, Debug)]
pub(super) enum Cancelled {
    /// It has ended, or is about to be ended, as that record says.
    Ends(Box<JobRecord>),
    /// It is at another server.
    Elsewhere(Box<JobRecord>),
    Unknown,
}

impl World {
    /// Makes a call; returns its number.
    pub(super) fn call(&mut self, from: Peer, to: Peer, by: Party, request: Request) -> u64 {
        let number = self.number();
        self.calls.insert(number, Call { from, to, by });
        // A connection delivers a submission at most once: what comes twice is what a client sends again.
        let copies = if matches!(request, Request::Submit(_)) { 1 } else { usize::MAX };
        for pause in self.fate(from, to).into_iter().take(copies) {
            self.after(pause, WorldEvent::Request(number, Box::new(request.clone())));
        }
        number
    }

    pub(super) fn request_arrives(&mut self, number: u64, request: Request) {
        let Some(Call { from, to, .. }) = self.calls.get(&number).cloned() else { return };
        if !self.is_up(to) || self.are_parted(from, to) {
            return;
        }
        let reply = Token(number);
        match (to, request) {
            (Peer::Agent(index), Request::Discover(ask)) => {
                self.tell_agent(
                    index,
                    agent::Event::Queried { requester: Requester::Client(reply), query: ask },
                );
            }
            (Peer::Server(index), Request::Submit(submit)) => match self.accepted_before(index, &submit) {
                Some(record) => {
                    self.respond(number, Response::Client(client::Event::Accepted(Box::new(record))))
                }
                None => self.tell_server(index, server::Event::Submit { reply, submit }),
            },
            (Peer::Server(index), Request::Cancel(handle, caller)) => {
                let machine = &self.servers[index].daemon.node.machine;
                match machine.number_of(&handle).filter(|number| machine.job(*number).is_some()) {
                    Some(number) => self.tell_server(index, server::Event::Cancel { reply, number, caller }),
                    // Nobody is told what is not durable: they will ask again.
                    None if self.servers[index].daemon.node.about_to_be_archived(&handle).is_some() => {}
                    None => {
                        let told = self.servers[index].daemon.node.archived(&handle).cloned().map(Box::new);
                        let answer = match told {
                            Some(record) if record.state.is_final() => Cancelled::Ends(record),
                            Some(record) => Cancelled::Elsewhere(record),
                            None => Cancelled::Unknown,
                        };
                        self.respond(number, Response::Cancel(answer));
                    }
                }
            }
            (Peer::Server(index), Request::Prepare(handoff)) => {
                self.tell_server(index, server::Event::Prepare { reply, handoff });
            }
            (Peer::Server(index), Request::Commit(id, cancelled, attempts)) => {
                self.tell_server(index, server::Event::Commit { reply, id, cancelled, attempts });
            }
            (Peer::Server(_), Request::Ready(_)) if self.bug == Some(Bug::ConsentsUnlocked) => {
                self.respond(number, Response::Decision(UNLOCKED));
            }
            (Peer::Server(index), Request::Ready(id)) => {
                self.tell_server(index, server::Event::Ready { reply, id });
            }
            (Peer::Server(index), Request::Abort(id)) => {
                self.tell_server(index, server::Event::Abort { reply, id });
            }
            (Peer::Server(index), Request::Inquire) => {
                if self.bug == Some(Bug::JudgesEarly) {
                    return self.give_verdict(index, number);
                }
                // What is told has to be durable: the decision waits for the commit of what has come in before.
                self.servers[index].daemon.waiting.push(number);
                self.plan_commit(to);
            }
            (to, Request::Launch(asked)) => self.launch_asked(to, number, *asked),
            _ => debug_assert!(false, "a request went to the wrong kind of daemon"),
        }
    }

    /// The job that a key was given here, in memory or in the archive.
    fn accepted_before(&self, index: usize, submit: &Submit) -> Option<JobRecord> {
        let daemon = &self.servers[index].daemon;
        if daemon.node.machine.job_of_key(&submit.key).is_some() {
            // The machine answers by itself, when that is durable.
            return None;
        }
        daemon.node.archive().find(|record| record.key == submit.key).cloned()
    }

    /// A source says what is to become of a job that another server holds.
    pub(super) fn give_verdict(&mut self, index: usize, number: u64) {
        let Some(Call { by: Party::Target(_, id), .. }) = self.calls.get(&number).cloned() else { return };
        let decision = self.servers[index].daemon.node.machine.decision(&id);
        self.respond(number, Response::Decision(decision));
    }

    /// Answers a call.
    pub(super) fn respond(&mut self, number: u64, response: Response) {
        let Some(Call { from, to, .. }) = self.calls.get(&number).cloned() else { return };
        for pause in self.fate(to, from) {
            self.after(pause, WorldEvent::Response(number, Box::new(response.clone())));
        }
    }

    pub(super) fn response_arrives(&mut self, number: u64, response: Response) {
        let Some(Call { from, by, .. }) = self.calls.get(&number).cloned() else { return };
        match (by, response) {
            (Party::Client(life), Response::Client(event)) => self.client_hears(from, life, number, event),
            (Party::Client(life), Response::Known(handle)) => {
                self.client_is_known(from, life, number, handle)
            }
            (Party::Owner(job), Response::Cancel(told)) => self.owner_hears(job, number, told),
            (Party::Source(life, id), Response::Reply(reply)) => {
                self.source_hears(from, life, id, number, reply)
            }
            (Party::Target(life, id), Response::Decision(decision)) => {
                if let Peer::Server(index) = from
                    && self.life(from) == life
                {
                    self.tell_server(index, server::Event::Decided { id, decision });
                }
            }
            (Party::Launch(by), Response::Launch(answer)) => self.launch_answered(from, number, by, *answer),
            _ => debug_assert!(false, "an answer of the wrong kind"),
        }
    }

    fn source_hears(&mut self, from: Peer, life: u32, id: HandoffId, number: u64, reply: Reply) {
        let Peer::Server(index) = from else { return };
        if self.life(from) != life {
            return;
        }
        let answered = server::Event::Answered { id: id.clone(), reply: reply.clone() };
        if self.bug == Some(Bug::CommitsEarly) && matches!(reply, Reply::Prepared(_)) {
            let to = self.calls[&number].to;
            self.call(from, to, Party::Source(life, id.clone()), Request::Commit(id, false, 0));
            return self.after(5_000, WorldEvent::Late(index, life, answered));
        }
        self.tell_server(index, answered);
    }

    /// A server calls another one.
    pub(super) fn call_server(&mut self, index: usize, to: &str, id: HandoffId, call: handoff::Call) {
        let Some(Peer::Server(other)) = to.parse().ok().and_then(|name| self.peers.get(&name)).copied()
        else {
            return debug_assert!(false, "{to} is no server");
        };
        let (from, to) = (Peer::Server(index), Peer::Server(other));
        let life = self.life(from);
        let (by, request) = match call {
            handoff::Call::Prepare(handoff) => (Party::Source(life, id), Request::Prepare(handoff)),
            handoff::Call::Commit { cancelled, attempts } => {
                if self.bug == Some(Bug::SilenceIsYes) {
                    let done = server::Event::Answered { id: id.clone(), reply: Reply::Done };
                    self.after(1_500, WorldEvent::Late(index, life, done));
                }
                (Party::Source(life, id.clone()), Request::Commit(id, cancelled, attempts))
            }
            handoff::Call::Ready => {
                if self.bug == Some(Bug::StartsUnasked) {
                    let judged = server::Event::Decided { id: id.clone(), decision: UNLOCKED };
                    self.after(1, WorldEvent::Late(index, life, judged));
                }
                (Party::Target(life, id.clone()), Request::Ready(id))
            }
            handoff::Call::Abort => (Party::Source(life, id.clone()), Request::Abort(id)),
            handoff::Call::Inquire => (Party::Target(life, id), Request::Inquire),
        };
        self.call(from, to, by, request);
    }

    /// A server answers a call, or an agent's order.
    pub(super) fn server_replies(&mut self, index: usize, to: Token, answer: Answer) {
        let call = self.calls.get(&to.0).cloned();
        let response = match answer {
            Answer::Order(outcome) => {
                if let Some(Call { by: Party::Order(own), .. }) = call {
                    let found = agent::DiscoveryResult {
                        outcome: Some(outcome),
                        ..agent::DiscoveryResult::default()
                    };
                    self.answer_up(Peer::Server(index), own, found);
                }
                return;
            }
            Answer::Handoff(reply) => {
                if self.bug == Some(Bug::StartsHeld)
                    && matches!(reply, Reply::Prepared(_))
                    && let Some(Call { by: Party::Source(_, id), .. }) = &call
                {
                    self.tell_server(index, server::Event::Decided { id: id.clone(), decision: UNLOCKED });
                }
                Response::Reply(reply)
            }
            Answer::Subjob(state) => Response::Launch(Box::new(launches::Answered::SubjobState(state))),
            Answer::Decision(decision) => Response::Decision(decision),
            Answer::Accepted(record) => Response::Client(client::Event::Accepted(record)),
            Answer::Refused(refused) => Response::Client(client::Event::Refused(refused)),
            Answer::Known(handle) => Response::Known(handle),
            Answer::Cancelling(record) => Response::Cancel(Cancelled::Ends(record)),
            Answer::Elsewhere(record) => Response::Cancel(Cancelled::Elsewhere(record)),
            Answer::NoSuchJob => Response::Cancel(Cancelled::Unknown),
        };
        self.respond(to.0, response);
    }

    /// Whoever called waits no more.
    pub(super) fn timeout(&mut self, number: u64) {
        let Some(Call { from, by, to }) = self.calls.get(&number).cloned() else { return };
        match by {
            Party::Client(life) => {
                let event = match to {
                    Peer::Agent(_) => client::Event::AgentUnreachable("no answer".to_owned()),
                    _ => client::Event::Interrupted("no answer".to_owned()),
                };
                self.client_hears(from, life, number, event);
            }
            Party::Owner(job) => self.owner_waits_no_more(job, number),
            Party::Launch(by) => self.launch_timeout(from, number, &by),
            Party::Source(..) | Party::Target(..) | Party::Order(_) => {}
        }
    }

    /// True if the caller finds out at once that nobody is there.
    pub(super) fn is_unreachable(&mut self, from: Peer, to: Peer) -> bool {
        (!self.is_up(to) || self.are_parted(from, to)) && self.rng.random_bool(0.5)
    }
}
