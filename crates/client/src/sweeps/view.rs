//! A sweep as its folder shows it, whether a client works on it or not.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use pliant_control::multi_job::{Plan, Progress};
use pliant_control::names::{Key, Name};
use pliant_wire::{Executable, InstanceEnd};

use super::Entry;
use super::folder::Header;
use super::results::{InstanceRecord, InstanceState, SweepResults};
use super::state::SweepState;
use crate::number_in_output::number_in;
use crate::work_folder::Work;
use crate::{FolderError, ParameterSpace};

/// The instances of a server.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ServerInstances {
    /// Those that completed.
    pub done: u32,
    /// Ends that were failures, also of instances that are run again.
    pub failed: u32,
    /// Those that are in jobs that have not ended.
    pub open: u32,
    /// How long its instances that ended took, in milliseconds, all together.
    pub elapsed_ms: u64,
}

/// What is known of the last end of an instance.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct InstanceFacts {
    /// The number that its output is or begins with; NaN if there is none.
    pub value: f64,
    /// How long it took, in milliseconds; none if it has not ended.
    pub elapsed_ms: Option<u32>,
    /// Its server, by its place in the order in which servers had ends.
    server: Option<u16>,
}

const UNKNOWN: InstanceFacts = InstanceFacts { value: f64::NAN, elapsed_ms: None, server: None };

/// A sweep in a folder.
#[derive(Debug)]
pub struct SweepView {
    results: SweepResults,
    state: SweepState,
    facts: Vec<InstanceFacts>,
    servers: BTreeMap<Name, ServerInstances>,
    /// The servers in the order in which they had ends.
    names: Vec<Name>,
}

impl SweepView {
    /// The sweep of a folder: takes no lock, so a client may work on it.
    ///
    /// # Errors
    ///
    /// If there is no sweep in it, or it cannot be read.
    pub fn open(dir: &Path) -> Result<SweepView, FolderError> {
        let results = SweepResults::reading(dir)?;
        let state = results.reader().header().start();
        let facts = vec![UNKNOWN; results.len() as usize];
        let mut view = SweepView { results, state, facts, servers: BTreeMap::new(), names: Vec::new() };
        view.refresh()?;
        Ok(view)
    }

    /// Reads what was written since.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read any more.
    pub fn refresh(&mut self) -> Result<(), FolderError> {
        if self.results.reader().is_outdated() {
            *self = SweepView::open(self.results.dir())?;
            return Ok(());
        }
        let SweepView { results, state, facts, servers, names } = self;
        let mut commands = Vec::new();
        results.read(|index, entry| {
            if let Entry::Ended { batch, end } = entry {
                let batch_server = state.batches.get(batch).map(|batch| batch.server.clone());
                let server = batch_server.or_else(|| index.job(*batch).map(|job| job.server));
                let place = server.map(|server| tally(server, end, servers, names));
                if let Some(known) = facts.get_mut(end.instance as usize) {
                    *known = facts_of(end, place);
                }
            }
            // They were carried out.
            Header::apply(state, entry.clone(), &mut commands);
            commands.clear();
        })?;
        servers.values_mut().for_each(|server| server.open = 0);
        for batch in state.batches.values() {
            let open = batch.instances.iter().filter(|instance| results.index().is_submitted(**instance));
            servers.entry(batch.server.clone()).or_default().open += open.count() as u32;
        }
        Ok(())
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        self.results.dir()
    }

    /// The key of its multi-job, which gives those of its batches.
    pub fn key(&self) -> Key {
        self.results.reader().header().key
    }

    /// What each instance runs.
    pub fn executable(&self) -> &Executable {
        &self.results.reader().header().executable
    }

    /// The arguments of its instances.
    pub fn parameters(&self) -> &ParameterSpace {
        &self.results.reader().header().parameters
    }

    /// The user whose jobs it has.
    pub fn user(&self) -> &str {
        &self.results.reader().header().user
    }

    /// What is wanted.
    pub fn plan(&self) -> &Plan {
        self.state.machine.plan()
    }

    /// The outcomes so far.
    pub fn progress(&self) -> Progress {
        self.state.machine.progress()
    }

    /// True if the user has cancelled it.
    pub fn is_cancelled(&self) -> bool {
        self.state.machine.is_cancelled()
    }

    /// True if a client works on it.
    pub fn is_worked_on(&self) -> bool {
        self.results.reader().is_worked_on()
    }

    /// When its journal was written last.
    pub fn written(&self) -> Option<SystemTime> {
        self.results.reader().written()
    }

    /// The servers that had instances.
    pub fn servers(&self) -> &BTreeMap<Name, ServerInstances> {
        &self.servers
    }

    /// The state of an instance. One that failed and is to be run again waits.
    pub fn state(&self, instance: u32) -> InstanceState {
        let machine = &self.state.machine;
        if machine.is_done(instance) {
            InstanceState::Completed
        } else if machine.is_given_up(instance) {
            InstanceState::Failed
        } else if self.results.index().is_submitted(instance) {
            InstanceState::Submitted
        } else if machine.is_cancelled() {
            InstanceState::Cancelled
        } else if machine.has_given_up_rest() {
            InstanceState::NotStarted
        } else {
            InstanceState::Waiting
        }
    }

    /// What is known of the last end of an instance.
    pub fn facts(&self, instance: u32) -> InstanceFacts {
        self.facts.get(instance as usize).copied().unwrap_or(UNKNOWN)
    }

    /// The server of the last end of an instance.
    pub fn server(&self, instance: u32) -> Option<&Name> {
        self.names.get(usize::from(self.facts(instance).server?))
    }

    /// An instance with its result.
    ///
    /// # Errors
    ///
    /// If its line cannot be read.
    pub fn row(&self, instance: u32) -> Result<InstanceRecord, FolderError> {
        Ok(InstanceRecord { state: self.state(instance), ..self.results.row(instance)? })
    }
}

/// Counts the end of an instance for its server; the place of the server among `names`.
fn tally(
    server: Name,
    end: &InstanceEnd,
    servers: &mut BTreeMap<Name, ServerInstances>,
    names: &mut Vec<Name>,
) -> u16 {
    let place = names.iter().position(|name| *name == server).unwrap_or_else(|| {
        names.push(server.clone());
        names.len() - 1
    });
    let tally = servers.entry(server).or_default();
    match end.is_success() {
        true => tally.done += 1,
        false => tally.failed += 1,
    }
    tally.elapsed_ms = tally.elapsed_ms.saturating_add(end.elapsed_ms);
    u16::try_from(place).unwrap_or(u16::MAX)
}

fn facts_of(end: &InstanceEnd, server: Option<u16>) -> InstanceFacts {
    let value = if end.is_success() { number_in(end.output.as_bytes()) } else { f64::NAN };
    let elapsed_ms = Some(u32::try_from(end.elapsed_ms).unwrap_or(u32::MAX));
    InstanceFacts { value, elapsed_ms, server }
}
