//! The calls of a sweep: they carry out the commands of the machine of `control`, and their replies are its inputs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pliant_control::multi_job::{Command, Event, InstanceProspects, batch_key, inputs_key};
use pliant_control::names::{Handle, Name};
use pliant_control::reason::{Cause, Reason};
use pliant_model::{SpanMs, Time};
use pliant_transport::Clock;
use pliant_wire::{Executable, InstanceBatch};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep};

use super::batches::{BatchEnd, BatchFollower, BatchUpdate, Permits};
use super::folder::{Header, runs};
use super::poll_schedule::PollSchedule;
use super::prospects::{ProspectsFound, ProspectsRequest, calls};
use super::state::{SubmittedBatch, SweepState};
use super::{Entry, SweepFolder, SweepStatus};
use crate::driver::{self, Executor};
use crate::{Client, ClientError, ServerRefusal, WorkError};

/// How soon a batch is cancelled again whose server was not there.
const CANCEL_AGAIN: Duration = Duration::from_secs(1);
/// How many updates of batches are taken in at a time.
const UPDATES: usize = 256;

type Input = driver::Input<SweepExecutor>;

/// A reply of a server.
pub(super) enum Reply {
    InstanceProspects(Result<ProspectsFound, ClientError>),
    Batches(Vec<(u32, BatchUpdate)>),
}

pub(super) struct SweepExecutor {
    client: Client,
    header: Header,
    pub(super) state: SweepState,
    /// How long a server is looked for, unless batches were handed out.
    timeout: Duration,
    /// When one has to be found at the latest, from the first question on.
    found_by: Option<Instant>,
    /// By server: one that does not answer delays no other one.
    permits: BTreeMap<Name, Permits>,
    sender: Sender<(u32, BatchUpdate)>,
    updates: Receiver<(u32, BatchUpdate)>,
    schedule: PollSchedule,
    /// How many sample instances all servers have refused since one was accepted.
    attempts: u32,
    /// The servers that would complete instances after the deadline, and why.
    late: BTreeMap<Name, String>,
    /// Instances that were refused alone: by which server last, and why.
    refused: BTreeMap<u32, (Name, String)>,
    is_done: bool,
    is_interrupted: bool,
}

impl SweepExecutor {
    pub(super) fn new(
        client: &Client,
        header: Header,
        state: SweepState,
        timeout: Duration,
    ) -> SweepExecutor {
        let (sender, updates) = channel(64);
        SweepExecutor {
            client: client.clone(),
            header,
            state,
            timeout,
            found_by: None,
            permits: BTreeMap::new(),
            sender,
            updates,
            schedule: PollSchedule::new(),
            attempts: 0,
            late: BTreeMap::new(),
            refused: BTreeMap::new(),
            is_done: false,
            is_interrupted: false,
        }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.state.machine.progress().batches > 0
    }

    pub(super) fn status(&self) -> SweepStatus {
        let since =
            |(batch, open): (&u32, &SubmittedBatch)| Some((*batch, span_ms(open.running_since?.elapsed())));
        let running: BTreeMap<u32, SpanMs> = self.state.batches.iter().filter_map(since).collect();
        let machine = &self.state.machine;
        SweepStatus {
            progress: machine.progress(),
            instances: machine.plan().instances,
            left: machine.left(span_ms(self.schedule.age()), &running),
            servers: self.schedule.servers(),
            begin: self.earliest().filter(|_| self.delay() > Duration::ZERO),
            interrupted: self.is_interrupted,
        }
    }

    /// The instant before which no instance may start.
    fn earliest(&self) -> Option<Time> {
        self.header.executable.script()?.work.begin
    }

    /// How long to wait before servers are asked for the first time: instances of a script that may not start yet stay here until
    /// then, and are allocated by what servers expect then.
    fn delay(&self) -> Duration {
        // By the system's clock each time: it may be set, and a laptop may sleep.
        let clock = Clock::start(Time(0));
        let earliest = self.earliest().filter(|_| !self.has_begun());
        earliest.map_or(Duration::ZERO, |earliest| clock.until(earliest))
    }

