//! An exploration as its folder shows it, whether a client works on it or not.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::SystemTime;

use pliant_control::names::Name;
use pliant_control::optional::explore::{Event, ExplorationClient, Plan, Progress};
use pliant_model::TimeMs;
use pliant_wire::Executable;

use super::folder::{Entry, Header};
use crate::number_in_output::number_in;
use crate::work_folder::Work;
use crate::work_reader::WorkReader;
use crate::{FolderError, ParameterSpace};

/// How much of a result is read at most.
const OUTPUT_BYTES_MAX: u64 = 4096;

/// The state of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestProgress {
    /// It completed.
    Completed,
    /// It failed, and would fail again.
    Failed,
    /// A server has it.
    Submitted,
    /// No server has it.
    Waiting,
}

impl RequestProgress {
    /// The word for scripts.
    pub fn word(self) -> &'static str {
        match self {
            RequestProgress::Completed => "completed",
            RequestProgress::Failed => "failed",
            RequestProgress::Submitted => "submitted",
            RequestProgress::Waiting => "waiting",
        }
    }
}

/// A request of an exploration.
#[derive(Clone, PartialEq, Debug)]
pub struct RequestRecord {
    /// Its state.
    pub state: RequestProgress,
    /// The server that has it or had it last.
    pub server: Option<Name>,
    /// When it ended.
    pub ended: Option<TimeMs>,
    /// The number that its output is or begins with; NaN if there is none.
    pub value: f64,
}

/// The requests of a server that have ended.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ServerRequests {
    /// Completed mandatory requests.
    pub mandatory: u32,
    /// Completed optional requests.
    pub optional: u32,
    /// Failed requests.
    pub failed: u32,
    /// Requests that it has.
    pub open: u32,
    /// Requests that it refused.
    pub refused: u32,
}

/// An exploration in a folder.
#[derive(Debug)]
pub struct ExplorationView {
    reader: WorkReader<Header>,
    machine: ExplorationClient,
    requests: BTreeMap<u32, RequestRecord>,
    servers: BTreeMap<Name, ServerRequests>,
}

impl ExplorationView {
    /// The exploration of a folder: takes no lock, so a client may work on it.
    ///
    /// # Errors
    ///
    /// If there is no exploration in it, or it cannot be read.
    pub fn open(dir: &Path) -> Result<ExplorationView, FolderError> {
        let reader = WorkReader::<Header>::open(dir)?;
        let machine = reader.header().start();
        let (requests, servers) = (BTreeMap::new(), BTreeMap::new());
        let mut view = ExplorationView { reader, machine, requests, servers };
        view.refresh()?;
        Ok(view)
    }

    /// Reads what was written since.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read any more.
    pub fn refresh(&mut self) -> Result<(), FolderError> {
        if self.reader.is_outdated() {
            *self = ExplorationView::open(self.reader.dir())?;
            return Ok(());
        }
        let (mut entries, dir) = (Vec::new(), self.reader.dir().to_owned());
        self.reader.read(|_, entry| entries.push(entry))?;
        for entry in entries {
            self.apply(&dir, entry);
        }
        // What servers have follows from the machine alone.
        self.requests.retain(|_, request| request.ended.is_some());
        self.servers.values_mut().for_each(|server| server.open = 0);
        for (number, server) in self.machine.sent() {
            let (state, server_name) = (RequestProgress::Submitted, Some(server.clone()));
            let request = RequestRecord { state, server: server_name, ended: None, value: f64::NAN };
            self.requests.entry(number).or_insert(request);
            self.servers.entry(server.clone()).or_default().open += 1;
        }
        Ok(())
    }

    fn apply(&mut self, dir: &Path, Entry { at, event }: Entry) {
        let before = self.machine.progress();
        let named = match &event {
            Event::Ended { number, server, completed } => Some((*number, server.clone(), *completed)),
            Event::Refused { server, .. } => {
                self.servers.entry(server.clone()).or_default().refused += 1;
                None
            }
            _ => None,
        };
        // Commands were carried out.
        self.machine.on(at, event, &mut Vec::new());
        let Some((number, server, completed)) = named else { return };
        // The machine counts no outcome twice.
        if self.machine.progress() == before {
            return;
        }
        let tally = self.servers.entry(server.clone()).or_default();
        match (completed, number < self.reader.header().plan.mandatory) {
            (true, true) => tally.mandatory += 1,
            (true, false) => tally.optional += 1,
            (false, _) => tally.failed += 1,
        }
        let state = if completed { RequestProgress::Completed } else { RequestProgress::Failed };
        let value = if completed { number_in(&output(dir, "out", number)) } else { f64::NAN };
        self.requests.insert(number, RequestRecord { state, server: Some(server), ended: Some(at), value });
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        self.reader.dir()
    }

    /// What each request runs.
    pub fn executable(&self) -> &Executable {
        &self.reader.header().executable
    }

    /// The arguments of its requests.
    pub fn parameters(&self) -> &ParameterSpace {
        &self.reader.header().parameters
    }

    /// When the first client began.
    pub fn began(&self) -> TimeMs {
        self.reader.header().began
    }

    /// What is wanted.
    pub fn plan(&self) -> &Plan {
        self.machine.plan()
    }

    /// The completed requests.
    pub fn progress(&self) -> Progress {
        self.machine.progress()
    }

    /// When the last mandatory request was completed, if all are.
    pub fn mandatory_done(&self) -> Option<TimeMs> {
        self.machine.mandatory_done()
    }

    /// True if it has ended.
    pub fn is_over(&self) -> bool {
        self.machine.is_over()
    }

    /// True if the user stopped it.
    pub fn is_interrupted(&self) -> bool {
        self.machine.is_interrupted()
    }

    /// True if a client works on it.
    pub fn is_worked_on(&self) -> bool {
        self.reader.is_worked_on()
    }

    /// When its journal was written last.
    pub fn written(&self) -> Option<SystemTime> {
        self.reader.written()
    }

    /// The servers that had requests.
    pub fn servers(&self) -> &BTreeMap<Name, ServerRequests> {
        &self.servers
    }

    /// The numbers of its requests: all mandatory ones, and the optional ones that servers had.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        let mandatory = self.plan().mandatory.min(self.plan().most);
        (0..mandatory).chain(self.requests.range(mandatory..).map(|(number, _)| *number))
    }

    /// A request.
    pub fn request(&self, number: u32) -> RequestRecord {
        let waiting =
            || RequestRecord { state: RequestProgress::Waiting, server: None, ended: None, value: f64::NAN };
        self.requests.get(&number).cloned().unwrap_or_else(waiting)
    }

    /// The beginning of what a request wrote on standard output, or if it failed the end of its standard error.
    pub fn output(&self, number: u32) -> Vec<u8> {
        match self.request(number).state {
            RequestProgress::Completed => output(self.dir(), "out", number),
            RequestProgress::Failed => output(self.dir(), "failed", number),
            RequestProgress::Submitted | RequestProgress::Waiting => Vec::new(),
        }
    }
}

/// What is there of an output; nothing if it cannot be read.
fn output(dir: &Path, folder: &str, number: u32) -> Vec<u8> {
    let mut found = Vec::new();
    if let Ok(file) = File::open(dir.join(folder).join(number.to_string())) {
        let _ = file.take(OUTPUT_BYTES_MAX).read_to_end(&mut found);
    }
    found
}
