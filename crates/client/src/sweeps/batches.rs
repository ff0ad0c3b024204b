//! Submits a batch to its server until the outcome is known, then follows the job until it has ended.

use std::sync::Arc;
use std::time::Duration;

use pliant_control::client::Event;
use pliant_control::job::{Exit, JobRecord, JobState};
use pliant_control::names::{Handle, Key, Name};
use pliant_control::reason::{Cause, DiscoverySummary, Reason};
use pliant_staging::{FileSpec, ResultName};
use pliant_wire::InstanceEnd;
use pliant_wire::{Download, InstanceBatch, Submission, SubmittedWork, proto};
use tokio::sync::mpsc::Sender;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep};
use tonic::Code;

use super::folder::InputFile;
use crate::submit::{lacks_files, submit_event};
use crate::{Client, ClientError};

/// How long a refusal is in doubt after a submission without an answer, which may still arrive; and how long a job is unknown
/// before it counts as lost.
const DOUBT: Duration = Duration::from_secs(60);
/// The first and the longest pause before a submission is repeated.
const AGAIN: Duration = Duration::from_millis(200);
const AGAIN_MOST: Duration = Duration::from_secs(2);
/// The first and the longest pause between two questions about a batch.
const ASK: Duration = Duration::from_millis(100);
const ASK_MOST: Duration = Duration::from_secs(1);

/// How many submissions to a server, and questions to it, are open at a time.
const SUBMISSIONS: usize = 8;
const QUESTIONS: usize = 16;

/// Limits the open calls to a server.
#[derive(Clone, Debug)]
pub(super) struct Permits {
    pub(super) submissions: Arc<Semaphore>,
    pub(super) questions: Arc<Semaphore>,
    /// Held while input files are uploaded, which is done once.
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

/// A status update of a batch.
#[derive(Debug)]
pub(super) enum BatchUpdate {
    /// It was accepted as a job.
    Accepted(Handle),
    /// It was refused.
    Refused(Reason),
    /// Instances have ended.
    Ended(Vec<InstanceEnd>),
    /// It has ended.
    Over(BatchEnd),
    /// Servers do not accept our certificate.
    Failed(ClientError),
}

/// How a batch ended.
#[derive(Debug)]
pub(super) struct BatchEnd {
    /// How, for people.
    pub(super) how: String,
    /// Instances without an end were not started.
    pub(super) unbegun: bool,
    /// Its server went down, or nothing is known of it any more.
    pub(super) lost: bool,
    /// It was given up before its start, because its deadline could not be kept any more.
    pub(super) too_late: bool,
}

/// Submits and follows a batch.
pub(super) struct BatchFollower {
    pub(super) client: Client,
    pub(super) number: u32,
    pub(super) key: Key,
    pub(super) server: Name,
    pub(super) batch: InstanceBatch,
    /// The input files of every batch.
    pub(super) inputs: Vec<InputFile>,
    /// An earlier client may have submitted it.
    pub(super) recalled: bool,
    /// Its job, if it was accepted already.
    pub(super) job: Option<Handle>,
    pub(super) permits: Permits,
    pub(super) sender: Sender<(u32, BatchUpdate)>,
}

/// Waits longer each time, until it is reset.
struct Backoff {
    next: Duration,
    least: Duration,
    most: Duration,
}

impl Backoff {
    fn new(least: Duration, most: Duration) -> Backoff {
        Backoff { next: least, least, most }
    }

    async fn wait(&mut self) {
        sleep(self.next).await;
        self.next = (self.next * 3 / 2).min(self.most);
    }

    fn reset(&mut self) {
        self.next = self.least;
    }
}

impl BatchFollower {
    /// Runs until the batch has ended.
    pub(super) async fn run(self) {
        let job = match self.job.clone() {
            Some(job) => job,
            None => match self.submit().await {
                Ok(job) => {
                    self.report(BatchUpdate::Accepted(job.clone())).await;
                    job
                }
                Err(update) => return self.report(update).await,
            },
        };
        let update = match self.follow(&job).await {
            Ok(end) => BatchUpdate::Over(end),
            Err(error) => BatchUpdate::Failed(error),
        };
        self.report(update).await;
    }

    async fn report(&self, update: BatchUpdate) {
        // The receiver may be gone.
        let _ = self.sender.send((self.number, update)).await;
    }

