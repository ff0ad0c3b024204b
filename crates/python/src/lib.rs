//! The native part of the Python package `pliant`: workloads, platforms, simulations and their results.
//!
//! Types and functions here convert between Python and the crates that do the work. What users call is documented in
//! `python/pliant`.

mod arguments;
mod arrow_stream;
mod campaign;
mod column_names;
mod columns;
mod errors;
mod gym;
mod json;
mod live;
mod options;
mod pickle;
mod platform;
mod policies;
mod run;
mod simulate;
mod table;
mod workload;

use pyo3::prelude::*;

#[pymodule]
mod _pliant {
    #[pymodule_export]
    use super::campaign::Campaign;
    #[pymodule_export]
    use super::gym::Episode;
    #[pymodule_export]
    use super::platform::Platform;
    #[pymodule_export]
    use super::policies::{Candidates, Offers, Queue, Sizes, WaitingJob};
    #[pymodule_export]
    use super::run::Run;
    #[pymodule_export]
    use super::simulate::simulate;
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::workload::{Workload, generate, read_workload};
    use super::*;

    #[pymodule_export]
    use super::live::{
        Connection, Estimate, Estimates, Exit, ExplorationResult, Instance, Instances, Job, Launch,
        LaunchTask, Offer, Pending, Refusal, ResultFile, Results, SweepResult, Task,
    };

    /// Panics, for the test that a panic becomes an exception.
    #[pyfunction]
    fn _panic() {
        panic!("asked for");
    }

    /// A call that panics, for the same test.
    #[pyfunction]
    fn _panicking_call() -> PyResult<Task> {
        live::panicking()
    }

    /// A length of time such as `90s`, `1h` or `1-12:00:00`, in seconds.
    #[pyfunction]
    fn _duration_s(text: &str) -> PyResult<u64> {
        pliant_request::numbers::timeout(text).map(|time| time.as_secs()).map_err(errors::wrong_input)
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