    /// Withdraws a batch that has not started. Its outcome shows in its job, which is followed.
    fn withdraw(&mut self, batch: u32) {
        let Some(SubmittedBatch { server, job: Some(job), .. }) = self.state.batches.get(&batch) else {
            return;
        };
        let (client, job, server) = (self.client.clone(), job.clone(), server.clone());
        let permits = self.permits.entry(server).or_default().clone();
        tokio::spawn(async move {
            let _permit = permits.questions.acquire().await;
            match client.withdraw(&job).await {
                Ok(record) => tracing::info!(%job, state = %record.state, "withdraws a batch"),
                Err(error) => tracing::info!(%job, %error, "cannot withdraw a batch"),
            }
        });
    }

    /// Ends a batch, whether it has started or not. One that may not be a job yet is ended once it is accepted.
    fn cancel_batch(&mut self, batch: u32) {
        let Some(SubmittedBatch { job: Some(job), .. }) = self.state.batches.get(&batch) else { return };
        let (client, job) = (self.client.clone(), job.clone());
        tokio::spawn(async move {
            while let Err(error) = client.cancel(&job).await
                && error.may_pass()
            {
                tracing::debug!(%job, %error, "cannot be cancelled yet");
                sleep(CANCEL_AGAIN).await;
            }
        });
    }

    /// Submits a batch and follows it; with `recalled` an earlier client may have submitted it.
    fn send(&mut self, number: u32, recalled: bool) {
        let Some(SubmittedBatch { server, instances, job, .. }) = self.state.batches.get(&number) else {
            return;
        };
        let Header { key, executable, parameters, inputs, .. } = &self.header;
        let batch = InstanceBatch {
            executable: executable.clone(),
            arguments: parameters.fixed.clone(),
            varied: parameters.names().map(str::to_owned).collect(),
            instances: calls(parameters, instances),
            inputs_key: (!inputs.is_empty()).then(|| inputs_key(*key)),
        };
        let follower = BatchFollower {
            client: self.client.clone(),
            number,
            key: batch_key(*key, number),
            server: server.clone(),
            batch,
            inputs: inputs.clone(),
            recalled,
            job: job.clone(),
            permits: self.permits.entry(server.clone()).or_default().clone(),
            sender: self.sender.clone(),
        };
        tokio::spawn(follower.run());
    }

