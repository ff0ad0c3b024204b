//! What a job left behind, read without trusting it.
//!
//! A job may make anything in its folder: links to files that only the server may read, pipes that no process
//! writes to, a million files, names that are none. Results are regular files with valid names; what is not is
//! reported with its reason and never opened.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::str::FromStr;

use pliant_model::Time;
use rustix::fs::FileType;
use serde::{Deserialize, Serialize};

use super::adopt::{Inputs, WORK};
use super::error::StagingError;
use super::folder::{Entry, Folder};
use super::names::{FileName, NameError, NameProblem, shown};

/// How clients name a result: `stdout`, `stderr`, or `work/` and a [`FileName`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ResultName {
    /// What the job wrote on its standard output.
    Stdout,
    /// What it wrote on its standard error.
    Stderr,
    /// A file in its working folder.
    File(FileName),
}

/// How much is given back of one job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResultLimits {
    /// Files in the working folder.
    pub files: usize,
    /// Bytes of those files and of the standard outputs together. Holes of sparse files count: they are read like data.
    pub bytes: u64,
}

/// A file that a job left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResultFile {
    /// What it is.
    pub name: ResultName,
    /// Its size in bytes.
    pub size: u64,
    /// When it was last written to, since the Unix epoch.
    pub modified: Time,
}

/// What a job left.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Results {
    /// The standard outputs, then the files in the order of their names, folder by folder.
    pub files: Vec<ResultFile>,
    /// What is not given back, as far as it fits in [`Results::LEFT_OUT_MAX`].
    pub left_out: Vec<LeftOut>,
    /// How much is not given back.
    pub left_out_count: usize,
    /// The input files that the job left as they were, as far as their names fit in [`Results::NAME_BYTES_MAX`].
    pub inputs: Vec<FileName>,
}

/// Something in the working folder that is not given back.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LeftOut {
    /// Its name, escaped and cut so that it can be shown.
    pub name: String,
    /// Why.
    pub reason: LeftOutReason,
}

/// Why something is not given back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeftOutReason {
    /// It is a symbolic link, a pipe, a socket or a device.
    NotAFile,
    /// Its name is no [`FileName`].
    Name,
    /// It lies too deep.
    Depth,
    /// There are more files than are given back.
    Count,
    /// With it there would be more bytes than are given back.
    Size,
    /// With its name the names would be longer than [`Results::NAME_BYTES_MAX`].
    Names,
    /// It cannot be read.
    Unreadable,
}

/// A result, open.
#[derive(Debug)]
pub struct ResultReader {
    file: File,
    size: u64,
}

/// Lists the results of the job in `job_dir`: stdout, stderr and the files in its working folder that are not
/// its unchanged inputs. A job that runs may be listed too.
///
/// # Errors
///
/// If the job's folder itself cannot be read. What is wrong *in* it is left out and reported.
pub fn results(job_dir: &Path, limits: ResultLimits) -> Result<Results, StagingError> {
    let job = Folder::open(job_dir)?;
    // A job that spoils the list of its inputs gets them all back.
    let inputs = Inputs::read(&job).ok().flatten().unwrap_or_default();
    let mut walk = Walk {
        inputs,
        bytes_left: limits.bytes,
        files_left: limits.files,
        name_bytes_left: Results::NAME_BYTES_MAX,
        input_name_bytes_left: Results::NAME_BYTES_MAX,
        entries_left: limits.files.saturating_mul(2).saturating_add(Results::ENTRIES_BEYOND),
        found: Results::default(),
    };
    for name in [ResultName::Stdout, ResultName::Stderr] {
        if let Ok(Some((_, metadata))) = job.file(&name.to_string()) {
            walk.output(name, &metadata);
        }
    }
    match job.child(WORK) {
        Ok(Some(work)) => walk.folder(&work, "", 1),
        Ok(None) => {}
        Err(_) => walk.leave_out(WORK, LeftOutReason::NotAFile),
    }
    Ok(walk.found)
}

