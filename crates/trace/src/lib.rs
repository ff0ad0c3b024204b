//! Workloads and platforms in and out: SWF, GWF and Batsim logs, their repairs, workload files that join
//! several logs, platform files, task interaction graphs and grids, and seeded generators.
//!
//! [`load`] reads any workload, [`stream()`] a log job by job; [`generate`] makes one; [`moldable`] decides how
//! its jobs scale.

mod batsim;
mod calendar;
mod error;
pub mod generate;
pub mod gwf;
mod info;
mod job_numbers;
mod lines;
mod load;
mod logs;
pub mod moldable;
mod omitted_fields;
mod origins;
mod output;
pub mod platform;
mod record;
mod repair;
mod save;
mod scenario;
mod stream;
pub mod swf;
pub mod tig;
pub mod toml_file;
mod workload;

pub use calendar::CalendarMonth;
pub use error::{Problem, TraceError};
pub use info::{Info, Quantiles, info};
pub use load::{load, load_from};
pub use omitted_fields::{OmittedField, omitted_fields};
pub use output::{is_same_file, written_format};
pub use record::Record;
pub use repair::{Repair, RepairOptions, RepairPolicy, RepairReport};
pub use stream::{JobStream, LogStreamError, stream, stream_from};
pub use workload::{Format, LoadOptions, Workload, offered_load};
