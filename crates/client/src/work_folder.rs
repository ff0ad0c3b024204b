//! The folder of work that outlives its client: what the work is, and a journal of its events. Another client resumes from it.
//!
//! | in the folder | content |
//! |---|---|
//! | `sweep.json` or `exploration.json` | the header: what the work is, with a version; written once |
//! | `journal.jsonl` | a line for each event, in order; it only grows |
//! | `lock` | locked while a client works, which also renews its time |
//!
//! An incomplete last line was being written when the client died. It is dropped.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pliant_staging::FileSpec;
use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub(crate) const JOURNAL: &str = "journal.jsonl";
pub(crate) const LOCK: &str = "lock";

/// A kind of work that outlives its client. A value of it is the header of a folder.
pub trait Work: Serialize + DeserializeOwned {
    /// A line of the journal.
    type Entry: Serialize + DeserializeOwned;
    /// What the journal says of the work: replaying the journal makes it again.
    type State;
    /// What the state demands of its client after an entry.
    type Command;
    /// What messages call the work, with its article.
    const KIND: &'static str;
    /// The name and the version of the header's format.
    const SCHEMA: &'static str;
    /// The file of the header.
    const HEADER: &'static str;
    /// Files that belong to other work if there is no such header.
    const FOREIGN: &'static [&'static str];
    /// Folders in the folder.
    const SUBFOLDERS: &'static [&'static str] = &[];

    /// What is wrong with the header, if anything is.
    fn problem(&self) -> Option<String>;

    /// What is wrong with a line of the journal, if anything is.
    fn problem_of(&self, entry: &Self::Entry) -> Option<String>;

    /// The state before the first entry.
    fn start(&self) -> Self::State;

    /// Takes an entry into the state and appends what is to be done. A client that resumes the work drops these commands: they
    /// were carried out before.
    fn apply(state: &mut Self::State, entry: Self::Entry, commands: &mut Vec<Self::Command>);

    /// When the journal has to be on the disk.
    fn durability(_: &Self::Entry) -> Durability {
        Durability::Buffered
    }
}

/// When the journal has to be on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// Whenever the operating system writes it.
    Buffered,
    /// All earlier entries, before this one is written.
    SyncBefore,
    /// This entry, before a command is carried out.
    SyncAfter,
}

/// A folder that cannot be used.
#[derive(Debug)]
pub enum FolderError {
    /// A file cannot be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another client works on it.
    InUse {
        /// The folder.
        dir: PathBuf,
    },
    /// The header or a line of the journal is not valid.
    Unreadable {
        /// The file, with the line number in a journal.
        location: String,
        /// Why.
        source: serde_json::Error,
    },
    /// It belongs to other work.
    Mismatch {
        /// The folder.
        dir: PathBuf,
        /// What differs.
        what: &'static str,
        /// What was asked for.
        expected: String,
        /// What the folder says.
        found: String,
    },
    /// There is no work in it.
    Empty {
        /// The folder.
        dir: PathBuf,
    },
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Self::InUse { dir } => write!(f, "{}: another client works on it", dir.display()),
            Self::Unreadable { location, source } => write!(f, "{location}: is not valid: {source}"),
            Self::Mismatch { dir, what, expected, found } => {
                write!(f, "{}: {what}: expected {expected}, found {found}", dir.display())
            }
            Self::Empty { dir } => {
                write!(
                    f,
                    "{}: expected a folder of a sweep or an exploration, found no header",
                    dir.display()
                )
            }
        }
    }
}

impl std::error::Error for FolderError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Unreadable { source, .. } => Some(source),
            Self::InUse { .. } | Self::Mismatch { .. } | Self::Empty { .. } => None,
        }
    }
}

/// An error at a file.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> FolderError {
    move |source| FolderError::Io { path: path.to_owned(), source }
}

/// Input files with what identifies them.
pub(crate) fn named<'a>(files: impl Iterator<Item = &'a FileSpec>) -> String {
    let file =
        |file: &FileSpec| format!("{} ({} bytes, SHA-256 {})", file.name.as_str(), file.size, file.sha256);
    let files: Vec<String> = files.map(file).collect();
    if files.is_empty() { "none".to_owned() } else { files.join(", ") }
}

/// A header in its file.
#[derive(Serialize, Deserialize)]
struct Versioned<W> {
    schema: String,
    #[serde(flatten)]
    work: W,
}

