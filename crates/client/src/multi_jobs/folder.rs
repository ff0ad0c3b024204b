//! The folder of a multi-job: what it is, and all that has happened to it.
//!
//! | in the folder | what |
//! |---|---|
//! | `sweep.json` | the service, the arguments, how instances are spread; written once |
//! | `journal.jsonl` | a line for each pack that was handed out, accepted or ended, for each instance that ended or that nobody takes, and for each time that instances were spread to stay; it only grows |
//! | `results.csv`, `results.parquet` | arguments and outcomes, an instance in each row; written in the end |
//! | `lock` | held while a client is at work |
//!
//! A pack is in the journal, and the journal on the disk, before the pack is sent anywhere. A last line that has no end was
//! being written when the client died, and is dropped.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use pliant_control::multi_job::Plan;
use pliant_control::names::{Handle, Key, Name};
use pliant_control::reason::Cause;
use pliant_staging::FileSpec;
use pliant_wire::PackedEnd;
use serde::{Deserialize, Serialize};

use super::MultiJobWanted;
use crate::Sweep;
use crate::notes::{NotesError, at, lock, named};

const SCHEMA: &str = "pliant.sweep/1";
const HEADER: &str = "sweep.json";
const JOURNAL: &str = "journal.jsonl";
/// Where there is one of these and no header, they are not a sweep's.
const OTHERS: [&str; 5] = [JOURNAL, "results.csv", "results.parquet", "results.json", "exploration.json"];

/// What a multi-job is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) schema: String,
    /// The keys of its packs follow from it.
    pub(super) key: Key,
    /// Whose it is: its jobs are nobody else's. Empty if an earlier version has begun it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) user: String,
    pub(super) service: String,
    pub(super) sweep: Sweep,
    /// Files that every instance finds in its folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) inputs: Vec<HeldInput>,
    pub(super) plan: Plan,
    /// What is drawn is drawn from this.
    pub(super) seed: u64,
}

/// An input file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct HeldInput {
    /// As it was when the multi-job began.
    pub(super) file: FileSpec,
    /// Where it is here.
    pub(super) path: PathBuf,
}

impl Header {
    pub(super) fn new(user: &str, wanted: &MultiJobWanted, plan: Plan) -> Header {
        let input = |(file, path): &(FileSpec, PathBuf)| HeldInput {
            file: file.clone(),
            // Whoever goes on may do so from another folder.
            path: std::path::absolute(path).unwrap_or_else(|_| path.clone()),
        };
        Header {
            schema: SCHEMA.to_owned(),
            key: Key(rand::random()),
            user: user.to_owned(),
            service: wanted.service.clone(),
            sweep: wanted.sweep.clone(),
            inputs: wanted.inputs.iter().map(input).collect(),
            plan,
            seed: rand::random(),
        }
    }
}

/// Something that happened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Entry {
    /// A pack was handed out: it may have been accepted from then on.
    Submitted {
        /// Its number.
        pack: u32,
        /// To whom.
        server: Name,
        /// Its instances: the first and the last of each run of numbers.
        instances: Vec<(u32, u32)>,
    },
    /// The rest was spread, and is to stay so.
    Kept {
        /// How many instances each server is to get that were not handed out.
        shares: BTreeMap<Name, u64>,
    },
    /// It is a job now.
    Accepted {
        /// The pack.
        pack: u32,
        /// The job.
        job: Handle,
    },
    /// The server did not take it.
    Refused {
        /// The pack.
        pack: u32,
        /// What stands in the way.
        #[serde(default = "unknown")]
        cause: Cause,
        /// The same for people.
        why: String,
    },
    /// An instance has ended.
    Ended {
        /// The pack.
        pack: u32,
        /// How.
        end: PackedEnd,
    },
    /// A pack has ended.
    Over {
        /// The pack.
        pack: u32,
        /// How, for people.
        how: String,
        /// What was not told of its instances was not begun.
        #[serde(default, skip_serializing_if = "is_false")]
        unbegun: bool,
    },
    /// Nobody takes an instance: it failed for good.
    Unplaced {
        /// The instance.
        instance: u32,
        /// The last server that refused it.
        server: Name,
        /// Why.
        why: String,
    },
    /// What is not done is not wanted any more.
    Cancelled {},
}

