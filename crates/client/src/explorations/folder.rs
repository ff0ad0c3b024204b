//! The folder of an exploration: see [`crate::work_folder`].
//!
//! | in addition to the files of every work folder | content |
//! |---|---|
//! | `out/N` | what request N wrote on standard output: its result; there only once it is complete |
//! | `failed/N` | the end of what a failed request wrote on standard error |
//! | `results.json` | the arguments of each result, and where it is; written in the end |
//!
//! The journal has the dispatcher's events. It is not synced: requests that it has lost after the crash of a host are submitted
//! again, and servers report their outcomes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pliant_control::names::Key;
use pliant_control::optional::explore::{Command, Dispatch, Event, ExplorationClient, Plan};
use pliant_model::TimeMs;
use pliant_staging::FileSpec;
use pliant_wire::Executable;
use serde::{Deserialize, Serialize};

use crate::ParameterSpace;
use crate::work_folder::{FolderError, Work, WorkFolder, at, named};

/// The folder of what failed requests wrote.
const FAILED: &str = "failed";

/// The header of an exploration's folder.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Header {
    pub(super) exploration: Key,
    /// What its requests run: with the text of a script, which may change elsewhere.
    #[serde(flatten)]
    pub(super) executable: Executable,
    pub(super) parameters: ParameterSpace,
    pub(super) inputs: Vec<FileSpec>,
    /// When the first client began.
    pub(super) began: TimeMs,
    pub(super) plan: Plan,
}

/// An event of the dispatcher, and when it happened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Entry {
    pub(super) at: TimeMs,
    pub(super) event: Event,
}

impl Work for Header {
    type Entry = Entry;
    type State = ExplorationClient;
    type Command = Command;
    const KIND: &'static str = "an exploration";
    const SCHEMA: &'static str = "pliant.exploration/1";
    const HEADER: &'static str = "exploration.json";
    const FOREIGN: &'static [&'static str] =
        &["results.csv", "results.parquet", "results.json", "sweep.json"];
    const SUBFOLDERS: &'static [&'static str] = &["out", FAILED];

    fn problem(&self) -> Option<String> {
        let (most, of) = (self.plan.most, self.parameters.combinations().unwrap_or(u32::MAX));
        (most > of).then(|| format!("{most} requests for {}", self.parameters))
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

    fn start(&self) -> ExplorationClient {
        ExplorationClient::new(self.plan.clone())
    }

    fn apply(machine: &mut ExplorationClient, Entry { at, event }: Entry, commands: &mut Vec<Command>) {
        machine.on(at, event, commands);
    }
}

/// The folder of an exploration, for one client at a time.
pub type ExplorationFolder = WorkFolder<Header>;

impl ExplorationFolder {
    /// The exploration that an earlier client began, with its dispatcher as that client left it. If no request was sent to a
    /// server, the folder is emptied.
    pub(super) fn resume_begun(&mut self) -> Result<Option<(Header, ExplorationClient)>, FolderError> {
        let found = self.resume()?;
        if found.as_ref().is_some_and(|(_, machine)| !machine.has_begun()) {
            self.forget_all()?;
            return Ok(None);
        }
        Ok(found)
    }

    /// Forgets the exploration, and why its requests failed.
    pub(super) fn forget_all(&mut self) -> Result<(), FolderError> {
        self.forget()?;
        let failed = self.failed();
        fs::remove_dir_all(&failed).and_then(|()| fs::create_dir(&failed)).map_err(at(&failed))
    }

    /// Where the errors of failed requests are.
    pub(super) fn failed(&self) -> PathBuf {
        self.dir().join(FAILED)
    }

