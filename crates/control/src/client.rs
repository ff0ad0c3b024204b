//! One submission, from the question to a handle (paper 000, Figure 1: the client asks the agent, then talks to
//! the server directly).
//!
//! The client goes to the best server first. One that cannot be reached before anything was sent, or that
//! refuses because its estimate was stale, is passed over; when all are, the agent is asked again, and from the third
//! time on any completion is taken. It is asked until time is up as long as some server could not be reached, or none is there. Once a submission has gone out to a server without an answer, it may
//! have been accepted: the same key is sent to the *same* server until an answer comes or time is up, never to
//! another one, so no job runs twice. A client that starts again with a key that it may have sent begins there.

use pliant_model::{Span, Time};
use pliant_policy::completion::tolerated;

use crate::agent::DiscoveryResult;
use crate::job::{Compared, JobRecord};
use crate::names::Name;
use crate::reason::{Cause, DiscoverySummary, Reason};
use crate::server::AdmissionRefusal;
use crate::vector::{EstimationVector, cut};

/// From which time on that the agent is asked any completion is taken.
const ROUNDS: u32 = 3;
/// The longest wait between two attempts.
const LONGEST_PAUSE: Span = Span(8);

/// What happened to the client.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// It is to begin.
    Begin,
    /// The agent answered.
    Found(DiscoveryResult),
    /// No agent could be reached.
    NoAgent(String),
    /// The server accepted.
    Accepted(Box<JobRecord>),
    /// The server refused.
    Refused(AdmissionRefusal),
    /// The server refused for a reason that another one would have as well (an argument, a checksum).
    Rejected(Reason),
    /// The server could not be reached; nothing was sent.
    Unreachable(String),
    /// The submission was sent and no answer came.
    Interrupted(String),
    /// Time has passed.
    Due,
}

/// What the client is to do.
#[derive(Clone, PartialEq, Debug)]
pub enum Command {
    /// Ask the agent.
    Discover,
    /// Submit to a server, with the latest completion to take there.
    Submit {
        /// The server.
        to: Box<EstimationVector>,
        /// The latest completion to take; none takes any.
        latest: Option<Time>,
        /// What was compared.
        compared: Vec<Compared>,
        /// What came of asking the others.
        survey: DiscoverySummary,
    },
    /// Submit to that server again, which may have accepted it before; any completion is taken.
    Repeat {
        /// The server.
        server: Name,
    },
    /// Say [`Event::Due`] then.
    WakeAt(Time),
    /// It is over.
    Done(Box<Outcome>),
}

/// How a submission ends.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// It is accepted: this is its job.
    Accepted(Box<JobRecord>),
    /// Nobody takes it, and why, by server.
    Refused(Vec<(Option<Name>, Reason)>),
    /// It may have been accepted by that server, which does not answer or refuses it now; the same key tells later.
    Unknown {
        /// The server.
        server: Name,
        /// The last failure or refusal.
        why: String,
    },
}

enum State {
    Idle,
    Discovering,
    Submitting,
    /// Waits to send the same to the same server again.
    Repeating,
    /// Asks the server that an earlier client sent it to.
    Resuming,
    /// Waits to ask that server again.
    Recalling,
    /// Waits to ask the agent again.
    Pausing,
    Over,
}

/// A submission on its way.
pub struct Submission {
    state: State,
    until: Time,
    round: u32,
    pause: Span,
    /// Where an earlier client sent it, which was not told what came of it.
    sent_to: Option<Name>,
    candidates: Vec<EstimationVector>,
    next: usize,
    /// A candidate of this round could not be reached: it may come back.
    unreached: bool,
    /// The submission may have been accepted where it was last sent.
    in_doubt: Option<String>,
    reasons: Vec<(Option<Name>, Reason)>,
    survey: DiscoverySummary,
}

