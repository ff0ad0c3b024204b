//! The words of Pliant: time, processors, jobs and how they scale, clusters and platforms, estimates,
//! and finished runs and campaigns.
//!
//! This crate holds values and the arithmetic on them. It reads no clock, no file and no environment,
//! draws no random numbers and knows no wire format (ARCHITECTURE.md, invariants 2 and 3), so the same
//! values serve the simulator and the live federation.

#[cfg(feature = "serde")]
pub mod campaign;
mod decision;
mod exploration;
mod ids;
mod job;
mod outcome;
mod platform;
pub mod rng;
mod speedup;
mod time;

pub use decision::{Estimate, MapReason, MoveReason, Reason, Refusal, RefusalCause};
pub use exploration::{Capacity, Exploration, ExplorationRun};
pub use ids::{ClusterId, JobId, Owner, Procs};
pub use job::{Job, Request, Walltimes, runtime_at};
pub use outcome::{JobOutcome, MoveRecord, Run};
pub use platform::{Cluster, NAME_MAX, NameError, Platform, PlatformError, Speed, SpeedError, check_name};
pub use speedup::{Speedup, SpeedupError};
pub use time::{Span, SpanMs, Time, TimeMs};