    /// Submits the batch: its job, or why there is none.
    async fn submit(&self) -> Result<Handle, BatchUpdate> {
        let mut backoff = Backoff::new(AGAIN, AGAIN_MOST);
        let mut doubt = self.recalled.then(|| Instant::now() + DOUBT);
        loop {
            let event = {
                let _permit = self.permits.submissions.acquire().await;
                self.send().await.map_err(BatchUpdate::Failed)?
            };
            let refusal = match event {
                Event::Accepted(record) => return Ok(record.handle),
                Event::Refused(refused) => refused.reason(),
                Event::Rejected(reason) => reason,
                Event::Unreachable(why) => Cause::Unreachable.because(why),
                // The call broke off: the server may have accepted the batch.
                _ => {
                    doubt = Some(Instant::now() + DOUBT);
                    backoff.wait().await;
                    continue;
                }
            };
            // A server that is down may have accepted it before, and says so when it is up.
            let is_certain = match refusal.cause {
                Cause::Unreachable => doubt.is_none(),
                // No call in flight changes that.
                Cause::KeyTaken => true,
                _ => doubt.is_none_or(|doubt| doubt <= Instant::now()),
            };
            if is_certain {
                return Err(BatchUpdate::Refused(refusal));
            }
            backoff.wait().await;
        }
    }

    /// Submits the batch once, with its input files if the server does not have them.
    async fn send(&self) -> Result<Event, ClientError> {
        let Some(key) = self.batch.inputs_key else {
            return self.client.send_batch(&self.server, self.request()?).await.map(|(event, _)| event);
        };
        if let (event, false) = self.client.send_batch(&self.server, self.request()?).await? {
            return Ok(event);
        }
        let _lock = self.permits.uploads.lock().await;
        // Another batch may have sent them meanwhile: then the server skips each file.
        for InputFile { file, path } in &self.inputs {
            match self.client.upload_to(&self.server, key, file, path).await {
                Ok(()) => {}
                // Nothing was submitted.
                Err(error) if error.may_pass() => return Ok(Event::Unreachable(error.to_string())),
                Err(error) => return Err(error),
            }
        }
        self.client.send_batch(&self.server, self.request()?).await.map(|(event, _)| event)
    }

    /// The submission, signed now.
    fn request(&self) -> Result<proto::SubmitRequest, ClientError> {
        let (key, pinned) = (self.key, true);
        let what = SubmittedWork::Batch(self.batch.clone());
        let inputs: Vec<FileSpec> = self.inputs.iter().map(|input| input.file.clone()).collect();
        let claim = self.client.sign_submission(key, (&what, &inputs, pinned), &self.server)?;
        let (latest, compared, discovery) = (None, Vec::new(), DiscoverySummary::default());
        Ok((&Submission { key, what, inputs, latest, compared, discovery, pinned, claim }).into())
    }

    /// Reports the ends of instances until the job has ended; returns how it ended.
    async fn follow(&self, job: &Handle) -> Result<BatchEnd, ClientError> {
        let mut lines = BatchOutput::default();
        let mut backoff = Backoff::new(ASK, ASK_MOST);
        let mut missing: Option<Instant> = None;
        loop {
            let before = lines.offset;
            let found = {
                let _permit = self.permits.questions.acquire().await;
                self.read_output(job, &mut lines).await
            };
            // Also from an output that broke off: reading continues there.
            let ended = std::mem::take(&mut lines.ended);
            if !ended.is_empty() {
                self.report(BatchUpdate::Ended(ended)).await;
            }
            match found {
                Ok(record) => {
                    missing = None;
                    if record.state.is_final() {
                        return Ok(over(&record, lines.offset > 0));
                    }
                }
                Err(error) if error.is_denied() => return Err(error),
                // Neither its server nor the agent has known it for long.
                Err(error)
                    if error.is_missing() && missing.is_some_and(|since| since + DOUBT <= Instant::now()) =>
                {
                    let how = format!("lost: {error}");
                    return Ok(BatchEnd { how, unbegun: false, lost: true, too_late: false });
                }
                Err(error) if error.is_missing() => {
                    missing.get_or_insert_with(Instant::now);
                }
                // Its server may come up again with the job.
                Err(error) => tracing::debug!(%job, %error, "cannot be asked"),
            }
            if lines.offset > before {
                backoff.reset();
            }
            backoff.wait().await;
        }
    }