impl Submission {
    /// A submission that is given up at `until`.
    pub fn new(until: Time) -> Submission {
        Submission {
            state: State::Idle,
            until,
            round: 0,
            pause: Span(1),
            sent_to: None,
            candidates: Vec::new(),
            next: 0,
            unreached: false,
            in_doubt: None,
            reasons: Vec::new(),
            survey: DiscoverySummary::default(),
        }
    }

    /// A submission that an earlier client sent to a server, and was not told what came of it. It goes to that server
    /// and to no other one, and unless it is accepted, whatever the server says, its fate is unknown.
    pub fn resumed(until: Time, sent_to: Name) -> Submission {
        Submission { sent_to: Some(sent_to), ..Submission::new(until) }
    }

    /// Takes in an event and says what to do next; nothing if the event was not waited for.
    pub fn on(&mut self, now: Time, event: Event) -> Option<Command> {
        Some(match (&self.state, event) {
            (State::Idle, Event::Begin) => match self.sent_to.clone() {
                Some(server) => self.resume(server),
                None => self.discover(),
            },
            (State::Resuming | State::Submitting, Event::Accepted(record)) => {
                self.over(Outcome::Accepted(record))
            }
            (State::Resuming, Event::Refused(refused)) => self.refused_in_doubt(refused.to_string()),
            (State::Resuming, Event::Rejected(reason)) => self.refused_in_doubt(reason.why),
            (State::Resuming, Event::Unreachable(why) | Event::Interrupted(why)) => {
                self.repeat(now, why, State::Recalling)
            }
            (State::Recalling, Event::Due) => {
                let server = self.sent_to.clone()?;
                self.resume(server)
            }
            (State::Discovering, Event::Found(found)) => self.found(now, found),
            (State::Discovering, Event::NoAgent(why)) => self.try_later(now, Cause::Unreachable.because(why)),
            (State::Submitting, Event::Refused(refused)) if self.in_doubt.is_some() => {
                self.refused_in_doubt(refused.to_string())
            }
            (State::Submitting, Event::Refused(refused)) => self.refused(now, &refused),
            (State::Submitting, Event::Rejected(reason)) if self.in_doubt.is_some() => {
                self.refused_in_doubt(reason.why)
            }
            (State::Submitting, Event::Rejected(reason)) => {
                self.note(reason);
                self.give_up()
            }
            (State::Submitting, Event::Unreachable(why)) if self.in_doubt.is_none() => {
                self.unreached = true;
                self.note(Cause::Unreachable.because(why));
                self.next_candidate(now)
            }
            (State::Submitting, Event::Unreachable(why) | Event::Interrupted(why)) => {
                self.repeat(now, why, State::Repeating)
            }
            (State::Repeating, Event::Due) => self.submit(now),
            (State::Pausing, Event::Due) => self.discover(),
            // Whatever else comes is late or comes twice: what it answers is not waited for any more.
            _ => return None,
        })
    }

    fn discover(&mut self) -> Command {
        self.state = State::Discovering;
        self.round += 1;
        Command::Discover
    }

    fn resume(&mut self, server: Name) -> Command {
        self.state = State::Resuming;
        Command::Repeat { server }
    }

    /// A repetition is refused, but what was sent before may still be on its way, or wait for the server's journal:
    /// going elsewhere could run the job twice.
    fn refused_in_doubt(&mut self, why: String) -> Command {
        self.in_doubt = Some(why);
        self.give_up()
    }

