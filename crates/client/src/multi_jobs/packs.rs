//! One pack on its way: submitted to its server until it is known what became of that, then followed until it has ended.

use std::sync::Arc;
use std::time::Duration;

use pliant_control::client::Event;
use pliant_control::job::{Exit, JobRecord, JobState};
use pliant_control::names::{Handle, Key, Name};
use pliant_control::reason::{Cause, Reason, Survey};
use pliant_staging::ResultName;
use pliant_wire::PackedEnd;
use pliant_wire::{Download, Pack, Submission, Submitted, proto};
use tokio::sync::mpsc::Sender;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep};
use tonic::Code;

use super::folder::HeldInput;
use crate::submit::{came_of, wants_files};
use crate::{Client, ClientError};

/// For so long after a submission of which nothing was heard a refusal says nothing: it may still be on its way. For so long
/// nobody knows a job before it is lost.
const DOUBT: Duration = Duration::from_secs(60);
/// How soon something is tried again, and how late at most.
const AGAIN: Duration = Duration::from_millis(200);
const AGAIN_MOST: Duration = Duration::from_secs(2);
/// How soon it is asked how a pack stands, and how late at most.
const ASK: Duration = Duration::from_millis(100);
const ASK_MOST: Duration = Duration::from_secs(1);

/// How many submissions to a server, and questions about its packs, are open at a time.
const SUBMISSIONS: usize = 8;
const QUESTIONS: usize = 16;

/// How many calls to a server may be open at a time.
#[derive(Clone, Debug)]
pub(super) struct Permits {
    pub(super) submissions: Arc<Semaphore>,
    pub(super) questions: Arc<Semaphore>,
    /// Held by whoever sends input files: once they are there, nobody else has to.
    uploads: Arc<Mutex<()>>,
}

impl Default for Permits {
    fn default() -> Permits {
        Permits {
            submissions: Arc::new(Semaphore::new(SUBMISSIONS)),
            questions: Arc::new(Semaphore::new(QUESTIONS)),
            uploads: Arc::default(),
        }
    }
}

/// What is heard of a pack.
#[derive(Debug)]
pub(super) enum PackUpdate {
    /// It is a job.
    Accepted(Handle),
    /// It is none, and will be none.
    Refused(Reason),
    /// Instances have ended.
    Ended(Vec<PackedEnd>),
    /// It has ended.
    Over {
        /// How, for people.
        how: String,
        /// What it did not tell of was not begun.
        unbegun: bool,
    },
    /// Nobody can say what becomes of it as long as we are who we are.
    Failed(ClientError),
}

/// How a pack ended.
struct Over {
    how: String,
    unbegun: bool,
}

/// A pack, and all that it needs.
pub(super) struct OnItsWay {
    pub(super) client: Client,
    pub(super) number: u32,
    pub(super) key: Key,
    pub(super) server: Name,
    pub(super) pack: Pack,
    /// What every pack needs.
    pub(super) inputs: Vec<HeldInput>,
    /// An earlier client may have sent it.
    pub(super) recalled: bool,
    /// The job that it is, if that is known already: nothing is submitted then.
    pub(super) job: Option<Handle>,
    pub(super) permits: Permits,
    pub(super) sender: Sender<(u32, PackUpdate)>,
}

/// Waits longer each time, until it is told that something has happened.
struct Pause {
    next: Duration,
    least: Duration,
    most: Duration,
}

impl Pause {
    fn new(least: Duration, most: Duration) -> Pause {
        Pause { next: least, least, most }
    }

    async fn wait(&mut self) {
        sleep(self.next).await;
        self.next = (self.next * 3 / 2).min(self.most);
    }

    fn reset(&mut self) {
        self.next = self.least;
    }
}

impl OnItsWay {
    /// Goes on until the pack has ended.
    pub(super) async fn run(self) {
        let job = match self.job.clone() {
            Some(job) => job,
            None => match self.submitted().await {
                Ok(job) => {
                    self.tell(PackUpdate::Accepted(job.clone())).await;
                    job
                }
                Err(heard) => return self.tell(heard).await,
            },
        };
        let heard = match self.followed(&job).await {
            Ok(Over { how, unbegun }) => PackUpdate::Over { how, unbegun },
            Err(error) => PackUpdate::Failed(error),
        };
        self.tell(heard).await;
    }

