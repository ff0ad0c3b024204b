//! The values of Pliant: time, processors, jobs and their speedup models, clusters and platforms, estimates, decisions,
//! finished runs and campaigns.
//!
//! This crate reads no clock, file or environment and knows no wire format (ARCHITECTURE.md, invariants 2 and 3), so
//! that simulator and live federation share the same values.

mod batch_options;
#[cfg(feature = "serde")]
pub mod campaign;
mod cluster_nodes;
mod decision;
mod exploration;
mod gpu_table;
mod hash;
mod ids;
mod job;
mod outcome;
mod platform;
mod resource_text;
mod resources;
pub mod rng;
mod speedup;
mod time;

pub use batch_options::BatchOptions;
pub use cluster_nodes::{
    ClusterNodes, NODE_GROUPS_MAX, NODES_MAX, NodeGroup, NodesError, PROCS_PER_NODE_MAX,
};
pub use decision::{Estimate, MapReason, MoveReason, Reason, Refusal, RefusalCause};
pub use exploration::{Capacity, Exploration, ExplorationRun};
pub use gpu_table::GpuPoint;
pub use hash::Fnv;
pub use ids::{ClusterId, JobId, Owner, Procs};
pub use job::{Job, LoggedMemory, Request, Walltimes, runtime_at};
pub use outcome::{JobOutcome, MoveRecord, PlannedJob, Run};
pub use platform::{Cluster, NAME_MAX, NameError, Platform, PlatformError, Speed, SpeedError, check_name};
pub use resource_text::{ResourceTextError, parse_amount, parse_licences, parse_word};
pub use resources::{
    A_WORD, Constraint, GpuCount, Gpus, Mebibytes, MebibytesError, Memory, Resources, ResourcesError,
    WORD_BYTES_MAX, is_word,
};
pub use speedup::{Speedup, SpeedupError};
pub use time::{Span, SpanMs, Time, TimeMs, Utc};
