//! The dispatcher at work: the machine's commands are the library's calls, and what they report are its events.

mod finding;

use std::collections::BTreeSet;
use std::time::Duration;

use pliant_control::agent::Offering;
use pliant_control::names::{Key, Name};
use pliant_control::optional::explore::{Command, Dispatch, Event, Explore, Outcome, Plan, Submission};
use pliant_control::optional::server::Standing;
use pliant_control::reason::Cause;
use pliant_model::{Time, TimeMs};
use pliant_staging::FileSpec;
use pliant_transport::Clock;
use pliant_wire::is_cut;
use pliant_wire::{Attempt, Call};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::folder::{Entry, Header};
use super::wanted::{ExplorationUpdate, ExploreError, Explored, Wanted};
use super::{Calls, ExplorationFolder, RequestEvent};
use crate::{Client, ClientError, Sweep};

/// How often it is asked whether there are other servers.
const LOOK: Duration = Duration::from_secs(10);
/// How soon after one was lost or did not take a request, or the agent did not say where servers are that have some.
const LOOK_SOON: Duration = Duration::from_secs(1);
/// The longest that servers may take to acknowledge what was cancelled in the end.
const FAREWELL: Duration = Duration::from_secs(5);
/// The longest that nobody is told how far it is.
const TELL: Duration = Duration::from_millis(500);
/// So many requests that no server could ever take, and none that one has taken: they all are wrong. Of so many it is said
/// one by one.
const WRONG_MAX: u32 = 10;

/// One exploration on its way.
pub struct Explorer {
    client: Client,
    machine: Explore,
    exploration: Key,
    service: String,
    sweep: Sweep,
    calls: Calls,
    folder: Option<ExplorationFolder>,
    clock: Clock,
    /// When the first client began.
    began: TimeMs,
    resumed: bool,
    /// Until when servers have to be found, while none has been.
    found_by: Option<Instant>,
    /// Requests that no server could ever take.
    wrong: u32,
    /// What is to be told.
    troubles: Vec<String>,
    last_trouble: Option<String>,
    patience: Duration,
    wakes: BTreeSet<TimeMs>,
    look: Instant,
    found: mpsc::UnboundedSender<Result<Vec<Offering>, ClientError>>,
    finds: mpsc::UnboundedReceiver<Result<Vec<Offering>, ClientError>>,
    looking: bool,
    /// Servers that take nothing of this exploration, ever.
    barred: BTreeSet<Name>,
}

