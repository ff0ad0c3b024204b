//! What can go wrong with a staged file.

use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;

use super::checksum::Checksum;
use super::names::{FileName, NameError};

/// A file that cannot be staged, or read.
#[derive(Debug)]
pub enum StagingError {
    /// The name is none.
    Name(NameError),
    /// Two names of a submission exclude each other: the same twice, or one a folder of the other.
    Clash {
        /// One of them.
        first: FileName,
        /// The other.
        second: FileName,
    },
    /// A limit of the store would be exceeded.
    Quota {
        /// Which.
        kind: QuotaKind,
        /// How much it allows: bytes, or files for those kinds that count files.
        allowed: u64,
        /// How much there would be.
        found: u64,
    },
    /// A piece does not continue what is there.
    Offset {
        /// The file.
        name: FileName,
        /// Where the next piece must begin.
        expected: u64,
        /// Where it begins.
        found: u64,
    },
    /// More bytes came than were announced. Those beyond are not kept.
    TooMuch {
        /// The file.
        name: FileName,
        /// The announced size.
        announced: u64,
        /// The size it would have now.
        found: u64,
    },
    /// Fewer bytes came than were announced. What came is kept.
    TooLittle {
        /// The file.
        name: FileName,
        /// The announced size.
        announced: u64,
        /// The size it has.
        found: u64,
    },
    /// The bytes are not those that were announced. They are deleted: the upload begins again at 0.
    Checksum {
        /// The file.
        name: FileName,
        /// What was announced.
        expected: Checksum,
        /// What came.
        found: Checksum,
    },
    /// A submission names a file that was not uploaded, not completely, or differently.
    Missing {
        /// The file.
        name: FileName,
    },
    /// The upload was handed to its job or collected as abandoned.
    Gone {
        /// The file.
        name: FileName,
    },
    /// There is no such result.
    NoResult {
        /// What was asked for.
        name: String,
    },
    /// What is there is not a regular file, or lies behind a symbolic link.
    NotAFile {
        /// What was asked for.
        name: String,
    },
    /// Reading was to begin behind the end.
    BehindEnd {
        /// What was asked for.
        name: String,
        /// Its size in bytes.
        size: u64,
        /// Where reading was to begin.
        offset: u64,
    },
    /// The disk, or the quota of this daemon on it, is full. Nothing was lost that was confirmed.
    DiskFull {
        /// What was being written.
        path: PathBuf,
    },
    /// The store and the job's folder are on different file systems.
    OtherFileSystem {
        /// The job's folder.
        path: PathBuf,
    },
    /// One of the store's own files does not make sense.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// The operating system refused.
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// A limit of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuotaKind {
    /// Bytes of one file.
    PerFile,
    /// Bytes of one submission's files, of one sender.
    PerJob,
    /// Files of one submission, of one sender.
    FilesPerJob,
    /// Bytes of one user's uploads, of one sender.
    PerUser,
    /// Bytes of all uploads.
    Total,
    /// Bytes of all uploads by servers.
    FromServers,
    /// Files of one user's uploads, of one sender.
    FilesPerUser,
    /// Files of all uploads.
    Files,
    /// Files of all uploads by servers.
    FilesFromServers,
}