    /// True if a server that gives no answer now, or takes nothing, may still complete instances by the deadline.
    fn may_be_in_time(&self) -> bool {
        let deadline = match &self.header.executable {
            Executable::Script(script) => script.work.deadline,
            Executable::Service(_) => None,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
        self.schedule.are_some_away() && deadline.is_none_or(|deadline| Time(now) < deadline)
    }

    /// Asks servers what instances may expect of them, as if the batches that wait were not there.
    fn ask_servers(&mut self) {
        self.found_by.get_or_insert_with(|| Instant::now() + self.timeout);
        // Any sample that servers take will do: instances differ in their runtimes.
        let first = self.state.machine.sample(self.attempts).unwrap_or(0);
        let Header { executable, parameters, only, .. } = &self.header;
        let samples = self.state.machine.samples();
        let asked = ProspectsRequest::about(executable, parameters, first, samples, only.as_ref());
        let mut batches: BTreeMap<Name, Vec<u32>> = BTreeMap::new();
        for job in self.state.batches.values().filter_map(|open| open.job.as_ref()) {
            batches.entry(job.server.clone()).or_default().push(job.number);
        }
        self.schedule.ask(&self.client, asked, batches);
    }

    /// Takes in what servers answered. That no server takes instances is an error once the time for it is over, unless batches
    /// are handed out.
    fn found(&mut self, found: Result<ProspectsFound, ClientError>) -> Result<Option<Event>, WorkError> {
        let is_late = !self.has_begun() && self.found_by.is_some_and(|by| by <= Instant::now());
        let mut prospects = match found {
            Ok(prospects) => prospects,
            Err(error) if error.may_pass() && !error.is_denied() && !is_late => {
                self.schedule.poll.soon_again();
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let attempts = std::mem::take(&mut self.attempts);
        if prospects.found.is_empty() {
            if prospects.is_of_instance() && self.state.machine.sample(attempts + 1).is_some() {
                // They may take another sample.
                self.attempts = attempts + 1;
                self.schedule.poll.at_latest(Instant::now());
                return Ok(None);
            }
            let may_pass =
                prospects.others.is_empty() || prospects.others.iter().any(|one| one.reason.cause.may_pass());
            // Open batches are waited for. That others come too late for a deadline is in the results.
            let is_over =
                self.state.batches.is_empty() && !(self.state.has_accepted && prospects.is_of_deadline());
            if if may_pass { is_late } else { is_over } {
                return Err(WorkError::NoServer(prospects.others));
            }
            self.schedule.poll.soon_again();
        }
        let late: BTreeMap<Name, String> = prospects.late().collect();
        let answer = late.keys().cloned().collect();
        self.late.extend(late);
        let waiting = self.waiting(&prospects.found);
        let now = Instant::now();
        for (number, open) in &mut self.state.batches {
            if open.job.is_some() && !waiting.contains(number) {
                open.running_since.get_or_insert(now);
            }
        }
        self.schedule.remove_paused(&mut prospects.found);
        Ok(Some(Event::Found { servers: prospects.found, waiting, late: answer }))
    }

    /// The batches whose jobs wait, as servers say.
    fn waiting(&self, found: &[(Name, InstanceProspects)]) -> BTreeSet<u32> {
        let waiting = found.iter().flat_map(|(server, prospects)| {
            prospects.waiting.iter().map(move |number| Handle { server: server.clone(), number: *number })
        });
        let waiting: BTreeSet<Handle> = waiting.collect();
        let waits = |open: &SubmittedBatch| open.job.as_ref().is_some_and(|job| waiting.contains(job));
        self.state.batches.iter().filter(|(_, open)| waits(open)).map(|(number, _)| *number).collect()
    }

    /// The entries that follow from an update of a batch.
    fn updated(&mut self, batch: u32, update: BatchUpdate) -> Result<Vec<Entry>, WorkError> {
        let Some(open) = self.state.batches.get_mut(&batch) else { return Ok(Vec::new()) };
        Ok(match update {
            BatchUpdate::Accepted(job) => {
                self.schedule.unpause(&job.server);
                vec![Entry::Accepted { batch, job }]
            }
            // The batch stays open: its owner can resume it.
            BatchUpdate::Refused(Reason { cause: Cause::KeyTaken, why }) => {
                return Err(WorkError::NotOurs { server: open.server.clone(), why });
            }
            BatchUpdate::Refused(Reason { cause, why }) => {
                let server = open.server.clone();
                tracing::info!(%server, batch, why, "does not take a batch");
                match open.instances[..] {
                    _ if cause == Cause::Deadline => _ = self.late.insert(server, why.clone()),
                    _ if !cause.is_of_work() => self.schedule.pause(&server),
                    [instance] => _ = self.refused.insert(instance, (server, why.clone())),
                    _ => {}
                }
                vec![Entry::Refused { batch, cause, why }]
            }
            BatchUpdate::Failed(error) => return Err(error.into()),
            BatchUpdate::Ended(ends) => {
                open.running_since = Some(Instant::now());
                ends.into_iter().map(|end| Entry::Ended { batch, end }).collect()
            }
            BatchUpdate::Over(BatchEnd { how, unbegun, lost, too_late }) => {
                if too_late {
                    self.late.insert(open.server.clone(), how.clone());
                }
                vec![Entry::Over { batch, how, unbegun, lost, too_late }]
            }
        })
    }
}

impl Executor for SweepExecutor {
    type Work = Header;
    type Event = Event;
    type Reply = Reply;

    fn state(&mut self) -> &mut SweepState {
        &mut self.state
    }

    fn begin(&mut self) -> Input {
        let open: Vec<u32> = self.state.batches.keys().copied().collect();
        open.into_iter().for_each(|batch| self.send(batch, true));
        Input::Event(Event::Begin)
    }

    /// After a crash the output of a batch is read again.
    fn is_new(&self, entry: &Entry) -> bool {
        match entry {
            Entry::Ended { batch, end } => self.state.machine.is_pending(*batch, end.instance),
            _ => true,
        }
    }

    fn on(&mut self, event: Event, commands: &mut Vec<Command>) {
        self.state.on(event, commands);
    }

    fn entry_of(&self, command: &Command) -> Option<Entry> {
        match command {
            Command::RecordShares { shares } => Some(Entry::Kept { shares: shares.clone() }),
            Command::Submit { batch, server, instances } => {
                Some(Entry::Submitted { batch: *batch, server: server.clone(), instances: runs(instances) })
            }
            _ => None,
        }
    }

    fn carry_out(&mut self, command: Command) -> Option<Input> {
        match command {
            Command::QueryServers => self.schedule.poll.soon(),
            Command::RecordShares { .. } => {}
            Command::Done => self.is_done = true,
            Command::Withdraw { batch } => self.withdraw(batch),
            Command::Cancel { batch } => self.cancel_batch(batch),
            // A server that takes nothing at the moment may take it later.
            Command::Unplaced { .. } if !self.state.has_accepted || self.schedule.expects_takers() => {}
            Command::Unplaced { instance } => {
                let (server, why) = self.refused.remove(&instance)?;
                return Some(Input::Entry(Entry::Unplaced { instance, server, why }));
            }
            Command::TooLate if !self.state.has_accepted || self.may_be_in_time() => {}
            Command::TooLate => {
                let (server, why) = self.late.first_key_value()?;
                return Some(Input::Entry(Entry::TooLate { server: server.clone(), why: why.clone() }));
            }
            Command::Submit { batch, server, instances } => {
                self.state.open(batch, server, instances);
                self.send(batch, false);
            }
        }
        None
    }

    /// A client that resumes after the error hands the refused instances out again.
    fn check(&self) -> Result<(), WorkError> {
        let accepts_later = self.state.has_accepted || self.may_be_in_time();
        if self.state.machine.is_too_late() && !accepts_later {
            let late = self.late.iter();
            let refusal = |(server, why): (&Name, &String)| ServerRefusal {
                server: server.clone(),
                reason: Cause::Deadline.because(why),
            };
            return Err(WorkError::NoServer(late.map(refusal).collect()));
        }
        match self.refused.first_key_value() {
            Some((_, (server, why)))
                if !self.state.has_accepted
                    && self.state.machine.is_refused()
                    && !self.schedule.expects_takers() =>
            {
                let (server, why) = (server.clone(), why.clone());
                Err(WorkError::Refused { instances: self.refused.len(), server, why })
            }
            _ => Ok(()),
        }
    }

    fn is_over(&self) -> bool {
        self.is_done || self.is_interrupted
    }

    async fn reply(&mut self) -> Reply {
        let mut updates = Vec::new();
        tokio::select! {
            biased;
            found = self.schedule.found() => Reply::InstanceProspects(found),
            _ = self.updates.recv_many(&mut updates, UPDATES) => Reply::Batches(updates),
        }
    }

    fn receive(&mut self, reply: Reply, _: Option<&SweepFolder>) -> Result<Vec<Input>, WorkError> {
        let mut inputs = Vec::new();
        match reply {
            Reply::InstanceProspects(found) => {
                inputs.extend(self.found(found)?.map(Input::Event));
            }
            Reply::Batches(updates) => {
                for (batch, update) in updates {
                    inputs.extend(self.updated(batch, update)?.into_iter().map(Input::Entry));
                }
            }
        }
        Ok(inputs)
    }

    /// Servers are not asked once the sweep is only to be ended.
    fn wake_at(&self) -> Instant {
        match self.state.machine.is_cancelled() {
            true => Instant::now() + Duration::from_secs(1),
            false => self.schedule.poll.at().max(Instant::now() + self.delay()),
        }
    }

    fn wake(&mut self) -> Option<Input> {
        if self.wake_at() <= Instant::now() {
            self.ask_servers();
        }
        None
    }

    fn interrupt(&mut self) -> Option<Input> {
        self.is_interrupted = true;
        None
    }
}

/// So much time, in whole milliseconds.
fn span_ms(time: Duration) -> SpanMs {
    SpanMs(i64::try_from(time.as_millis()).unwrap_or(i64::MAX / 4))
}
