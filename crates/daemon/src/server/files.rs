//! Files of jobs and of tasks of launches, in pieces: inputs up, results and output down.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pliant_control::job::JobRecord;
use pliant_control::names::{Key, Name, User};
use pliant_site::{FileStream, FilesError, JobFolder};
use pliant_staging::{ResultLimits, ResultName, StagingError, Store, UploadSet};
use pliant_telemetry::{LineLimit, names, spawn_of_call};
use pliant_wire::{Download, Fetchable, JobResults, OmittedFile, Upload, UploadAnswer, proto};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::StreamExt;
use tokio_stream::adapters::Chain;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::claims::Claims;
use super::open_call::OpenCall;
use super::sealing::Sealing;
use super::service::blocking;

/// Bytes in one piece.
const PIECE: usize = 256 << 10;
/// How long a client may take for the next piece.
const SLOW: Duration = Duration::from_secs(60);
/// How long a call waits for the results to be summed up: shorter than clients wait for an answer.
const SEALING: Duration = Duration::from_secs(20);
/// How often a growing file is looked at.
const POLL_PERIOD: Duration = Duration::from_millis(200);

/// The lines about refused uploads, by caller.
static REFUSED: LineLimit = LineLimit::new();

type UploadStream = ReceiverStream<Result<proto::UploadReply, Status>>;
type Pieces = ReceiverStream<Result<proto::Chunk, Status>>;
/// The pieces of a file and, behind them, why there are no more.
pub(super) type DownloadStream = Chain<Pieces, Pieces>;

/// Who sends a file.
#[derive(Clone, Debug)]
pub(super) enum Sender {
    /// Its owner.
    User(User),
    /// A server that hands over the job that it is for.
    Server(Name),
}

impl std::fmt::Display for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Sender::User(user) => write!(f, "{user}"),
            Sender::Server(name) => write!(f, "server {name}"),
        }
    }
}

/// What is known of the job that a file is for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Known {
    /// Nothing: it may be submitted, or handed over.
    No,
    /// It waits or runs here.
    Here,
    /// It was accepted before, and has ended or gone elsewhere.
    Before,
}

/// Takes a file in, unless `accepted` says that the submission it is for was accepted before: then nothing is wanted,
/// and nothing that lies there is touched.
pub(super) fn upload<A, F>(
    mut requests: Streaming<proto::UploadRequest>,
    caller: Sender,
    open: OpenCall,
    claims: Claims,
    store: Store,
    accepted: A,
) -> UploadStream
where
    A: Fn(User, Key) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Known, Status>> + Send,
{
    let (sender, receiver) = mpsc::channel(4);
    spawn_of_call(async move {
        if let Err(status) = take(&mut requests, &caller, (&open, &claims), store, &sender, accepted).await {
            if let Some(left_out) = REFUSED.admit(&caller.to_string(), Instant::now()) {
                tracing::warn!(%caller, reason = %status.message(), left_out, "upload refused");
            }
            // The client may have gone.
            let _ = sender.send(Err(status)).await;
        }
    });
    ReceiverStream::new(receiver)
}

async fn take<A, F>(
    requests: &mut Streaming<proto::UploadRequest>,
    caller: &Sender,
    (open, claims): (&OpenCall, &Claims),
    store: Store,
    sender: &mpsc::Sender<Result<proto::UploadReply, Status>>,
    accepted: A,
) -> Result<(), Status>
where
    A: Fn(User, Key) -> F,
    F: Future<Output = Result<Known, Status>>,
{
    let first =
        next(requests).await?.ok_or_else(|| Status::invalid_argument("expected a beginning first"))?;
    let Upload::Begin { key, file, claim } = first else {
        return Err(Status::invalid_argument("expected a beginning first"));
    };
    let of = match (caller, claim) {
        (Sender::User(user), None) => UploadSet::of_owner(user.clone(), key),
        // A server that hands a job over shows whose it is.
        (Sender::Server(name), Some(claim)) => {
            let owner = claims.check_sender(key, &claim).map_err(|refusal| refusal.counted().status())?;
            UploadSet::of_server(owner, key, name.clone())
        }
        (Sender::User(_), Some(_)) => {
            return Err(Status::permission_denied("only servers send the files of others"));
        }
        (Sender::Server(_), None) => {
            return Err(Status::invalid_argument("expected the signature of the owner, found none"));
        }
    };
    let is_handed_over = matches!(caller, Sender::Server(_));
    // Its submission is not accepted between the question and the beginning.
    let turn = store.lock(&of.user, key).await;
    let known = accepted(of.user.clone(), key).await?;
    if is_handed_over && known == Known::Here {
        return Err(Status::permission_denied("the job of that key is at this server"));
    }
    if !is_handed_over && known != Known::No {
        drop(turn);
        answer(sender, UploadAnswer::Offset(file.size)).await?;
        while next(requests).await?.is_some() {
            open.check()?;
        }
        return answer(sender, UploadAnswer::Complete).await;
    }
    let upload = std::sync::Arc::new(blocking(move || store.begin(&of, file)).await?);
    drop(turn);
    let mut offset = upload.offset();
    answer(sender, UploadAnswer::Offset(offset)).await?;
    while let Some(message) = next(requests).await? {
        let Upload::Data(piece) = message else {
            return Err(Status::invalid_argument("expected data, found another beginning"));
        };
        open.check()?;
        metrics::counter!(names::UPLOADED_BYTES).increment(piece.len() as u64);
        let (upload, at) = (upload.clone(), offset);
        offset = blocking(move || upload.append(at, &piece)).await?;
    }
    blocking(move || upload.finish()).await?;
    answer(sender, UploadAnswer::Complete).await
}

