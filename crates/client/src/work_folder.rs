//! The folder of work that outlives its client: what the work is, and a journal of its events. Another client resumes from it.
//!
//! | in the folder | content |
//! |---|---|
//! | `sweep.json` or `exploration.json` | the header: what the work is, with a version; written once |
//! | `journal.jsonl` | a line for each event, in order; it only grows |
//! | `lock` | locked while a client works |
//!
//! An incomplete last line was being written when the client died. It is dropped.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use pliant_staging::FileSpec;
use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const JOURNAL: &str = "journal.jsonl";
const LOCK: &str = "lock";

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

/// A folder of work, for one client at a time.
#[derive(Debug)]
pub struct WorkFolder<W> {
    dir: PathBuf,
    journal: File,
    /// Lines that are not written yet.
    lines: Vec<u8>,
    /// Locked as long as the folder is open.
    _lock: File,
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
        Ok(WorkFolder { dir, journal, lines: Vec::new(), _lock: lock, work })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The header; none if the folder is new.
    pub(crate) fn header(&self) -> Result<Option<W>, FolderError> {
        #[derive(Deserialize)]
        struct Schema {
            schema: String,
        }
        let path = self.dir.join(W::HEADER);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(at(&path))?,
        };
        let unreadable = |source| FolderError::Unreadable { location: path.display().to_string(), source };
        // Only a later version may know the other fields.
        let Schema { schema } = serde_json::from_slice(&text).map_err(unreadable)?;
        self.expect("schema", W::SCHEMA, schema.as_str())?;
        let Versioned { work, .. } = serde_json::from_slice::<Versioned<W>>(&text).map_err(unreadable)?;
        match work.problem() {
            Some(problem) => Err(unreadable(serde::de::Error::custom(problem))),
            None => Ok(Some(work)),
        }
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
        let (dir, expected, found) = (self.dir.clone(), expected.to_string(), found.to_string());
        FolderError::Mismatch { dir, what, expected, found }
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
            let unreadable =
                |source| FolderError::Unreadable { location: format!("{}:{number}", path.display()), source };
            let entry: W::Entry = serde_json::from_slice(&line).map_err(unreadable)?;
            if let Some(problem) = work.problem_of(&entry) {
                return Err(unreadable(serde::de::Error::custom(problem)));
            }
            visit(offset, entry);
            offset += length;
        }
    }

    /// The entry of the line at that offset.
    pub(crate) fn line(&mut self, offset: u64) -> Result<W::Entry, FolderError> {
        let path = self.dir.join(JOURNAL);
        let mut reader = &self.journal;
        reader.seek(SeekFrom::Start(offset)).map_err(at(&path))?;
        let mut line = Vec::new();
        // Few lines are longer.
        BufReader::with_capacity(512, reader).read_until(b'\n', &mut line).map_err(at(&path))?;
        let unreadable = |source| FolderError::Unreadable { location: path.display().to_string(), source };
        serde_json::from_slice(&line).map_err(unreadable)
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
mod tests {
    use super::*;

    /// Counts to a number, a step a line.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    struct Count {
        to: u32,
    }

    impl Work for Count {
        type Entry = u32;
        type State = Vec<u32>;
        type Command = u32;
        const KIND: &'static str = "a count";
        const SCHEMA: &'static str = "pliant.count/2";
        const HEADER: &'static str = "count.json";
        const FOREIGN: &'static [&'static str] = &["results.csv"];

        fn problem(&self) -> Option<String> {
            (self.to == 0).then(|| "expected a number above 0".to_owned())
        }

        fn problem_of(&self, entry: &u32) -> Option<String> {
            (*entry > self.to).then(|| format!("expected {} at most, found {entry}", self.to))
        }

        fn start(&self) -> Vec<u32> {
            Vec::new()
        }

        fn apply(state: &mut Vec<u32>, entry: u32, commands: &mut Vec<u32>) {
            assert!(commands.is_empty(), "an earlier client carried out earlier commands");
            state.push(entry);
            commands.push(entry);
        }
    }

    fn open(dir: &Path) -> WorkFolder<Count> {
        WorkFolder::open(dir).unwrap()
    }

    fn lines(folder: &mut WorkFolder<Count>) -> Vec<(u64, u32)> {
        let mut found = Vec::new();
        folder.replay(&Count { to: 9 }, |offset, entry| found.push((offset, entry))).unwrap();
        found
    }

    #[test]
    fn an_incomplete_last_line_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = open(dir.path());
        assert!(matches!(WorkFolder::<Count>::open(dir.path()), Err(FolderError::InUse { .. })));
        folder.append(&1);
        folder.append(&2);
        folder.flush(true).unwrap();
        folder.journal.set_len(3).unwrap();
        assert_eq!(lines(&mut folder), [(0, 1)]);
        folder.append(&3);
        folder.flush(false).unwrap();
        assert_eq!(lines(&mut folder), [(0, 1), (2, 3)]);
        assert_eq!(folder.line(2).unwrap(), 3);
    }

    #[test]
    fn folders_of_other_work_are_refused() {
        let refused = |result: Result<(), FolderError>| result.unwrap_err().to_string();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "a table of mine").unwrap();
        let error = refused(WorkFolder::<Count>::open(&file).map(drop));
        assert!(error.ends_with("expected a folder, found a file"), "{error}");
        assert!(matches!(WorkFolder::<Count>::existing(dir.path()), Err(FolderError::Empty { .. })));
        for other in ["journal.jsonl", "results.csv"] {
            let dir = tempfile::tempdir().unwrap();
            let folder = open(dir.path());
            fs::write(dir.path().join(other), "mine").unwrap();
            let error = refused(folder.begin(&Count { to: 1 }));
            let expected = format!("expected an empty one or one of a count, found {other}");
            assert!(error.ends_with(&expected), "{error}");
            assert_eq!(fs::read(dir.path().join(other)).unwrap(), b"mine");
        }
    }

    #[test]
    fn headers_and_lines_are_checked() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = open(dir.path());
        assert_eq!(folder.header().unwrap(), None);
        folder.begin(&Count { to: 4 }).unwrap();
        assert_eq!(folder.header().unwrap(), Some(Count { to: 4 }));
        let check = |header: &str, expected: &str| {
            fs::write(dir.path().join("count.json"), header).unwrap();
            let error = folder.header().unwrap_err().to_string();
            assert!(error.contains(expected), "{header}: {error}");
        };
        check(
            r#"{"schema":"pliant.count/3","upto":9}"#,
            "schema: expected pliant.count/2, found pliant.count/3",
        );
        check(r#"{"schema":"pliant.count/2","to":0}"#, "count.json: is not valid: expected a number above 0");
        check(r#"{"schema":"pliant.count/2"}"#, "missing field `to`");
        folder.append(&4);
        folder.append(&5);
        folder.flush(true).unwrap();
        let error = folder.replay(&Count { to: 4 }, |_, _| {}).unwrap_err().to_string();
        assert!(
            error.contains("journal.jsonl:2") && error.contains("expected 4 at most, found 5"),
            "{error}"
        );
    }

    #[test]
    fn removed_work_can_begin_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = open(dir.path());
        folder.begin(&Count { to: 4 }).unwrap();
        folder.append(&1);
        folder.flush(false).unwrap();
        folder.forget().unwrap();
        assert_eq!(folder.header().unwrap(), None);
        folder.begin(&Count { to: 5 }).unwrap();
        assert_eq!(lines(&mut folder), []);
    }
}
