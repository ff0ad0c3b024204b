//! A client of a federation, on one runtime of the module. What users call is in `python/pliant/client.py`.

mod client;
mod errors;
mod launch;
mod pending;
mod record;
mod reporting;
mod sweep;
mod task;

pub(crate) use client::Connection;
pub(crate) use launch::{Launch, LaunchTask};
pub(crate) use pending::Pending;
pub(crate) use record::{Estimate, Estimates, Exit, Job, Offer, Refusal, ResultFile, Results};
pub(crate) use sweep::{ExplorationResult, Instance, Instances, SweepResult};
pub(crate) use task::{Task, panicking};