    async fn tell(&self, heard: PackUpdate) {
        // Whoever wanted to know may have stopped.
        let _ = self.sender.send((self.number, heard)).await;
    }

    /// The job that it is; what else is to be told, if it was not accepted and will not be.
    async fn submitted(&self) -> Result<Handle, PackUpdate> {
        let submission = Submission {
            key: self.key,
            what: Submitted::Pack(self.pack.clone()),
            inputs: self.inputs.iter().map(|input| input.file.clone()).collect(),
            latest: None,
            compared: Vec::new(),
            survey: Survey::default(),
            pinned: true,
        };
        let request = proto::SubmitRequest::from(&submission);
        let mut pause = Pause::new(AGAIN, AGAIN_MOST);
        let mut doubt = self.recalled.then(|| Instant::now() + DOUBT);
        loop {
            let event = {
                let _permit = self.permits.submissions.acquire().await;
                self.sent(&request).await.map_err(PackUpdate::Failed)?
            };
            let refusal = match event {
                Event::Accepted(record) => return Ok(record.handle),
                Event::Refused(refused) => refused.reason(),
                Event::Rejected(reason) => reason,
                Event::Unreachable(why) => Cause::Unreachable.because(why),
                // Nothing else comes of a submission.
                _ => {
                    doubt = Some(Instant::now() + DOUBT);
                    pause.wait().await;
                    continue;
                }
            };
            // A server that is not there may have accepted it before, and says so when it is back.
            let is_certain = match refusal.cause {
                Cause::Unreachable => doubt.is_none(),
                // Whatever is still on its way does not change that.
                Cause::KeyTaken => true,
                _ => doubt.is_none_or(|doubt| doubt <= Instant::now()),
            };
            if is_certain {
                return Err(PackUpdate::Refused(refusal));
            }
            pause.wait().await;
        }
    }

    /// Sends it once; what came of it. Its input files go first if the server does not have them.
    async fn sent(&self, request: &proto::SubmitRequest) -> Result<Event, ClientError> {
        let Some(key) = self.pack.inputs_key else {
            return self.client.send_pack(&self.server, request.clone()).await.map(|(event, _)| event);
        };
        if let (event, false) = self.client.send_pack(&self.server, request.clone()).await? {
            return Ok(event);
        }
        let _turn = self.permits.uploads.lock().await;
        // Somebody else may have sent them meanwhile, which is told for every file.
        for HeldInput { file, path } in &self.inputs {
            match self.client.upload_to(&self.server, key, file, path).await {
                Ok(()) => {}
                // Nothing was submitted.
                Err(error) if error.may_pass() => return Ok(Event::Unreachable(error.to_string())),
                Err(error) => return Err(error),
            }
        }
        self.client.send_pack(&self.server, request.clone()).await.map(|(event, _)| event)
    }

    /// Tells what became of each instance until the job has ended; how it ended.
    async fn followed(&self, job: &Handle) -> Result<Over, ClientError> {
        let mut lines = Lines::default();
        let mut pause = Pause::new(ASK, ASK_MOST);
        let mut missing: Option<Instant> = None;
        loop {
            let before = lines.offset;
            let looked = {
                let _permit = self.permits.questions.acquire().await;
                self.looked(job, &mut lines).await
            };
            // Also of an output that broke off: it is read on from there.
            let ended = std::mem::take(&mut lines.ended);
            if !ended.is_empty() {
                self.tell(PackUpdate::Ended(ended)).await;
            }
            match looked {
                Ok(record) => {
                    missing = None;
                    if record.state.is_final() {
                        return Ok(over(&record, lines.offset > 0));
                    }
                }
                Err(error) if error.is_denied() => return Err(error),
                // Neither its server nor the agent know it, and that lasts.
                Err(error)
                    if error.is_missing() && missing.is_some_and(|since| since + DOUBT <= Instant::now()) =>
                {
                    return Ok(Over { how: format!("lost: {error}"), unbegun: false });
                }
                Err(error) if error.is_missing() => {
                    missing.get_or_insert_with(Instant::now);
                }
                // Its server may come back, and has its job then.
                Err(error) => tracing::debug!(%job, %error, "cannot be asked"),
            }
            if lines.offset > before {
                pause.reset();
            }
            pause.wait().await;
        }
    }