impl Entry {
    /// The highest number of an instance in it.
    fn highest(&self) -> Option<u32> {
        match self {
            Entry::Submitted { instances, .. } => {
                instances.iter().map(|(first, last)| *first.max(last)).max()
            }
            Entry::Ended { end, .. } => Some(end.instance),
            Entry::Unplaced { instance, .. } => Some(*instance),
            Entry::Kept { .. }
            | Entry::Accepted { .. }
            | Entry::Refused { .. }
            | Entry::Over { .. }
            | Entry::Cancelled {} => None,
        }
    }
}

/// What earlier versions noted.
fn unknown() -> Cause {
    Cause::Unknown
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Runs of numbers, of numbers in order.
pub(super) fn runs(instances: &[u32]) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for instance in instances {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *instance => *last = *instance,
            _ => runs.push((*instance, *instance)),
        }
    }
    runs
}

/// The numbers of runs.
pub(super) fn numbers(runs: &[(u32, u32)]) -> Vec<u32> {
    runs.iter().flat_map(|(first, last)| *first..=*last).collect()
}

/// The folder of a multi-job, for one client at a time.
#[derive(Debug)]
pub struct SweepFolder {
    dir: PathBuf,
    journal: File,
    /// Lines that are not handed to the file yet.
    lines: Vec<u8>,
    /// Held as long as the folder is open.
    _lock: File,
}

impl SweepFolder {
    /// Opens a folder in which there is a multi-job. Nothing is made.
    ///
    /// # Errors
    ///
    /// If there is none, it cannot be written, or somebody else has it.
    pub fn existing(dir: &Path) -> Result<SweepFolder, NotesError> {
        match dir.join(HEADER).try_exists() {
            Ok(true) => SweepFolder::open(dir),
            Ok(false) => Err(NotesError::Nothing { dir: dir.to_owned() }),
            Err(error) => Err(at(dir)(error)),
        }
    }

    /// Opens a folder, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// If it cannot be written, or somebody else has it.
    pub fn open(dir: &Path) -> Result<SweepFolder, NotesError> {
        if dir.exists() && !dir.is_dir() {
            let (dir, expected, found) = (dir.to_owned(), "a folder".to_owned(), "a file".to_owned());
            return Err(NotesError::Other { dir, what: "place of a sweep", expected, found });
        }
        fs::create_dir_all(dir).map_err(at(dir))?;
        let lock = lock(dir)?;
        let path = dir.join(JOURNAL);
        let journal = File::options().create(true).append(true).read(true).open(&path).map_err(at(&path))?;
        Ok(SweepFolder { dir: dir.to_owned(), journal, lines: Vec::new(), _lock: lock })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What it is of; none if it is new.
    pub(super) fn header(&self) -> Result<Option<Header>, NotesError> {
        let path = self.dir.join(HEADER);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(at(&path))?,
        };
        let unreadable = |source| NotesError::Unreadable { place: path.display().to_string(), source };
        let header: Header = serde_json::from_slice(&text).map_err(unreadable)?;
        self.same("schema", SCHEMA, header.schema.as_str())?;
        if header.sweep.combinations() != Some(header.plan.instances) {
            let found = format!("{} instances for {}", header.plan.instances, header.sweep);
            return Err(unreadable(serde::de::Error::custom(found)));
        }
        Ok(Some(header))
    }

    /// An error if there is in it what a sweep would write over, or what is another client's.
    fn expect_new(&self) -> Result<(), NotesError> {
        let is_there = |name: &&&str| fs::metadata(self.dir.join(name)).is_ok_and(|file| file.len() > 0);
        match OTHERS.iter().find(is_there) {
            Some(found) => Err(self.other("folder of a sweep", "an empty one or a sweep's own", *found)),
            None => Ok(()),
        }
    }

