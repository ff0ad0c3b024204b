//! The folder of a campaign. It is written so that a kill at any moment does no harm.
//!
//! | file | holds |
//! |---|---|
//! | `campaign.json` | kind, name, fingerprint, input of results that is not in records, every key; written first |
//! | `records.jsonl` | one line for each cell that was run, appended when it ends; a line cut off by a kill does not count |
//! | `results.json` and tables | the results, in the order of the cells |
//! | `timing.csv` | the durations of cells |
//!
//! Only records and timing differ between two machines.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use pliant_model::campaign::Results;
use serde::{Deserialize, Serialize};

use super::experiment::{Experiment, Files};
use super::{CampaignError, Fingerprint, Kind};

/// The version of the folder.
const SCHEMA: &str = "pliant.campaign-folder/1";
/// The file of records.
const RECORDS: &str = "records.jsonl";

/// The identity of a folder's campaign, equal for all shards of a campaign.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Identity {
    schema: String,
    kind: String,
    /// The campaign's name.
    pub(super) name: String,
    /// The fingerprint of everything that results depend on.
    fingerprint: String,
}

/// `campaign.json`.
#[derive(Serialize, Deserialize)]
pub(super) struct Manifest<P> {
    #[serde(flatten)]
    pub(super) identity: Identity,
    plan: P,
    /// The key of every cell, in order.
    pub(super) cells: Vec<String>,
}

impl<P> Manifest<P> {
    pub(super) fn of<E: Experiment<Plan = P>>(experiment: &E) -> Result<Manifest<P>, CampaignError> {
        let mut fingerprint = Fingerprint::new();
        experiment.identify(&mut fingerprint)?;
        let cells: Vec<String> = experiment.groups().into_iter().flatten().collect();
        let mut seen = BTreeSet::new();
        if let Some(twice) = cells.iter().find(|key| !seen.insert(*key)) {
            return Err(CampaignError::Repeated(twice.clone()));
        }
        let identity = Identity {
            schema: SCHEMA.to_owned(),
            kind: E::KIND.name().to_owned(),
            name: experiment.name().to_owned(),
            fingerprint: fingerprint.finish(),
        };
        Ok(Manifest { identity, plan: experiment.plan(), cells })
    }
}

/// A line of `records.jsonl`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<R> {
    /// The campaign's fingerprint.
    campaign: String,
    key: String,
    seconds: f64,
    record: R,
}

/// A damaged line of a campaign folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DamagedLine {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1 on.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for DamagedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.problem)
    }
}

/// The records of a folder.
pub(super) struct Records<R> {
    /// By key: the duration of the cell in seconds, and its record.
    found: BTreeMap<String, (f64, R)>,
    /// Damaged lines.
    pub(super) damaged: Vec<DamagedLine>,
    /// True if the last line was cut off.
    torn: bool,
}

impl<R> Records<R> {
    pub(super) fn has(&self, key: &str) -> bool {
        self.found.contains_key(key)
    }

    pub(super) fn into_damaged(self) -> Vec<DamagedLine> {
        self.damaged
    }
}

/// A campaign folder.
pub(super) struct Store<E: Experiment> {
    dir: PathBuf,
    pub(super) manifest: Manifest<E::Plan>,
}

impl<E: Experiment> Store<E> {
    /// Opens an existing campaign folder.
    pub(super) fn open(dir: &Path) -> Result<Store<E>, CampaignError> {
        identity(dir)?;
        let path = dir.join("campaign.json");
        let manifest = serde_json::from_slice(&read(&path)?)
            .map_err(|error| CampaignError::Damaged { path, problem: describe_damage(&error) })?;
        Ok(Store { dir: dir.to_owned(), manifest })
    }

