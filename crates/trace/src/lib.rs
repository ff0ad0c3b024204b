//! Workloads and platforms in and out: SWF, GWF and Batsim logs, their repairs, workload files that join
//! several logs, platform files, and seeded generators.
//!
//! [`load`] reads any workload; [`generate`] makes one; [`moldable`] decides how its jobs scale.

mod batsim;
mod error;
pub mod generate;
pub mod gwf;
mod info;
mod lines;
pub mod moldable;
mod output;
pub mod platform;
mod record;
mod repair;
mod scenario;
pub mod swf;
pub mod toml_file;
mod workload;

pub use error::{Problem, TraceError};
pub use info::{Info, Spread, info};
pub use record::Record;
pub use repair::{Repair, RepairOptions, RepairPolicy, RepairReport};
pub use workload::{Format, LoadOptions, Workload, load, load_from};
