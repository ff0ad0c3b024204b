//! What a run of a campaign was worth, as named numbers: everything that `pliant-report` measures.

use std::collections::BTreeMap;

use pliant_report::{measure_exploration, measure_run};
use pliant_sim::campaign::Measured;

/// The metrics of a run, and of the run against its reference if it has one.
pub(crate) fn measure(measured: Measured<'_>) -> Result<BTreeMap<String, f64>, String> {
    match measured {
        Measured::Jobs { run, reference, plans } => measure_run(run, reference, plans),
        Measured::Requests(run) => measure_exploration(run),
    }
}
