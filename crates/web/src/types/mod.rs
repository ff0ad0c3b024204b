//! What the API says, as types: their comments are the descriptions of the OpenAPI document. Times are in seconds since the Unix
//! epoch, lengths of time in seconds.

mod admin;
mod call;
mod clusters;
mod job;
mod launch;
mod placement;
mod submission;
mod submitted;
mod sweep;
mod token;
mod what_if;
mod work;

pub(crate) use admin::*;
pub(crate) use call::*;
pub(crate) use clusters::*;
pub(crate) use job::*;
pub(crate) use launch::*;
pub(crate) use placement::*;
pub(crate) use submission::*;
pub(crate) use submitted::*;
pub(crate) use sweep::*;
pub(crate) use token::*;
pub(crate) use what_if::*;
pub(crate) use work::*;

use pliant_model::{Estimate, Time};
use serde::Serialize;
use utoipa::ToSchema;

/// When and on how many processors a job would run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct EstimateView {
    /// The number of processors.
    pub(crate) procs: u32,
    /// The walltime.
    pub(crate) walltime_s: i64,
    /// The start.
    pub(crate) start_s: i64,
    /// The completion: the start and the walltime.
    pub(crate) completion_s: i64,
}

impl From<&Estimate> for EstimateView {
    fn from(estimate: &Estimate) -> EstimateView {
        EstimateView {
            procs: estimate.procs.0,
            walltime_s: estimate.walltime.0,
            start_s: estimate.start.0,
            completion_s: estimate.completion().0,
        }
    }
}

/// The present by the clock of this machine; the epoch itself if it says something earlier.
pub(crate) fn now() -> Time {
    let elapsed = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    Time(i64::try_from(elapsed.unwrap_or_default().as_secs()).unwrap_or(i64::MAX))
}
