//! The machine of a multi-job at work: its commands are calls, and what they report are its events.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pliant_control::multi_job::{Command, Event, MultiJob, Plan, Prospects, inputs_key, pack_key};
use pliant_control::names::{Handle, Name};
use pliant_control::reason::{Cause, Reason};
use pliant_model::SpanMs;
use pliant_wire::Pack;
use rand_chacha::ChaCha8Rng;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::{Instant, sleep, sleep_until};

use super::folder::{Header, numbers, runs};
use super::lookout::PollSchedule;
use super::looks::{ProspectsFound, ProspectsRequest, calls};
use super::packs::{OnItsWay, PackUpdate, Permits};
use super::{Entry, MultiJobError, SweepFolder, SweepStatus};
use crate::{Client, ClientError, FolderError};

mod beginning;

/// The longest that nobody is told how far it is.
const TELL: Duration = Duration::from_millis(500);
/// How soon a pack is cancelled again whose server was not there.
const CANCEL_AGAIN: Duration = Duration::from_secs(1);

/// A pack that has not ended.
#[derive(Clone, Debug)]
struct Open {
    server: Name,
    instances: Vec<u32>,
    /// The job that it is, once that is known.
    job: Option<Handle>,
    /// Since when its present instance has run, about; none as long as it is not known to run.
    since: Option<Instant>,
}

/// A multi-job on its way.
pub struct Sweeper {
    client: Client,
    header: Header,
    machine: MultiJob,
    rng: ChaCha8Rng,
    folder: SweepFolder,
    patience: Duration,
    resumed: bool,
    packs: BTreeMap<u32, Open>,
    /// By server: one that hangs holds up nobody else.
    permits: BTreeMap<Name, Permits>,
    heard: Sender<(u32, PackUpdate)>,
    hears: Receiver<(u32, PackUpdate)>,
    lookout: PollSchedule,
    /// A server has taken a pack.
    accepted: bool,
    /// How many instances servers were asked about in vain, since one was taken.
    attempts: u32,
    /// Instances that were refused alone: by whom last, and why.
    refused: BTreeMap<u32, (Name, String)>,
}

impl Sweeper {
    /// True if it goes on where another client was.
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// True if anything was handed out, now or by another client.
    pub fn has_begun(&self) -> bool {
        self.machine.progress().packs > 0
    }

    /// What is wanted.
    pub fn plan(&self) -> &Plan {
        self.machine.plan()
    }

    /// The jobs of packs that have not ended, as far as they are known.
    pub fn jobs(&self) -> Vec<Handle> {
        self.packs.values().filter_map(|open| open.job.clone()).collect()
    }

    /// Goes on until every instance is done or given up, or `interrupted`: then what is handed out goes on without it.
    /// `told` is called now and then, and in the end.
    ///
    /// # Errors
    ///
    /// If nobody runs such instances, or the folder cannot be written. What was handed out goes on.
    pub async fn run(
        &mut self,
        interrupted: impl Future<Output = ()>,
        mut told: impl FnMut(&SweepStatus),
    ) -> Result<SweepStatus, MultiJobError> {
        let mut interrupted = std::pin::pin!(interrupted);
        let until = Instant::now() + self.patience;
        let open: Vec<u32> = self.packs.keys().copied().collect();
        let mut is_over = self.tell(Event::Begin)?;
        if !is_over {
            open.into_iter().for_each(|pack| self.send(pack, true));
        }
        let mut heard = Vec::new();
        while !is_over {
            told(&self.status(false));
            let wake = (Instant::now() + TELL).min(self.look_at().max(Instant::now()));
            tokio::select! {
                biased;
                () = interrupted.as_mut() => {
                    self.folder.flush(true)?;
                    let status = self.status(true);
                    told(&status);
                    return Ok(status);
                }
                Some(looked) = self.lookout.found() => is_over = self.looked(looked, until)?,
                // One at least comes: one of its ends is ours.
                _ = self.hears.recv_many(&mut heard, 256) => {
                    for (pack, heard) in heard.drain(..) {
                        is_over |= self.hear(pack, heard)?;
                    }
                    self.folder.flush(false)?;
                }
                () = sleep_until(wake) => {
                    if self.look_at() <= Instant::now() {
                        self.look();
                    }
                }
            }
        }
        self.folder.flush(true)?;
        let status = self.status(false);
        told(&status);
        Ok(status)
    }