impl StagingError {
    pub(crate) fn io(path: impl Into<PathBuf>, source: impl Into<std::io::Error>) -> StagingError {
        let (path, source) = (path.into(), source.into());
        match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StagingError::DiskFull { path },
            ErrorKind::CrossesDevices => StagingError::OtherFileSystem { path },
            _ => StagingError::Io { path, source },
        }
    }

    /// The same for users: without the paths of files on this host.
    pub fn public_message(&self) -> String {
        match self {
            Self::DiskFull { .. } => "the disk is full".to_owned(),
            Self::OtherFileSystem { .. } => {
                "expected the file system of the uploads, found another".to_owned()
            }
            Self::NotAFile { name } if name.starts_with('/') => {
                "expected a regular file, found something else".to_owned()
            }
            Self::Damaged { message, .. } => message.clone(),
            Self::Io { source, .. } => source.to_string(),
            _ => self.to_string(),
        }
    }

    /// True if the disk refused for want of something that comes back: the same may work later.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::DiskFull { .. } => true,
            Self::Io { source, .. } => may_pass(source),
            _ => false,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Name(error) => error.hint().to_owned(),
            Self::Clash { .. } => "give each input a name of its own".to_owned(),
            Self::Quota { kind: QuotaKind::PerFile | QuotaKind::PerJob, .. } => {
                "send less: compress the inputs or put them where the cluster can read them".to_owned()
            }
            Self::Quota { kind: QuotaKind::FilesPerJob, .. } => "put the inputs into one archive".to_owned(),
            Self::Quota { kind: QuotaKind::FilesPerUser, .. } => {
                "submit or abandon other uploads first, and put many inputs into one archive".to_owned()
            }
            Self::Quota { .. } => "submit or abandon other uploads first, or try again later".to_owned(),
            Self::Offset { expected, .. } => format!("continue at byte {expected}"),
            Self::TooMuch { .. } | Self::TooLittle { .. } | Self::Checksum { .. } => {
                "the file may have changed while it was sent: send it again".to_owned()
            }
            Self::Missing { .. } | Self::Gone { .. } => {
                "upload it again, then submit with the same key".to_owned()
            }
            Self::NoResult { .. } => "list the results of the job".to_owned(),
            Self::NotAFile { .. } => {
                "only regular files are fetched: let the job copy what its links point at".to_owned()
            }
            Self::BehindEnd { size, .. } => format!("begin at byte {size} at most"),
            Self::DiskFull { .. } => "free some space on the server, then continue".to_owned(),
            Self::OtherFileSystem { .. } => {
                "keep `incoming` and the folders of jobs on one file system".to_owned()
            }
            Self::Damaged { .. } => "remove it; its files must be uploaded again".to_owned(),
            Self::Io { .. } => "see the permissions and the health of the server's disk".to_owned(),
        }
    }
}

/// True for what a job can wait for: space on the disk, a disk that works, memory, open files, processes. It says nothing
/// about the job.
pub fn may_pass(error: &std::io::Error) -> bool {
    use rustix::io::Errno as E;
    const PASSING: [E; 7] = [E::NOSPC, E::DQUOT, E::MFILE, E::NFILE, E::AGAIN, E::NOMEM, E::IO];
    match E::from_io_error(error) {
        Some(errno) => PASSING.contains(&errno),
        None => matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded),
    }
}

impl fmt::Display for QuotaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PerFile => "bytes in one file",
            Self::PerJob => "bytes in one submission",
            Self::FilesPerJob => "files in one submission",
            Self::PerUser => "bytes in one user's uploads",
            Self::Total => "bytes in all uploads",
            Self::FromServers => "bytes in all uploads by servers",
            Self::FilesPerUser => "files in one user's uploads",
            Self::Files => "files in all uploads",
            Self::FilesFromServers => "files in all uploads by servers",
        })
    }
}

impl fmt::Display for StagingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = |name: &String| super::names::shown(name);
        match self {
            Self::Name(error) => error.fmt(f),
            Self::Clash { first, second } if first == second => {
                write!(f, "expected each input once, found `{first}` twice")
            }
            Self::Clash { first, second } => {
                write!(f, "expected inputs whose names do not conflict, found `{first}` and `{second}`")
            }
            Self::Quota { kind, allowed, found } => {
                write!(f, "expected at most {allowed} {kind}, found {found}")
            }
            Self::Offset { name, expected, found } => {
                write!(f, "`{name}`: expected a piece from byte {expected}, found one from byte {found}")
            }
            Self::TooMuch { name, announced, found } | Self::TooLittle { name, announced, found } => {
                write!(f, "`{name}`: expected the announced {announced} bytes, found {found}")
            }
            Self::Checksum { name, expected, found } => {
                write!(f, "`{name}`: expected the announced checksum {expected}, found {found}")
            }
            Self::Missing { name } => {
                write!(f, "`{name}`: expected it uploaded as announced, found it is not")
            }
            Self::Gone { name } => {
                write!(f, "`{name}`: expected an upload, found it handed over or abandoned")
            }
            Self::NoResult { name } => write!(f, "expected a result, found no `{}`", escaped(name)),
            Self::NotAFile { name } => {
                write!(f, "`{}`: expected a regular file, found something else", escaped(name))
            }
            Self::BehindEnd { name, size, offset } => {
                write!(f, "`{}`: expected a start in its {size} bytes, found byte {offset}", escaped(name))
            }
            Self::DiskFull { path } => write!(f, "{}: the disk is full", path.display()),
            Self::OtherFileSystem { path } => {
                write!(f, "{}: expected the file system of the uploads, found another", path.display())
            }
            Self::Damaged { path, message } => write!(f, "{}: {message}", path.display()),
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

impl std::error::Error for StagingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Name(error) => Some(error),
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<NameError> for StagingError {
    fn from(error: NameError) -> StagingError {
        StagingError::Name(error)
    }
}
