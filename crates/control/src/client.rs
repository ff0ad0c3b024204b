//! One submission, from discovery to an accepted job (paper 000, Figure 1: the client asks the agent, then connects to the
//! server directly).
//!
//! The client tries the best server first. It skips a server that cannot be reached before anything was sent, or that
//! refuses because its estimate was outdated. When all candidates are used up, the client discovers again; from the third
//! discovery on it takes any completion. It keeps discovering until its time is up while some server is unreachable or none
//! is up.
//!
//! Once a submission was sent to a server without an answer, that server may have accepted it. The client sends the same
//! key to the *same* server until an answer comes or its time is up, and never to another server, so that no job runs
//! twice. A restarted client with a key that may have been sent begins there.

use pliant_model::{Span, Time};
use pliant_policy::completion::tolerated;

use crate::agent::DiscoveryResult;
use crate::estimation_vector::{EstimationVector, keep_best};
use crate::job::{ComparedEstimate, JobRecord};
use crate::names::Name;
use crate::reason::{Cause, DiscoverySummary, Reason};
use crate::server::AdmissionRefusal;

/// From this discovery on the client takes any completion.
const LENIENT_DISCOVERY: u32 = 3;
/// The longest wait between two attempts.
const LONGEST_PAUSE: Span = Span(8);

/// An event of a submission.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The driver starts the submission.
    Begin,
    /// The agent answered the discovery.
    Found(DiscoveryResult),
    /// No agent could be reached.
    AgentUnreachable(String),
    /// The server accepted.
    Accepted(Box<JobRecord>),
    /// The server refused.
    Refused(AdmissionRefusal),
    /// The server refused for a reason that holds for every server (an argument, a checksum).
    Rejected(Reason),
    /// The server could not be reached; nothing was sent.
    Unreachable(String),
    /// The submission was sent and no answer came.
    Interrupted(String),
    /// The time of [`Command::WakeAt`] has come.
    Due,
    /// In place of [`Event::Due`] if [`Submission::is_outdated`]: since its last discovery, another submission of the same client was
    /// accepted, so the estimates were true then. The next discovery is made at once and does not count.
    OthersAccepted,
}

/// A command of a submission to its driver.
#[derive(Clone, PartialEq, Debug)]
pub enum Command {
    /// Send a discovery query to the agent.
    Discover,
    /// Submit to a server.
    Submit {
        /// The server.
        to: Box<EstimationVector>,
        /// The latest completion to accept; none accepts any.
        latest: Option<Time>,
        /// The estimates that were compared.
        compared: Vec<ComparedEstimate>,
        /// The summary of the discovery.
        discovery: DiscoverySummary,
    },
    /// Submit to a server that the user chose, or again to one that may have accepted before; any completion is accepted.
    Repeat {
        /// The server.
        server: Name,
    },
    /// Send [`Event::Due`] at that time.
    WakeAt(Time),
    /// The submission has ended.
    Done(Box<SubmissionOutcome>),
}

/// The outcome of a submission.
#[derive(Clone, PartialEq, Debug)]
pub enum SubmissionOutcome {
    /// A server accepted it as this job.
    Accepted(Box<JobRecord>),
    /// No server takes it; the reasons, by server.
    Refused(Vec<(Option<Name>, Reason)>),
    /// This server may have accepted it, and does not answer or refuses it now. A later submission with the same key finds
    /// out.
    Unknown {
        /// The server.
        server: Name,
        /// The last failure or refusal.
        why: String,
    },
}

/// Why servers do not take the work, as a discovery found: refusals and missing answers.
pub fn refusals(found: &DiscoveryResult) -> Vec<(Option<Name>, Reason)> {
    let refused = found.refusals.iter().map(|(server, reason)| (Some(server.clone()), reason.clone()));
    let silence = || Cause::NoAnswer.because("did not answer in time");
    let silent = found.silent.iter().map(|server| (Some(server.clone()), silence()));
    let mut reasons: Vec<(Option<Name>, Reason)> = refused.chain(silent).collect();
    if found.more > 0 {
        let more = format!("{} more refuse or did not answer", found.more);
        // A result lists the first refusals by name: the omitted ones are assumed to be of the same kind.
        let passing = reasons.iter().map(|(_, reason)| reason.cause).find(|cause| cause.may_pass());
        reasons.push((None, passing.unwrap_or(Cause::Unknown).because(more)));
    }
    reasons
}