    fn found(&mut self, now: Time, found: DiscoveryResult) -> Command {
        self.reasons.clear();
        self.reasons.extend(found.refusals.into_iter().map(|(server, reason)| (Some(server), reason)));
        let silence = || Cause::Silent.because("did not answer in time");
        let silent = found.silent.into_iter().map(|name| (Some(name), silence()));
        let nobody_missing = silent.len() == 0;
        self.reasons.extend(silent);
        if found.more > 0 {
            let more = format!("{} more refuse or did not answer", found.more);
            // What is told is the first of the refusals by name: those that are not told are taken to be of their kind.
            let passing = self.reasons.iter().map(|(_, reason)| reason.cause).find(|cause| cause.may_pass());
            self.reasons.push((None, passing.unwrap_or(Cause::Unknown).because(more)));
        }
        let absent = found.absent.into_iter().map(|server| (server, Cause::Absent)).collect();
        self.survey = DiscoverySummary { servers: found.servers, answered: found.answered, passed: absent };
        self.candidates = found.vectors;
        cut(&mut self.candidates, usize::MAX);
        self.next = 0;
        self.unreached = false;
        if self.candidates.is_empty() && nobody_missing && !self.reasons.is_empty() {
            // Everybody was asked and nobody can: waiting will not help.
            return self.give_up();
        }
        self.next_or_later(now)
    }

    fn next_candidate(&mut self, now: Time) -> Command {
        self.next += 1;
        self.next_or_later(now)
    }

    fn next_or_later(&mut self, now: Time) -> Command {
        if self.next < self.candidates.len() {
            return self.submit(now);
        }
        // A federation without servers may be one that has just been started.
        let nobody = self.candidates.is_empty() && self.reasons.is_empty();
        let reason = match nobody {
            true => Cause::Absent.because("no server is there"),
            false => Cause::Busy.because("no server takes it at the moment"),
        };
        let hopeless = self.round >= ROUNDS && !self.unreached && !nobody;
        if hopeless { self.give_up() } else { self.try_later(now, reason) }
    }

    fn submit(&mut self, now: Time) -> Command {
        self.state = State::Submitting;
        let to = self.candidates[self.next].clone();
        let choosy = self.round < ROUNDS && self.in_doubt.is_none();
        let latest = choosy.then(|| tolerated(&to.estimate, now));
        let compared =
            |one: &EstimationVector| Compared { server: one.server.clone(), estimate: one.estimate };
        let compared = self.candidates.iter().map(compared).collect();
        Command::Submit { to: Box::new(to), latest, compared, survey: self.survey() }
    }

    /// What came of asking the others so far: also those that were tried and did not take it.
    fn survey(&self) -> DiscoverySummary {
        let mut survey = self.survey.clone();
        let told = self.reasons.iter();
        survey.passed.extend(told.filter_map(|(server, reason)| Some((server.clone()?, reason.cause))));
        survey
    }

    fn refused(&mut self, now: Time, refused: &AdmissionRefusal) -> Command {
        self.note(refused.reason());
        self.next_candidate(now)
    }

    /// The submission may have been accepted: only the same server can tell.
    fn repeat(&mut self, now: Time, why: String, state: State) -> Command {
        self.in_doubt = Some(why);
        if now >= self.until {
            return self.give_up();
        }
        self.state = state;
        self.wait(now)
    }

    fn try_later(&mut self, now: Time, reason: Reason) -> Command {
        if now >= self.until {
            self.reasons.push((None, reason));
            return self.give_up();
        }
        self.state = State::Pausing;
        self.wait(now)
    }

    fn wait(&mut self, now: Time) -> Command {
        let pause = self.pause;
        self.pause = Span((pause.0 * 2).min(LONGEST_PAUSE.0));
        Command::WakeAt((now + pause).min(self.until.max(now + Span(1))))
    }

    fn note(&mut self, reason: Reason) {
        let server = self.candidates.get(self.next).map(|one| one.server.clone());
        self.reasons.push((server, reason));
    }

    fn give_up(&mut self) -> Command {
        let candidate = self.candidates.get(self.next).map(|one| &one.server);
        let in_doubt = self.in_doubt.take().zip(self.sent_to.as_ref().or(candidate));
        let outcome = match in_doubt {
            Some((why, at)) => Outcome::Unknown { server: at.clone(), why },
            None => Outcome::Refused(std::mem::take(&mut self.reasons)),
        };
        self.over(outcome)
    }

    fn over(&mut self, outcome: Outcome) -> Command {
        self.state = State::Over;
        Command::Done(Box::new(outcome))
    }
}
