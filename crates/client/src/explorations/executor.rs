//! The calls of an exploration: they carry out the commands of the machine of `control`, and their replies are its inputs.

mod discovery;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use pliant_control::names::Name;
use pliant_control::optional::explore::{
    Command, Event, ExplorationClient, ExplorationOutcome, RequestSubmission,
};
use pliant_control::optional::server::RequestState;
use pliant_control::reason::Cause;
use pliant_model::TimeMs;
use pliant_transport::Clock;
use pliant_wire::{Attempt, Call, bounds, is_cut};
use tokio::time::Instant;

use self::discovery::Found;
use super::folder::{Entry, Header};
use super::spec::ExplorationStatus;
use super::{ExplorationCalls, ExplorationFolder, RequestEvent};
use crate::driver::{self, Executor};
use crate::poll::Poll;
use crate::{Client, ClientError, WorkError};

/// How long to wait for the acknowledgement of cancellations in the end.
const FAREWELL: Duration = Duration::from_secs(5);
/// How many refused requests are reported one by one. If that many are refused for good and none was accepted, the exploration
/// ends.
const REFUSED_MAX: u32 = 10;

type Input = driver::Input<ExplorationExecutor>;

/// A reply of an agent or a server.
pub(super) enum Reply {
    Found(Found),
    Request(RequestEvent),
}

pub(super) struct ExplorationExecutor {
    client: Client,
    header: Header,
    pub(super) machine: ExplorationClient,
    pub(super) is_resumed: bool,
    calls: ExplorationCalls,
    clock: Clock,
    /// When a first server has to be found; none once one was found.
    found_by: Option<Instant>,
    /// Requests that were refused for good.
    refused: u32,
    /// Warnings that are to be reported.
    pub(super) warnings: Vec<String>,
    last_warning: Option<String>,
    timeout: Duration,
    wakes: BTreeSet<TimeMs>,
    poll: Poll<Found>,
    /// Servers that refuse this exploration for good, and why.
    barred: BTreeMap<Name, String>,
    /// All servers that there are refuse it for good.
    is_refused_everywhere: bool,
    outcome: Option<ExplorationOutcome>,
    /// All cancellations are acknowledged.
    is_settled: bool,
}

impl ExplorationExecutor {
    pub(super) fn new(
        client: &Client,
        header: Header,
        machine: ExplorationClient,
        is_resumed: bool,
        calls: ExplorationCalls,
        clock: Clock,
        timeout: Duration,
    ) -> ExplorationExecutor {
        ExplorationExecutor {
            client: client.clone(),
            header,
            machine,
            is_resumed,
            calls,
            clock,
            found_by: Some(Instant::now() + timeout),
            refused: 0,
            warnings: Vec::new(),
            last_warning: None,
            timeout,
            wakes: BTreeSet::new(),
            poll: Poll::later(),
            barred: BTreeMap::new(),
            is_refused_everywhere: false,
            outcome: None,
            is_settled: false,
        }
    }

    pub(super) fn explored(&self) -> ExplorationStatus {
        let mandatory_done = self.machine.mandatory_done();
        let deadline = self.machine.plan().deadline;
        ExplorationStatus {
            progress: self.machine.progress(),
            open: self.calls.open(),
            servers: self.calls.servers(),
            mandatory_done: mandatory_done.map(|at| at - self.header.began),
            late: mandatory_done.map(|at| at - deadline).filter(|late| late.0 > 0),
            left: deadline - moment(&self.clock),
            platform: self.calls.platform(),
            interrupted: self.outcome.is_some_and(|outcome| outcome.interrupted),
            settled: self.is_settled,
        }
    }

    fn now(&self, event: Event) -> Input {
        Input::Entry(Entry { at: moment(&self.clock), event })
    }

    fn call(&self, submission: &RequestSubmission) -> Call {
        let RequestSubmission { number, kind, attempt, .. } = *submission;
        Call { number, kind, attempt, arguments: self.header.parameters.arguments(number) }
    }

    /// True if every request so far was refused for good: the others would be, too.
    fn are_all_refused(&self) -> bool {
        self.refused >= REFUSED_MAX.min(self.machine.plan().most) && self.calls.servers() == 0
    }

    /// Cancels everything and empties the folder: no request has run.
    async fn forget(&mut self, folder: Option<&mut ExplorationFolder>) -> Result<(), WorkError> {
        let mut commands = Vec::new();
        self.machine.on(moment(&self.clock), Event::Interrupted, &mut commands);
        for command in commands {
            if let Command::Cancel { server } = command {
                self.calls.cancel_all(&server);
            }
        }
        self.calls.settle(Instant::now() + FAREWELL).await;
        folder.map_or(Ok(()), |folder| Ok(folder.forget_all()?))
    }

    /// Reports how many more requests no server could take.
    fn warn_of_more_refusals(&mut self, folder: Option<&ExplorationFolder>) {
        let more = self.refused.saturating_sub(REFUSED_MAX);
        if more > 0 {
            let why = folder
                .map_or_else(String::new, |folder| format!("; why is in {}", folder.failed().display()));
            self.warn(format!("servers do not take {more} more requests{why}"));
        }
    }

    /// Reports a problem, unless it was the last one that was reported.
    fn warn(&mut self, what: String) {
        if self.last_warning.as_ref() != Some(&what) {
            self.last_warning = Some(what.clone());
            self.warnings.push(what);
        }
    }