/// Opens a result for reading from `offset`.
///
/// # Errors
///
/// [`StagingError::NoResult`], [`StagingError::NotAFile`], [`StagingError::BehindEnd`]; or the disk's.
pub fn open_result(job_dir: &Path, name: &ResultName, offset: u64) -> Result<ResultReader, StagingError> {
    let none = || StagingError::NoResult { name: name.to_string() };
    let mut folder = match Folder::open(job_dir) {
        // It has not started yet, or its files were removed.
        Err(StagingError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Err(none());
        }
        opened => opened?,
    };
    let last = match name {
        ResultName::Stdout | ResultName::Stderr => &name.to_string(),
        ResultName::File(name) => {
            for component in std::iter::once(WORK).chain(name.folders()) {
                folder = folder.child(component)?.ok_or_else(none)?;
            }
            name.last()
        }
    };
    let (mut file, metadata) = folder.file(last)?.ok_or_else(none)?;
    let size = metadata.len();
    if offset > size {
        return Err(StagingError::BehindEnd { name: name.to_string(), size, offset });
    }
    file.seek(SeekFrom::Start(offset)).map_err(|error| StagingError::io(folder.path_of(last), error))?;
    Ok(ResultReader { file, size })
}

/// Opens a regular file in a folder for reading, through no symbolic link; none if there is nothing of that name.
///
/// # Errors
///
/// [`StagingError::NotAFile`], also of a folder that the name has in it; or the disk's.
pub fn open_file(folder: &Path, name: &FileName) -> Result<Option<File>, StagingError> {
    let mut folder = Folder::open(folder)?;
    for component in name.folders() {
        let Some(child) = folder.child(component)? else { return Ok(None) };
        folder = child;
    }
    Ok(folder.file(name.last())?.map(|(file, _)| file))
}

struct Walk {
    inputs: Inputs,
    bytes_left: u64,
    files_left: usize,
    name_bytes_left: usize,
    /// The same for the names of inputs.
    input_name_bytes_left: usize,
    /// How many entries are looked at, whatever they are.
    entries_left: usize,
    found: Results,
}

impl Walk {
    fn folder(&mut self, folder: &Folder, path: &str, depth: usize) {
        let Ok((entries, all)) = folder.entries(self.entries_left) else {
            return self.leave_out(path, LeftOutReason::Unreadable);
        };
        self.entries_left -= entries.len();
        for entry in entries {
            let name = entry.name.to_string_lossy();
            let path = if path.is_empty() { name.into_owned() } else { format!("{path}/{name}") };
            if let Err(reason) = self.entry(folder, &entry, &path, depth) {
                self.leave_out(&path, reason);
            }
        }
        if !all {
            self.leave_out(&format!("{path}/..."), LeftOutReason::Count);
        }
    }

    fn entry(
        &mut self,
        folder: &Folder,
        entry: &Entry,
        path: &str,
        depth: usize,
    ) -> Result<(), LeftOutReason> {
        let last = entry.name.to_str().map_err(|_| LeftOutReason::Name)?;
        let name = path.parse::<FileName>().map_err(|error| match error.problem {
            NameProblem::Depth => LeftOutReason::Depth,
            _ => LeftOutReason::Name,
        })?;
        match entry.kind {
            FileType::Directory if depth == FileName::DEPTH_MAX => Err(LeftOutReason::Depth),
            FileType::Directory => match folder.child(last) {
                Ok(Some(child)) => {
                    self.folder(&child, path, depth + 1);
                    Ok(())
                }
                Ok(None) => Ok(()),
                Err(error) => Err(refused(&error)),
            },
            FileType::RegularFile => match folder.file(last) {
                Ok(Some((_, metadata))) => self.file(name, &metadata),
                // Gone meanwhile.
                Ok(None) => Ok(()),
                Err(error) => Err(refused(&error)),
            },
            _ => Err(LeftOutReason::NotAFile),
        }
    }

    /// Lists a standard output, which counts for the bytes alone.
    fn output(&mut self, name: ResultName, metadata: &Metadata) {
        match self.bytes_left.checked_sub(metadata.len()) {
            Some(left) => {
                self.bytes_left = left;
                self.found.files.push(ResultFile::new(name, metadata));
            }
            None => self.leave_out(&name.to_string(), LeftOutReason::Size),
        }
    }

