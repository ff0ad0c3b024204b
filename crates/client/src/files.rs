//! Uploads input files; downloads results and output.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use pliant_control::names::{Handle, Key, Name};
use pliant_staging::{self as staging, FileSpec};
use pliant_wire::proto::server_client::ServerClient;
use pliant_wire::{self as wire, Download, Fetchable, JobResults, Upload, UploadAnswer, proto};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};

use super::{Client, ClientError};

/// The bytes of a message.
const PIECE: usize = 256 << 10;
/// How often the transfer of a file is attempted.
const ATTEMPTS: u32 = 5;
/// Half the pause after the first attempt; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(100);

impl Client {
    /// Uploads a file from where an earlier attempt broke off.
    pub(super) async fn upload(
        &self,
        server: &mut ServerClient<Channel>,
        key: Key,
        spec: &FileSpec,
        path: &Path,
    ) -> Result<(), ClientError> {
        for attempt in 1..ATTEMPTS {
            match self.upload_once(server, key, spec, path).await {
                Err(error) if error.may_pass() => tokio::time::sleep(PAUSE * (1 << attempt)).await,
                ended => return ended,
            }
        }
        self.upload_once(server, key, spec, path).await
    }

    /// Uploads a file to the server of that name.
    pub(super) async fn upload_to(
        &self,
        to: &Name,
        key: Key,
        file: &FileSpec,
        path: &Path,
    ) -> Result<(), ClientError> {
        let mut server = self.server_named(to).await?;
        self.upload(&mut server, key, file, path).await
    }

    async fn upload_once(
        &self,
        server: &mut ServerClient<Channel>,
        key: Key,
        spec: &FileSpec,
        path: &Path,
    ) -> Result<(), ClientError> {
        let (sender, receiver) = mpsc::channel(4);
        let begin = Upload::Begin { key, file: spec.clone(), claim: None };
        // The channel is empty.
        let _ = sender.send((&begin).into()).await;
        let mut request = Request::new(ReceiverStream::new(receiver));
        self.request.add_to_call(request.metadata_mut());
        let failed = |status: Status| ClientError::call(spec.name.as_str(), &status);
        let mut answers = server.upload(request).await.map_err(failed)?.into_inner();
        let first = answers.message().await.map_err(failed)?.map(UploadAnswer::try_from);
        let offset = match first.transpose().map_err(ClientError::protocol)? {
            Some(UploadAnswer::Offset(offset)) => offset,
            Some(UploadAnswer::Complete) => return Ok(()),
            None => return Err(ClientError::unavailable("the server broke the upload off")),
        };
        let path = path.to_owned();
        let reading = tokio::task::spawn_blocking(move || send_pieces(File::open(&path)?, offset, &sender));
        let last = answers.message().await;
        // A file that cannot be read explains more than an upload that was cut.
        let read = reading.await.map_err(|_| ClientError::failed("reading the file failed"))?;
        read.map_err(|error| ClientError::usage(format!("{}: cannot read: {error}", spec.name.as_str())))?;
        let last = last.map_err(failed)?.map(UploadAnswer::try_from);
        match last.transpose().map_err(ClientError::protocol)? {
            Some(UploadAnswer::Complete) => Ok(()),
            _ => Err(ClientError::unavailable("the server broke the upload off")),
        }
    }

