//! The native part of the Python package `pliant`: workloads, platforms, simulations and their results.
//!
//! Types and functions here convert between Python and the crates that do the work. What users call is documented in
//! `python/pliant`.

mod arrow_stream;
mod errors;
mod live;
mod options;
mod platform;
mod run;
mod simulate;
mod table;
mod workload;

use pyo3::prelude::*;

#[pymodule]
mod _pliant {
    #[pymodule_export]
    use super::platform::Platform;
    #[pymodule_export]
    use super::run::Run;
    #[pymodule_export]
    use super::simulate::simulate;
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::workload::{Workload, generate, read_workload, workload_of_table};
    use super::*;

    // The live side.
    #[pymodule_export]
    use super::live::{
        Connection, Estimate, Estimates, Exit, ExplorationResult, Instance, Instances, Job, Offer, Pending,
        Refusal, ResultFile, Results, SweepResult, Task,
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
