//! The connection from a server or a local agent up to its parent: one stream, kept open, made again when it breaks.
//!
//! The child dials, so that only agents need an open port towards it. Status updates wait in the journal until the parent has
//! acknowledged them; over each new connection they are sent again from the first one that it has not kept. They are read from
//! the journal page by page, as the parent takes them in, so that a parent that is down or slow costs no memory. To a parent that has
//! lost what it had acknowledged all jobs are reported again ([`again`]).
//!
//! Masters side by side have a connection each. Everything goes to all of them except the reports of a job, which go to the master of
//! its user alone. There is one sequence of status updates: a connection passes over those for other masters, and the journal
//! deletes what all masters have kept. So what a master lacks waits for it, in its order, however long it is down.

mod again;
mod all_parents;
mod child;
mod contact;
mod inquiry;
mod outbound;
mod reading;
mod reports;
mod summaries;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use pliant_control::agent::ChildKind;
use pliant_control::masters::MasterShare;
use pliant_policy::discovery::ReportRule;
use pliant_telemetry::RequestId;
use pliant_transport::AgentAddress;
use pliant_transport::Clock;
use pliant_transport::{ClientTls, Identity, Role, Timeouts, channel};
use pliant_wire::{FromChild, FromParent, in_pieces, proto};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::config::Parents;
use crate::host::{DaemonError, SharedArchive};

use again::ReportingAgain;
use all_parents::AllParents;
pub(crate) use child::{Child, JobsInMemory};
pub(crate) use contact::{ParentContact, readiness};
pub(crate) use inquiry::{Inquiry, SinceCopy};
use outbound::TransientMessage;
pub(crate) use outbound::{Outbound, Upward, upward};
use reading::{PAGE_PAUSE, ReadPage, Reading, updates_page, wait};
use reports::Report;
use summaries::ConnectionSummaries;

/// How often each side says that it is there.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(2);
/// After how much silence the other side is taken to be gone.
pub(crate) const SILENCE: Duration = Duration::from_secs(8);
/// The shortest and the longest pause before a broken connection is made again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Messages under way.
const WINDOW: usize = 256;
/// After so many status updates for other parents in succession the parent is notified that it need not know them: the journal keeps what a
/// parent may lack.
const PASSED_OVER_MAX: u64 = 1_000;
/// How many questions of the parent may be without an answer; it has given up on the oldest ones by then.
const QUESTIONS_MAX: usize = 4096;

/// What a daemon with parents has to reach them.
pub(crate) struct Uplink<C> {
    /// The daemon that is attached.
    pub(crate) child: Arc<C>,
    /// To whom.
    pub(crate) parents: Parents,
    /// With which certificate.
    pub(crate) tls: Arc<ClientTls>,
    /// The last contact with each parent.
    pub(crate) contacts: Vec<ParentContact>,
    /// Where the status updates are.
    pub(crate) archive: SharedArchive,
    /// The clock that the daemon goes by.
    pub(crate) clock: Clock,
    /// The last status update that was certainly journaled before the daemon started.
    pub(crate) loaded: u64,
    /// How often the daemon reports its summary; none if it does not.
    pub(crate) summaries: Option<ReportRule>,
}

impl<C: Child> Uplink<C> {
    /// Keeps the connections until `stop` says so.
    pub(crate) async fn keep(self, outbounds: Vec<Outbound>, mut stop: watch::Receiver<bool>) {
        let Uplink { child, parents, tls, contacts, archive, clock, loaded, summaries } = self;
        let (all, journal) = (Arc::new(AllParents::new(parents.len())), parents.journal(child.journal()));
        let first_question = clock.exact().as_micros() as u64;
        // They end when this is dropped.
        let mut connections = JoinSet::new();
        for (index, (((_, share, agents), outbound), contact)) in
            parents.into_each().zip(outbounds).zip(contacts).enumerate()
        {
            connections.spawn(contact.clone().observe());
            let connection = ParentConnection {
                child: child.clone(),
                journal,
                loaded: Some(loaded),
                contact,
                archive: archive.clone(),
                clock,
                outbound,
                share,
                all: all.clone(),
                index,
                last_sent: 0,
                last_reported: 0,
                read_to: 0,
                page: VecDeque::new(),
                again: None,
                announce: false,
                freed: false,
                summaries: ConnectionSummaries::new(summaries),
                said: VecDeque::new(),
                acknowledged: 0,
                next_page: Instant::now(),
                next_question: outbound::question_of(first_question, all.count(), index),
                questions: BTreeMap::new(),
            };
            connections.spawn(connection.one_after_another(agents, tls.clone()));
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => {}
            Some(_) = connections.join_next() => {}
        }
    }
}