    /// Creates or opens the folder of a campaign and locks it while the journal is open. Records of another campaign are refused;
    /// a folder of another campaign without records is reused.
    pub(super) fn create(
        dir: &Path,
        manifest: Manifest<E::Plan>,
    ) -> Result<(Store<E>, Journal), CampaignError> {
        let expected = &manifest.identity;
        let same = match identity(dir) {
            Ok(found) if found == *expected => true,
            Ok(found) if fs::metadata(dir.join(RECORDS)).is_ok_and(|file| file.len() > 0) => {
                return Err(changed(dir, expected, found));
            }
            Ok(_) | Err(CampaignError::Absent(_)) => false,
            Err(error) => return Err(error),
        };
        fs::create_dir_all(dir).map_err(|source| CampaignError::io(dir, "create this folder", source))?;
        let journal = Journal::open(dir)?;
        if !same {
            write_json(&dir.join("campaign.json"), &manifest)?;
        }
        Ok((Store { dir: dir.to_owned(), manifest }, journal))
    }

    /// Reads the records.
    pub(super) fn records(&self) -> Result<Records<E::Record>, CampaignError> {
        let path = self.dir.join(RECORDS);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(CampaignError::io(&path, "read this file", source)),
        };
        let cells: BTreeSet<&str> = self.manifest.cells.iter().map(String::as_str).collect();
        let mut lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
        let torn = lines.pop().is_some_and(|last| !last.is_empty());
        let (mut found, mut damaged) = (BTreeMap::new(), Vec::new());
        for (at, line) in lines.into_iter().enumerate() {
            match self.understand(line, &cells) {
                Ok(Line { key, seconds, record, .. }) => {
                    found.entry(key).or_insert((seconds, record));
                }
                Err(problem) => damaged.push(DamagedLine { path: path.clone(), line: at + 1, problem }),
            }
        }
        Ok(Records { found, damaged, torn })
    }

    fn understand(&self, line: &[u8], cells: &BTreeSet<&str>) -> Result<Line<E::Record>, String> {
        let line: Line<E::Record> = serde_json::from_slice(line).map_err(|error| describe_damage(&error))?;
        let expected = &self.manifest.identity.fingerprint;
        if line.campaign != *expected {
            let found = &line.campaign;
            return Err(format!(
                "expected a result of this campaign ({expected}), found one of another ({found})"
            ));
        }
        if !cells.contains(line.key.as_str()) {
            return Err(format!("expected the key of a run, found `{}`", line.key));
        }
        Ok(line)
    }

    /// Removes damaged lines from the file of records.
    pub(super) fn repair(
        &self,
        journal: &mut Journal,
        records: &Records<E::Record>,
    ) -> Result<(), CampaignError> {
        if records.damaged.is_empty() && !records.torn {
            return Ok(());
        }
        let mut text = Vec::new();
        for (key, (seconds, record)) in &records.found {
            text.extend(self.line(key, record, *seconds)?);
        }
        write_whole(&self.dir.join(RECORDS), &text)?;
        *journal = Journal::open(&self.dir)?;
        Ok(())
    }

    /// Appends a record.
    pub(super) fn keep(
        &self,
        journal: &Journal,
        key: &str,
        record: &E::Record,
        seconds: f64,
    ) -> Result<(), CampaignError> {
        journal.append(&self.line(key, record, seconds)?)
    }

    fn line(&self, key: &str, record: &E::Record, seconds: f64) -> Result<Vec<u8>, CampaignError> {
        let campaign = self.manifest.identity.fingerprint.clone();
        let line = Line { campaign, key: key.to_owned(), seconds, record };
        let mut text = serde_json::to_vec(&line)
            .map_err(|source| CampaignError::io(&self.dir.join(RECORDS), "write this file", source.into()))?;
        text.push(b'\n');
        Ok(text)
    }

    /// Adds the records of another folder for cells without one here.
    pub(super) fn add(
        &self,
        journal: &Journal,
        records: &mut Records<E::Record>,
        others: Records<E::Record>,
    ) -> Result<(), CampaignError> {
        for (key, (seconds, record)) in others.found {
            if !records.has(&key) {
                self.keep(journal, &key, &record, seconds)?;
                records.found.insert(key, (seconds, record));
            }
        }
        records.damaged.extend(others.damaged);
        Ok(())
    }

    /// Builds results from the records.
    pub(super) fn collect(self, mut records: Records<E::Record>) -> (FolderContents, Files) {
        let Manifest { identity: Identity { name, .. }, plan, cells } = self.manifest;
        let mut timing = String::from("key,seconds\n");
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        let planned = cells.len();
        for key in cells {
            match records.found.remove(&key) {
                Some((seconds, record)) => {
                    timing.push_str(&format!("{key},{seconds:.3}\n"));
                    found.push(record);
                }
                None => missing.push(key),
            }
        }
        let (results, mut files) = E::collect(name.clone(), plan, planned, found);
        files.push(("timing.csv", timing.into_bytes()));
        (FolderContents { kind: E::KIND, name, planned, missing, damaged: records.damaged, results }, files)
    }
}

