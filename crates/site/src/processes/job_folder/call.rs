//! What a server asks of the process that has a job's folder, and its answers.

use std::collections::BTreeMap;
use std::io::{self, BufRead, ErrorKind, Read};
use std::path::PathBuf;

use pliant_staging::{FileName, FileSpec, ResultLimits, ResultName, SealedResults, StagingError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::FilesError;
use crate::processes::{
    FileUsage, FoundState, Marks, Reservation, RunSpec, StartPermit, Streams, TaskAddresses, TaskEnd,
};

/// The longest line of a call: a manifest of the most files with the longest names.
pub(super) const CALL_BYTES_MAX: u64 = 64 << 20;
/// The longest line of an answer. The user can make it as long as that.
pub(super) const REPLY_BYTES_MAX: u64 = 32 << 20;

/// What is asked for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Call {
    /// Takes the files of the job: the bytes of the script, of the tasks and of all files follow, in this order.
    Put {
        /// What its supervisor runs, where the records are there, too: on that many processors, if several sizes will do.
        #[serde(default)]
        specs: Vec<(Option<u32>, RunSpec)>,
        /// Bytes of the script, if there is one.
        script: Option<u64>,
        /// Bytes of the list of tasks, if there is one.
        tasks: Option<u64>,
        inputs: Vec<FileSpec>,
        shared: Vec<FileSpec>,
    },
    /// Becomes the job's program, in the work folder or in another folder of the account.
    Start {
        program: Vec<String>,
        env: BTreeMap<String, String>,
        place: Option<PathBuf>,
        #[serde(default)]
        streams: Streams,
    },
    /// Makes the files of the job's standard output and error, and sends them open along with the answer.
    Outputs,
    /// Sums up what the job, or a task of it, has left.
    Results { task: Option<FileName>, limits: ResultLimits },
    /// Sends a result from an offset on.
    Open { task: Option<FileName>, name: ResultName, offset: u64 },
    /// Says how long the longest instance of a batch took.
    Longest,
    /// Deletes everything in the folder.
    Empty,
    /// Deletes everything in the folder but the job's standard output and error, as far as each has at most so many bytes.
    KeepOutputs { most: u64 },
    /// Measures what all files of the job use, up to so many files; those without a name that the job of a supervisor has open, and the
    /// memory that belongs to no process of the job of a supervisor, if one is named.
    Usage {
        most: u64,
        #[serde(default)]
        files_of: Option<i32>,
        #[serde(default)]
        memory_of: Option<i32>,
    },
    /// Kills what is left of the job.
    EndSurvivors { marks: Marks },
    /// Removes what the account has left in memory, if it has no other process but the one that measures its files.
    RemoveLeftovers { meter: Option<i32> },
    /// Finds out how the job stands. What is left of one whose supervisor died is killed.
    Find,
    /// Has the supervisor end the job, or start nothing.
    AskEnd,
    /// Reads the last line of a file that the batch system has written.
    LastLine { file: FileName },
    /// Reads how the tasks of a subjob ended, if their number of bytes is another than that.
    TaskEnds { unless: u64 },
    /// Does something with the start gate that the folder is.
    Gate(GateCall),
}

/// What is asked for of a start gate.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum GateCall {
    /// Makes it, with what a supervisor is to reserve.
    Create(Option<Reservation>),
    /// Decides, unless that was done before.
    Decide(StartPermit),
    /// Says whether a supervisor waits for a decision.
    HasArrived,
    /// Says where the tasks will listen.
    Addresses,
}

/// The answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reply {
    /// The files are there.
    Put,
    /// The files are sent along.
    Outputs,
    /// What was summed up.
    Results(SealedResults),
    /// The bytes of a result follow.
    Content,
    /// The longest time, if it is known.
    Longest(Option<u64>),
    /// What the files use.
    Usage(FileUsage),
    /// So many processes were left.
    Ended { killed: usize },
    /// How the job stands.
    Found(FoundState),
    /// It was done.
    Done,
    /// A line, if there is one.
    LastLine(Option<String>),
    /// How many bytes there are of the ends of tasks, and the ends, if they were wanted.
    TaskEnds(u64, Option<Vec<TaskEnd>>),
    /// What is decided.
    Decided(StartPermit),
    /// Whether a supervisor waits; none if none has come yet.
    Arrived(Option<bool>),
    /// Where tasks will listen, if that is known.
    Addresses(Option<TaskAddresses>),
    /// It cannot be done.
    Failed(Failed),
}

/// Why something cannot be done.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Failed {
    NoResult { name: String },
    NotAFile { name: String },
    BehindEnd { name: String, size: u64, offset: u64 },
    DiskFull { path: PathBuf },
    Other { message: String, may_pass: bool },
}

impl From<StagingError> for Failed {
    fn from(error: StagingError) -> Failed {
        match error {
            StagingError::NoResult { name } => Failed::NoResult { name },
            StagingError::NotAFile { name } => Failed::NotAFile { name },
            StagingError::BehindEnd { name, size, offset } => Failed::BehindEnd { name, size, offset },
            StagingError::DiskFull { path } => Failed::DiskFull { path },
            error => Failed::Other { message: error.public_message(), may_pass: error.may_pass() },
        }
    }
}

impl Failed {
    /// The error, about the folder of an account.
    pub(super) fn into_error(self, folder: PathBuf) -> FilesError {
        FilesError::OfAccount(match self {
            Failed::NoResult { name } => StagingError::NoResult { name },
            Failed::NotAFile { name } => StagingError::NotAFile { name },
            Failed::BehindEnd { name, size, offset } => StagingError::BehindEnd { name, size, offset },
            Failed::DiskFull { path } => StagingError::DiskFull { path },
            Failed::Other { message, may_pass } => {
                // The kind by which what may pass is known.
                let kind = if may_pass { ErrorKind::StorageFull } else { ErrorKind::Other };
                StagingError::Io { path: folder, source: io::Error::new(kind, message) }
            }
        })
    }
}

/// The line of a call or of an answer.
pub(super) fn line(content: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(content).expect("calls and answers are plain data with text keys");
    line.push(b'\n');
    line
}

/// Reads the line of a call or of an answer, of at most so many bytes.
pub(super) fn read_line<T: DeserializeOwned>(input: &mut impl BufRead, most: u64) -> io::Result<T> {
    let mut line = Vec::new();
    input.take(most).read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        let why = if line.len() as u64 == most { "a line that is too long" } else { "the end" };
        return Err(io::Error::new(ErrorKind::InvalidData, format!("expected a line, found {why}")));
    }
    serde_json::from_slice(&line).map_err(io::Error::from)
}