/// The pause after a connection that held for so long, and before which there was a pause already. One that held for a while
/// was a good one. Two processes with one certificate that displace each other end each other's before: both pauses grow.
fn next_pause(pause: Duration, held: Duration) -> Duration {
    if held > SILENCE { PAUSE.0 } else { (pause * 2).min(PAUSE.1) }
}

struct ParentConnection<C> {
    child: Arc<C>,
    /// The number of the journal for the parent.
    journal: u64,
    /// The last status update when the daemon started; none once a parent has shown that the journal is no older copy.
    loaded: Option<u64>,
    contact: ParentContact,
    archive: SharedArchive,
    clock: Clock,
    outbound: Outbound,
    /// The jobs that are reported to this parent.
    share: MasterShare,
    all: Arc<AllParents>,
    /// The number of the parent among all.
    index: usize,
    /// The last status update that was sent over the present connection or passed over, or that the parent had kept before.
    last_sent: u64,
    /// The last one that the parent gets to know of: the same without those that were passed over.
    last_reported: u64,
    /// The status updates up to this one were read.
    read_to: u64,
    /// Status updates and other reports that were read from the journal and are sent next.
    page: VecDeque<Report>,
    /// What is reported again, before status updates.
    again: Option<ReportingAgain>,
    /// The servers are to be announced.
    announce: bool,
    /// The parent is to be notified that processors are free early.
    freed: bool,
    summaries: ConnectionSummaries,
    /// What else is to be said next: one answer, perhaps in pieces.
    said: VecDeque<proto::Up>,
    /// When the next page of status updates may be read.
    next_page: Instant,
    acknowledged: u64,
    next_question: u64,
    /// Questions that came over the present connection and are not answered, with the parent's numbers of them.
    questions: BTreeMap<u64, u64>,
}

type Sender = mpsc::Sender<proto::Up>;

impl<C: Child> ParentConnection<C> {
    /// One connection after the other, to the first agent that answers.
    async fn one_after_another(mut self, agents: Vec<AgentAddress>, tls: Arc<ClientTls>) {
        let mut pause = PAUSE.0;
        for parent in agents.iter().cycle() {
            let begun = Instant::now();
            let ended = self.connect(parent, &tls).await;
            if let Err(status) = &ended
                && status.code() == Code::AlreadyExists
            {
                self.contact.displaced(status.message());
            }
            let why = ended.unwrap_or_else(|status| status.message().to_owned());
            tracing::warn!(parent = %parent.name, address = %parent.address, reason = %why, "no connection to the parent");
            self.contact.lost(&parent.address, &why);
            pause = next_pause(pause, begun.elapsed());
            tokio::time::sleep(pause).await;
        }
    }

    /// One connection, from its beginning to its end; why it ended.
    async fn connect(&mut self, parent: &AgentAddress, tls: &Arc<ClientTls>) -> Result<String, Status> {
        let expected = Identity::new(Role::Agent, parent.name.as_str())
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let channel = channel(&parent.address, &expected, tls.clone(), &Timeouts::default());
        let mut client = proto::agent_client::AgentClient::new(channel);
        let (sender, receiver) = mpsc::channel(WINDOW);
        self.questions.clear();
        self.page.clear();
        (self.announce, self.freed) = (false, false);
        self.summaries.restart();
        self.said.clear();
        let (name, kind, journal) = (self.child.name(), self.child.kind(), self.journal);
        let servers = self.child.servers().await;
        let hello = FromChild::Hello { name, kind, journal, servers };
        sender.try_send((&hello).into()).map_err(|_| broken())?;
        let mut down = client.attach(ReceiverStream::new(receiver)).await?.into_inner();
        self.last_sent = self.greeted(&mut down).await?;
        self.last_reported = self.last_sent;
        self.compare(self.last_sent)?;
        self.acknowledge(self.last_sent);
        let last = *self.outbound.last_update.borrow();
        self.again = ReportingAgain::to(&self.archive, self.last_sent, last).await?;
        if let Some(again) = &self.again {
            let (kept, acknowledged) = (self.last_sent, again.acknowledged());
            tracing::warn!(
                parent = %parent.name, kept, acknowledged,
                "the parent does not know status updates that it had acknowledged: all jobs are reported again"
            );
        }
        self.contact.now();
        let unsent = last.saturating_sub(self.last_sent);
        tracing::info!(parent = %parent.name, address = %parent.address, unsent, "attached");
        self.converse(&sender, &mut down).await
    }

