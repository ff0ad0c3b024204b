//! Calls between clients, servers and the master agent. Requests and answers may be lost, duplicated, delayed and reordered.

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

/// The start permit that a faulty server assumes or gives.
const UNCONDITIONAL_COMMIT: HandoffDecision = HandoffDecision::Commit { cancelled: false, attempts: 0 };

/// A pending call. Its number is the reply token that its receiver gets.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) from: Peer,
    pub(super) to: Peer,
    pub(super) by: CallParty,
}

/// The caller, and what the call is about.
#[derive(Clone)]
pub(super) enum CallParty {
    /// A client, with its incarnation.
    Client(u32),
    /// The owner of a job, who cancels it.
    Owner(u32),
    /// The source of a handoff, with its incarnation.
    Source(u32, HandoffId),
    /// The target of a handoff, with its incarnation.
    Target(u32, HandoffId),
    /// An agent that proposes a move, by the server's number of its query.
    MoveProposal(u64),
    /// A caller about a launch.
    Launch(launches::LaunchCaller),
}

/// The request of a call.
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
    Launch(Box<launches::LaunchRequest>),
}

/// The answer to a call.
#[derive(Clone)]
pub(super) enum Response {
    Client(client::Event),
    /// The client's job has ended and is known by this handle.
    Known(Handle),
    Cancel(CancelAnswer),
    Reply(Reply),
    Decision(HandoffDecision),
    Launch(Box<launches::LaunchAnswer>),
}

/// The answer to an owner's cancellation.
#[derive(Clone, Debug)]
pub(super) enum CancelAnswer {
    /// The job has ended or is being ended, as the record says.
    Ends(Box<JobRecord>),
    /// The job is at another server.
    Elsewhere(Box<JobRecord>),
    Unknown,
}

impl World {
    /// Makes a call; returns its number.
    pub(super) fn call(&mut self, from: Peer, to: Peer, by: CallParty, request: Request) -> u64 {
        let number = self.next_number();
        self.calls.insert(number, Call { from, to, by });
        // A connection delivers a submission at most once. Only a client that sends it again duplicates it.
        let deliveries_max = if matches!(request, Request::Submit(_)) { 1 } else { usize::MAX };
        for pause in self.draw_arrivals(from, to).into_iter().take(deliveries_max) {
            self.after(pause, WorldEvent::Request(number, Box::new(request.clone())));
        }
        number
    }

    pub(super) fn request_arrives(&mut self, number: u64, request: Request) {
        let Some(Call { from, to, .. }) = self.calls.get(&number).cloned() else { return };
        if !self.is_up(to) || self.are_partitioned(from, to) {
            return;
        }
        let reply = Token(number);
        match (to, request) {
            (Peer::Agent(index), Request::Discover(ask)) => {
                self.deliver_to_agent(
                    index,
                    agent::Event::Queried { requester: Requester::Client(reply), query: ask },
                );
            }
            (Peer::Server(index), Request::Submit(submit)) => match self.accepted_before(index, &submit) {
                Some(record) => {
                    self.respond(number, Response::Client(client::Event::Accepted(Box::new(record))))
                }
                None => self.deliver_to_server(index, server::Event::Submit { reply, submit }),
            },
            (Peer::Server(index), Request::Cancel(handle, caller)) => {
                let machine = &self.servers[index].daemon.node.machine;
                match machine.number_of(&handle).filter(|number| machine.job(*number).is_some()) {
                    Some(number) => {
                        self.deliver_to_server(index, server::Event::Cancel { reply, number, caller })
                    }
                    // State that is not durable is not reported: the owner asks again.
                    None if self.servers[index].daemon.node.pending_archived(&handle).is_some() => {}
                    None => {
                        let record = self.servers[index].daemon.node.archived(&handle).cloned().map(Box::new);
                        let answer = match record {
                            Some(record) if record.state.is_final() => CancelAnswer::Ends(record),
                            Some(record) => CancelAnswer::Elsewhere(record),
                            None => CancelAnswer::Unknown,
                        };
                        self.respond(number, Response::Cancel(answer));
                    }
                }
            }
            (Peer::Server(index), Request::Prepare(handoff)) => {
                let prepare = server::Event::Prepare { reply, handoff };
                match self.prepares_drained(index) {
                    true => self.deliver_undrained(index, prepare),
                    false => self.deliver_to_server(index, prepare),
                }
            }
            (Peer::Server(index), Request::Commit(id, cancelled, attempts)) => {
                self.deliver_to_server(index, server::Event::Commit { reply, id, cancelled, attempts });
            }
            (Peer::Server(_), Request::Ready(_)) if self.bug == Some(Bug::PermitsWithoutWithdrawal) => {
                self.respond(number, Response::Decision(UNCONDITIONAL_COMMIT));
            }
            (Peer::Server(index), Request::Ready(id)) => {
                self.deliver_to_server(index, server::Event::Ready { reply, id });
            }
            (Peer::Server(index), Request::Abort(id)) => {
                self.deliver_to_server(index, server::Event::Abort { reply, id });
            }
            (Peer::Server(index), Request::Inquire) => {
                if self.bug == Some(Bug::DecidesEarly) {
                    return self.send_decision(index, number);
                }
                // A decision must be durable before it is sent, so the call waits for the next commit.
                self.servers[index].daemon.waiting.push(number);
                self.schedule_commit(to);
            }
            (to, Request::Launch(asked)) => self.receive_launch_request(to, number, *asked),
            _ => debug_assert!(false, "a request reached the wrong kind of daemon"),
        }
    }