    /// The results of a job that has ended. Waits until its server has listed them.
    pub async fn results(&self, handle: &Handle) -> Result<JobResults, ClientError> {
        loop {
            let mut server = self.server_of(handle).await?;
            match server.results(self.request(wire::job_request(handle))).await {
                Ok(reply) => return JobResults::try_from(reply.into_inner()).map_err(ClientError::protocol),
                Err(status) if status.metadata().contains_key(wire::RESULTS_PENDING) => {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                Err(status) => {
                    let (moved, error) =
                        (wire::moved_to(&status).is_some(), self.server_failed(handle, &status));
                    if !moved {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Fetches a result into a folder from where an earlier attempt broke off, and verifies its checksum.
    pub async fn fetch(&self, handle: &Handle, file: &Fetchable, folder: &Path) -> Result<(), ClientError> {
        let wanted = |offset| {
            let (handle, name) = (handle.clone(), file.name.clone());
            Download { handle, name, offset, follow: false, run: None }
        };
        let begin = |offset| {
            let wanted = wanted(offset);
            async move { self.chunks(&wanted).await }
        };
        fetched(file, folder, begin, |status| self.server_failed(handle, &status)).await
    }

    /// Standard output or error of a job from an offset on; `follow` continues until the job has ended. If a followed job runs again
    /// after a node failed under it, the output of that run comes next, from its beginning. Returns the offset reached.
    pub async fn output(
        &self,
        wanted: &Download,
        mut piece: impl FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<u64, ClientError> {
        let mut wanted = wanted.clone();
        if wanted.follow {
            // An offset means nothing in another run.
            wanted.run.get_or_insert(0);
        }
        loop {
            let (broken, status) = match self.download(&wanted).await {
                Err(error) => (error, None),
                Ok(Err(status)) => (self.server_failed(&wanted.handle, &status), Some(status)),
                Ok(Ok(mut chunks)) => loop {
                    match chunks.message().await {
                        Ok(Some(chunk)) => {
                            wanted.offset += chunk.data.len() as u64;
                            piece(&chunk.data).map_err(ClientError::failed)?;
                        }
                        Ok(None) => return Ok(wanted.offset),
                        Err(status) => break (self.server_failed(&wanted.handle, &status), Some(status)),
                    }
                },
            };
            let moved = status.as_ref().is_some_and(|status| wire::moved_to(status).is_some());
            let requeues = status.as_ref().and_then(wire::requeues_of);
            // A job is followed to where it was moved, and to its next run.
            if !(wanted.follow && (moved || requeues.is_some() || broken.may_pass())) {
                return Err(broken);
            }
            if requeues.is_some() {
                (wanted.run, wanted.offset) = (requeues, 0);
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// A file or an output of a job from an offset on, in pieces as they come.
    pub async fn pieces(
        &self,
        wanted: &Download,
    ) -> Result<impl Stream<Item = Result<Vec<u8>, ClientError>> + Send + use<>, ClientError> {
        let chunks = self.chunks(wanted).await?;
        let (client, handle) = (self.clone(), wanted.handle.clone());
        Ok(chunks.map(move |chunk| match chunk {
            Ok(chunk) => Ok(chunk.data),
            Err(status) => Err(client.server_failed(&handle, &status)),
        }))
    }

    async fn chunks(&self, wanted: &Download) -> Result<Streaming<proto::Chunk>, ClientError> {
        self.download(wanted).await?.map_err(|status| self.server_failed(&wanted.handle, &status))
    }

    /// Begins a download at the server that has the job; its refusal, if it refuses.
    async fn download(
        &self,
        wanted: &Download,
    ) -> Result<Result<Streaming<proto::Chunk>, Status>, ClientError> {
        loop {
            let mut server = self.server_of(&wanted.handle).await?;
            let mut request = Request::new(proto::DownloadRequest::from(wanted));
            self.request.add_to_call(request.metadata_mut());
            let status = match server.download(request).await {
                Ok(reply) => return Ok(Ok(reply.into_inner())),
                Err(status) => status,
            };
            if wire::moved_to(&status).is_none() {
                return Ok(Err(status));
            }
            // Where it is now is known from here on.
            self.server_failed(&wanted.handle, &status);
        }
    }
}

/// Fetches a file into a folder from where an earlier attempt broke off, and verifies its checksum. `begin` opens a stream from
/// an offset, `broken` makes an error of a broken stream.
pub(super) async fn fetched<F>(
    file: &Fetchable,
    folder: &Path,
    begin: impl Fn(u64) -> F,
    broken: impl Fn(Status) -> ClientError,
) -> Result<(), ClientError>
where
    F: Future<Output = Result<Streaming<proto::Chunk>, ClientError>>,
{
    let mut attempt = 1;
    loop {
        match fetched_once(file, folder, &begin, &broken).await {
            Err(error) if error.may_pass() && attempt < ATTEMPTS => {
                attempt += 1;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            ended => return ended,
        }
    }
}

async fn fetched_once<F>(
    file: &Fetchable,
    folder: &Path,
    begin: &impl Fn(u64) -> F,
    broken: &impl Fn(Status) -> ClientError,
) -> Result<(), ClientError>
where
    F: Future<Output = Result<Streaming<proto::Chunk>, ClientError>>,
{
    let failed = |error: staging::StagingError| ClientError::failed(error);
    let name = file.name.to_string().parse().map_err(ClientError::protocol)?;
    let spec = FileSpec { name, size: file.size, sha256: file.sha256 };
    let mut download = staging::Download::begin(folder, spec).map_err(failed)?;
    let mut offset = download.offset();
    let mut chunks = begin(offset).await?;
    while let Some(chunk) = chunks.message().await.map_err(broken)? {
        offset = download.append(offset, &chunk.data).map_err(failed)?;
    }
    download.finish().map_err(failed)
}

/// Sends a file in pieces from an offset on.
pub fn send_pieces(
    mut file: File,
    offset: u64,
    sender: &mpsc::Sender<proto::UploadRequest>,
) -> std::io::Result<()> {
    file.seek(SeekFrom::Start(offset))?;
    loop {
        let mut piece = vec![0; PIECE];
        let length = file.read(&mut piece)?;
        if length == 0 {
            return Ok(());
        }
        piece.truncate(length);
        // The server's answer says why it takes no more.
        if sender.blocking_send((&Upload::Data(piece)).into()).is_err() {
            return Ok(());
        }
    }
}
