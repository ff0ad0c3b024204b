//! The machine of a multi-job at work: its commands are calls, and what they report are its events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pliant_control::multi_job::{Command, Event, MultiJob, Plan, pack_key};
use pliant_control::names::{Handle, Name};
use pliant_control::reason::Cause;
use pliant_model::SpanMs;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::{Instant, sleep_until};

use super::folder::{Header, numbers, runs};
use super::looks::Looked;
use super::packs::{Heard, OnItsWay};
use super::wanted::plan;
use super::{Entry, MultiJobError, MultiJobWanted, SweepFolder, Swept};
use crate::client::{Client, ClientError, NotesError};
use crate::wire::{Pack, PackedCall};

/// How often servers are looked at.
const LOOK: Duration = Duration::from_secs(10);
/// How soon after a look the next one may be.
const LOOK_SOON: Duration = Duration::from_secs(1);
/// The longest that nobody is told how far it is.
const TELL: Duration = Duration::from_millis(500);
/// How many submissions, and how many questions about packs, are open at a time.
const SUBMISSIONS: usize = 8;
const QUESTIONS: usize = 16;

/// How many calls may be open at a time.
#[derive(Clone, Debug)]
pub(super) struct Permits {
    pub(super) submissions: Arc<Semaphore>,
    pub(super) questions: Arc<Semaphore>,
}

/// A pack that has not ended.
#[derive(Clone, Debug)]
struct Open {
    server: Name,
    instances: Vec<u32>,
    /// The job that it is, once that is known.
    job: Option<Handle>,
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
    permits: Permits,
    heard: Sender<(u32, Heard)>,
    hears: Receiver<(u32, Heard)>,
    looked: Sender<Result<Looked, ClientError>>,
    looks: Receiver<Result<Looked, ClientError>>,
    looking: bool,
    look_at: Instant,
    servers: usize,
}

impl Sweeper {
    /// A multi-job; one that goes on where it was if the folder has it.
    ///
    /// # Errors
    ///
    /// If the folder is of another one, or cannot be used.
    pub fn new(client: &Client, wanted: &MultiJobWanted, folder: SweepFolder) -> Result<Sweeper, NotesError> {
        match folder.header()? {
            Some(header) => {
                folder.expect(&header, &wanted.service, &wanted.sweep)?;
                Sweeper::with(client, header, folder, wanted.patience)
            }
            None => {
                let header = Header::new(&wanted.service, &wanted.sweep, plan(wanted));
                folder.begin(&header)?;
                Sweeper::with(client, header, folder, wanted.patience)
            }
        }
    }

    /// The multi-job of a folder, whatever it is.
    ///
    /// # Errors
    ///
    /// If there is none, or the folder cannot be used.
    pub fn resume(client: &Client, folder: SweepFolder, patience: Duration) -> Result<Sweeper, NotesError> {
        let nothing = || NotesError::Nothing { dir: folder.dir().to_owned() };
        let header = folder.header()?.ok_or_else(nothing)?;
        Sweeper::with(client, header, folder, patience)
    }