async fn next(requests: &mut Streaming<proto::UploadRequest>) -> Result<Option<Upload>, Status> {
    let message = timeout(SLOW, requests.message()).await;
    let message = message.map_err(|_| Status::deadline_exceeded("no data for a minute"))??;
    Ok(message.map(Upload::try_from).transpose()?)
}

async fn answer(
    sender: &mpsc::Sender<Result<proto::UploadReply, Status>>,
    answer: UploadAnswer,
) -> Result<(), Status> {
    sender.send(Ok((&answer).into())).await.map_err(|_| Status::cancelled("the client has gone"))
}

/// Refuses a job that has not ended.
pub(super) fn has_ended(record: &JobRecord) -> Result<(), Status> {
    if record.state.is_final() {
        return Ok(());
    }
    let why = format!("job {} is {}; its results are there once it has ended", record.handle, record.state);
    Err(Status::failed_precondition(why))
}

/// The files of a job that has ended, and has that folder.
pub(super) async fn results(
    sealing: &Sealing,
    record: &JobRecord,
    dir: PathBuf,
) -> Result<proto::ResultsReply, Status> {
    has_ended(record)?;
    if record.started.is_none() || !dir.exists() {
        return Ok((&JobResults::default()).into());
    }
    let was_cut = |dir: &Path| {
        let exit = JobFolder::at(dir).and_then(|folder| folder.recorded()).unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot see whether output was dropped");
            None
        });
        // A job that was lost has none.
        exit.map_or([false; 2], |exit| [exit.stdout_cut, exit.stderr_cut])
    };
    left((sealing, &record.owner), dir, None, was_cut).await
}

/// What was left by something that has ended and has its records in that folder, or by a task of it; `was_cut` says of which of its
/// outputs something was dropped.
pub(super) async fn left(
    (sealing, owner): (&Sealing, &User),
    dir: PathBuf,
    task: Option<String>,
    was_cut: impl FnOnce(&Path) -> [bool; 2] + Send + 'static,
) -> Result<proto::ResultsReply, Status> {
    let (there, of) = (dir.clone(), task.clone());
    let limits = sealing.limits();
    let sum_up =
        move || gathered(&there, of.as_deref(), limits, was_cut).map_err(|error| files_status(&error));
    let what = task.map_or(dir.clone(), |task| dir.join(task));
    let results = sealing.results((&what, owner), SEALING, sum_up).await?;
    Ok((&*results).into())
}

/// What there is in the folder of something that has ended, summed up if it was not before.
fn gathered(
    dir: &Path,
    task: Option<&str>,
    limits: ResultLimits,
    was_cut: impl FnOnce(&Path) -> [bool; 2],
) -> Result<JobResults, FilesError> {
    let folder = JobFolder::at(dir)?;
    let found = match task {
        None => folder.results(limits)?,
        Some(task) => folder.task_results(task, limits)?,
    };
    let [stdout_cut, stderr_cut] = was_cut(dir);
    Ok(JobResults {
        files: found.files.iter().map(Fetchable::from).collect(),
        left_out: found.left_out.iter().map(OmittedFile::from).collect(),
        left_out_count: found.left_out_count as u64,
        stdout_cut,
        stderr_cut,
        inputs: found.inputs,
    })
}

/// A file to be sent.
pub(super) struct Wanted {
    /// Whose it is, for the log.
    pub(super) of: String,
    /// The task of a subjob that has left it; none if it is a job's.
    pub(super) task: Option<String>,
    pub(super) name: ResultName,
    /// Where to begin, in bytes.
    pub(super) offset: u64,
    /// Goes on until whose it is has ended.
    pub(super) follow: bool,
}

impl From<Download> for Wanted {
    fn from(download: Download) -> Wanted {
        let Download { handle, name, offset, follow, run: _ } = download;
        Wanted { of: handle.to_string(), task: None, name, offset, follow }
    }
}