    /// Gives up what is not done: nothing more is handed out, and what was is ended by [`run`](Sweeper::run). That is for
    /// good, also for a client that goes on.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written.
    pub fn cancel(&mut self) -> Result<(), FolderError> {
        if self.machine.is_cancelled() {
            return Ok(());
        }
        self.folder.note(&Entry::Cancelled {});
        self.folder.flush(true)?;
        // What is to be done about it is said when it goes on.
        self.machine.on(Event::Cancel, &mut self.rng, &mut Vec::new());
        Ok(())
    }

    /// What became of each instance; for when it is over, or was stopped.
    pub fn into_folder(self) -> SweepFolder {
        self.folder
    }

    /// Tells the machine and carries out what it wants; true if all is over.
    fn tell(&mut self, event: Event) -> Result<bool, MultiJobError> {
        let (mut events, mut is_over) = (vec![event], false);
        let (mut commands, mut submitted) = (Vec::new(), Vec::new());
        while let Some(event) = events.pop() {
            self.machine.on(event, &mut self.rng, &mut commands);
            for command in commands.drain(..) {
                match command {
                    Command::Look => self.lookout.soon(),
                    Command::Keep { shares } => self.folder.note(&Entry::Kept { shares }),
                    Command::Done => is_over = true,
                    Command::Withdraw { pack } => self.withdraw(pack),
                    Command::Cancel { pack } => self.cancel_pack(pack),
                    Command::Unplaced { instance } => {
                        // Who takes nothing at the moment may take it later.
                        if self.accepted && !self.lookout.expects_takers() {
                            events.extend(self.unplaced(instance));
                        }
                    }
                    Command::Submit { pack, server, instances } => {
                        let runs = runs(&instances);
                        self.folder.note(&Entry::Submitted { pack, server: server.clone(), instances: runs });
                        self.packs.insert(pack, Open { server, instances, job: None, since: None });
                        submitted.push(pack);
                    }
                }
            }
        }
        if !submitted.is_empty() {
            // Before any of them is sent.
            self.folder.flush(true)?;
            submitted.into_iter().for_each(|pack| self.send(pack, false));
        }
        if !self.accepted
            && self.machine.is_refused()
            && !self.lookout.expects_takers()
            && let Some((server, why)) = self.refused.first_key_value().map(|(_, refusal)| refusal.clone())
        {
            // Whoever goes on hands them out again.
            self.folder.flush(true)?;
            return Err(MultiJobError::Refused { instances: self.refused.len(), server, why });
        }
        Ok(is_over)
    }

    /// Notes that nobody takes an instance, of which it is known why.
    fn unplaced(&mut self, instance: u32) -> Option<Event> {
        let (server, why) = self.refused.remove(&instance)?;
        self.folder.note(&Entry::Unplaced { instance, server, why });
        Some(Event::Unplaced { instance })
    }

    /// Has a pack withdrawn that has not started; whoever follows it hears what came of that.
    fn withdraw(&mut self, pack: u32) {
        let Some(Open { server, job: Some(job), .. }) = self.packs.get(&pack) else { return };
        let (client, job, server) = (self.client.clone(), job.clone(), server.clone());
        let permits = self.permits.entry(server).or_default().clone();
        tokio::spawn(async move {
            let _permit = permits.questions.acquire().await;
            match client.withdraw(&job).await {
                Ok(record) => tracing::info!(%job, state = %record.state, "asked to give a pack back"),
                // It is looked at again.
                Err(error) => tracing::info!(%job, %error, "a pack is not given back"),
            }
        });
    }