/// The servers that are down, as further reasons, if servers that are up lack resources that the work needs: these may have them.
pub fn down_instead(found: &DiscoveryResult) -> Vec<(Option<Name>, Reason)> {
    let lacks = found.refusals.iter().any(|(_, reason)| reason.cause == Cause::Resources);
    let down = found.down.iter().filter(|_| lacks);
    let reason = || Cause::NotConnected.because("down, and may have what the job needs");
    down.map(|server| (Some(server.clone()), reason())).collect()
}

enum State {
    Idle,
    Discovering,
    /// Submits to the server that the user chose, without a discovery.
    SubmittingToChosen,
    Submitting,
    /// Waits before the same submission goes to the same server again.
    WaitingToRepeat,
    /// Asks the server that an earlier client had sent the submission to.
    Resuming,
    /// Waits before asking that server again.
    WaitingToResume,
    /// Waits before the next discovery.
    WaitingToDiscover,
    Ended,
}

/// The state machine of one submission.
pub struct Submission {
    state: State,
    until: Time,
    discoveries: u32,
    pause: Span,
    /// The server that an earlier client sent the submission to without learning the outcome.
    sent_to: Option<Name>,
    /// The server that the user chose, if no discovery is needed.
    chosen: Option<Name>,
    candidates: Vec<EstimationVector>,
    next: usize,
    /// A candidate of this discovery could not be reached; it may come back.
    unreached: bool,
    /// A candidate of this discovery has refused because its estimate was no longer true.
    outdated: bool,
    /// The submission may have been accepted by the server it was last sent to; the last failure.
    in_doubt: Option<String>,
    reasons: Vec<(Option<Name>, Reason)>,
    discovery: DiscoverySummary,
}

impl Submission {
    /// Makes a submission that is given up at `until`.
    pub fn new(until: Time) -> Submission {
        Submission {
            state: State::Idle,
            until,
            discoveries: 0,
            pause: Span(1),
            sent_to: None,
            chosen: None,
            candidates: Vec::new(),
            next: 0,
            unreached: false,
            outdated: false,
            in_doubt: None,
            reasons: Vec::new(),
            discovery: DiscoverySummary::default(),
        }
    }

    /// Makes a submission that an earlier client sent to a server without learning the outcome. It goes to that server
    /// only. Unless that server accepts it, its outcome is unknown.
    pub fn resumed(until: Time, sent_to: Name) -> Submission {
        Submission { sent_to: Some(sent_to), ..Submission::new(until) }
    }

    /// Makes a submission that goes to the server that the user chose, without a discovery: there is nothing to compare. If that
    /// server refuses it or cannot be reached, a discovery shows what there is.
    pub fn chosen(until: Time, server: Name) -> Submission {
        Submission { chosen: Some(server), ..Submission::new(until) }
    }

