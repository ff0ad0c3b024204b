//! What a kind of campaign has to say for itself; the [runner](super::runner) does the rest.

use std::sync::{Mutex, OnceLock, PoisonError};

use pliant_model::campaign::Results;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{CampaignError, Fingerprint, Kind};

/// A campaign of some kind: cells that can be run in any order and by several processes, each leaving a record, and results
/// that depend on these records alone.
///
/// Cells are in groups. Cells of a group share what is expensive to make, so a group is run by one thread of one shard.
pub(super) trait Experiment: Sync {
    /// What is kept of a cell: all that results need of it, and read back exactly as it was written.
    type Record: Serialize + DeserializeOwned + Send;
    /// What results need beside the records.
    type Plan: Serialize + DeserializeOwned + Sync;

    /// The kind.
    const KIND: Kind;

    /// The campaign's name.
    fn name(&self) -> &str;

    /// Finds mistakes before anything is written or run.
    fn check(&self) -> Result<(), CampaignError> {
        Ok(())
    }

    /// Adds everything that records depend on, the content of files included.
    fn identify(&self, fingerprint: &mut Fingerprint) -> Result<(), CampaignError>;

    /// What results need beside the records.
    fn plan(&self) -> Self::Plan;

    /// The keys of the cells of each group, in the order of the results.
    fn groups(&self) -> Vec<Vec<String>>;

    /// Runs cells of a group, given by their positions in it, and hands over the record of each.
    fn run(
        &self,
        group: usize,
        cells: &[usize],
        keep: &RecordSink<'_, Self::Record>,
    ) -> Result<(), CampaignError>;

    /// What the records say, which come in the order of the cells; those of some cells may be missing.
    fn collect(
        name: String,
        plan: Self::Plan,
        planned: usize,
        records: Vec<Self::Record>,
    ) -> (Results, Files);
}

/// Takes the position of a cell in its group, its record, and how many seconds it took.
pub(super) type RecordSink<'a, R> = dyn Fn(usize, R, f64) -> Result<(), CampaignError> + Sync + 'a;

/// Name and content of the files that are written beside `results.json`.
pub(super) type Files = Vec<(&'static str, Vec<u8>)>;

/// A value that groups share, made by the first one that needs it while the others wait.
pub(super) struct Shared<T> {
    value: OnceLock<T>,
    making: Mutex<()>,
}

impl<T> Shared<T> {
    pub(super) fn new() -> Shared<T> {
        Shared { value: OnceLock::new(), making: Mutex::new(()) }
    }

    /// The value. `make` must not wait for other threads.
    pub(super) fn get(&self, make: impl FnOnce() -> Result<T, CampaignError>) -> Result<&T, CampaignError> {
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        match self.value.get() {
            Some(value) => Ok(value),
            None => {
                let made = make()?;
                Ok(self.value.get_or_init(|| made))
            }
        }
    }
}
