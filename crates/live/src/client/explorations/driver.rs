//! The dispatcher at work: the machine's commands are the library's calls, and what they report are its events.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use pliant_control::agent::Offering;
use pliant_control::names::{Key, Name};
use pliant_control::optional::explore::{
    Command, Dispatch, Event, Explore, Offer, Outcome, Plan, Progress, Submission,
};
use pliant_control::optional::server::Standing;
use pliant_control::reason::Cause;
use pliant_model::{SpanMs, Time, TimeMs};
use pliant_policy::optional::Reallocation;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::notes::ToNote;
use super::{Calls, Happened, Notes, Platform};
use crate::client::NotesError;
use crate::client::{Client, ClientError, Sweep};
use crate::daemon::Clock;
use crate::staging::FileSpec;
use crate::wire::{Attempt, Call};

/// How often it is asked whether there are other servers.
const LOOK: Duration = Duration::from_secs(10);
/// How soon after one was lost or did not take a request.
const LOOK_SOON: Duration = Duration::from_secs(1);
/// The longest that servers may take to acknowledge what was cancelled in the end.
const FAREWELL: Duration = Duration::from_secs(5);
/// The longest that nobody is told how far it is.
const TELL: Duration = Duration::from_millis(500);

/// What a user wants.
#[derive(Clone, PartialEq, Debug)]
pub struct Wanted {
    /// What each request runs.
    pub service: String,
    /// With which arguments.
    pub sweep: Sweep,
    /// Files that every request finds in its folder, and where they are here.
    pub inputs: Vec<(FileSpec, PathBuf)>,
    /// Requests that have to be completed.
    pub mandatory: u32,
    /// All requests.
    pub most: u32,
    /// How long optional ones are worth something.
    pub deadline: SpanMs,
    /// So many requests were guessed, and are submitted at once: the paper's legacy client.
    pub legacy: Option<u32>,
    /// How mandatory requests that wait are moved to servers that would complete them sooner, if they are.
    pub reallocation: Option<Reallocation>,
    /// How long a server may be out of reach.
    pub patience: Duration,
}

/// How far an exploration is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Explored {
    /// What was completed.
    pub progress: Progress,
    /// Requests on the platform.
    pub open: usize,
    /// Servers that have taken some.
    pub servers: usize,
    /// When the mandatory requests were completed, if they are: since the beginning.
    pub mandatory_done: Option<SpanMs>,
    /// Time to the deadline; below zero it has passed.
    pub left: SpanMs,
    /// What was had of the platform.
    pub platform: Platform,
    /// The user stopped it.
    pub interrupted: bool,
}

/// Why an exploration could not go on.
#[derive(Debug)]
pub enum ExploreError {
    /// A call failed, or nobody takes its requests.
    Client(ClientError),
    /// Its folder cannot be used.
    Notes(NotesError),
}

impl fmt::Display for ExploreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Notes(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ExploreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Client(error) => Some(error),
            Self::Notes(error) => Some(error),
        }
    }
}

impl From<ClientError> for ExploreError {
    fn from(error: ClientError) -> ExploreError {
        ExploreError::Client(error)
    }
}

impl From<NotesError> for ExploreError {
    fn from(error: NotesError) -> ExploreError {
        ExploreError::Notes(error)
    }
}

/// One exploration on its way.
pub struct Explorer {
    client: Client,
    machine: Explore,
    exploration: Key,
    service: String,
    sweep: Sweep,
    inputs: Vec<FileSpec>,
    calls: Calls,
    notes: Option<Notes>,
    clock: Clock,
    began: TimeMs,
    mandatory_done: Option<SpanMs>,
    resumed: bool,
    wakes: BTreeSet<TimeMs>,
    look: Instant,
    found: mpsc::UnboundedSender<Result<Vec<Offering>, ClientError>>,
    finds: mpsc::UnboundedReceiver<Result<Vec<Offering>, ClientError>>,
    looking: bool,
    /// Servers that take nothing of this exploration, ever.
    barred: BTreeSet<Name>,
}