    fn with(
        client: &Client,
        header: Header,
        mut folder: SweepFolder,
        patience: Duration,
    ) -> Result<Sweeper, NotesError> {
        let mut machine = MultiJob::new(header.plan.clone());
        let mut packs: BTreeMap<u32, Open> = BTreeMap::new();
        let mut rng = ChaCha8Rng::seed_from_u64(header.seed);
        // What follows from the past was carried out in the past.
        let mut carried_out = Vec::new();
        folder.replay(|_, entry| {
            match &entry {
                Entry::Submitted { pack, server, instances } => {
                    let open = Open { server: server.clone(), instances: numbers(instances), job: None };
                    packs.insert(*pack, open);
                }
                Entry::Accepted { pack, job } => {
                    if let Some(open) = packs.get_mut(pack) {
                        open.job = Some(job.clone());
                    }
                }
                Entry::Refused { pack, .. } | Entry::Over { pack, .. } => drop(packs.remove(pack)),
                Entry::Ended { .. } => {}
            }
            if let Some(event) = event(entry) {
                machine.on(event, &mut rng, &mut carried_out);
            }
        })?;
        // Drawn anew, and not what an earlier client drew.
        rng.set_stream(u64::from(machine.progress().packs));
        let (heard, hears) = mpsc::channel(64);
        let (looked, looks) = mpsc::channel(1);
        Ok(Sweeper {
            client: client.clone(),
            resumed: machine.progress().packs > 0,
            header,
            machine,
            rng,
            folder,
            patience,
            packs,
            permits: Permits {
                submissions: Arc::new(Semaphore::new(SUBMISSIONS)),
                questions: Arc::new(Semaphore::new(QUESTIONS)),
            },
            heard,
            hears,
            looked,
            looks,
            looking: false,
            look_at: Instant::now(),
            servers: 0,
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
        mut told: impl FnMut(&Swept),
    ) -> Result<Swept, MultiJobError> {
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
            let wake = (Instant::now() + TELL).min(self.look_at.max(Instant::now()));
            tokio::select! {
                biased;
                () = interrupted.as_mut() => {
                    self.folder.flush(true)?;
                    let status = self.status(true);
                    told(&status);
                    return Ok(status);
                }
                Some(looked) = self.looks.recv() => is_over = self.looked(looked, until)?,
                // One at least comes: one of its ends is ours.
                _ = self.hears.recv_many(&mut heard, 256) => {
                    for (pack, heard) in heard.drain(..) {
                        is_over |= self.hear(pack, heard)?;
                    }
                    self.folder.flush(false)?;
                }
                () = sleep_until(wake) => {
                    if self.look_at <= Instant::now() {
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

    /// What became of each instance; for when it is over, or was stopped.
    pub fn into_folder(self) -> SweepFolder {
        self.folder
    }

    /// Tells the machine and carries out what it wants; true if all is over.
    fn tell(&mut self, event: Event) -> Result<bool, MultiJobError> {
        let mut commands = Vec::new();
        self.machine.on(event, &mut self.rng, &mut commands);
        let (mut submitted, mut is_over) = (Vec::new(), false);
        for command in commands {
            match command {
                Command::Look => self.look_at = self.look_at.min(Instant::now() + LOOK_SOON),
                Command::Done => is_over = true,
                Command::Submit { pack, server, instances } => {
                    let runs = runs(&instances);
                    self.folder.note(&Entry::Submitted { pack, server: server.clone(), instances: runs });
                    self.packs.insert(pack, Open { server, instances, job: None });
                    submitted.push(pack);
                }
            }
        }
        if !submitted.is_empty() {
            // Before any of them is sent.
            self.folder.flush(true)?;
            submitted.into_iter().for_each(|pack| self.send(pack, false));
        }
        Ok(is_over)
    }

    /// Sends a pack on its way.
    fn send(&self, number: u32, recalled: bool) {
        let Some(Open { server, instances, job }) = self.packs.get(&number) else { return };
        let Header { key, service, sweep, .. } = &self.header;
        let call = |number: &u32| PackedCall { number: *number, values: sweep.values(*number) };
        let pack = Pack {
            service: service.clone(),
            arguments: sweep.fixed.clone(),
            varied: sweep.names().map(str::to_owned).collect(),
            instances: instances.iter().map(call).collect(),
        };
        let on_its_way = OnItsWay {
            client: self.client.clone(),
            number,
            key: pack_key(*key, number),
            server: server.clone(),
            pack,
            recalled,
            job: job.clone(),
            permits: self.permits.clone(),
            heard: self.heard.clone(),
        };
        tokio::spawn(on_its_way.run());
    }

    fn look(&mut self) {
        self.look_at = Instant::now() + LOOK;
        if std::mem::replace(&mut self.looking, true) {
            return;
        }
        let (client, service) = (self.client.clone(), self.header.service.clone());
        // Any of them: what differs is how long it takes.
        let arguments = self.header.sweep.arguments(self.machine.first_left().unwrap_or(0));
        let looked = self.looked.clone();
        tokio::spawn(async move {
            // Whoever asked may have stopped.
            let _ = looked.send(client.look(&service, &arguments).await).await;
        });
    }

    /// Servers were looked at. That nobody takes instances is borne with until then, and for good once some are under way.
    fn looked(&mut self, looked: Result<Looked, ClientError>, until: Instant) -> Result<bool, MultiJobError> {
        self.looking = false;
        let looked = match looked {
            Ok(looked) => looked,
            Err(error) if error.may_pass() && (self.is_under_way() || Instant::now() < until) => {
                self.look_at = Instant::now() + LOOK_SOON;
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        self.servers = looked.found.len();
        if looked.found.is_empty() && !self.is_under_way() {
            let may_pass =
                looked.others.is_empty() || looked.others.iter().any(|one| one.reason.cause.may_pass());
            if !may_pass || Instant::now() >= until {
                return Err(MultiJobError::Nobody(looked.others));
            }
        }
        if looked.found.is_empty() {
            self.look_at = Instant::now() + LOOK_SOON;
        }
        self.tell(Event::Found(looked.found))
    }

    fn is_under_way(&self) -> bool {
        self.machine.progress().packs > 0
    }

    /// Something was heard of a pack.
    fn hear(&mut self, pack: u32, heard: Heard) -> Result<bool, MultiJobError> {
        match heard {
            Heard::Accepted(job) => {
                self.folder.note(&Entry::Accepted { pack, job: job.clone() });
                if let Some(open) = self.packs.get_mut(&pack) {
                    open.job = Some(job);
                }
                Ok(false)
            }
            Heard::Refused(reason) => {
                let Some(open) = self.packs.remove(&pack) else { return Ok(false) };
                if matches!(reason.cause, Cause::Invalid | Cause::TooLong) {
                    // Noted, so that whoever goes on hands these instances out again.
                    self.folder.note(&Entry::Refused { pack, why: reason.why.clone() });
                    self.folder.flush(true)?;
                    return Err(MultiJobError::Refused { server: open.server, why: reason.why });
                }
                tracing::info!(server = %open.server, pack, why = reason.why, "does not take a pack");
                self.noted(Entry::Refused { pack, why: reason.why })
            }
            Heard::Ended(ends) => {
                let mut is_over = false;
                for end in ends {
                    is_over |= self.noted(Entry::Ended { pack, end })?;
                }
                Ok(is_over)
            }
            Heard::Over(how) => {
                self.packs.remove(&pack);
                // What it says of its instances comes first, and is not asked for again.
                self.folder.flush(true)?;
                self.noted(Entry::Over { pack, how })
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

    fn status(&self, interrupted: bool) -> Swept {
        Swept {
            progress: self.machine.progress(),
            instances: self.plan().instances,
            left: self.machine.left(),
            servers: self.servers,
            interrupted,
        }
    }
}

/// What an entry means to the machine.
fn event(entry: Entry) -> Option<Event> {
    Some(match entry {
        Entry::Submitted { pack, server, instances } => {
            Event::Recalled { pack, server, instances: numbers(&instances) }
        }
        Entry::Accepted { .. } => return None,
        Entry::Refused { pack, .. } => Event::Refused { pack },
        Entry::Ended { pack, end } => {
            let took = SpanMs(i64::try_from(end.elapsed_ms).unwrap_or(i64::MAX / 4));
            Event::Ended { pack, instance: end.instance, completed: end.is_success(), took }
        }
        Entry::Over { pack, .. } => Event::Over { pack },
    })
}