/// The header in a folder, and its text; none if there is none.
pub(crate) fn header_in<W: Work>(dir: &Path) -> Result<Option<(W, Vec<u8>)>, FolderError> {
    #[derive(Deserialize)]
    struct Schema {
        schema: String,
    }
    let path = dir.join(W::HEADER);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(at(&path))?,
    };
    let unreadable = |source| FolderError::Unreadable { location: path.display().to_string(), source };
    // Only a later version may know the other fields.
    let Schema { schema } = serde_json::from_slice(&text).map_err(unreadable)?;
    if schema != W::SCHEMA {
        return Err(mismatch(dir, "schema", W::SCHEMA, &schema));
    }
    let Versioned { work, .. } = serde_json::from_slice::<Versioned<W>>(&text).map_err(unreadable)?;
    match work.problem() {
        Some(problem) => Err(unreadable(serde::de::Error::custom(problem))),
        None => Ok(Some((work, text))),
    }
}

fn mismatch<T: fmt::Display + ?Sized, F: fmt::Display + ?Sized>(
    dir: &Path,
    what: &'static str,
    expected: &T,
    found: &F,
) -> FolderError {
    let (dir, expected, found) = (dir.to_owned(), expected.to_string(), found.to_string());
    FolderError::Mismatch { dir, what, expected, found }
}

/// The entry of a line of the journal.
pub(crate) fn entry_of<W: Work>(
    work: &W,
    line: &[u8],
    path: &Path,
    number: u64,
) -> Result<W::Entry, FolderError> {
    let unreadable =
        |source| FolderError::Unreadable { location: format!("{}:{number}", path.display()), source };
    let entry: W::Entry = serde_json::from_slice(line).map_err(unreadable)?;
    match work.problem_of(&entry) {
        Some(problem) => Err(unreadable(serde::de::Error::custom(problem))),
        None => Ok(entry),
    }
}

/// A folder of work, for one client at a time.
#[derive(Debug)]
pub struct WorkFolder<W> {
    dir: PathBuf,
    journal: File,
    /// Lines that are not written yet.
    lines: Vec<u8>,
    /// Locked as long as the folder is open.
    lock: File,
    work: std::marker::PhantomData<fn() -> W>,
}

impl<W: Work> WorkFolder<W> {
    /// True if there is such work in a folder.
    pub fn exists(dir: &Path) -> bool {
        dir.join(W::HEADER).exists()
    }

    /// Opens the folder of such work.
    ///
    /// # Errors
    ///
    /// If there is no such work in it, it cannot be written, or another client works on it.
    pub fn existing(dir: &Path) -> Result<WorkFolder<W>, FolderError> {
        match dir.join(W::HEADER).try_exists() {
            Ok(true) => WorkFolder::open(dir),
            Ok(false) => Err(FolderError::Empty { dir: dir.to_owned() }),
            Err(error) => Err(at(dir)(error)),
        }
    }

