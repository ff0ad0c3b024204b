//! A test bench of three servers that hand jobs over to each other, for the tests of handoffs and siblings.

use crate::access::Caller;
use crate::payload::Payload;
use pliant_model::{Estimate, MoveReason, Span, Speed, Speedup, Time};
use pliant_policy::tuning::Tuner;

use super::*;
use crate::handoff::{Call, HandoffDecision, HandoffId, MoveOutcome, MoveProposal, Reply};
use crate::job::Work;
use crate::names::Token;

/// A call that a server has requested.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct PendingCall {
    pub(super) from: Name,
    pub(super) to: Name,
    pub(super) id: HandoffId,
    pub(super) call: Call,
}

/// The servers `lyon`, `nancy` and `oslo`, of four processors each, and their pending calls.
pub(super) struct Bench {
    pub(super) servers: BTreeMap<Name, Server>,
    pub(super) now: Time,
    pub(super) commands: Vec<Command>,
    pub(super) calls: Vec<PendingCall>,
    tokens: u64,
}

pub(super) fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub(super) fn handle(text: &str) -> Handle {
    text.parse().unwrap()
}

pub(super) fn config(server: &Name) -> ServerConfig {
    ServerConfig {
        name: server.clone(),
        address: format!("{server}:1"),
        procs: Procs(4),
        speed: Speed::REFERENCE,
        policy: "cbf".to_owned(),
        tuner: Tuner::Exact,
        waiting: WaitingLimits::of_jobs(10),
        host: None,
    }
}

impl Bench {
    /// `lyon` is busy for 1000 s, and `lyon.2` waits for that.
    pub(super) fn new() -> Bench {
        let names = ["lyon", "nancy", "oslo"].map(name);
        let servers = names.map(|one| (one.clone(), Server::new(config(&one), Time(100)).unwrap()));
        let servers = BTreeMap::from(servers);
        let mut bench = Bench { servers, now: Time(100), commands: Vec::new(), calls: Vec::new(), tokens: 0 };
        bench.submit("lyon", 1, 1000);
        bench.at(100);
        bench.submit("lyon", 2, 50);
        bench
    }

    /// Sends an event to a server; returns its replies.
    pub(super) fn deliver(&mut self, at: &str, event: impl FnOnce(Token) -> Event) -> Vec<(Token, Answer)> {
        self.tokens += 1;
        self.commands.clear();
        let server = self.servers.get_mut(&name(at)).unwrap();
        server.on(self.now, event(Token(self.tokens)), &mut self.commands);
        let calls = self.commands.iter().filter_map(|command| match command.clone() {
            Command::Call { to, id, call } => Some(PendingCall { from: name(at), to: to.name, id, call }),
            _ => None,
        });
        self.calls.extend(calls);
        let replies = self.commands.iter().filter_map(|command| match command {
            Command::Reply { to, answer } => Some((*to, answer.clone())),
            _ => None,
        });
        replies.collect()
    }

    pub(super) fn submit(&mut self, at: &str, key: u8, walltime: i64) {
        let work = Work::new(Procs(4), Span(walltime), Speedup::Rigid);
        let submit = Submit {
            key: Key([key; 16]),
            owner: "alice".parse().unwrap(),
            name: "test".to_owned(),
            work,
            own_time: false,
            pinned: false,
            latest: None,
            compared: Vec::new(),
            discovery: crate::reason::DiscoverySummary::default(),
            payload: Payload::default(),
            sample: None,
            claim: None,
        };
        let answer = self.deliver(at, |reply| Event::Submit { reply, submit: Box::new(submit) });
        assert!(matches!(&answer[..], [(_, Answer::Accepted(_))]), "{answer:?}");
    }

    /// Advances the time at every server.
    pub(super) fn at(&mut self, now: i64) {
        self.now = Time(now);
        for at in ["lyon", "nancy", "oslo"] {
            while self.servers[&name(at)].next_due().is_some_and(|due| due <= self.now) {
                self.deliver(at, |_| Event::Due);
            }
        }
    }