    /// What a report about a request means to the machine.
    fn request_event(
        &mut self,
        happened: RequestEvent,
        folder: Option<&ExplorationFolder>,
    ) -> Result<Event, WorkError> {
        Ok(match happened {
            RequestEvent::Ended { number, server, state, output } => {
                let completed = state == RequestState::Completed;
                if completed && is_cut(&output) {
                    self.warn(format!("request {number} wrote more than a result may have, which is cut"));
                }
                if let Some(folder) = folder
                    && state != RequestState::Cancelled
                {
                    folder.keep(number, completed, &output)?;
                }
                Event::Ended { number, server, completed }
            }
            RequestEvent::Refused { number, server, why } => {
                match why.cause {
                    // Any server would refuse it: it has failed.
                    Cause::Invalid | Cause::TooLarge | Cause::TooLong => {
                        let what = format!("server {server} does not take request {number}: {}", why.why);
                        if let Some(folder) = folder {
                            folder.keep(number, false, what.as_bytes())?;
                        }
                        self.refused += 1;
                        if self.refused <= REFUSED_MAX {
                            self.warn(what);
                        }
                        return Ok(Event::Ended { number, server, completed: false });
                    }
                    cause if !cause.may_pass() => {
                        let why = why.why;
                        self.warn(format!("server {server} takes nothing of this exploration: {why}"));
                        self.barred.insert(server.clone(), why);
                    }
                    _ => {}
                }
                self.poll.soon();
                Event::Refused { number, server }
            }
            RequestEvent::Withdrawn { id: Attempt { number, attempt }, server } => {
                Event::Withdrawn { number, attempt, server }
            }
            RequestEvent::Expected { server, prospects } => Event::Expected { server, prospects },
            RequestEvent::Lost { server, why } => {
                self.warn(format!("server {server} is given up: {why}"));
                self.poll.soon();
                Event::Lost(server)
            }
        })
    }
}

impl Executor for ExplorationExecutor {
    type Work = Header;
    type Event = Infallible;
    type Reply = Reply;

    fn state(&mut self) -> &mut ExplorationClient {
        &mut self.machine
    }

    fn begin(&mut self) -> Input {
        self.now(if self.is_resumed { Event::Resumed } else { Event::Begin })
    }

    fn on(&mut self, event: Infallible, _: &mut Vec<Command>) {
        match event {}
    }

    fn carry_out(&mut self, command: Command) -> Option<Input> {
        match command {
            Command::Discover { most } => self.discover(most),
            Command::Submit(submission) => {
                let call = self.call(&submission);
                self.calls.call_async(&submission.server, call);
            }
            Command::Recall(submission) => {
                let call = self.call(&submission);
                self.calls.recall(&submission.server, call);
            }
            Command::Cancel { server } => self.calls.cancel_all(&server),
            Command::CancelOne { server, number, attempt } => {
                self.calls.cancel(&server, Attempt { number, attempt })
            }
            Command::Withdraw { server, number, attempt } => {
                self.calls.withdraw(&server, Attempt { number, attempt })
            }
            Command::Expect { server } => self.calls.expect(&server),
            Command::WakeAt(at) => drop(self.wakes.insert(at)),
            Command::Done(outcome) => self.outcome = Some(outcome),
        }
        None
    }

    fn check(&self) -> Result<(), WorkError> {
        match self.are_all_refused() {
            true => Err(ClientError::usage(self.last_warning.clone().unwrap_or_default()).into()),
            false => Ok(()),
        }
    }

    fn is_over(&self) -> bool {
        self.outcome.is_some()
    }

    async fn reply(&mut self) -> Reply {
        tokio::select! {
            biased;
            found = self.poll.answer() => Reply::Found(found),
            happened = self.calls.wait_any() => Reply::Request(happened),
        }
    }

    fn receive(&mut self, reply: Reply, folder: Option<&ExplorationFolder>) -> Result<Vec<Input>, WorkError> {
        let event = match reply {
            Reply::Found(found) => self.found(found)?,
            Reply::Request(happened) => self.request_event(happened, folder)?,
        };
        Ok(vec![self.now(event)])
    }

    fn wake_at(&self) -> Instant {
        let until = |at: &TimeMs| {
            let left = (*at - moment(&self.clock)).0.max(0).unsigned_abs();
            Instant::now() + Duration::from_millis(left)
        };
        self.wakes.first().map(until).map_or(self.poll.at(), |at| at.min(self.poll.at()))
    }

    fn wake(&mut self) -> Option<Input> {
        if self.wakes.first().is_some_and(|at| *at <= moment(&self.clock)) {
            self.wakes.pop_first();
            return Some(self.now(Event::Due));
        }
        if self.poll.at() <= Instant::now() {
            self.discover(self.machine.plan().most);
        }
        None
    }

    fn interrupt(&mut self) -> Option<Input> {
        Some(self.now(Event::Interrupted))
    }

    async fn finish(
        &mut self,
        result: Result<(), WorkError>,
        folder: Option<&mut ExplorationFolder>,
    ) -> Result<(), WorkError> {
        if self.are_all_refused() || self.is_refused_everywhere && self.calls.servers() == 0 {
            // The error says the same as the last warning.
            self.warnings.retain(|warning| Some(warning) != self.last_warning.as_ref());
            self.forget(folder).await?;
            return result;
        }
        result?;
        if self.is_resumed && self.calls.cancels() {
            // A completed exploration has discovered no servers yet. A server that is not found has no request.
            let most = self.machine.plan().most.clamp(1, *bounds::OFFERS.end());
            let _ = self.calls.discover(most).await;
        }
        self.warn_of_more_refusals(folder.as_deref());
        self.is_settled = self.calls.settle(Instant::now() + FAREWELL).await;
        folder.map_or(Ok(()), |folder| {
            Ok(folder.conclude(&self.header.parameters, self.machine.plan().mandatory)?)
        })
    }
}

pub(super) fn moment(clock: &Clock) -> TimeMs {
    TimeMs(clock.exact().as_millis() as i64)
}