/// The contents of a campaign folder.
#[derive(Clone, PartialEq, Debug)]
pub struct FolderContents {
    /// The kind of campaign.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// The number of its cells.
    pub planned: usize,
    /// The keys of cells without a record, in order.
    pub missing: Vec<String>,
    /// Damaged lines of records. Their cells are missing unless another line has them.
    pub damaged: Vec<DamagedLine>,
    /// The results of the records.
    pub results: Results,
}

impl FolderContents {
    /// The number of cells with a record.
    pub fn present(&self) -> usize {
        self.planned - self.missing.len()
    }

    pub(super) fn write(&self, dir: &Path, files: Files) -> Result<(), CampaignError> {
        write_json(&dir.join("results.json"), &self.results)?;
        files.iter().try_for_each(|(name, content)| write_whole(&dir.join(name), content))
    }
}

/// The open file of records: one process at a time.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    fn open(dir: &Path) -> Result<Journal, CampaignError> {
        let path = dir.join(RECORDS);
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(|source| CampaignError::io(&path, "write this file", source))?;
        // Without file locks two processes in one folder may run cells twice, which does not change results.
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(CampaignError::Busy(dir.to_owned())),
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Journal { path, file }),
        }
    }

    /// Appends a line. Lines of several threads do not mix because each is one write to the end of the file.
    fn append(&self, line: &[u8]) -> Result<(), CampaignError> {
        let written = (&self.file).write_all(line);
        written.map_err(|source| CampaignError::io(&self.path, "write this file", source))
    }
}

/// Reads the identity of a folder's campaign. Refuses a folder of another version.
pub(super) fn identity(dir: &Path) -> Result<Identity, CampaignError> {
    let path = dir.join("campaign.json");
    let text = match read(&path) {
        Err(CampaignError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
            return Err(CampaignError::Absent(dir.to_owned()));
        }
        text => text?,
    };
    #[derive(Deserialize)]
    struct Version {
        schema: String,
    }
    let damaged = |error| CampaignError::Damaged { path: path.clone(), problem: describe_damage(&error) };
    let Version { schema } = serde_json::from_slice(&text).map_err(damaged)?;
    if schema != SCHEMA {
        return Err(CampaignError::Version { path, expected: SCHEMA, found: schema });
    }
    serde_json::from_slice(&text).map_err(damaged)
}

impl Identity {
    /// The kind of the campaign.
    pub(super) fn kind(&self) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|kind| kind.name() == self.kind)
    }
}

/// The error of a folder of another campaign.
pub(super) fn changed(dir: &Path, expected: &Identity, found: Identity) -> CampaignError {
    let expected = (expected.name.clone(), expected.fingerprint.clone());
    CampaignError::Changed { dir: dir.to_owned(), expected, found: (found.name, found.fingerprint) }
}

fn read(path: &Path) -> Result<Vec<u8>, CampaignError> {
    fs::read(path).map_err(|source| CampaignError::io(path, "read this file", source))
}

/// Describes the error in a file that Pliant did not write in this form.
fn describe_damage(error: &serde_json::Error) -> String {
    let (line, column) = (error.line().max(1), error.column().max(1));
    if error.is_eof() {
        return format!("cut off at line {line}, column {column}");
    }
    format!("expected a file as Pliant writes it, found something else at line {line}, column {column}")
}

fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), CampaignError> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|source| CampaignError::io(path, "write this file", source.into()))?;
    bytes.push(b'\n');
    write_whole(path, &bytes)
}

/// Writes a file atomically: under a temporary name, then renamed.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), CampaignError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".partial-{}", std::process::id()));
    let temporary = path.with_file_name(name);
    fs::write(&temporary, bytes)
        .and_then(|()| fs::rename(&temporary, path))
        .map_err(|source| CampaignError::io(path, "write this file", source))
}
