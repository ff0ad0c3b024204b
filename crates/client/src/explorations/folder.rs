//! The folder of an exploration: see [`crate::work_folder`].
//!
//! | besides the files of all such folders | what |
//! |---|---|
//! | `out/N` | what request N wrote on standard output: its result; there only once it is complete |
//! | `failed/N` | the end of what a failed request wrote on standard error |
//! | `results.json` | the arguments of each result, and where it is; written in the end |
//!
//! The journal has what the dispatcher was told. It is not synced: what it does not know after the crash of a host is submitted
//! again, and servers say what became of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use pliant_control::names::Key;
use pliant_control::optional::explore::{Dispatch, Event, Explore, Plan};
use pliant_model::TimeMs;
use pliant_staging::FileSpec;
use serde::{Deserialize, Serialize};

use crate::Sweep;
use crate::work_folder::{FolderError, Work, WorkFolder, at, named};

/// What an exploration is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) exploration: Key,
    pub(super) service: String,
    pub(super) sweep: Sweep,
    pub(super) inputs: Vec<FileSpec>,
    /// When the first client began.
    pub(super) began: TimeMs,
    pub(super) plan: Plan,
}

/// What the dispatcher was told, and when.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) at: TimeMs,
    pub(super) event: Event,
}

impl Work for Header {
    type Entry = Entry;
    const KIND: &'static str = "an exploration";
    const SCHEMA: &'static str = "pliant.exploration/1";
    const HEADER: &'static str = "exploration.json";
    const FOREIGN: &'static [&'static str] =
        &["results.csv", "results.parquet", "results.json", "sweep.json"];

    fn problem(&self) -> Option<String> {
        let (most, of) = (self.plan.most, self.sweep.combinations().unwrap_or(u32::MAX));
        (most > of).then(|| format!("{most} requests for {}", self.sweep))
    }

    fn problem_of(&self, entry: &Entry) -> Option<String> {
        let number = match &entry.event {
            Event::Refused { number, .. } | Event::Ended { number, .. } | Event::Withdrawn { number, .. } => {
                number
            }
            _ => return None,
        };
        let most = self.plan.most;
        (*number >= most).then(|| format!("expected requests below {most}, found {number}"))
    }
}

/// The folder of an exploration, for one client at a time.
#[derive(Debug)]
pub struct ExplorationFolder(WorkFolder<Header>);

impl ExplorationFolder {
    /// Opens a folder, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// If it cannot be written, or somebody else has it.
    pub fn open(dir: &Path) -> Result<ExplorationFolder, FolderError> {
        let folder = WorkFolder::open(dir)?;
        for folder in [dir.join("out"), dir.join("failed")] {
            fs::create_dir_all(&folder).map_err(at(&folder))?;
        }
        Ok(ExplorationFolder(folder))
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        self.0.dir()
    }

    /// The exploration that another client has begun, with its dispatcher as that client left it. None if nothing of it has come
    /// to a server: then the folder is as if it had never begun.
    pub(super) fn resume(&mut self) -> Result<Option<(Header, Explore)>, FolderError> {
        let Some(header) = self.0.header()? else { return Ok(None) };
        let mut machine = Explore::new(header.plan.clone());
        // What follows from the past was carried out in the past.
        let mut carried_out = Vec::new();
        self.0.replay(&header, |_, Entry { at, event }| {
            machine.on(at, event, &mut carried_out);
            carried_out.clear();
        })?;
        if machine.has_begun() {
            return Ok(Some((header, machine)));
        }
        self.forget()?;
        Ok(None)
    }

    /// Begins an exploration.
    pub(super) fn begin(&self, header: &Header) -> Result<(), FolderError> {
        self.0.begin(header)
    }

    /// Notes what the dispatcher is about to be told.
    pub(super) fn note(&mut self, entry: &Entry) -> Result<(), FolderError> {
        self.0.note(entry);
        self.0.flush(false)
    }

    /// Nothing of it is to be gone on with.
    pub(super) fn forget(&mut self) -> Result<(), FolderError> {
        self.0.forget()?;
        let failed = self.dir().join("failed");
        fs::remove_dir_all(&failed).and_then(|()| fs::create_dir(&failed)).map_err(at(&failed))
    }

