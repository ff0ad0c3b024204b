//! The line from a server or a local agent up to its parent: one stream, kept open, made again when it breaks.
//!
//! The child dials, so that only agents need an open port towards it. News wait in the journal until the parent has
//! acknowledged them; over each new line they are sent again from the first one that it has not kept.

mod heard;

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use pliant_control::agent::{Ask, ChildKind, Found, ServerInfo};
use pliant_control::names::Name;
use pliant_model::Time;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::config::AgentAddress;
use crate::daemon::Clock;
use crate::identity::{ClientTls, Identity, Role, Timeouts, channel};
use crate::journal::Notice;
use crate::telemetry::RequestId;
use crate::wire::{FromChild, FromParent, proto};

pub(crate) use heard::{Heard, readiness};

/// How often each side says that it is there.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(2);
/// After how much silence the other side is taken to be gone.
pub(crate) const SILENCE: Duration = Duration::from_secs(8);
/// The shortest and the longest pause before a broken line is made again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Messages under way.
const WINDOW: usize = 1024;

/// What goes up.
#[derive(Debug)]
pub(crate) enum Upward {
    /// The servers below have changed.
    Announce,
    /// How a job stands.
    News(Notice),
    /// The answer to a question.
    Answer {
        /// The number that [`Child::asked`] was told.
        discovery: u64,
        /// What was found.
        found: Found,
    },
}

/// Who hangs on the line.
pub(crate) trait Child: Send + Sync + 'static {
    /// Its name.
    fn name(&self) -> Name;

    /// What it is.
    fn kind(&self) -> ChildKind;

    /// The number of its journal.
    fn journal(&self) -> u64;

    /// The servers that it is or has below it.
    fn servers(&self) -> impl Future<Output = Vec<ServerInfo>> + Send;

    /// The parent asks; the answer goes up as [`Upward::Answer`]. `discovery` is a number of our own, which no
    /// earlier question had: a parent that was started again may count from where it was before. `request` is for log
    /// lines.
    fn asked(&self, discovery: u64, ask: Ask, request: RequestId) -> impl Future<Output = ()> + Send;

    /// The parent has kept the news up to there.
    fn acknowledged(&self, sequence: u64);
}

/// What a daemon with a parent has to reach it.
pub(crate) struct Uplink<C> {
    /// Who hangs on the line.
    pub(crate) child: Arc<C>,
    /// The first one that answers.
    pub(crate) parents: Vec<AgentAddress>,
    /// With which certificate.
    pub(crate) tls: Arc<ClientTls>,
    /// Where it is noted when the parent was heard.
    pub(crate) heard: Heard,
}

impl<C: Child> Uplink<C> {
    /// Keeps the line until `stop` says so.
    pub(crate) async fn keep(
        self,
        outbox: Vec<Notice>,
        upward: mpsc::UnboundedReceiver<Upward>,
        mut stop: watch::Receiver<bool>,
    ) {
        let heard = self.heard.clone();
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => {}
            () = heard.observe() => {}
            () = self.lines(outbox, upward) => {}
        }
    }

    /// One line after the other.
    async fn lines(self, outbox: Vec<Notice>, mut upward: mpsc::UnboundedReceiver<Upward>) {
        let Uplink { child, parents, tls, heard } = self;
        let next_question = Clock::start(Time(0)).exact().as_micros() as u64;
        let (outbox, questions) = (outbox.into(), BTreeMap::new());
        let mut line = Line { child, heard, outbox, acknowledged: 0, next_question, questions };
        let mut pause = PAUSE.0;
        for parent in parents.iter().cycle() {
            let begun = Instant::now();
            let ended = line.connect(parent, &tls, &mut upward).await;
            let why = ended.unwrap_or_else(|status| status.message().to_owned());
            tracing::warn!(parent = %parent.name, address = %parent.address, reason = %why, "no line to the parent");
            line.heard.lost(&parent.address, &why);
            // A line that held for a while was a good one.
            pause = if begun.elapsed() > SILENCE { PAUSE.0 } else { (pause * 2).min(PAUSE.1) };
            line.gather(&mut upward, pause).await;
        }
    }
}

struct Line<C> {
    child: Arc<C>,
    heard: Heard,
    /// News that are not acknowledged.
    outbox: VecDeque<Notice>,
    acknowledged: u64,
    next_question: u64,
    /// Questions that came over the present line and are not answered, with the parent's numbers of them.
    questions: BTreeMap<u64, u64>,
}

type Sender = mpsc::Sender<proto::Up>;

impl<C: Child> Line<C> {
    /// Waits, keeping what is to be told.
    async fn gather(&mut self, upward: &mut mpsc::UnboundedReceiver<Upward>, pause: Duration) {
        let wait = tokio::time::sleep(pause);
        tokio::pin!(wait);
        loop {
            tokio::select! {
                () = &mut wait => return,
                Some(message) = upward.recv() => if let Upward::News(notice) = message {
                    self.outbox.push_back(notice);
                },
            }
        }
    }