impl Explorer {
    /// An exploration; one that goes on where it was if the notes have it.
    ///
    /// # Errors
    ///
    /// If the notes are of another one, or cannot be used.
    pub fn new(client: &Client, wanted: &Wanted, notes: Option<Notes>) -> Result<Explorer, ExploreError> {
        let clock = Clock::start(Time::ZERO);
        let now = moment(&clock);
        let inputs: Vec<FileSpec> = wanted.inputs.iter().map(|(spec, _)| spec.clone()).collect();
        let noted = notes.as_ref().map(Notes::read).transpose()?.flatten();
        let resumed = noted.is_some();
        let (exploration, machine) = match (noted, &notes) {
            (Some(noted), Some(notes)) => {
                notes.expect(&noted, &wanted.service, &wanted.sweep, &inputs)?;
                (noted.exploration, noted.machine)
            }
            _ => {
                let exploration = Key(rand::random());
                let guess = |guess: u32| Dispatch::Guess(guess.max(wanted.mandatory));
                let plan = Plan {
                    mandatory: wanted.mandatory,
                    most: wanted.most.min(wanted.sweep.combinations().unwrap_or(u32::MAX)),
                    deadline: now + wanted.deadline,
                    // Servers know their users' weights.
                    weight: 1,
                    dispatch: wanted.legacy.map_or(Dispatch::Window(1), guess),
                    reallocation: wanted.reallocation,
                    seed: rand::random(),
                };
                (exploration, Explore::new(plan))
            }
        };
        let deadline = Some(machine.plan().deadline);
        let calls = client.calls(exploration, &wanted.service, deadline, wanted.patience);
        let calls = calls.with_inputs(wanted.inputs.clone());
        let (found, finds) = mpsc::unbounded_channel();
        Ok(Explorer {
            client: client.clone(),
            machine,
            exploration,
            service: wanted.service.clone(),
            sweep: wanted.sweep.clone(),
            inputs,
            calls,
            notes,
            clock,
            began: now,
            mandatory_done: None,
            resumed,
            wakes: BTreeSet::new(),
            look: Instant::now() + LOOK,
            found,
            finds,
            looking: false,
            barred: BTreeSet::new(),
        })
    }

    /// True if it goes on where another client was.
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// What is wanted.
    pub fn plan(&self) -> &Plan {
        self.machine.plan()
    }

    /// Explores until it is over. `interrupted` ends it early: what is left is cancelled, what is done is kept. `told` is
    /// called now and then, and in the end.
    ///
    /// # Errors
    ///
    /// If nobody takes its requests, or its notes cannot be written. What was done is kept.
    pub async fn run(
        mut self,
        interrupted: impl Future<Output = ()>,
        mut told: impl FnMut(&Explored),
    ) -> Result<Explored, ExploreError> {
        let mut interrupted = std::pin::pin!(interrupted);
        let mut stopped = false;
        let mut event = if self.resumed { Event::Resumed } else { Event::Begin };
        let outcome = loop {
            if let Some(outcome) = self.tell(event)? {
                break outcome;
            }
            told(&self.explored(false));
            event = loop {
                let wakes = self.wakes.first().map_or(TELL, |at| self.until(*at).min(TELL));
                let until = (Instant::now() + wakes).min(self.look.max(Instant::now()));
                tokio::select! {
                    biased;
                    () = interrupted.as_mut(), if !stopped => {
                        stopped = true;
                        break Event::Interrupted;
                    }
                    Some(found) = self.finds.recv() => {
                        if let Some(event) = self.offered(found)? {
                            break event;
                        }
                    }
                    happened = self.calls.wait_any_until(until) => match happened {
                        Some(happened) => {
                            if let Some(event) = self.happened(happened)? {
                                break event;
                            }
                        }
                        None => {
                            if let Some(event) = self.passed() {
                                break event;
                            }
                            told(&self.explored(false));
                        }
                    }
                }
            };
        };
        if self.resumed && self.calls.cancels() {
            // Of an exploration that was over already nobody has been discovered. Who is not found has nothing.
            let _ = self
                .calls
                .discover(self.machine.plan().most.clamp(1, *crate::wire::bounds::OFFERS.end()))
                .await;
        }
        self.calls.settle(Instant::now() + FAREWELL).await;
        if let Some(notes) = &self.notes {
            notes.conclude(&self.sweep, self.machine.plan().mandatory)?;
        }
        let explored = self.explored(outcome.interrupted);
        told(&explored);
        Ok(explored)
    }