    /// An error unless it is the exploration that was asked for. The deadline may differ: that of the first client holds.
    pub(super) fn expect_exploration(
        &self,
        found: &Header,
        executable: &Executable,
        parameters: &ParameterSpace,
        inputs: &[FileSpec],
        plan: &Plan,
    ) -> Result<(), FolderError> {
        let there = &found.plan;
        self.expect_executable(executable, &found.executable)?;
        self.expect("arguments", parameters, &found.parameters)?;
        self.expect("input files", &named(inputs.iter()), &named(found.inputs.iter()))?;
        self.expect("--min", &plan.mandatory, &there.mandatory)?;
        self.expect("--max", &plan.most, &there.most)?;
        let legacy = |plan: &Plan| match plan.dispatch {
            Dispatch::Guess(guess) => guess.to_string(),
            Dispatch::Window(_) => "none".to_owned(),
        };
        self.expect("--legacy", &legacy(plan), &legacy(there))?;
        let every = |plan: &Plan| match &plan.reallocation {
            Some(reallocation) => format!("{} s", reallocation.every.0 as f64 / 1e3),
            None => "none".to_owned(),
        };
        self.expect("--reallocate", &every(plan), &every(there))
    }

    /// Keeps the result of a request.
    pub(super) fn keep(&self, number: u32, completed: bool, output: &[u8]) -> Result<(), FolderError> {
        let folder = if completed { "out" } else { FAILED };
        self.replace(&Path::new(folder).join(number.to_string()), output, false)
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
    pub(super) fn conclude(&self, parameters: &ParameterSpace, mandatory: u32) -> Result<(), FolderError> {
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
            arguments: parameters.arguments(number),
            file: format!("out/{number}"),
        };
        let rows: Vec<Row> = self.results()?.into_iter().map(row).collect();
        let text =
            serde_json::to_vec_pretty(&serde_json::json!({ "schema": "pliant.results/1", "results": rows }));
        self.replace(Path::new("results.json"), &text.expect("results are plain data with text keys"), false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dispatcher_goes_on_as_it_was_left() {
        let dir = tempfile::tempdir().unwrap();
        let parameters =
            ParameterSpace { varied: vec!["x=1..9".parse().unwrap()], ..ParameterSpace::default() };
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
        let (executable, inputs) = ("pause".into(), Vec::new());
        let header = Header { exploration, executable, parameters, inputs, began, plan };
        let server: pliant_control::names::Name = "lyon".parse().unwrap();
        let offer = pliant_control::optional::explore::ServerOffer {
            server: server.clone(),
            cores: 2,
            per_core: None,
        };
        let ended = Event::Ended { number: 0, server, completed: true };
        let mut machine = ExplorationClient::new(header.plan.clone());
        let mut deliver = |folder: &mut ExplorationFolder, at, event: Event| {
            folder.append(&Entry { at: TimeMs(at), event: event.clone() });
            folder.flush(false).unwrap();
            machine.on(TimeMs(at), event, &mut Vec::new());
            machine.clone()
        };
        let mut folder = ExplorationFolder::open(dir.path()).unwrap();
        folder.begin(&header).unwrap();
        deliver(&mut folder, 1, Event::Begin);
        deliver(&mut folder, 5, Event::Found(vec![offer]));
        let left = deliver(&mut folder, 900, ended);
        // As it is shown while the folder is locked.
        fs::write(dir.path().join("out/0"), "2.5 m\n").unwrap();
        let view = super::super::ExplorationView::open(dir.path()).unwrap();
        assert_eq!((view.progress().mandatory, view.is_over()), (1, false));
        let request = view.request(0);
        assert_eq!(
            (request.state.word(), request.ended, request.value),
            ("completed", Some(TimeMs(900)), 2.5)
        );
        assert_eq!(view.output(0), b"2.5 m\n");
        let tally = view.servers().values().next().unwrap();
        assert_eq!((tally.mandatory, tally.optional, tally.open as usize), (1, 0, left.sent().count()));
        assert_eq!(view.numbers().take(2).collect::<Vec<_>>(), [0, 1], "mandatory ones are always there");
        drop(folder);
        let mut folder = ExplorationFolder::open(dir.path()).unwrap();
        assert_eq!(folder.resume_begun().unwrap(), Some((header.clone(), left)));
        // An exploration without a request at a server is not resumed.
        folder.forget_all().unwrap();
        folder.begin(&header).unwrap();
        folder.append(&Entry { at: TimeMs(1), event: Event::Begin });
        folder.flush(false).unwrap();
        assert_eq!(folder.resume_begun().unwrap(), None);
        folder.begin(&header).unwrap();
    }
}
