//! Uploads of inputs, downloads of results.

use pliant_control::names::{Handle, Key, Name};
use pliant_control::signed::SignedClaim;
use pliant_staging::{Checksum, FileName, FileSpec, LeftOut, ResultName, SealedFile};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

use super::field::*;
use super::proto::{self, download_request};
use super::table::{message, one_of};
use super::{Malformed, bounds};

/// Metadata of an UNAVAILABLE answer: the results are being listed, and the question is to be repeated.
pub const RESULTS_PENDING: &str = "x-pliant-at-work";

/// Metadata of a FAILED_PRECONDITION answer: the server that has the job now.
const MOVED_TO: &str = "x-pliant-moved-to";
/// Metadata of a FAILED_PRECONDITION answer: how many runs of the job there were before the present one.
const REQUEUED: &str = "x-pliant-requeued";

/// The answer to a question about the files of a job that was moved.
pub fn moved(handle: &Handle, to: &Name) -> Status {
    let mut metadata = MetadataMap::new();
    // A name is letters, digits and hyphens.
    if let Ok(name) = MetadataValue::try_from(to.as_str()) {
        metadata.insert(MOVED_TO, name);
    }
    let why = format!("job {handle} was moved to server {to}");
    Status::with_metadata(Code::FailedPrecondition, why, metadata)
}

/// The answer to a question about an earlier run of a job: how many runs there were before the present one.
pub fn requeued(handle: &Handle, requeues: u32) -> Status {
    let mut metadata = MetadataMap::new();
    metadata.insert(REQUEUED, requeues.into());
    let why = format!("job {handle} was queued again after a node had failed under it");
    Status::with_metadata(Code::FailedPrecondition, why, metadata)
}

/// How many runs of a job there were before the present one, if the answer says that it was queued again.
pub fn requeues_of(status: &Status) -> Option<u32> {
    let requeues = status.metadata().get(REQUEUED)?.to_str().ok()?.parse().ok()?;
    bounds::REQUEUE.contains(&requeues).then_some(requeues)
}

/// The server of a job, if the answer says that it was moved.
pub fn moved_to(status: &Status) -> Option<Name> {
    status.metadata().get(MOVED_TO)?.to_str().ok()?.parse().ok()
}

/// A message of a client that uploads a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Upload {
    /// The first message: the file.
    Begin {
        /// The key of the submission to come.
        key: Key,
        /// The file.
        file: FileSpec,
        /// The signature of the owner, if another server sends it for a job that it hands over.
        claim: Option<Box<SignedClaim>>,
    },
    /// The next piece.
    Data(Vec<u8>),
}

/// The answer of a server to an upload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UploadAnswer {
    /// The upload continues at this offset.
    Offset(u64),
    /// The file is complete, with the right checksum.
    Complete,
}

message! {
    /// The download of a file of a job.
    #[derive(Clone, PartialEq, Eq, Debug)]
    proto::DownloadRequest <=> pub struct Download {
        /// The job.
        handle: Handle = HANDLE,
        /// The file.
        which <=> name: ResultName = one_of(),
        /// Where to begin, in bytes.
        offset: u64,
        /// Follows the file until the job has ended.
        follow: bool,
        /// The run that is meant, by the number of runs before it; none for the present one.
        run: Option<u32> = optional(REQUEUE),
    }

    /// A result that can be fetched.
    #[derive(Clone, PartialEq, Eq, Debug)]
    proto::ResultFile <=> pub struct Fetchable {
        /// Its name.
        name: ResultName = RESULT_NAME,
        /// Its size in bytes.
        size: u64,
        /// Its checksum.
        sha256: Checksum = CHECKSUM,
    }

    /// A file of a job that cannot be fetched.
    #[derive(Clone, PartialEq, Eq, Debug)]
    proto::LeftOut <=> pub struct OmittedFile {
        /// Its printable name.
        name: String = TEXT,
        /// Why, for programs: `not-a-file`, `name`, `depth`, `count`, `size`, `names`, `unreadable`, or a word of a later version.
        word: String = TEXT,
        /// Why, for people.
        why: String = TEXT,
    }

    /// The results of a job that has ended. No file name leads out of the folder that it is written to.
    #[derive(Clone, PartialEq, Eq, Default, Debug)]
    proto::ResultsReply <=> pub struct JobResults {
        /// What can be fetched.
        files: Vec<Fetchable> = list(nested(), bounds::RESULTS_MAX),
        /// The first files that cannot be fetched, by name.
        left_out: Vec<OmittedFile> = list(nested(), bounds::LEFT_OUT_MAX),
        /// The number of files that cannot be fetched.
        left_out_count: u64,
        /// True if standard output was cut.
        stdout_cut: bool,
        /// True if standard error was cut.
        stderr_cut: bool,
        /// The input files that are still as they were submitted, by name.
        inputs: Vec<FileName> = list(FILE_NAME, bounds::INPUTS_MAX),
    }
}

message! {
    proto::InputFile <=> FileSpec {
        name: FILE_NAME,
        size,
        sha256: CHECKSUM,
    }
}

one_of! {
    proto::UploadRequest { message: proto::upload_request::Message } <=> Upload {
        Begin(proto::upload_request::Begin) <=> Begin {
            key: KEY,
            file: required("a file"),
            claim: optional(boxed(nested())),
        },
        Data <=> Data(bytes_to(bounds::PIECE_BYTES_MAX).exact()),
    }

    proto::UploadReply { message: proto::upload_reply::Message } <=> UploadAnswer {
        Offset <=> Offset(as_is()),
        Complete(TrueFlag) <=> Complete,
    }
}

/// By hand: the variants of the message divide the names otherwise than those of the domain type.
impl OneOf<download_request::Which> for ResultName {
    fn to_variant(&self) -> download_request::Which {
        match self {
            ResultName::Stdout => download_request::Which::Stream(download_request::Stream::Stdout.into()),
            ResultName::Stderr => download_request::Which::Stream(download_request::Stream::Stderr.into()),
            ResultName::File(_) => download_request::Which::Result(RESULT_NAME.encode(self)),
        }
    }

    fn from_variant(variant: download_request::Which) -> Result<ResultName, Malformed> {
        match variant {
            download_request::Which::Result(name) => RESULT_NAME.decode("result", name),
            download_request::Which::Stream(number) => match download_request::Stream::try_from(number) {
                Ok(download_request::Stream::Stdout) => Ok(ResultName::Stdout),
                Ok(download_request::Stream::Stderr) => Ok(ResultName::Stderr),
                _ => Err(Malformed::new("stream", "1 (stdout) or 2 (stderr)", number)),
            },
        }
    }

    fn absent() -> Result<ResultName, Malformed> {
        Err(Malformed::missing("", "result or stream"))
    }

    #[cfg(test)]
    fn strategy() -> proptest::strategy::BoxedStrategy<ResultName> {
        RESULT_NAME.strategy()
    }
}

impl From<&SealedFile> for Fetchable {
    fn from(file: &SealedFile) -> Fetchable {
        Fetchable { name: file.name.clone(), size: file.size, sha256: file.sha256 }
    }
}

impl From<&LeftOut> for OmittedFile {
    fn from(left: &LeftOut) -> OmittedFile {
        let word = left.reason.word().to_owned();
        OmittedFile { name: left.name.clone(), word, why: left.reason.to_string() }
    }
}