    /// Has a pack ended, whether it has started or not; whoever follows it hears what came of that. One of which it is not
    /// known yet whether it is a job is ended as soon as it is.
    fn cancel_pack(&mut self, pack: u32) {
        let Some(Open { job: Some(job), .. }) = self.packs.get(&pack) else { return };
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

    /// Sends a pack on its way.
    fn send(&mut self, number: u32, recalled: bool) {
        let Some(Open { server, instances, job, .. }) = self.packs.get(&number) else { return };
        let Header { key, service, sweep, inputs, .. } = &self.header;
        let pack = Pack {
            service: service.clone(),
            arguments: sweep.fixed.clone(),
            varied: sweep.names().map(str::to_owned).collect(),
            instances: calls(sweep, instances),
            inputs_key: (!inputs.is_empty()).then(|| inputs_key(*key)),
        };
        let on_its_way = OnItsWay {
            client: self.client.clone(),
            number,
            key: pack_key(*key, number),
            server: server.clone(),
            pack,
            inputs: inputs.clone(),
            recalled,
            job: job.clone(),
            permits: self.permits.entry(server.clone()).or_default().clone(),
            heard: self.heard.clone(),
        };
        tokio::spawn(on_its_way.run());
    }

    /// When servers are to be looked at: not for the end of what is only to be ended.
    fn look_at(&self) -> Instant {
        if self.machine.is_cancelled() { Instant::now() + 2 * TELL } else { self.lookout.at() }
    }

    fn look(&mut self) {
        // Any of them that servers take: what differs is how long it takes.
        let first = self.machine.sample(self.attempts).unwrap_or(0);
        let Header { service, sweep, .. } = &self.header;
        let asked = ProspectsRequest::about(service, sweep, first, self.machine.samples());
        let mut packs: BTreeMap<Name, Vec<u32>> = BTreeMap::new();
        for job in self.packs.values().filter_map(|open| open.job.as_ref()) {
            packs.entry(job.server.clone()).or_default().push(job.number);
        }
        self.lookout.look(&self.client, asked, packs);
    }

    /// Servers were looked at. That nobody takes instances is borne with until then, and for good once some are under way.
    fn looked(
        &mut self,
        looked: Result<ProspectsFound, ClientError>,
        until: Instant,
    ) -> Result<bool, MultiJobError> {
        let mut looked = match looked {
            Ok(looked) => looked,
            Err(error)
                if error.may_pass() && !error.is_denied() && (self.has_begun() || Instant::now() < until) =>
            {
                self.lookout.again_soon();
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        if !looked.found.is_empty() {
            self.attempts = 0;
        } else if looked.is_of_instance() && self.machine.sample(self.attempts + 1).is_some() {
            // They may take another one.
            self.attempts += 1;
            self.lookout.now();
            return Ok(false);
        } else {
            self.attempts = 0;
            let may_pass =
                looked.others.is_empty() || looked.others.iter().any(|one| one.reason.cause.may_pass());
            let is_hopeless = if may_pass {
                !self.has_begun() && Instant::now() >= until
            } else {
                // What is under way is waited for.
                self.packs.is_empty()
            };
            if is_hopeless {
                return Err(MultiJobError::Nobody(looked.others));
            }
        }
        if looked.found.is_empty() {
            self.lookout.again_soon();
        }
        let waiting = self.waiting(&looked.found);
        let runs = |(number, open): &(&u32, &mut Open)| open.job.is_some() && !waiting.contains(*number);
        let now = Instant::now();
        for (_, open) in self.packs.iter_mut().filter(runs) {
            open.since.get_or_insert(now);
        }
        self.lookout.leave_out_paused(&mut looked.found);
        self.tell(Event::Found { servers: looked.found, waiting })
    }

    /// The packs that wait where servers say that their jobs do.
    fn waiting(&self, found: &[(Name, Prospects)]) -> BTreeSet<u32> {
        let waiting = found.iter().flat_map(|(server, prospects)| {
            prospects.waiting.iter().map(move |number| Handle { server: server.clone(), number: *number })
        });
        let waiting: BTreeSet<Handle> = waiting.collect();
        let waits = |open: &Open| open.job.as_ref().is_some_and(|job| waiting.contains(job));
        self.packs.iter().filter(|(_, open)| waits(open)).map(|(number, _)| *number).collect()
    }

    /// Something was heard of a pack.
    fn hear(&mut self, pack: u32, heard: PackUpdate) -> Result<bool, MultiJobError> {
        match heard {
            PackUpdate::Accepted(job) => {
                self.folder.note(&Entry::Accepted { pack, job: job.clone() });
                self.lookout.goes_on(&job.server);
                self.accepted = true;
                if let Some(open) = self.packs.get_mut(&pack) {
                    open.job = Some(job);
                }
                if self.machine.is_cancelled() {
                    self.cancel_pack(pack);
                }
                Ok(false)
            }
            PackUpdate::Refused(reason) => {
                let Reason { cause, why } = reason;
                if cause == Cause::KeyTaken {
                    // The pack stays open: who has begun it can go on with it.
                    let server = self.packs.get(&pack).map(|open| open.server.clone());
                    return server.map_or(Ok(false), |server| Err(MultiJobError::NotOurs { server, why }));
                }
                let Some(Open { server, instances, .. }) = self.packs.remove(&pack) else { return Ok(false) };
                tracing::info!(%server, pack, why, "does not take a pack");
                match (cause, instances.as_slice()) {
                    (Cause::Invalid | Cause::TooLong, [instance]) => {
                        self.refused.insert(*instance, (server, why.clone()));
                    }
                    (Cause::Invalid | Cause::TooLong, _) => {}
                    _ => self.lookout.pause(&server),
                }
                self.noted(Entry::Refused { pack, cause, why })
            }
            PackUpdate::Failed(error) => Err(error.into()),
            PackUpdate::Ended(ends) => {
                if let Some(open) = self.packs.get_mut(&pack) {
                    open.since = Some(Instant::now());
                }
                let mut is_over = false;
                for end in ends {
                    is_over |= self.noted(Entry::Ended { pack, end })?;
                }
                Ok(is_over)
            }
            PackUpdate::Over { how, unbegun } => {
                self.packs.remove(&pack);
                // What it says of its instances comes first, and is not asked for again.
                self.folder.flush(true)?;
                self.noted(Entry::Over { pack, how, unbegun })
            }
        }
    }

    /// Notes something, and tells the machine of it.
    fn noted(&mut self, entry: Entry) -> Result<bool, MultiJobError> {
        // After a crash all that a pack says is heard again.
        if let Entry::Ended { pack, end } = &entry
            && !self.machine.awaits(*pack, end.instance)
        {
            return Ok(false);
        }
        self.folder.note(&entry);
        event(entry).map_or(Ok(false), |event| self.tell(event))
    }

    /// Of packs that run: for how long their present instance has.
    fn running(&self) -> BTreeMap<u32, SpanMs> {
        let since = |(pack, open): (&u32, &Open)| Some((*pack, span_ms(open.since?.elapsed())));
        self.packs.iter().filter_map(since).collect()
    }

    fn status(&self, interrupted: bool) -> SweepStatus {
        SweepStatus {
            progress: self.machine.progress(),
            instances: self.plan().instances,
            left: self.machine.left(span_ms(self.lookout.age()), &self.running()),
            servers: self.lookout.servers(),
            interrupted,
        }
    }
}

/// So much time, in whole milliseconds.
fn span_ms(time: Duration) -> SpanMs {
    SpanMs(i64::try_from(time.as_millis()).unwrap_or(i64::MAX / 4))
}

/// What an entry means to the machine.
pub(super) fn event(entry: Entry) -> Option<Event> {
    Some(match entry {
        Entry::Submitted { pack, server, instances } => {
            Event::Recalled { pack, server, instances: numbers(&instances) }
        }
        Entry::Accepted { .. } => return None,
        Entry::Kept { shares } => Event::Kept { shares },
        Entry::Refused { pack, cause, .. } => Event::Refused { pack, cause },
        Entry::Ended { pack, end } => {
            let took = SpanMs(i64::try_from(end.elapsed_ms).unwrap_or(i64::MAX / 4));
            Event::Ended { pack, instance: end.instance, completed: end.is_success(), took, scale: end.scale }
        }
        Entry::Over { pack, unbegun, .. } => Event::Over { pack, unbegun },
        Entry::Unplaced { instance, .. } => Event::Unplaced { instance },
        Entry::Cancelled {} => Event::Cancel,
    })
}