    /// One line, from its beginning to its end; why it ended.
    async fn connect(
        &mut self,
        parent: &AgentAddress,
        tls: &Arc<ClientTls>,
        upward: &mut mpsc::UnboundedReceiver<Upward>,
    ) -> Result<String, Status> {
        let expected = Identity::new(Role::Agent, parent.name.as_str())
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let channel = channel(&parent.address, &expected, tls.clone(), &Timeouts::default());
        let mut client = proto::agent_client::AgentClient::new(channel);
        let (sender, receiver) = mpsc::channel(WINDOW);
        self.questions.clear();
        let (name, kind, journal) = (self.child.name(), self.child.kind(), self.child.journal());
        let servers = self.child.servers().await;
        send(&sender, &FromChild::Hello { name, kind, journal, servers }).await?;
        let mut down = client.attach(ReceiverStream::new(receiver)).await?.into_inner();
        self.greeted(&mut down).await?;
        self.heard.now();
        tracing::info!(parent = %parent.name, address = %parent.address, unsent = self.outbox.len(), "attached");
        for notice in &self.outbox {
            send(&sender, &news(notice)?).await?;
        }
        self.converse(&sender, &mut down, upward).await
    }

    /// Waits for the parent's acknowledgement, which its journal may delay; questions may come before it.
    async fn greeted(&mut self, down: &mut Streaming<proto::Down>) -> Result<(), Status> {
        loop {
            let message = timeout(SILENCE, down.message()).await;
            let message = message.map_err(|_| Status::deadline_exceeded("no answer to the greeting"))??;
            let message = message.ok_or_else(|| Status::unavailable("the parent closed the line"))?;
            let is_acknowledged = matches!(message.message, Some(proto::down::Message::Acknowledge(_)));
            self.told(message).await?;
            if is_acknowledged {
                return Ok(());
            }
        }
    }

    async fn converse(
        &mut self,
        sender: &Sender,
        down: &mut Streaming<proto::Down>,
        upward: &mut mpsc::UnboundedReceiver<Upward>,
    ) -> Result<String, Status> {
        let mut beat = interval(HEARTBEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heard = Instant::now();
        loop {
            tokio::select! {
                message = down.message() => {
                    let Some(message) = message? else { return Ok("the parent closed the line".to_owned()) };
                    heard = Instant::now();
                    self.heard.now();
                    self.told(message).await?;
                }
                Some(message) = upward.recv() => self.tell(sender, message).await?,
                _ = beat.tick() => {
                    if heard.elapsed() > SILENCE {
                        return Ok("the parent is silent".to_owned());
                    }
                    send(sender, &FromChild::Heartbeat).await?;
                }
            }
        }
    }

    async fn told(&mut self, message: proto::Down) -> Result<(), Status> {
        // A message of a later version is not for us.
        if message.message.is_none() {
            return Ok(());
        }
        match FromParent::try_from(message)? {
            FromParent::Question { discovery, ask, request } => {
                let own = self.next_question;
                self.next_question += 1;
                self.questions.insert(own, discovery);
                // A parent of an earlier version does not say.
                let request = request.unwrap_or_else(RequestId::fresh);
                self.child.asked(own, *ask, request).await;
            }
            FromParent::Acknowledge { sequence } => self.acknowledge(sequence),
            FromParent::Heartbeat => {}
        }
        Ok(())
    }

    fn acknowledge(&mut self, sequence: u64) {
        while self.outbox.front().is_some_and(|notice| notice.seq <= sequence) {
            self.outbox.pop_front();
        }
        if sequence > self.acknowledged {
            self.acknowledged = sequence;
            self.child.acknowledged(sequence);
        }
    }

    async fn tell(&mut self, sender: &Sender, message: Upward) -> Result<(), Status> {
        match message {
            Upward::Announce => send(sender, &FromChild::Servers(self.child.servers().await)).await,
            Upward::News(notice) => {
                let message = news(&notice);
                self.outbox.push_back(notice);
                send(sender, &message?).await
            }
            Upward::Answer { discovery, found } => match self.questions.remove(&discovery) {
                Some(discovery) => send(sender, &FromChild::Answer { discovery, found }).await,
                // Asked over an earlier line: nobody waits for it.
                None => Ok(()),
            },
        }
    }
}

fn news(notice: &Notice) -> Result<FromChild, Status> {
    let record = serde_json::from_str(&notice.body);
    let record =
        record.map_err(|error| Status::data_loss(format!("news {} in the journal: {error}", notice.seq)))?;
    Ok(FromChild::News { sequence: notice.seq, record: Box::new(record) })
}

async fn send(sender: &Sender, message: &FromChild) -> Result<(), Status> {
    let sent = timeout(SILENCE, sender.send(message.into())).await;
    match sent {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Status::unavailable("the line to the parent has broken")),
        Err(_) => Err(Status::unavailable("the parent takes no more messages")),
    }
}