    /// Waits for the parent's acknowledgement, which its journal may delay; questions may come before it. Returns the
    /// last status update that it has kept.
    async fn greeted(&mut self, down: &mut Streaming<proto::Down>) -> Result<u64, Status> {
        loop {
            let message = timeout(SILENCE, down.message()).await;
            let message = message.map_err(|_| Status::deadline_exceeded("no answer to the greeting"))??;
            let message = message.ok_or_else(|| Status::unavailable("the parent closed the connection"))?;
            if let Some(proto::down::Message::Acknowledge(kept)) = &message.message {
                return Ok(kept.sequence);
            }
            self.receive(message).await?;
        }
    }

    /// Compares the journal with what the parent has kept of it. The journal of a local agent may be an older copy, because servers
    /// report to it again: the next connection names another journal, of which the parent has kept nothing. After a restart
    /// that is the number of the copy again, and all jobs are reported once more.
    ///
    /// # Errors
    /// The journal is an older copy.
    fn compare(&mut self, kept: u64) -> Result<(), Status> {
        // What came since the daemon started has the numbers of what the copy lacks.
        let last = self.loaded.unwrap_or_else(|| *self.outbound.last_update.borrow());
        let compared = not_older(last, kept);
        if self.loaded.is_some() {
            match compared {
                Ok(()) if self.all.confirmed(self.index) => self.child.compared(Ok(())),
                Ok(()) => {}
                Err(_) => self.child.compared(Err((last, kept))),
            }
        }
        if compared.is_ok() {
            self.loaded = None;
        } else if self.child.kind() == ChildKind::Agent {
            self.journal = rand::random();
            return Err(Status::aborted(format!(
                "the journal of this agent is an older copy of itself: it ended at status update {last}, of which the parent has kept \
                 those up to {kept}. All jobs are reported to the parent again"
            )));
        }
        compared
    }

