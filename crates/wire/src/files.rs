//! Files on their way: inputs up, results down.

use pliant_control::names::{Handle, Key, Name, User};
use pliant_staging::{Checksum, FileSpec, LeftOut, ResultName, SealedFile};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

use super::proto::{self, download_request, upload_reply, upload_request};
use super::{Malformed, bounds, read, write};

/// Metadata of an UNAVAILABLE answer: what was asked for is being worked out, and is there if it is asked for again.
pub const AT_WORK: &str = "x-pliant-at-work";

/// Metadata of a FAILED_PRECONDITION answer: the job is at that server now, which is to be asked instead.
const MOVED_TO: &str = "x-pliant-moved-to";

/// The answer to a question about the files of a job that is elsewhere.
pub fn moved(handle: &Handle, to: &Name) -> Status {
    let mut metadata = MetadataMap::new();
    // A name is letters, digits and hyphens.
    if let Ok(name) = MetadataValue::try_from(to.as_str()) {
        metadata.insert(MOVED_TO, name);
    }
    let why = format!("job {handle} was moved to server {to}");
    Status::with_metadata(Code::FailedPrecondition, why, metadata)
}

/// Where a job is, if the answer says that it was moved.
pub fn moved_to(status: &Status) -> Option<Name> {
    status.metadata().get(MOVED_TO)?.to_str().ok()?.parse().ok()
}

/// What a client sends while it uploads a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Upload {
    /// What will come: the first message.
    Begin {
        /// The key of the submission to come.
        key: Key,
        /// The file.
        file: FileSpec,
        /// Whose it is, if another server sends it.
        owner: Option<User>,
    },
    /// The next piece.
    Data(Vec<u8>),
}

/// What a server answers to an upload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UploadAnswer {
    /// So many bytes are kept already: where to go on.
    Offset(u64),
    /// All of it is kept, and its checksum is right.
    Complete,
}

/// Which file of a job a client fetches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Download {
    /// The job.
    pub handle: Handle,
    /// The file.
    pub name: ResultName,
    /// Where to begin, in bytes.
    pub offset: u64,
    /// Goes on until the job has ended.
    pub follow: bool,
}

/// A result as clients are told of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fetchable {
    /// Its name.
    pub name: ResultName,
    /// Its size in bytes.
    pub size: u64,
    /// Its checksum.
    pub sha256: Checksum,
}

/// What a job left and is not given back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Withheld {
    /// Its name, fit to be shown.
    pub name: String,
    /// Why, for programs: `not-a-file`, `name`, `depth`, `count`, `size`, `unreadable`, or a word of a later version.
    pub word: String,
    /// Why, for people.
    pub why: String,
}

/// What there is of a job that has ended, and what there is not. None of the names of files leads out of the folder
/// that they are written to.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct JobResults {
    /// What can be fetched.
    pub files: Vec<Fetchable>,
    /// What is not given back: the first of it, by name.
    pub left_out: Vec<Withheld>,
    /// How much of that there is.
    pub left_out_count: u64,
    /// Whether something that the job wrote on its standard output was dropped.
    pub stdout_cut: bool,
    /// The same of standard error.
    pub stderr_cut: bool,
}

impl From<&FileSpec> for proto::InputFile {
    fn from(file: &FileSpec) -> proto::InputFile {
        proto::InputFile { name: file.name.to_string(), size: file.size, sha256: file.sha256.0.to_vec() }
    }
}

impl TryFrom<proto::InputFile> for FileSpec {
    type Error = Malformed;
    fn try_from(message: proto::InputFile) -> Result<FileSpec, Malformed> {
        Ok(FileSpec {
            name: read::file_name("name", &message.name)?,
            size: message.size,
            sha256: read::checksum("sha256", &message.sha256)?,
        })
    }
}

impl From<&Upload> for proto::UploadRequest {
    fn from(upload: &Upload) -> proto::UploadRequest {
        let message = match upload {
            Upload::Begin { key, file, owner } => upload_request::Message::Begin(upload_request::Begin {
                key: key.0.to_vec(),
                file: Some(file.into()),
                owner: owner.as_ref().map(User::to_string).unwrap_or_default(),
            }),
            Upload::Data(data) => upload_request::Message::Data(data.clone()),
        };
        proto::UploadRequest { message: Some(message) }
    }
}

impl TryFrom<proto::UploadRequest> for Upload {
    type Error = Malformed;
    fn try_from(message: proto::UploadRequest) -> Result<Upload, Malformed> {
        match message.message.ok_or_else(|| Malformed::missing("", "begin or data"))? {
            upload_request::Message::Begin(begin) => Ok(Upload::Begin {
                owner: match begin.owner.as_str() {
                    "" => None,
                    owner => Some(read::user("begin.owner", owner)?),
                },
                key: read::key("begin.key", &begin.key)?,
                file: read::required("begin.file", "a file", begin.file)?,
            }),
            upload_request::Message::Data(data) => {
                read::bytes_to("data", data, bounds::PIECE_BYTES_MAX).map(Upload::Data)
            }
        }
    }
}