    /// An error unless it is the exploration that was asked for. The deadline stays what it was: it is said from the
    /// beginning on.
    pub(super) fn expect(
        &self,
        found: &Header,
        service: &str,
        sweep: &Sweep,
        inputs: &[FileSpec],
        plan: &Plan,
    ) -> Result<(), FolderError> {
        let there = &found.plan;
        self.0.expect("service", service, found.service.as_str())?;
        self.0.expect("arguments", sweep, &found.sweep)?;
        self.0.expect("input files", &named(inputs.iter()), &named(found.inputs.iter()))?;
        self.0.expect("--min", &plan.mandatory, &there.mandatory)?;
        self.0.expect("--max", &plan.most, &there.most)?;
        let legacy = |plan: &Plan| match plan.dispatch {
            Dispatch::Guess(guess) => guess.to_string(),
            Dispatch::Window(_) => "none".to_owned(),
        };
        self.0.expect("--legacy", &legacy(plan), &legacy(there))?;
        let every = |plan: &Plan| match &plan.reallocation {
            Some(reallocation) => format!("{} s", reallocation.every.0 as f64 / 1e3),
            None => "none".to_owned(),
        };
        self.0.expect("--reallocate", &every(plan), &every(there))
    }

    /// Keeps the result of a request.
    pub(super) fn keep(&self, number: u32, completed: bool, output: &[u8]) -> Result<(), FolderError> {
        let folder = if completed { "out" } else { "failed" };
        self.0.replace(&Path::new(folder).join(number.to_string()), output, false)
    }

    /// The results that are there: the numbers of completed requests.
    pub fn results(&self) -> Result<Vec<u32>, FolderError> {
        let folder = self.dir().join("out");
        let entries = fs::read_dir(&folder).map_err(at(&folder))?;
        let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
        let mut numbers: Vec<u32> = entries.flatten().filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Writes `results.json`: the arguments of each completed request, and where its result is.
    pub(super) fn conclude(&self, sweep: &Sweep, mandatory: u32) -> Result<(), FolderError> {
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
        self.0.replace(
            Path::new("results.json"),
            &text.expect("results are plain data with text keys"),
            false,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dispatcher_goes_on_as_it_was_left() {
        let dir = tempfile::tempdir().unwrap();
        let sweep = Sweep { varied: vec!["x=1..9".parse().unwrap()], ..Sweep::default() };
        let plan = Plan {
            mandatory: 2,
            most: 9,
            deadline: TimeMs(60_000),
            weight: 1,
            dispatch: Dispatch::Window(1),
            reallocation: None,
            seed: 7,
        };
        let (exploration, began) = (Key([1; 16]), TimeMs(0));
        let (service, inputs) = ("pause".to_owned(), Vec::new());
        let header = Header { exploration, service, sweep, inputs, began, plan };
        let server: pliant_control::names::Name = "lyon".parse().unwrap();
        let offer =
            pliant_control::optional::explore::Offer { server: server.clone(), cores: 2, per_core: None };
        let ended = Event::Ended { number: 0, server, completed: true };
        let mut machine = Explore::new(header.plan.clone());
        let mut tell = |folder: &mut ExplorationFolder, at, event: Event| {
            folder.note(&Entry { at: TimeMs(at), event: event.clone() }).unwrap();
            machine.on(TimeMs(at), event, &mut Vec::new());
            machine.clone()
        };
        let mut folder = ExplorationFolder::open(dir.path()).unwrap();
        folder.begin(&header).unwrap();
        tell(&mut folder, 1, Event::Begin);
        tell(&mut folder, 5, Event::Found(vec![offer]));
        let left = tell(&mut folder, 900, ended);
        drop(folder);
        let mut folder = ExplorationFolder::open(dir.path()).unwrap();
        assert_eq!(folder.resume().unwrap(), Some((header.clone(), left)));
        // Of what has never come to a server nothing is gone on with.
        folder.forget().unwrap();
        folder.begin(&header).unwrap();
        folder.note(&Entry { at: TimeMs(1), event: Event::Begin }).unwrap();
        assert_eq!(folder.resume().unwrap(), None);
        folder.begin(&header).unwrap();
    }
}