/// Sends a file from an offset on; one that is followed until `ended` says that the job has.
pub(super) fn download<E, F>(dir: PathBuf, wanted: Wanted, open: OpenCall, ended: E) -> DownloadStream
where
    E: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = Result<bool, Status>> + Send,
{
    let (sender, receiver) = mpsc::channel(4);
    // With a slot of its own: a client that reads nothing occupies all slots of the pieces.
    let (last, end) = mpsc::channel(1);
    spawn_of_call(async move {
        let given = tokio::select! {
            given = give(dir, wanted, &open, &sender, ended) => given,
            // The client has gone, and nothing may come for days.
            () = sender.closed() => return,
        };
        if let Err(status) = given {
            // The client may have gone.
            let _ = last.try_send(Err(status));
        }
    });
    ReceiverStream::new(receiver).chain(ReceiverStream::new(end))
}

async fn give<E, F>(
    dir: PathBuf,
    wanted: Wanted,
    open: &OpenCall,
    sender: &mpsc::Sender<Result<proto::Chunk, Status>>,
    ended: E,
) -> Result<(), Status>
where
    E: Fn() -> F,
    F: Future<Output = Result<bool, Status>>,
{
    let Wanted { of, task, name, mut offset, follow } = wanted;
    loop {
        // Asked before reading, so that nothing written before the end is missed.
        let last = !follow || ended().await?;
        let opened = opened(&dir, task.as_deref(), &name, offset, last).await;
        let mut stream = opened.map_err(|error| files_status(&error))?;
        while let Some(reading) = stream.take() {
            open.check()?;
            // Before reading: what the client does not take is not read, and keeps no thread.
            let room = match timeout(SLOW, sender.reserve()).await {
                Ok(Ok(room)) => room,
                Ok(Err(_)) => return Ok(()),
                Err(_) => {
                    tracing::warn!(job = of, file = %name, "download cut off: nothing was read for a minute");
                    return Err(Status::deadline_exceeded("nothing was read for a minute"));
                }
            };
            let (piece, reading) = reading.piece(PIECE).await.map_err(|source| unreadable(&dir, source))?;
            if piece.is_empty() {
                break;
            }
            stream = Some(reading);
            offset += piece.len() as u64;
            metrics::counter!(names::DOWNLOADED_BYTES).increment(piece.len() as u64);
            room.send(Ok(proto::Chunk { data: piece }));
        }
        if last {
            return Ok(());
        }
        tokio::time::sleep(POLL_PERIOD).await;
    }
}

/// Opens a file; none if it is not there yet, or not so long yet, and need not be.
async fn opened(
    dir: &Path,
    task: Option<&str>,
    name: &ResultName,
    offset: u64,
    must_exist: bool,
) -> Result<Option<FileStream>, FilesError> {
    match JobFolder::open(dir, task, name, offset).await {
        Ok(stream) => Ok(Some(stream)),
        Err(FilesError::Staging(error) | FilesError::OfAccount(error))
            if !must_exist
                && matches!(error, StagingError::NoResult { .. } | StagingError::BehindEnd { .. }) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn unreadable(dir: &Path, source: std::io::Error) -> Status {
    status(&StagingError::Io { path: dir.to_owned(), source })
}

/// An error of an execution's files as clients see it.
fn files_status(error: &FilesError) -> Status {
    match error {
        FilesError::Staging(error) | FilesError::OfAccount(error) => status(error),
        // Paths of this host are not for users.
        FilesError::Records(error) => {
            tracing::error!(%error, "file operation failed");
            Status::unavailable("the server cannot read or write its files at the moment")
        }
        FilesError::Launcher(error) => {
            tracing::error!(%error, "files of an account cannot be read");
            Status::unavailable("the server cannot read the files of the job's account at the moment")
        }
        FilesError::Busy { .. } => Status::resource_exhausted(error.public_message()),
    }
}

/// An error of files as clients see it.
pub(super) fn status(error: &StagingError) -> Status {
    let hint = error.hint();
    let message = if hint.is_empty() { error.to_string() } else { format!("{error}; {hint}") };
    match error {
        StagingError::Quota { .. } => Status::resource_exhausted(message),
        StagingError::Missing { .. } => Status::failed_precondition(message),
        StagingError::NoResult { .. } => Status::not_found(message),
        StagingError::BehindEnd { .. } => Status::out_of_range(message),
        // Pieces of an earlier upload of the file still arrive: another one begins where they end.
        StagingError::Offset { .. } => Status::aborted(message),
        StagingError::Io { .. } | StagingError::DiskFull { .. } | StagingError::Damaged { .. } => {
            // Paths of this host are not for users.
            tracing::error!(%error, "file operation failed");
            Status::unavailable("the server cannot read or write its files at the moment")
        }
        _ => Status::invalid_argument(message),
    }
}

#[cfg(test)]
mod tests;