    /// Notes what it is of.
    ///
    /// # Errors
    ///
    /// If it is of something else already, or cannot be written.
    pub(super) fn begin(&self, header: &Header) -> Result<(), NotesError> {
        self.expect_new()?;
        let text = serde_json::to_vec(header).expect("a header is plain data with text keys");
        let (path, part) = (self.dir.join(HEADER), self.dir.join("part"));
        let written = File::create(&part).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&part, &path)?;
            File::open(&self.dir)?.sync_all()
        });
        written.map_err(at(&path))
    }

    /// An error unless it is of that service with these arguments, spread and tried again in the same way.
    pub(super) fn expect(&self, found: &Header, wanted: &MultiJobWanted) -> Result<(), NotesError> {
        let MultiJobWanted { service, sweep, inputs, strategy, once, retries, .. } = wanted;
        let Header { plan, .. } = found;
        self.same("service", service, &found.service)?;
        if found.sweep != *sweep {
            return Err(self.other("arguments", sweep, &found.sweep));
        }
        let files = named(inputs.iter().map(|(file, _)| file));
        self.same("input files", &files, &named(found.inputs.iter().map(|input| &input.file)))?;
        self.same("--allocate", strategy, &plan.strategy)?;
        self.same("--allocate-once", once, &plan.once)?;
        self.same("--retries", retries, &plan.retries)
    }

    /// An error unless it is that user's: nobody else is told what has become of its jobs.
    pub(super) fn expect_user(&self, found: &Header, user: &str) -> Result<(), NotesError> {
        if found.user.is_empty() {
            return Ok(());
        }
        self.same("user", user, found.user.as_str())
    }

    fn same<T: fmt::Display + PartialEq + ?Sized>(
        &self,
        what: &'static str,
        expected: &T,
        found: &T,
    ) -> Result<(), NotesError> {
        if expected == found { Ok(()) } else { Err(self.other(what, expected, found)) }
    }

    fn other<T: fmt::Display + ?Sized>(&self, what: &'static str, expected: &T, found: &T) -> NotesError {
        let (dir, expected, found) = (self.dir.clone(), expected.to_string(), found.to_string());
        NotesError::Other { dir, what, expected, found }
    }

    /// Tells all that has happened to so many instances, in order, with the place of each line. What is no whole line is dropped
    /// for good.
    pub(super) fn replay(
        &mut self,
        instances: u32,
        mut tell: impl FnMut(u64, Entry),
    ) -> Result<(), NotesError> {
        let path = self.dir.join(JOURNAL);
        let mut reader = BufReader::new(File::open(&path).map_err(at(&path))?);
        let (mut place, mut number, mut line) = (0, 0, Vec::new());
        loop {
            line.clear();
            let length = reader.read_until(b'\n', &mut line).map_err(at(&path))? as u64;
            number += 1;
            if line.last() != Some(&b'\n') {
                return self.journal.set_len(place).map_err(at(&path));
            }
            let unreadable =
                |source| NotesError::Unreadable { place: format!("{}:{number}", path.display()), source };
            let entry: Entry = serde_json::from_slice(&line).map_err(unreadable)?;
            if let Some(found) = entry.highest().filter(|highest| *highest >= instances) {
                let expected = format!("expected instances below {instances}, found {found}");
                return Err(unreadable(serde::de::Error::custom(expected)));
            }
            tell(place, entry);
            place += length;
        }
    }

    /// One line, from its place.
    pub(super) fn line(&mut self, place: u64) -> Result<Entry, NotesError> {
        let path = self.dir.join(JOURNAL);
        let mut reader = &self.journal;
        reader.seek(SeekFrom::Start(place)).map_err(at(&path))?;
        let mut line = Vec::new();
        // Few lines are longer.
        BufReader::with_capacity(512, reader).read_until(b'\n', &mut line).map_err(at(&path))?;
        let unreadable = |source| NotesError::Unreadable { place: path.display().to_string(), source };
        serde_json::from_slice(&line).map_err(unreadable)
    }

    /// Notes something, with the next [`flush`](SweepFolder::flush).
    pub(super) fn note(&mut self, entry: &Entry) {
        serde_json::to_writer(&mut self.lines, entry).expect("an entry is plain data with text keys");
        self.lines.push(b'\n');
    }

    /// Hands what was noted to the file; with `durable` it is on the disk afterwards.
    pub(super) fn flush(&mut self, durable: bool) -> Result<(), NotesError> {
        let path = self.dir.join(JOURNAL);
        let written = self.journal.write_all(&self.lines);
        self.lines.clear();
        let written = written.and_then(|()| if durable { self.journal.sync_data() } else { Ok(()) });
        written.map_err(at(&path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_noted_as_runs() {
        for (instances, expected) in
            [(&[][..], &[][..]), (&[4], &[(4, 4)]), (&[1, 2, 3, 7, 9, 10], &[(1, 3), (7, 7), (9, 10)])]
        {
            assert_eq!(runs(instances), expected);
            assert_eq!(numbers(expected), instances);
        }
    }

    #[test]
    fn a_line_that_was_cut_is_dropped_and_the_next_one_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let entry = |pack| Entry::Refused { pack, cause: Cause::TooMany, why: "full".to_owned() };
        let mut folder = SweepFolder::open(dir.path()).unwrap();
        assert!(matches!(SweepFolder::open(dir.path()), Err(NotesError::InUse { .. })));
        folder.note(&entry(1));
        folder.note(&entry(2));
        folder.flush(true).unwrap();
        let journal = dir.path().join(JOURNAL);
        let whole = fs::metadata(&journal).unwrap().len();
        folder.journal.set_len(whole - 3).unwrap();
        let mut told = Vec::new();
        folder.replay(9, |place, entry| told.push((place, entry))).unwrap();
        assert_eq!(told, [(0, entry(1))]);
        folder.note(&entry(3));
        folder.flush(false).unwrap();
        told.clear();
        folder.replay(9, |place, entry| told.push((place, entry))).unwrap();
        assert_eq!(told, [(0, entry(1)), (whole / 2, entry(3))]);
        assert_eq!(folder.line(whole / 2).unwrap(), entry(3));
    }

    #[test]
    fn folders_of_something_else_are_left_alone() {
        let wanted = MultiJobWanted {
            service: "nap".to_owned(),
            sweep: Sweep { varied: vec!["x=1..4".parse().unwrap()], ..Sweep::default() },
            inputs: Vec::new(),
            strategy: pliant_policy::allocation::Strategy::Statistics,
            once: false,
            retries: 0,
            patience: std::time::Duration::ZERO,
        };
        let header = Header::new("alice", &wanted, super::super::wanted::plan(&wanted));
        let refused = |result: Result<(), NotesError>| result.unwrap_err().to_string();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "a table of mine").unwrap();
        let error = refused(SweepFolder::open(&file).map(drop));
        assert!(error.ends_with("expected a folder, found a file"), "{error}");
        for other in OTHERS {
            let dir = tempfile::tempdir().unwrap();
            let folder = SweepFolder::open(dir.path()).unwrap();
            fs::write(dir.path().join(other), "mine").unwrap();
            let error = refused(folder.begin(&header));
            assert!(
                error.ends_with(&format!("expected an empty one or a sweep's own, found {other}")),
                "{error}"
            );
            assert_eq!(fs::read(dir.path().join(other)).unwrap(), b"mine");
        }

        let mut folder = SweepFolder::open(dir.path()).unwrap();
        folder.begin(&header).unwrap();
        assert_eq!(folder.header().unwrap(), Some(header.clone()));
        let change = |changed: Header| {
            let text = serde_json::to_vec(&changed).unwrap();
            fs::write(dir.path().join(HEADER), text).unwrap();
        };
        change(Header { schema: "pliant.sweep/9".to_owned(), ..header.clone() });
        let error = refused(folder.header().map(drop));
        assert!(error.ends_with("schema: expected pliant.sweep/1, found pliant.sweep/9"), "{error}");
        change(Header { plan: Plan { instances: 3, ..header.plan.clone() }, ..header });
        let error = refused(folder.header().map(drop));
        assert!(error.contains("3 instances for"), "{error}");
        folder.note(&Entry::Unplaced { instance: 4, server: "lyon".parse().unwrap(), why: String::new() });
        folder.flush(true).unwrap();
        let error = refused(folder.replay(4, |_, _| {}));
        assert!(error.contains("journal.jsonl:1") && error.contains("below 4, found 4"), "{error}");
    }
}