    /// Tells the machine, notes what it has come to, and carries out what it wants.
    fn tell(&mut self, event: Event) -> Result<Option<Outcome>, ExploreError> {
        let mut commands = Vec::new();
        let now = moment(&self.clock);
        self.machine.on(now, event, &mut commands);
        if self.mandatory_done.is_none() && self.machine.progress().mandatory >= self.plan().mandatory {
            self.mandatory_done = Some(now - self.began);
        }
        if let Some(notes) = &self.notes {
            let Explorer { exploration, service, sweep, inputs, machine, .. } = &*self;
            notes.write(&ToNote { exploration: *exploration, service, sweep, inputs, machine })?;
        }
        let mut outcome = None;
        for command in commands {
            match command {
                Command::Discover { most } => self.discover(most),
                Command::Submit(submission) => {
                    let arguments = self.sweep.arguments(submission.number);
                    let Submission { number, kind, attempt, .. } = submission;
                    let call = Call { number, kind, attempt, arguments };
                    self.calls.call_async(&submission.server, call);
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
                Command::Done(done) => outcome = Some(done),
            }
        }
        Ok(outcome)
    }

    fn discover(&mut self, most: u32) {
        self.look = Instant::now() + LOOK;
        if std::mem::replace(&mut self.looking, true) {
            return;
        }
        let (client, found) = (self.client.clone(), self.found.clone());
        let (service, exploration) = (self.service.clone(), self.exploration);
        let most = most.clamp(1, *crate::wire::bounds::OFFERS.end());
        tokio::spawn(async move {
            let offers = client.offers(&service, most, exploration).await;
            // Whoever asked may have ended.
            let _ = found.send(offers);
        });
    }

    /// Servers were found, or not.
    fn offered(&mut self, found: Result<Vec<Offering>, ClientError>) -> Result<Option<Event>, ExploreError> {
        self.looking = false;
        let offers = match found {
            Ok(offers) => offers,
            Err(error) if error.may_pass() => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        self.calls.know(&offers);
        let usable = offers.into_iter().filter(|offer| !self.barred.contains(&offer.server));
        let offer = |Offering { server, cores, per_core, .. }| {
            // Of a server that does not say it, the window of the plan is right.
            let per_core = (per_core > 0).then_some(per_core);
            Offer { server, cores, per_core }
        };
        let usable = usable.map(offer);
        Ok(Some(Event::Found(usable.collect())))
    }

    /// What was heard of a request, for the machine.
    fn happened(&mut self, happened: Happened) -> Result<Option<Event>, ExploreError> {
        let soon = Instant::now() + LOOK_SOON;
        Ok(Some(match happened {
            Happened::Ended { number, server, standing, output } => {
                let completed = standing == Standing::Completed;
                if let Some(notes) = &self.notes
                    && standing != Standing::Cancelled
                {
                    notes.keep(number, completed, &output)?;
                }
                Event::Ended { number, server, completed }
            }
            Happened::NotTaken { number, server, why } => {
                match why.cause {
                    // Another server would say the same.
                    Cause::Invalid | Cause::TooLarge | Cause::TooLong => {
                        let what = format!("server {server} does not take request {number}: {}", why.why);
                        return Err(ClientError::usage(what).into());
                    }
                    cause if !cause.may_pass() => {
                        tracing::warn!(%server, why = why.why, "takes nothing of this exploration");
                        self.barred.insert(server.clone());
                    }
                    _ => {}
                }
                self.look = self.look.min(soon);
                Event::Refused { number, server }
            }
            Happened::Withdrawn { id: Attempt { number, attempt }, server } => {
                Event::Withdrawn { number, attempt, server }
            }
            Happened::Expected { server, prospects } => Event::Expected { server, prospects },
            Happened::Lost { server, why } => {
                tracing::warn!(%server, why, "is given up");
                self.look = self.look.min(soon);
                Event::Lost(server)
            }
        }))
    }

    /// Time has passed.
    fn passed(&mut self) -> Option<Event> {
        if self.wakes.first().is_some_and(|at| *at <= moment(&self.clock)) {
            self.wakes.pop_first();
            return Some(Event::Due);
        }
        if self.look <= Instant::now() {
            let most = self.plan().most;
            self.discover(most);
        }
        None
    }

    fn until(&self, at: TimeMs) -> Duration {
        Duration::from_millis((at - moment(&self.clock)).0.max(0).unsigned_abs())
    }

    fn explored(&self, interrupted: bool) -> Explored {
        Explored {
            progress: self.machine.progress(),
            open: self.calls.open(),
            servers: self.calls.servers(),
            mandatory_done: self.mandatory_done,
            left: self.plan().deadline - moment(&self.clock),
            platform: self.calls.platform(),
            interrupted,
        }
    }
}

fn moment(clock: &Clock) -> TimeMs {
    TimeMs(clock.exact().as_millis() as i64)
}