    /// An agent proposes to move the job.
    pub(super) fn propose_move(&mut self, job: &str, from: &str, to: &str) -> Vec<(Token, Answer)> {
        self.propose(job, from, to, false)
    }

    /// An agent proposes to move the job, or to queue a sibling.
    pub(super) fn propose(&mut self, job: &str, from: &str, to: &str, sibling: bool) -> Vec<(Token, Answer)> {
        let proposal = MoveProposal {
            job: handle(job),
            to: name(to),
            address: format!("{to}:1"),
            // Any estimate of the target is early enough.
            expected: Estimate { procs: Procs(4), walltime: Span(50), start: Time(1_000_000) },
            gain: None,
            reason: if sibling { MoveReason::FirstStart } else { MoveReason::EarlierCompletion },
            timeout: Span(60),
            sibling,
        };
        self.deliver(from, |reply| Event::ProposeMove { reply, proposal: Box::new(proposal) })
    }

    /// Takes the only pending call.
    pub(super) fn pending_call(&mut self) -> PendingCall {
        let call = self.calls.pop().expect("a call is pending");
        assert_eq!(self.calls, [], "only one call is pending");
        call
    }

    /// Makes a call; returns the reply.
    pub(super) fn make(&mut self, PendingCall { to, id, call, .. }: PendingCall) -> Reply {
        let answers = self.deliver(to.as_str(), |reply| match call {
            Call::Prepare(handoff) => Event::Prepare { reply, handoff },
            Call::Commit { cancelled, attempts } => Event::Commit { reply, id, cancelled, attempts },
            Call::Abort => Event::Abort { reply, id },
            Call::Inquire | Call::Ready => panic!("a decision answers it"),
        });
        match answers.last() {
            Some((_, Answer::Handoff(reply))) => reply.clone(),
            Some((_, Answer::NotPrepared(why))) => Reply::Refused(why.clone()),
            other => panic!("expected an answer to the call, found {other:?}"),
        }
    }

    pub(super) fn answered(&mut self, call: &PendingCall, reply: Reply) -> Vec<(Token, Answer)> {
        let id = call.id.clone();
        self.deliver(call.from.as_str(), |_| Event::Answered { id, reply })
    }

    /// Makes the pending call and delivers the reply.
    pub(super) fn step(&mut self) -> Vec<(Token, Answer)> {
        let call = self.pending_call();
        let reply = self.make(call.clone());
        self.answered(&call, reply)
    }

    pub(super) fn cancel(&mut self, job: &str, at: &str) -> Vec<(Token, Answer)> {
        let number = self.servers[&name(at)].number_of(&handle(job)).unwrap();
        let caller = Caller { user: "alice".parse().unwrap(), operator: false };
        self.deliver(at, |reply| Event::Cancel { reply, number, caller })
    }

    /// A server's record of a job: the state, and the server that has the job.
    pub(super) fn record(&self, at: &str, job: &str) -> Option<(JobState, &str)> {
        let server = &self.servers[&name(at)];
        let record = server.job(server.number_of(&handle(job))?)?;
        Some((record.state, record.server().as_str()))
    }

    pub(super) fn prepared(&self, at: &str) -> usize {
        self.servers[&name(at)].prepared().count()
    }

    pub(super) fn has_outgoing(&self, at: &str) -> bool {
        self.servers[&name(at)].outgoing().count() > 0
    }

    pub(super) fn decision(&self, at: &str, attempt: u32) -> HandoffDecision {
        self.servers[&name(at)].decision(&HandoffId { job: handle("lyon.2"), attempt })
    }

    pub(super) fn hand_over(&mut self, job: &str, from: &str, to: &str) {
        self.propose_move(job, from, to);
        self.step();
        self.step();
        assert_eq!(self.record(to, job), Some((JobState::Queued, to)));
        assert!(!self.has_outgoing(from));
    }
}

pub(super) fn proposal_outcome(answers: &[(Token, Answer)]) -> &MoveOutcome {
    match answers {
        [(_, Answer::MoveOutcome(outcome))] => outcome,
        other => panic!("expected the outcome of the proposal, found {other:?}"),
    }
}