impl Explorer {
    /// An exploration; one that goes on where it was if the folder has it.
    ///
    /// # Errors
    ///
    /// If the folder is of another one, or cannot be used.
    pub fn new(
        client: &Client,
        wanted: &Wanted,
        mut folder: Option<ExplorationFolder>,
    ) -> Result<Explorer, ExploreError> {
        let clock = Clock::start(Time::ZERO);
        let now = moment(&clock);
        let inputs: Vec<FileSpec> = wanted.inputs.iter().map(|(spec, _)| spec.clone()).collect();
        let found = folder.as_mut().map(ExplorationFolder::resume).transpose()?.flatten();
        let resumed = found.is_some();
        let plan = Plan {
            mandatory: wanted.mandatory,
            most: wanted.most.min(wanted.sweep.combinations().unwrap_or(u32::MAX)),
            deadline: now + wanted.deadline,
            // Servers know their users' weights.
            weight: 1,
            dispatch: wanted.legacy.map_or(Dispatch::Window(1), Dispatch::Guess),
            reallocation: wanted.reallocation,
            seed: rand::random(),
        };
        let (exploration, machine, began) = match (found, &folder) {
            (Some((header, machine)), Some(folder)) => {
                folder.expect(&header, &wanted.service, &wanted.sweep, &inputs, &plan)?;
                (header.exploration, machine, header.began)
            }
            (_, folder) => {
                let exploration = Key(rand::random());
                if let Some(folder) = folder {
                    let (service, sweep) = (wanted.service.clone(), wanted.sweep.clone());
                    let plan = plan.clone();
                    folder.begin(&Header { exploration, service, sweep, inputs, began: now, plan })?;
                }
                (exploration, Explore::new(plan), now)
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
            calls,
            folder,
            clock,
            began,
            resumed,
            found_by: Some(Instant::now() + wanted.patience),
            wrong: 0,
            troubles: Vec::new(),
            last_trouble: None,
            patience: wanted.patience,
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

    /// True if nothing is left to be done but to say so: it goes on where another client came to its end.
    pub fn is_over(&self) -> bool {
        self.machine.is_over()
    }

    /// Explores until it is over. `interrupted` ends it early: what is left is cancelled, what is done is kept. `told` is
    /// called now and then, and in the end.
    ///
    /// # Errors
    ///
    /// If nobody takes its requests, or its folder cannot be written. What was done is kept.
    pub async fn run(
        mut self,
        interrupted: impl Future<Output = ()>,
        mut told: impl FnMut(ExplorationUpdate<'_>),
    ) -> Result<Explored, ExploreError> {
        let explored = self.explore(interrupted, &mut told).await;
        if explored.is_err() {
            self.troubles.drain(..).for_each(|trouble| told(ExplorationUpdate::Trouble(&trouble)));
        }
        explored
    }

    async fn explore(
        &mut self,
        interrupted: impl Future<Output = ()>,
        told: &mut impl FnMut(ExplorationUpdate<'_>),
    ) -> Result<Explored, ExploreError> {
        let mut interrupted = std::pin::pin!(interrupted);
        let mut stopped = false;
        let mut event = if self.resumed { Event::Resumed } else { Event::Begin };
        let outcome = loop {
            if let Some(outcome) = self.tell(event)? {
                break outcome;
            }
            self.troubles.drain(..).for_each(|trouble| told(ExplorationUpdate::Trouble(&trouble)));
            told(ExplorationUpdate::Progress(&self.explored(false)));
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
                        break self.offered(found).await?;
                    }
                    happened = self.calls.wait_any_until(until) => match happened {
                        Some(happened) => {
                            let event = self.happened(happened)?;
                            if self.wrong >= WRONG_MAX.min(self.plan().most) && self.calls.servers() == 0 {
                                return Err(self.all_wrong().await);
                            }
                            break event;
                        }
                        None => {
                            if let Some(event) = self.passed() {
                                break event;
                            }
                            told(ExplorationUpdate::Progress(&self.explored(false)));
                        }
                    }
                }
            };
        };
        if self.resumed && self.calls.cancels() {
            // Of an exploration that was over already nobody has been discovered. Who is not found has nothing.
            let _ = self
                .calls
                .discover(self.machine.plan().most.clamp(1, *pliant_wire::bounds::OFFERS.end()))
                .await;
        }
        self.tell_more_wrong();
        self.troubles.drain(..).for_each(|trouble| told(ExplorationUpdate::Trouble(&trouble)));
        let settled = self.calls.settle(Instant::now() + FAREWELL).await;
        if let Some(folder) = &self.folder {
            folder.conclude(&self.sweep, self.machine.plan().mandatory)?;
        }
        let explored = Explored { settled, ..self.explored(outcome.interrupted) };
        told(ExplorationUpdate::Progress(&explored));
        Ok(explored)
    }

    /// Notes what the machine is told, tells it, and carries out what it wants.
    fn tell(&mut self, event: Event) -> Result<Option<Outcome>, ExploreError> {
        let mut commands = Vec::new();
        let now = moment(&self.clock);
        let entry = Entry { at: now, event };
        if let Some(folder) = &mut self.folder {
            folder.note(&entry)?;
        }
        self.machine.on(now, entry.event, &mut commands);
        let mut outcome = None;
        for command in commands {
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
                Command::Done(done) => outcome = Some(done),
            }
        }
        Ok(outcome)
    }

    fn call(&self, submission: &Submission) -> Call {
        let Submission { number, kind, attempt, .. } = *submission;
        Call { number, kind, attempt, arguments: self.sweep.arguments(number) }
    }

    /// No server could take any of them: what is wrong with one is wrong with all.
    async fn all_wrong(&mut self) -> ExploreError {
        let mut ends = Vec::new();
        self.machine.on(moment(&self.clock), Event::Interrupted, &mut ends);
        for command in ends {
            if let Command::Cancel { server } = command {
                self.calls.cancel_all(&server);
            }
        }
        self.calls.settle(Instant::now() + FAREWELL).await;
        // Nothing has run: the folder is for another attempt.
        if let Some(Err(error)) = self.folder.as_mut().map(ExplorationFolder::forget) {
            return error.into();
        }
        ClientError::usage(self.troubles.pop().unwrap_or_default()).into()
    }

    /// How many requests no server could take beside those that were told.
    fn tell_more_wrong(&mut self) {
        let more = self.wrong.saturating_sub(WRONG_MAX);
        if more > 0 {
            let failed = self.folder.as_ref().map(|folder| folder.dir().join("failed"));
            let why = failed.map_or_else(String::new, |dir| format!("; why is in {}", dir.display()));
            self.trouble(format!("servers do not take {more} more requests{why}"));
        }
    }

    /// What is to be told, unless it was the last thing that was.
    fn trouble(&mut self, what: String) {
        if self.last_trouble.as_ref() != Some(&what) {
            self.last_trouble = Some(what.clone());
            self.troubles.push(what);
        }
    }

    /// What was heard of a request, for the machine.
    fn happened(&mut self, happened: RequestEvent) -> Result<Event, ExploreError> {
        let soon = Instant::now() + LOOK_SOON;
        Ok(match happened {
            RequestEvent::Ended { number, server, standing, output } => {
                let completed = standing == Standing::Completed;
                if completed && is_cut(&output) {
                    self.trouble(format!("request {number} wrote more than a result may have, which is cut"));
                }
                if let Some(folder) = &self.folder
                    && standing != Standing::Cancelled
                {
                    folder.keep(number, completed, &output)?;
                }
                Event::Ended { number, server, completed }
            }
            RequestEvent::NotTaken { number, server, why } => {
                match why.cause {
                    // Another server would say the same: it has failed.
                    Cause::Invalid | Cause::TooLarge | Cause::TooLong => {
                        let what = format!("server {server} does not take request {number}: {}", why.why);
                        if let Some(folder) = &self.folder {
                            folder.keep(number, false, what.as_bytes())?;
                        }
                        self.wrong += 1;
                        if self.wrong <= WRONG_MAX {
                            self.trouble(what);
                        }
                        return Ok(Event::Ended { number, server, completed: false });
                    }
                    cause if !cause.may_pass() => {
                        let why = why.why;
                        self.trouble(format!("server {server} takes nothing of this exploration: {why}"));
                        self.barred.insert(server.clone());
                    }
                    _ => {}
                }
                self.look = self.look.min(soon);
                Event::Refused { number, server }
            }
            RequestEvent::Withdrawn { id: Attempt { number, attempt }, server } => {
                Event::Withdrawn { number, attempt, server }
            }
            RequestEvent::Expected { server, prospects } => Event::Expected { server, prospects },
            RequestEvent::Lost { server, why } => {
                self.trouble(format!("server {server} is given up: {why}"));
                self.look = self.look.min(soon);
                Event::Lost(server)
            }
        })
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
            mandatory_done: self.machine.mandatory_done().map(|at| at - self.began),
            late: self.machine.mandatory_done().map(|at| at - self.plan().deadline).filter(|late| late.0 > 0),
            left: self.plan().deadline - moment(&self.clock),
            platform: self.calls.platform(),
            interrupted,
            settled: false,
        }
    }
}

fn moment(clock: &Clock) -> TimeMs {
    TimeMs(clock.exact().as_millis() as i64)
}