impl From<UploadAnswer> for proto::UploadReply {
    fn from(answer: UploadAnswer) -> proto::UploadReply {
        let message = match answer {
            UploadAnswer::Offset(offset) => upload_reply::Message::Offset(offset),
            UploadAnswer::Complete => upload_reply::Message::Complete(true),
        };
        proto::UploadReply { message: Some(message) }
    }
}

impl TryFrom<proto::UploadReply> for UploadAnswer {
    type Error = Malformed;
    fn try_from(message: proto::UploadReply) -> Result<UploadAnswer, Malformed> {
        match message.message.ok_or_else(|| Malformed::missing("", "offset or complete"))? {
            upload_reply::Message::Offset(offset) => Ok(UploadAnswer::Offset(offset)),
            upload_reply::Message::Complete(true) => Ok(UploadAnswer::Complete),
            upload_reply::Message::Complete(false) => Err(Malformed::new("complete", "true", false)),
        }
    }
}

impl From<&Download> for proto::DownloadRequest {
    fn from(download: &Download) -> proto::DownloadRequest {
        let stream = |stream: download_request::Stream| download_request::Which::Stream(stream.into());
        let which = match &download.name {
            ResultName::Stdout => stream(download_request::Stream::Stdout),
            ResultName::Stderr => stream(download_request::Stream::Stderr),
            file @ ResultName::File(_) => download_request::Which::Result(file.to_string()),
        };
        proto::DownloadRequest {
            handle: download.handle.to_string(),
            which: Some(which),
            offset: download.offset,
            follow: download.follow,
        }
    }
}

impl TryFrom<proto::DownloadRequest> for Download {
    type Error = Malformed;
    fn try_from(message: proto::DownloadRequest) -> Result<Download, Malformed> {
        let handle = read::handle("handle", &message.handle)?;
        let name = match message.which.ok_or_else(|| Malformed::missing("", "result or stream"))? {
            download_request::Which::Result(name) => read::result_name("result", &name)?,
            download_request::Which::Stream(number) => match download_request::Stream::try_from(number) {
                Ok(download_request::Stream::Stdout) => ResultName::Stdout,
                Ok(download_request::Stream::Stderr) => ResultName::Stderr,
                _ => return Err(Malformed::new("stream", "1 (stdout) or 2 (stderr)", number)),
            },
        };
        Ok(Download { handle, name, offset: message.offset, follow: message.follow })
    }
}

impl From<&SealedFile> for Fetchable {
    fn from(file: &SealedFile) -> Fetchable {
        Fetchable { name: file.name.clone(), size: file.size, sha256: file.sha256 }
    }
}

impl From<&Fetchable> for proto::ResultFile {
    fn from(file: &Fetchable) -> proto::ResultFile {
        proto::ResultFile { name: file.name.to_string(), size: file.size, sha256: file.sha256.0.to_vec() }
    }
}

impl TryFrom<proto::ResultFile> for Fetchable {
    type Error = Malformed;
    fn try_from(message: proto::ResultFile) -> Result<Fetchable, Malformed> {
        Ok(Fetchable {
            name: read::result_name("name", &message.name)?,
            size: message.size,
            sha256: read::checksum("sha256", &message.sha256)?,
        })
    }
}

impl From<&LeftOut> for Withheld {
    fn from(left: &LeftOut) -> Withheld {
        let word = left.reason.word().to_owned();
        Withheld { name: left.name.clone(), word, why: left.reason.to_string() }
    }
}

impl From<&Withheld> for proto::LeftOut {
    fn from(withheld: &Withheld) -> proto::LeftOut {
        let text = |text: &str| write::text(text, bounds::TEXT_BYTES_MAX);
        proto::LeftOut { name: text(&withheld.name), word: text(&withheld.word), why: text(&withheld.why) }
    }
}

impl TryFrom<proto::LeftOut> for Withheld {
    type Error = Malformed;
    fn try_from(message: proto::LeftOut) -> Result<Withheld, Malformed> {
        let text = |field, found| read::text(field, found, bounds::TEXT_BYTES_MAX);
        Ok(Withheld {
            name: text("name", message.name)?,
            word: text("word", message.word)?,
            why: text("why", message.why)?,
        })
    }
}

impl From<&JobResults> for proto::ResultsReply {
    fn from(results: &JobResults) -> proto::ResultsReply {
        proto::ResultsReply {
            files: write::list(&results.files, bounds::RESULTS_MAX),
            left_out: write::list(&results.left_out, bounds::LEFT_OUT_MAX),
            left_out_count: results.left_out_count,
            stdout_cut: results.stdout_cut,
            stderr_cut: results.stderr_cut,
        }
    }
}

impl TryFrom<proto::ResultsReply> for JobResults {
    type Error = Malformed;
    fn try_from(message: proto::ResultsReply) -> Result<JobResults, Malformed> {
        Ok(JobResults {
            files: read::list("files", message.files, bounds::RESULTS_MAX, Fetchable::try_from)?,
            left_out: read::list("left_out", message.left_out, bounds::LEFT_OUT_MAX, Withheld::try_from)?,
            left_out_count: message.left_out_count,
            stdout_cut: message.stdout_cut,
            stderr_cut: message.stderr_cut,
        })
    }
}