    /// Handles an event and returns the next command; none if the event is not expected.
    pub fn on(&mut self, now: Time, event: Event) -> Option<Command> {
        Some(match (&self.state, event) {
            (State::Idle, Event::Begin) => match self.sent_to.clone() {
                Some(server) => self.resume(server),
                None => match self.chosen.clone() {
                    Some(server) => {
                        self.state = State::SubmittingToChosen;
                        Command::Repeat { server }
                    }
                    None => self.discover(),
                },
            },
            (State::Resuming | State::Submitting | State::SubmittingToChosen, Event::Accepted(record)) => {
                self.end(SubmissionOutcome::Accepted(record))
            }
            (State::SubmittingToChosen, Event::Refused(_) | Event::Unreachable(_)) => self.discover(),
            (State::SubmittingToChosen, Event::Rejected(reason)) => {
                self.reasons.push((self.chosen.clone(), reason));
                self.give_up()
            }
            (State::SubmittingToChosen, Event::Interrupted(why)) => {
                // From now on only that server can say what became of it.
                self.sent_to = self.chosen.take();
                self.repeat(now, why, State::WaitingToResume)
            }
            (State::Resuming, Event::Refused(refused)) => self.refused_in_doubt(refused.to_string()),
            (State::Resuming, Event::Rejected(reason)) => self.refused_in_doubt(reason.why),
            (State::Resuming, Event::Unreachable(why) | Event::Interrupted(why)) => {
                self.repeat(now, why, State::WaitingToResume)
            }
            (State::WaitingToResume, Event::Due) => {
                let server = self.sent_to.clone()?;
                self.resume(server)
            }
            (State::Discovering, Event::Found(found)) => self.found(now, found),
            (State::Discovering, Event::AgentUnreachable(why)) => {
                self.try_later(now, Cause::Unreachable.because(why))
            }
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
                self.repeat(now, why, State::WaitingToRepeat)
            }
            (State::WaitingToRepeat, Event::Due) => self.submit(now),
            (State::WaitingToDiscover, Event::Due) => self.discover(),
            (State::WaitingToDiscover, Event::OthersAccepted) if self.outdated => {
                self.discoveries -= 1;
                self.pause = Span(1);
                self.discover()
            }
            // Any other event is late or a duplicate.
            _ => return None,
        })
    }

    /// True if it waits for its next discovery because an estimate of the last one was no longer true.
    pub fn is_outdated(&self) -> bool {
        matches!(self.state, State::WaitingToDiscover) && self.outdated
    }

    fn discover(&mut self) -> Command {
        self.state = State::Discovering;
        self.discoveries += 1;
        Command::Discover
    }

    fn resume(&mut self, server: Name) -> Command {
        self.state = State::Resuming;
        Command::Repeat { server }
    }

    /// A repeated submission was refused, but the first one may still be on its way or wait for the server's journal:
    /// another server could run the job a second time.
    fn refused_in_doubt(&mut self, why: String) -> Command {
        self.in_doubt = Some(why);
        self.give_up()
    }

    fn found(&mut self, now: Time, found: DiscoveryResult) -> Command {
        self.reasons = refusals(&found);
        let down_instead = down_instead(&found);
        let none_silent = found.silent.is_empty();
        let passed = found.down.into_iter().map(|server| (server, Cause::NotConnected)).collect();
        let DiscoveryResult { servers, answered, not_asked, .. } = found;
        self.discovery = DiscoverySummary { servers, answered, not_asked, passed };
        self.candidates = found.vectors;
        keep_best(&mut self.candidates, usize::MAX);
        self.next = 0;
        self.unreached = false;
        self.outdated = false;
        if self.candidates.is_empty() && none_silent && !self.reasons.is_empty() {
            // Every server answered and none takes the job: waiting does not help.
            self.reasons.extend(down_instead);
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
        // A federation without servers may just have started.
        let no_server = self.candidates.is_empty() && self.reasons.is_empty();
        let reason = match no_server {
            true => Cause::NotConnected.because("no server is up"),
            false => Cause::Busy.because("no server accepts the job at the moment"),
        };
        let gives_up = self.discoveries >= LENIENT_DISCOVERY && !self.unreached && !no_server;
        if gives_up { self.give_up() } else { self.try_later(now, reason) }
    }

    fn submit(&mut self, now: Time) -> Command {
        self.state = State::Submitting;
        let to = self.candidates[self.next].clone();
        let is_strict = self.discoveries < LENIENT_DISCOVERY && self.in_doubt.is_none();
        let latest = is_strict.then(|| tolerated(&to.estimate, now));
        let compared =
            |one: &EstimationVector| ComparedEstimate { server: one.server.clone(), estimate: one.estimate };
        let compared = self.candidates.iter().map(compared).collect();
        Command::Submit { to: Box::new(to), latest, compared, discovery: self.discovery() }
    }

    /// The summary of the discovery so far, with the servers that were tried and did not take the job.
    fn discovery(&self) -> DiscoverySummary {
        let mut discovery = self.discovery.clone();
        let tried = self.reasons.iter();
        discovery.passed.extend(tried.filter_map(|(server, reason)| Some((server.clone()?, reason.cause))));
        discovery
    }

    fn refused(&mut self, now: Time, refused: &AdmissionRefusal) -> Command {
        self.outdated |= matches!(refused, AdmissionRefusal::Stale { .. });
        self.note(refused.reason());
        self.next_candidate(now)
    }

    /// The submission may have been accepted: only the same server can answer that.
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
        self.state = State::WaitingToDiscover;
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
            Some((why, at)) => SubmissionOutcome::Unknown { server: at.clone(), why },
            None => SubmissionOutcome::Refused(std::mem::take(&mut self.reasons)),
        };
        self.end(outcome)
    }

    fn end(&mut self, outcome: SubmissionOutcome) -> Command {
        self.state = State::Ended;
        Command::Done(Box::new(outcome))
    }
}
