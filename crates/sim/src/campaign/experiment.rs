//! The trait that each kind of campaign implements; the [runner](super::runner) does the rest.

use std::sync::{Mutex, OnceLock, PoisonError};

use pliant_model::campaign::Results;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{CampaignError, Fingerprint, Kind};

/// A campaign of some kind. Its cells can be run in any order and by several processes; each gives a record, and the results
/// depend on these records alone.
///
/// The cells of a group share expensive inputs, so one thread of one shard runs a whole group.
pub(super) trait Experiment: Sync {
    /// The record of a cell: all that results need of it. It is read back exactly as it was written.
    type Record: Serialize + DeserializeOwned + Send;
    /// The input of results that is not in the records.
    type Plan: Serialize + DeserializeOwned + Sync;

    /// The kind.
    const KIND: Kind;

    /// The campaign's name.
    fn name(&self) -> &str;

    /// Checks the campaign before anything is written or run.
    fn check(&self) -> Result<(), CampaignError> {
        Ok(())
    }

    /// Adds everything that records depend on, including the content of files.
    fn identify(&self, fingerprint: &mut Fingerprint) -> Result<(), CampaignError>;

    /// The input of results that is not in the records.
    fn plan(&self) -> Self::Plan;

    /// The keys of the cells of each group, in the order of the results.
    fn groups(&self) -> Vec<Vec<String>>;

    /// Runs cells of a group, given by their positions in it, and passes the record of each to `keep`.
    fn run(
        &self,
        group: usize,
        cells: &[usize],
        keep: &RecordSink<'_, Self::Record>,
    ) -> Result<(), CampaignError>;

    /// Builds results from the records, which come in the order of the cells; records of some cells may be missing.
    fn collect(
        name: String,
        plan: Self::Plan,
        planned: usize,
        records: Vec<Self::Record>,
    ) -> (Results, Files);
}

/// Receives the position of a cell in its group, its record, and its duration in seconds.
pub(super) type RecordSink<'a, R> = dyn Fn(usize, R, f64) -> Result<(), CampaignError> + Sync + 'a;

/// The names and contents of the files that are written in addition to `results.json`.
pub(super) type Files = Vec<(&'static str, Vec<u8>)>;

/// A value that groups share. The first group that needs it computes it while the others wait.
pub(super) struct Shared<T> {
    value: OnceLock<T>,
    making: Mutex<()>,
}

impl<T> Shared<T> {
    pub(super) fn new() -> Shared<T> {
        Shared { value: OnceLock::new(), making: Mutex::new(()) }
    }

    /// Returns the value, computed by `make` at the first call. `make` must not wait for other threads.
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