    fn file(&mut self, name: FileName, metadata: &Metadata) -> Result<(), LeftOutReason> {
        if self.inputs.has_unchanged(name.as_str(), metadata) {
            if let Some(left) = self.input_name_bytes_left.checked_sub(name.as_str().len()) {
                self.input_name_bytes_left = left;
                self.found.inputs.push(name);
                return Ok(());
            }
            // Its absence from the list must not mean that it was removed.
            return Err(LeftOutReason::Names);
        }
        if self.files_left == 0 {
            return Err(LeftOutReason::Count);
        }
        let name_bytes_left =
            self.name_bytes_left.checked_sub(name.as_str().len()).ok_or(LeftOutReason::Names)?;
        self.bytes_left = self.bytes_left.checked_sub(metadata.len()).ok_or(LeftOutReason::Size)?;
        self.name_bytes_left = name_bytes_left;
        self.files_left -= 1;
        self.found.files.push(ResultFile::new(ResultName::File(name), metadata));
        Ok(())
    }

    fn leave_out(&mut self, name: &str, reason: LeftOutReason) {
        self.found.left_out_count += 1;
        if self.found.left_out.len() < Results::LEFT_OUT_MAX {
            self.found.left_out.push(LeftOut { name: shown(name), reason });
        }
    }
}

fn refused(error: &StagingError) -> LeftOutReason {
    match error {
        StagingError::NotAFile { .. } => LeftOutReason::NotAFile,
        _ => LeftOutReason::Unreadable,
    }
}

impl Results {
    /// How many are named of those that are left out.
    pub const LEFT_OUT_MAX: usize = 100;
    /// How many bytes the names of the files in the working folder have together, at most.
    pub const NAME_BYTES_MAX: usize = 1 << 20;
    /// How many entries are looked at beyond twice the files that are given back.
    const ENTRIES_BEYOND: usize = 10_000;
}

impl ResultFile {
    fn new(name: ResultName, metadata: &Metadata) -> ResultFile {
        ResultFile { name, size: metadata.len(), modified: Time(metadata.mtime()) }
    }
}

impl ResultReader {
    /// The size of the whole file in bytes, when it was opened.
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl Read for ResultReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.file.read(buffer)
    }
}

impl fmt::Display for ResultName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("stdout"),
            Self::Stderr => f.write_str("stderr"),
            Self::File(name) => write!(f, "{WORK}/{name}"),
        }
    }
}

impl FromStr for ResultName {
    type Err = NameError;
    fn from_str(text: &str) -> Result<ResultName, NameError> {
        match text {
            "stdout" => Ok(Self::Stdout),
            "stderr" => Ok(Self::Stderr),
            _ => match text.strip_prefix("work/") {
                Some(name) => Ok(Self::File(name.parse()?)),
                None => Err(NameError { problem: NameProblem::NoResult, found: text.to_owned() }),
            },
        }
    }
}

impl TryFrom<String> for ResultName {
    type Error = NameError;
    fn try_from(text: String) -> Result<ResultName, NameError> {
        text.parse()
    }
}

impl From<ResultName> for String {
    fn from(name: ResultName) -> String {
        name.to_string()
    }
}

impl LeftOutReason {
    /// The reason as a word that does not change.
    pub fn word(self) -> &'static str {
        match self {
            Self::NotAFile => "not-a-file",
            Self::Name => "name",
            Self::Depth => "depth",
            Self::Count => "count",
            Self::Size => "size",
            Self::Names => "names",
            Self::Unreadable => "unreadable",
        }
    }
}

impl fmt::Display for LeftOutReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAFile => "not a regular file",
            Self::Name => "its name is not a valid file name",
            Self::Depth => "too deep",
            Self::Count => "too many files",
            Self::Size => "too many bytes with it; holes of sparse files count",
            Self::Names => "the names of all results are too long together",
            Self::Unreadable => "cannot be read",
        })
    }
}
