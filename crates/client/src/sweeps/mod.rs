//! Sweeps, the multi-jobs of paper 002: many calls of a service that differ in their arguments, spread over the servers.
//!
//! [`Sweeper`] drives the machine of `pliant_control::multi_job`: it asks servers for their prospects, submits batches of instances
//! as jobs, follows the output of each batch, and journals all of it in a folder ([`SweepFolder`]), from which another client can
//! resume.
//!
//! The key of a batch follows from the key of the sweep and the number of the batch, which is journaled before the batch is sent.
//! After a crash the same batch goes to the same server under the same key, and is accepted once. So no instance is lost or
//! counted twice on any failure. An instance runs twice only if its job is lost with a supervisor or a host.

mod batches;
mod executor;
mod folder;
mod instance_index;
mod poll_schedule;
mod prospects;
mod results;
#[cfg(test)]
mod scale_tests;
mod spec;
mod state;
mod sweeper;
mod view;

use folder::Entry;

pub use folder::SweepFolder;
pub use results::{InstanceRecord, InstanceState, SweepResults};
pub use spec::{SweepPreview, SweepSpec, SweepStatus};
pub use sweeper::Sweeper;
pub use view::{InstanceFacts, ServerInstances, SweepView};