    /// Opens a folder, and creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// If it cannot be written, or another client works on it.
    pub fn open(dir: &Path) -> Result<WorkFolder<W>, FolderError> {
        if dir.exists() && !dir.is_dir() {
            let (dir, expected, found) = (dir.to_owned(), "a folder".to_owned(), "a file".to_owned());
            return Err(FolderError::Mismatch { dir, what: "folder of the work", expected, found });
        }
        for dir in [dir.to_owned()].into_iter().chain(W::SUBFOLDERS.iter().map(|name| dir.join(name))) {
            fs::create_dir_all(&dir).map_err(at(&dir))?;
        }
        let path = dir.join(LOCK);
        let lock = File::options().create(true).append(true).open(&path).map_err(at(&path))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| FolderError::InUse { dir: dir.to_owned() })?;
        let path = dir.join(JOURNAL);
        let journal = File::options().create(true).append(true).read(true).open(&path).map_err(at(&path))?;
        let (dir, work) = (dir.to_owned(), std::marker::PhantomData);
        Ok(WorkFolder { dir, journal, lines: Vec::new(), lock, work })
    }

    /// Removes the folder of work that has no entry yet, unless anything else is in it. Returns whether it is gone.
    ///
    /// # Errors
    ///
    /// If it cannot be read or removed, or a client works on it.
    pub fn remove_if_unbegun(dir: &Path) -> Result<bool, FolderError> {
        let folder = WorkFolder::<W>::open(dir)?;
        let own = [LOCK, JOURNAL, W::HEADER];
        for entry in fs::read_dir(dir).map_err(at(dir))? {
            let name = entry.map_err(at(dir))?.file_name();
            if !own.iter().any(|own| name == *own) {
                return Ok(false);
            }
        }
        if folder.journal.metadata().map_err(at(dir))?.len() > 0 {
            return Ok(false);
        }
        for name in own {
            match fs::remove_file(dir.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(at(&dir.join(name))(error));
                }
                _ => {}
            }
        }
        fs::remove_dir(dir).map_err(at(dir))?;
        Ok(true)
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The header; none if the folder is new.
    pub(crate) fn header(&self) -> Result<Option<W>, FolderError> {
        Ok(header_in(&self.dir)?.map(|(work, _)| work))
    }

    /// Begins the work in an empty folder.
    ///
    /// # Errors
    ///
    /// If the folder belongs to other work, or cannot be written.
    pub(crate) fn begin(&self, work: &W) -> Result<(), FolderError> {
        let is_there = |name: &&&str| fs::metadata(self.dir.join(name)).is_ok_and(|file| file.len() > 0);
        if let Some(found) = [JOURNAL].iter().chain(W::FOREIGN).find(is_there) {
            let expected = format!("an empty one or one of {}", W::KIND);
            return Err(self.other("folder", &expected, found));
        }
        let versioned = Versioned { schema: W::SCHEMA.to_owned(), work };
        let text = serde_json::to_vec(&versioned).expect("a header is plain data with text keys");
        self.replace(Path::new(W::HEADER), &text, true)
    }

    /// Removes header and journal.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written.
    pub(crate) fn forget(&mut self) -> Result<(), FolderError> {
        self.lines.clear();
        self.journal.set_len(0).map_err(at(&self.dir.join(JOURNAL)))?;
        let header = self.dir.join(W::HEADER);
        fs::remove_file(&header).map_err(at(&header))
    }

    /// An error unless the two are equal.
    pub(crate) fn expect<T: fmt::Display + PartialEq + ?Sized>(
        &self,
        what: &'static str,
        expected: &T,
        found: &T,
    ) -> Result<(), FolderError> {
        if expected == found { Ok(()) } else { Err(self.other(what, expected, found)) }
    }

    fn other<T: fmt::Display + ?Sized, F: fmt::Display + ?Sized>(
        &self,
        what: &'static str,
        expected: &T,
        found: &F,
    ) -> FolderError {
        mismatch(&self.dir, what, expected, found)
    }

    /// The work that an earlier client began, in the state that its journal says; none if the folder is new.
    pub(crate) fn resume(&mut self) -> Result<Option<(W, W::State)>, FolderError> {
        let Some(work) = self.header()? else { return Ok(None) };
        let (mut state, mut carried_out) = (work.start(), Vec::new());
        self.replay(&work, |_, entry| {
            W::apply(&mut state, entry, &mut carried_out);
            carried_out.clear();
        })?;
        Ok(Some((work, state)))
    }

    /// Calls `visit` for each entry, in order, with the offset of its line. Removes an incomplete last line.
    pub(crate) fn replay(
        &mut self,
        work: &W,
        mut visit: impl FnMut(u64, W::Entry),
    ) -> Result<(), FolderError> {
        let path = self.dir.join(JOURNAL);
        let mut reader = BufReader::new(File::open(&path).map_err(at(&path))?);
        let (mut offset, mut number, mut line) = (0, 0, Vec::new());
        loop {
            line.clear();
            let length = reader.read_until(b'\n', &mut line).map_err(at(&path))? as u64;
            number += 1;
            if line.last() != Some(&b'\n') {
                return self.journal.set_len(offset).map_err(at(&path));
            }
            visit(offset, entry_of(work, &line, &path, number)?);
            offset += length;
        }
    }

    /// Appends an entry, which the next [`flush`](WorkFolder::flush) writes.
    pub(crate) fn append(&mut self, entry: &W::Entry) {
        serde_json::to_writer(&mut self.lines, entry).expect("an entry is plain data with text keys");
        self.lines.push(b'\n');
    }

    /// Writes the lines; with `durable` they are on the disk afterwards.
    pub(crate) fn flush(&mut self, durable: bool) -> Result<(), FolderError> {
        let path = self.dir.join(JOURNAL);
        let written = self.journal.write_all(&self.lines);
        self.lines.clear();
        let written = written.and_then(|()| if durable { self.journal.sync_data() } else { Ok(()) });
        written.map_err(at(&path))
    }

    /// Shows readers that a client works on the folder: they cannot ask the lock without taking it.
    pub(crate) fn beat(&self) {
        // A reader that does not see it says that no client works, which changes nothing.
        let _ = self.lock.set_modified(SystemTime::now());
    }

    /// Replaces a file atomically; with `durable` it is on the disk afterwards.
    pub(crate) fn replace(&self, name: &Path, content: &[u8], durable: bool) -> Result<(), FolderError> {
        let (path, part) = (self.dir.join(name), self.dir.join("part"));
        let written = File::create(&part).and_then(|mut file| {
            file.write_all(content)?;
            if durable {
                file.sync_all()?;
            }
            fs::rename(&part, &path)?;
            if durable { File::open(&self.dir)?.sync_all() } else { Ok(()) }
        });
        written.map_err(at(&path))
    }
}

#[cfg(test)]
pub(crate) mod tests;