    async fn converse(
        &mut self,
        sender: &Sender,
        down: &mut Streaming<proto::Down>,
    ) -> Result<String, Status> {
        let mut beat = interval(HEARTBEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_contact = Instant::now();
        let (mut reading, mut is_unreadable) = (self.read(), false);
        loop {
            let is_marked = self.announce || self.freed || self.summaries.is_due;
            let has_something = is_marked || !self.said.is_empty() || !self.page.is_empty();
            tokio::select! {
                message = down.message() => {
                    let Some(message) = message? else { return Ok("the parent closed the connection".to_owned()) };
                    last_contact = Instant::now();
                    self.contact.now();
                    self.receive(message).await?;
                }
                permit = sender.reserve(), if has_something => {
                    let permit = permit.map_err(|_| broken())?;
                    if let Some(message) = self.next().await? {
                        permit.send(message);
                    }
                }
                page = wait(&mut reading), if reading.is_some() => {
                    reading = None;
                    match page {
                        Ok(ReadPage::Updates { read_to, is_full, reports }) => {
                            self.next_page = Instant::now() + if is_full { Duration::ZERO } else { PAGE_PAUSE };
                            self.have_read(read_to, reports);
                        }
                        Ok(ReadPage::Again((page, rest))) => {
                            self.page = page.into_iter().map(Report::Again).collect();
                            self.again = rest;
                        }
                        Err(_) => is_unreadable = true,
                    }
                }
                Ok(()) = self.outbound.last_update.changed() => {}
                () = self.outbound.announce.notified() => self.announce = true,
                () = self.outbound.freed.notified() => self.freed = true,
                () = self.outbound.summary.notified() => self.summaries.note_change(),
                () = self.summaries.due(&self.clock) => self.summaries.is_due = true,
                Some(said) = self.outbound.said.recv(), if self.said.is_empty() => self.queue(said),
                _ = beat.tick() => {
                    if last_contact.elapsed() > SILENCE {
                        return Ok("the parent is silent".to_owned());
                    }
                    let (certificate, certificates) = self.child.certificates();
                    let (now, free) = (Some(self.clock.now()), self.child.free());
                    let drained = self.child.drained();
                    let beat = FromChild::Heartbeat { now, free, certificate, certificates, drained };
                    // If the window is full, enough is under way that shows that we are up.
                    let _ = sender.try_send((&beat).into());
                    if self.said.is_empty() && let Some(server) = self.child.unnumbered() {
                        self.queue(TransientMessage::Unnumbered(server));
                    }
                    // Perhaps it can be read again.
                    is_unreadable = false;
                }
            }
            if reading.is_none() && self.page.is_empty() && !is_unreadable {
                reading = self.read();
            }
        }
    }

    /// Begins to read what is reported again, then the status updates after those that were sent, if there are any.
    fn read(&mut self) -> Option<Reading> {
        let (archive, last_sent) = (self.archive.clone(), self.last_sent);
        if let Some(again) = self.again.clone() {
            let (child, share) = (self.child.clone(), self.share.clone());
            let next = async move { Ok(ReadPage::Again(again.next(&archive, &*child, &share).await?)) };
            return Some(Box::pin(next));
        }
        if *self.outbound.last_update.borrow_and_update() <= last_sent {
            return None;
        }
        let updates = self.outbound.last_update.clone();
        Some(updates_page(archive, updates, last_sent, self.next_page, self.share.clone()))
    }

    /// Takes over the reports of a page with all status updates up to one: those that are not among them are for other parents, or the
    /// parent had acknowledged them.
    fn have_read(&mut self, read_to: u64, reports: Vec<Report>) {
        (self.read_to, self.page) = (read_to, reports.into());
        if self.page.is_empty() {
            self.last_sent = read_to;
            // Only what all parents have kept is deleted from the journal.
            if self.share.is_part() && read_to.saturating_sub(self.last_reported) >= PASSED_OVER_MAX {
                self.page.push_back(Report::PassedOver(read_to));
            }
        }
    }

    /// What is sent next: status updates last, of which there may be many.
    async fn next(&mut self) -> Result<Option<proto::Up>, Status> {
        if self.announce {
            self.announce = false;
            return Ok(Some((&FromChild::Servers(self.child.servers().await)).into()));
        }
        if let Some(said) = self.said.pop_front() {
            return Ok(Some(said));
        }
        if std::mem::take(&mut self.freed) {
            return Ok(Some((&FromChild::Freed).into()));
        }
        if std::mem::take(&mut self.summaries.is_due)
            && let Some(present) = self.child.summary().await
            && let Some(summary) = self.summaries.report(&self.clock, present)
        {
            return Ok(Some((&FromChild::Summary(summary)).into()));
        }
        match self.page.pop_front() {
            Some(Report::Update(sequence, record)) => {
                self.last_sent = if self.page.is_empty() { self.read_to } else { sequence };
                self.last_reported = sequence;
                Ok(Some((&FromChild::StatusUpdate { sequence, record }).into()))
            }
            Some(Report::PassedOver(sequence)) => {
                self.last_reported = sequence;
                Ok(Some((&FromChild::AllReported { sequence }).into()))
            }
            Some(Report::Again(message)) => Ok(Some((&message).into())),
            None => Ok(None),
        }
    }

    async fn receive(&mut self, message: proto::Down) -> Result<(), Status> {
        // A message of a later version is not for us.
        if message.message.is_none() {
            return Ok(());
        }
        match FromParent::try_from(message)? {
            FromParent::Question { discovery, ask, request } => {
                let own = self.next_question;
                self.next_question += self.all.count() as u64;
                self.questions.insert(own, discovery);
                if self.questions.len() > QUESTIONS_MAX {
                    self.questions.pop_first();
                }
                // The parent may not know it.
                let request = request.unwrap_or_else(RequestId::fresh);
                self.child.asked(own, *ask, request).await;
            }
            FromParent::Acknowledge { sequence } => self.acknowledge(sequence),
            FromParent::Numbered { server, highest } => {
                if let Some(highest) = self.all.numbered(self.index, &server, highest) {
                    self.child.numbered(server, highest).await;
                }
            }
            // Those are asked for before the server starts.
            FromParent::KnownJobs { .. } | FromParent::Heartbeat => {}
        }
        Ok(())
    }

    fn acknowledge(&mut self, sequence: u64) {
        if sequence > self.acknowledged {
            self.acknowledged = sequence;
            if let Some(by_all) = self.all.kept(self.index, sequence) {
                self.child.acknowledged(by_all);
            }
        }
    }

    fn queue(&mut self, said: TransientMessage) {
        match said {
            // One that was asked over an earlier connection is not sent: the parent does not wait for it.
            TransientMessage::Answer { discovery, found } => {
                let Some(discovery) = self.questions.remove(&discovery) else { return };
                self.said = in_pieces((&FromChild::Answer { discovery, found }).into());
            }
            TransientMessage::Unnumbered(server) => {
                self.said.push_back((&FromChild::Unnumbered { server }).into())
            }
        }
    }
}

/// Whether a journal is as new as what the parent has kept of it: one that a copy of the state folder has put back is not, and
/// would give numbers again that stand for other jobs.
fn not_older(last: u64, kept: u64) -> Result<(), Status> {
    if kept <= last {
        return Ok(());
    }
    let why = DaemonError::OlderCopy { last, kept }.to_string();
    Err(Status::failed_precondition(why))
}

fn broken() -> Status {
    Status::unavailable("the connection to the parent has broken")
}

#[cfg(test)]
mod tests;