    /// The archived job of a submission's key. The machine answers for a job that it still has.
    fn accepted_before(&self, index: usize, submit: &Submit) -> Option<JobRecord> {
        let daemon = &self.servers[index].daemon;
        if daemon.node.machine.job_of_key(&submit.key).is_some() {
            // The machine answers after its commit.
            return None;
        }
        daemon.node.archive().find(|record| record.key == submit.key).cloned()
    }

    /// Sends the source's decision about a job that another server has prepared.
    pub(super) fn send_decision(&mut self, index: usize, number: u64) {
        let Some(Call { by: CallParty::Target(_, id), .. }) = self.calls.get(&number).cloned() else {
            return;
        };
        let decision = self.servers[index].daemon.node.machine.decision(&id);
        self.respond(number, Response::Decision(decision));
    }

    /// Answers a call.
    pub(super) fn respond(&mut self, number: u64, response: Response) {
        let Some(Call { from, to, .. }) = self.calls.get(&number).cloned() else { return };
        for pause in self.draw_arrivals(to, from) {
            self.after(pause, WorldEvent::Response(number, Box::new(response.clone())));
        }
    }

    pub(super) fn response_arrives(&mut self, number: u64, response: Response) {
        let Some(Call { from, by, .. }) = self.calls.get(&number).cloned() else { return };
        match (by, response) {
            (CallParty::Client(incarnation), Response::Client(event)) => {
                self.answer_client(from, incarnation, number, event)
            }
            (CallParty::Client(incarnation), Response::Known(handle)) => {
                self.end_known_submission(from, incarnation, number, handle)
            }
            (CallParty::Owner(job), Response::Cancel(answer)) => self.answer_owner(job, number, answer),
            (CallParty::Source(incarnation, id), Response::Reply(reply)) => {
                self.answer_source(from, incarnation, id, number, reply)
            }
            (CallParty::Target(incarnation, id), Response::Decision(decision)) => {
                if let Peer::Server(index) = from
                    && self.incarnation(from) == incarnation
                {
                    self.deliver_to_server(index, server::Event::Decided { id, decision });
                }
            }
            (CallParty::Launch(by), Response::Launch(answer)) => {
                self.receive_launch_answer(from, number, by, *answer)
            }
            _ => debug_assert!(false, "an answer of the wrong kind"),
        }
    }

    fn answer_source(&mut self, from: Peer, incarnation: u32, id: HandoffId, number: u64, reply: Reply) {
        let Peer::Server(index) = from else { return };
        if self.incarnation(from) != incarnation {
            return;
        }
        let answered = server::Event::Answered { id: id.clone(), reply: reply.clone() };
        if self.bug == Some(Bug::CommitsEarly) && matches!(reply, Reply::Prepared(_)) {
            let to = self.calls[&number].to;
            self.call(from, to, CallParty::Source(incarnation, id.clone()), Request::Commit(id, false, 0));
            return self.after(5_000, WorldEvent::InjectedEvent(index, incarnation, answered));
        }
        self.deliver_to_server(index, answered);
    }