    /// Reads the output since the last call; returns the state of the job before that.
    async fn read_output(&self, job: &Handle, lines: &mut BatchOutput) -> Result<JobRecord, ClientError> {
        // Before the output, which is complete if the job has ended.
        let record = self.client.job(job).await?;
        if matches!(record.state, JobState::New | JobState::Queued) {
            return Ok(record);
        }
        let name = ResultName::Stdout;
        let download = Download { handle: job.clone(), name, offset: lines.offset, follow: false, run: None };
        let output = self.client.output(&download, |piece| {
            lines.append(piece);
            Ok(())
        });
        match output.await {
            Ok(_) => {}
            // A job that has just started, or that never ran, has no output.
            Err(error) if error.is_missing() => {}
            Err(error) => return Err(error),
        }
        Ok(record)
    }
}

/// How a job ended, with `has_reported` if it has reported instances. A job that completed has started no others, a job that was
/// withdrawn, or given up for its deadline, none.
fn over(record: &JobRecord, has_reported: bool) -> BatchEnd {
    let too_late = record.is_given_up();
    let unbegun = match record.exit {
        Some(Exit::Code(0)) => has_reported,
        Some(Exit::Cancelled) => record.started.is_none(),
        Some(Exit::NotStarted(_)) => too_late,
        _ => false,
    };
    let how = record.exit.as_ref().map_or_else(|| record.state.to_string(), Exit::to_string);
    BatchEnd { how, unbegun, lost: matches!(record.exit, Some(Exit::Lost(_))), too_late }
}

/// The output of a batch, a line for each ended instance.
#[derive(Default)]
struct BatchOutput {
    /// How many bytes were read.
    offset: u64,
    /// The beginning of the next line.
    rest: Vec<u8>,
    /// Ends that are not reported yet.
    ended: Vec<InstanceEnd>,
}

impl BatchOutput {
    fn append(&mut self, piece: &[u8]) {
        self.offset += piece.len() as u64;
        self.rest.extend_from_slice(piece);
        let Some(whole) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return };
        let rest = self.rest.split_off(whole + 1);
        let lines = std::mem::replace(&mut self.rest, rest);
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(end) => self.ended.push(end),
                // The instance counts as not ended.
                Err(error) => tracing::warn!(%error, "a line of a batch is not valid"),
            }
        }
    }
}

impl Client {
    /// Sends a batch to its server once; returns the outcome, and whether input files are missing there. An error if our
    /// certificate is refused.
    async fn send_batch(
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
        let lacks_files = answer.as_ref().is_err_and(lacks_files);
        if let Err(status) = &answer {
            let error = ClientError::call(format!("server {to}"), status);
            // A taken key is a refusal.
            if error.is_denied() && status.code() != Code::AlreadyExists {
                return Err(error);
            }
        }
        let event = submit_event(answer);
        if matches!(event, Event::Unreachable(_) | Event::Interrupted(_)) {
            // It may come up at another address.
            self.forget_server(to);
        }
        Ok((event, lacks_files))
    }
}

#[cfg(test)]
mod tests {
    use pliant_control::job::Work;
    use pliant_model::{Estimate, Procs, Span, Speedup, Time};

    use super::*;

    /// A job of 100 s that ended so at 500.
    fn job(exit: Exit, started: Option<i64>, deadline: Option<i64>) -> JobRecord {
        let work = Work::new(Procs(1), Span(100), Speedup::Rigid);
        JobRecord {
            handle: "lyon.1".parse().unwrap(),
            key: Key([0; 16]),
            owner: "alice".parse().unwrap(),
            name: "fit".to_owned(),
            work: Work { deadline: deadline.map(Time), ..work },
            state: exit.state(),
            submitted: Time(300),
            expected: Estimate { procs: Procs(1), walltime: Span(100), start: Time(300) },
            procs: Procs(1),
            walltime: Span(100),
            started: started.map(Time),
            ended: Some(Time(500)),
            exit: Some(exit),
            requeues: 0,
            compared: Vec::new(),
            discovery: DiscoverySummary::default(),
            pinned: true,
            hops: Vec::new(),
            unit_runtime: None,
            runtime: None,
            size_choice: None,
            gpus: None,
            estimates: Vec::new(),
            claim: None,
        }
    }

    #[test]
    fn of_a_batch_that_was_too_late_none_began() {
        let not_started = || Exit::NotStarted("why".to_owned());
        for (exit, started, deadline, unbegun, too_late) in [
            (not_started(), None, Some(599), true, true),
            // There was the time: something else was wrong, and may be wrong again.
            (not_started(), None, Some(600), false, false),
            (not_started(), None, None, false, false),
            (Exit::Code(1), Some(450), Some(599), false, false),
            (Exit::Cancelled, None, Some(599), true, false),
            (Exit::Cancelled, Some(450), None, false, false),
        ] {
            let end = over(&job(exit, started, deadline), false);
            assert_eq!((end.unbegun, end.too_late), (unbegun, too_late), "{started:?} {deadline:?}: {end:?}");
        }
    }

    #[test]
    fn lines_are_read_from_pieces_of_any_size() {
        let text = b"{\"instance\":1,\"outcome\":{\"exit_code\":0},\"elapsed_ms\":3}\n\
            nonsense\n{\"instance\":2,\"outcome\":{\"signal\":9},\"elapsed_ms\":4,\"output\":\"x\"}\n{\"insta";
        for size in [1, 7, 1000] {
            let mut lines = BatchOutput::default();
            text.chunks(size).for_each(|piece| lines.append(piece));
            let found: Vec<(u32, bool)> =
                lines.ended.iter().map(|end| (end.instance, end.is_success())).collect();
            assert_eq!(found, [(1, true), (2, false)]);
            assert_eq!((lines.offset, lines.rest.as_slice()), (text.len() as u64, &b"{\"insta"[..]));
        }
    }
}
