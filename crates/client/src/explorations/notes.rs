//! What a client notes of its exploration, so that it can go on after a crash.
//!
//! | in the folder | what |
//! |---|---|
//! | `exploration.json` | how far it is; replaced as a whole after every event |
//! | `out/N` | what request N wrote on standard output: its result; there only once it is complete |
//! | `failed/N` | the end of what a failed request wrote on standard error |
//! | `lock` | held while a client is at work |
//!
//! An older `exploration.json`, after the crash of a host, does no harm: what it does not know is submitted again, and
//! servers say what became of it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use pliant_control::names::Key;
use pliant_control::optional::explore::{Dispatch, Explore, Plan};
use pliant_model::TimeMs;
use pliant_staging::FileSpec;
use serde::{Deserialize, Serialize};

use crate::Sweep;
use crate::notes::{NotesError, at, lock, named};

const SCHEMA: &str = "pliant.exploration/2";

/// An exploration as it is noted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Noted {
    schema: String,
    pub(super) exploration: Key,
    pub(super) service: String,
    pub(super) sweep: Sweep,
    #[serde(default)]
    inputs: Vec<FileSpec>,
    /// When the first client began.
    pub(super) began: TimeMs,
    pub(super) machine: Explore,
}

/// The same, to be written.
#[derive(Serialize)]
pub(super) struct ToNote<'a> {
    pub(super) exploration: Key,
    pub(super) service: &'a str,
    pub(super) sweep: &'a Sweep,
    pub(super) inputs: &'a [FileSpec],
    pub(super) began: TimeMs,
    pub(super) machine: &'a Explore,
}

/// The folder of an exploration.
#[derive(Debug)]
pub struct Notes {
    dir: PathBuf,
    /// Held as long as the notes are open.
    _lock: File,
}

impl Notes {
    /// Opens a folder, which is made if it is not there.
    pub fn open(dir: &Path) -> Result<Notes, NotesError> {
        for folder in [dir.to_owned(), dir.join("out"), dir.join("failed")] {
            fs::create_dir_all(&folder).map_err(at(&folder))?;
        }
        let lock = lock(dir)?;
        Ok(Notes { dir: dir.to_owned(), _lock: lock })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What was noted, if anything was.
    pub(super) fn read(&self) -> Result<Option<Noted>, NotesError> {
        let path = self.dir.join("exploration.json");
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(at(&path))?,
        };
        let unreadable = |source| NotesError::Unreadable { place: path.display().to_string(), source };
        let noted: Noted = serde_json::from_slice(&text).map_err(unreadable)?;
        if noted.schema != SCHEMA {
            let (expected, found) = (SCHEMA.to_owned(), noted.schema);
            return Err(NotesError::Other { dir: self.dir.clone(), what: "schema", expected, found });
        }
        Ok(Some(noted))
    }

    /// An error unless it is the exploration that was asked for. The deadline stays what it was: it is said from the
    /// beginning on.
    pub(super) fn expect(
        &self,
        noted: &Noted,
        service: &str,
        sweep: &Sweep,
        inputs: &[FileSpec],
        plan: &Plan,
    ) -> Result<(), NotesError> {
        let other =
            |what, expected, found| NotesError::Other { dir: self.dir.clone(), what, expected, found };
        if noted.service != service {
            return Err(other("service", service.to_owned(), noted.service.clone()));
        }
        if noted.sweep != *sweep {
            return Err(other("arguments", sweep.to_string(), noted.sweep.to_string()));
        }
        if noted.inputs != inputs {
            return Err(other("input files", named(inputs.iter()), named(noted.inputs.iter())));
        }
        let there = noted.machine.plan();
        for (what, expected, found) in
            [("--min", plan.mandatory, there.mandatory), ("--max", plan.most, there.most)]
        {
            if expected != found {
                return Err(other(what, expected.to_string(), found.to_string()));
            }
        }
        let legacy = |plan: &Plan| match plan.dispatch {
            Dispatch::Guess(guess) => guess.to_string(),
            Dispatch::Window(_) => "none".to_owned(),
        };
        if legacy(plan) != legacy(there) {
            return Err(other("--legacy", legacy(plan), legacy(there)));
        }
        let every = |plan: &Plan| match &plan.reallocation {
            Some(reallocation) => format!("{} s", reallocation.every.0 as f64 / 1e3),
            None => "none".to_owned(),
        };
        if every(plan) != every(there) {
            return Err(other("--reallocate", every(plan), every(there)));
        }
        Ok(())
    }

    /// Nothing of it is to be gone on with.
    pub(super) fn forget(&self) -> Result<(), NotesError> {
        let path = self.dir.join("exploration.json");
        fs::remove_file(&path).map_err(at(&path))?;
        let failed = self.dir.join("failed");
        fs::remove_dir_all(&failed).and_then(|()| fs::create_dir(&failed)).map_err(at(&failed))
    }

    pub(super) fn write(&self, noted: &ToNote<'_>) -> Result<(), NotesError> {
        #[derive(Serialize)]
        struct Whole<'a> {
            schema: &'a str,
            #[serde(flatten)]
            noted: &'a ToNote<'a>,
        }
        let text = serde_json::to_vec(&Whole { schema: SCHEMA, noted });
        self.replace(Path::new("exploration.json"), &text.expect("notes are plain data with text keys"))
    }

    /// Keeps the result of a request.
    pub(super) fn keep(&self, number: u32, completed: bool, output: &[u8]) -> Result<(), NotesError> {
        let folder = if completed { "out" } else { "failed" };
        self.replace(&Path::new(folder).join(number.to_string()), output)
    }

    /// The results that are there: the numbers of completed requests.
    pub fn results(&self) -> Result<Vec<u32>, NotesError> {
        let folder = self.dir.join("out");
        let entries = fs::read_dir(&folder).map_err(at(&folder))?;
        let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
        let mut numbers: Vec<u32> = entries.flatten().filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Writes `results.json`: the arguments of each completed request, and where its result is.
    pub(super) fn conclude(&self, sweep: &Sweep, mandatory: u32) -> Result<(), NotesError> {
        #[derive(Serialize)]
        struct Row {
            number: u32,
            optional: bool,
            arguments: BTreeMap<String, String>,
            file: String,
        }
        let row = |number: u32| Row {
            number,
            optional: number >= mandatory,
            arguments: sweep.arguments(number),
            file: format!("out/{number}"),
        };
        let rows: Vec<Row> = self.results()?.into_iter().map(row).collect();
        let text =
            serde_json::to_vec_pretty(&serde_json::json!({ "schema": "pliant.results/1", "results": rows }));
        self.replace(Path::new("results.json"), &text.expect("results are plain data with text keys"))
    }

    /// Puts a file in its place as a whole.
    fn replace(&self, name: &Path, content: &[u8]) -> Result<(), NotesError> {
        let path = self.dir.join(name);
        let part = self.dir.join("part");
        fs::write(&part, content).map_err(at(&part))?;
        fs::rename(&part, &path).map_err(at(&path))
    }
}