    /// Reads what has happened since the last look; how the job stood before that.
    async fn looked(&self, job: &Handle, lines: &mut Lines) -> Result<JobRecord, ClientError> {
        // Before its output: that of a job that has ended is complete.
        let record = self.client.job(job).await?;
        if matches!(record.state, JobState::New | JobState::Queued) {
            return Ok(record);
        }
        let name = ResultName::Stdout;
        let wanted = Download { handle: job.clone(), name, offset: lines.offset, follow: false };
        let output = self.client.output(&wanted, |piece| {
            lines.take(piece);
            Ok(())
        });
        match output.await {
            Ok(_) => {}
            // One that has only just started has no output yet, and one that never ran has none.
            Err(error) if error.is_missing() => {}
            Err(error) => return Err(error),
        }
        Ok(record)
    }
}

/// How a job ended that `told` of instances, or of none. One that ended well has begun no others, and one that was
/// withdrawn before it started has begun none.
fn over(record: &JobRecord, told: bool) -> Over {
    let unbegun = match record.exit {
        Some(Exit::Code(0)) => told,
        Some(Exit::Cancelled) => record.started.is_none(),
        _ => false,
    };
    let how = record.exit.as_ref().map_or_else(|| record.state.to_string(), Exit::to_string);
    Over { how, unbegun }
}

/// The lines that a pack writes.
#[derive(Default)]
struct Lines {
    /// Read so far.
    offset: u64,
    /// What has no end yet.
    rest: Vec<u8>,
    /// What was read and is to be told.
    ended: Vec<PackedEnd>,
}

impl Lines {
    fn take(&mut self, piece: &[u8]) {
        self.offset += piece.len() as u64;
        self.rest.extend_from_slice(piece);
        let Some(whole) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return };
        let rest = self.rest.split_off(whole + 1);
        let lines = std::mem::replace(&mut self.rest, rest);
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(end) => self.ended.push(end),
                // What is not understood has not ended, as far as is known.
                Err(error) => tracing::warn!(%error, "a line of a pack cannot be understood"),
            }
        }
    }
}

impl Client {
    /// Sends a pack to its server once; what came of it, and whether that is for want of its input files. An error if it is
    /// our certificate that is refused.
    async fn send_pack(
        &self,
        to: &Name,
        request: proto::SubmitRequest,
    ) -> Result<(Event, bool), ClientError> {
        let mut server = match self.server_named(to).await {
            Ok(server) => server,
            Err(error) if error.is_denied() => return Err(error),
            Err(error) => return Ok((Event::Unreachable(error.to_string()), false)),
        };
        let answer = server.submit(self.request(request)).await;
        let wants_files = answer.as_ref().is_err_and(wants_files);
        if let Err(status) = &answer {
            let error = ClientError::call(format!("server {to}"), status);
            // That a key is taken says whose it is.
            if error.is_denied() && status.code() != Code::AlreadyExists {
                return Err(error);
            }
        }
        let event = came_of(answer);
        if matches!(event, Event::Unreachable(_) | Event::Interrupted(_)) {
            // It may come back elsewhere.
            self.forget_server(to);
        }
        Ok((event, wants_files))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_whatever_the_pieces() {
        let text = b"{\"instance\":1,\"outcome\":{\"exit_code\":0},\"elapsed_ms\":3}\n\
            nonsense\n{\"instance\":2,\"outcome\":{\"signal\":9},\"elapsed_ms\":4,\"output\":\"x\"}\n{\"insta";
        for size in [1, 7, 1000] {
            let mut lines = Lines::default();
            text.chunks(size).for_each(|piece| lines.take(piece));
            let found: Vec<(u32, bool)> =
                lines.ended.iter().map(|end| (end.instance, end.is_success())).collect();
            assert_eq!(found, [(1, true), (2, false)]);
            assert_eq!((lines.offset, lines.rest.as_slice()), (text.len() as u64, &b"{\"insta"[..]));
        }
    }
}