    /// Calls another server for a server.
    pub(super) fn call_server(&mut self, index: usize, to: &str, id: HandoffId, call: handoff::Call) {
        let Some(Peer::Server(other)) = to.parse().ok().and_then(|name| self.peers.get(&name)).copied()
        else {
            return debug_assert!(false, "{to} is no server");
        };
        let (from, to) = (Peer::Server(index), Peer::Server(other));
        let incarnation = self.incarnation(from);
        let (by, request) = match call {
            handoff::Call::Prepare(handoff) => {
                (CallParty::Source(incarnation, id), Request::Prepare(handoff))
            }
            handoff::Call::Commit { cancelled, attempts } => {
                if self.bug == Some(Bug::SilenceIsSuccess) {
                    let done = server::Event::Answered { id: id.clone(), reply: Reply::Done };
                    self.after(1_500, WorldEvent::InjectedEvent(index, incarnation, done));
                }
                (CallParty::Source(incarnation, id.clone()), Request::Commit(id, cancelled, attempts))
            }
            handoff::Call::Ready => {
                if self.bug == Some(Bug::StartsWithoutPermit) {
                    let judged = server::Event::Decided { id: id.clone(), decision: UNCONDITIONAL_COMMIT };
                    self.after(1, WorldEvent::InjectedEvent(index, incarnation, judged));
                }
                (CallParty::Target(incarnation, id.clone()), Request::Ready(id))
            }
            handoff::Call::Abort => (CallParty::Source(incarnation, id.clone()), Request::Abort(id)),
            handoff::Call::Inquire => (CallParty::Target(incarnation, id), Request::Inquire),
        };
        self.call(from, to, by, request);
    }

    /// Answers a call or an agent's move proposal for a server.
    pub(super) fn send_server_answer(&mut self, index: usize, to: Token, answer: Answer) {
        self.priority_answered(to, &answer);
        if self.job_act_answered(to, &answer) {
            return;
        }
        let call = self.calls.get(&to.0).cloned();
        let response = match answer {
            Answer::MoveOutcome(outcome) => {
                if let Some(Call { by: CallParty::MoveProposal(own), .. }) = call {
                    let found = agent::DiscoveryResult {
                        outcome: Some(outcome),
                        ..agent::DiscoveryResult::default()
                    };
                    self.send_answer_up(Peer::Server(index), own, found);
                }
                return;
            }
            Answer::Handoff(reply) => {
                if self.bug == Some(Bug::StartsPrepared)
                    && matches!(reply, Reply::Prepared(_))
                    && let Some(Call { by: CallParty::Source(_, id), .. }) = &call
                {
                    self.deliver_to_server(
                        index,
                        server::Event::Decided { id: id.clone(), decision: UNCONDITIONAL_COMMIT },
                    );
                }
                Response::Reply(reply)
            }
            Answer::NotPrepared(why) => Response::Reply(Reply::Refused(why)),
            Answer::Subjob(state) => Response::Launch(Box::new(launches::LaunchAnswer::SubjobState(state))),
            Answer::Decision(decision) => Response::Decision(decision),
            Answer::Accepted(record) => Response::Client(client::Event::Accepted(record)),
            Answer::Refused(refused) => Response::Client(client::Event::Refused(refused)),
            Answer::Known(handle) => Response::Known(handle),
            Answer::Cancelling(record) => Response::Cancel(CancelAnswer::Ends(record)),
            Answer::Elsewhere(record) => Response::Cancel(CancelAnswer::Elsewhere(record)),
            Answer::NoSuchJob => Response::Cancel(CancelAnswer::Unknown),
            // The answer to a repetition of an act.
            Answer::Job(_) | Answer::Unsuited(_) | Answer::Forgotten(_) => return,
            Answer::Limited(limits) => return self.limit_answered(to, limits.as_ref()),
            Answer::Banned(banned) => return self.ban_answered(to, banned.as_ref()),
            Answer::Drained(drained) => return self.drain_answered(index, drained.as_ref()),
        };
        self.respond(to.0, response);
    }

    /// Ends a call that was not answered in time.
    pub(super) fn timeout(&mut self, number: u64) {
        let Some(Call { from, by, to }) = self.calls.get(&number).cloned() else { return };
        match by {
            CallParty::Client(incarnation) => {
                let event = match to {
                    Peer::Agent(_) => client::Event::AgentUnreachable("no answer".to_owned()),
                    _ => client::Event::Interrupted("no answer".to_owned()),
                };
                self.answer_client(from, incarnation, number, event);
            }
            CallParty::Owner(job) => self.owner_timeout(job, number),
            CallParty::Launch(by) => self.launch_timeout(from, number, &by),
            CallParty::Source(..) | CallParty::Target(..) | CallParty::MoveProposal(_) => {}
        }
    }

    /// True if the caller detects at once that the receiver is unreachable.
    pub(super) fn is_unreachable(&mut self, from: Peer, to: Peer) -> bool {
        (!self.is_up(to) || self.are_partitioned(from, to)) && self.rng.random_bool(0.5)
    }
}
