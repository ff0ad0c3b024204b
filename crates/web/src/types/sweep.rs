//! Sweeps and arrays as their jobs show them.

use std::fmt;
use std::str::FromStr;

use pliant_control::multi_job::common_key;
use pliant_control::names::Key;
use serde::Serialize;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use super::{GroupView, JobGroupView, JobView};

/// What the jobs of a sweep have in common. It is made from the keys of their submissions, and says nothing about them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct SweepId(u64);

impl SweepId {
    /// That of the sweep of a job with this key; a job that is not of a sweep has one for itself.
    pub(crate) fn of(key: Key) -> SweepId {
        let [a, b, c, d, e, f, g, h, ..]: [u8; 32] =
            Sha256::new().chain_update("sweep").chain_update(common_key(key)).finalize().into();
        SweepId(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }
}

impl fmt::Display for SweepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for SweepId {
    type Err = String;
    fn from_str(text: &str) -> Result<SweepId, String> {
        let number = u64::from_str_radix(text, 16).ok().map(SweepId);
        number.filter(|id| id.to_string() == text).ok_or_else(|| {
            let found: String = text.chars().take(80).flat_map(char::escape_debug).collect();
            format!("sweep: expected the ID of a sweep, 16 hexadecimal digits, found `{found}`")
        })
    }
}

/// A sweep or an array, as its jobs show it. Each job runs one or more instances.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct SweepJobsView {
    /// Its jobs with their states; `value` is the ID of the sweep, for the filter `sweep` of lists of jobs.
    pub(crate) group: JobGroupView,
    /// The service or the script that it runs.
    pub(crate) name: String,
    /// The user who submitted it.
    pub(crate) owner: String,
    /// The servers that have or had its jobs, by name.
    pub(crate) servers: Vec<GroupView>,
    /// When its first job was accepted.
    pub(crate) submitted_s: i64,
    /// When its last job ended; none while one waits or runs.
    pub(crate) ended_s: Option<i64>,
}

impl SweepJobsView {
    /// The sweep of a job; no job is counted yet.
    pub(crate) fn of(job: &JobView) -> SweepJobsView {
        SweepJobsView {
            group: JobGroupView { value: job.sweep.to_string(), ..JobGroupView::default() },
            name: job.name.clone(),
            owner: job.owner.clone(),
            servers: Vec::new(),
            submitted_s: job.submitted_s,
            ended_s: Some(i64::MIN),
        }
    }

    /// Counts one more of its jobs.
    pub(crate) fn count(&mut self, job: &JobView) {
        self.group.add(job.state, 1);
        self.submitted_s = self.submitted_s.min(job.submitted_s);
        // A job that could not be started has ended without a time.
        self.ended_s = match job.state.is_final() {
            true => self.ended_s.map(|ended| ended.max(job.ended_s.unwrap_or(job.submitted_s))),
            false => None,
        };
        match self.servers.binary_search_by(|server| server.value.cmp(&job.server)) {
            Ok(place) => self.servers[place].jobs += 1,
            Err(place) => self.servers.insert(place, GroupView { value: job.server.clone(), jobs: 1 }),
        }
    }
}

/// The sweep of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct SweepPartView {
    /// Its ID, for the filter `sweep` of lists of jobs.
    pub(crate) id: String,
    /// How many jobs of it are known.
    pub(crate) jobs: usize,
}

/// Sweeps and arrays.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct SweepsView {
    /// Those with at least two jobs, the newest first.
    pub(crate) sweeps: Vec<SweepJobsView>,
    /// How many older ones are left out.
    pub(crate) left_out: usize,
    /// False while older jobs are still being read from the agent.
    pub(crate) complete: bool,
}

#[cfg(test)]
mod tests {
    use pliant_control::multi_job::batch_key;

    use super::*;

    #[test]
    fn jobs_of_a_sweep_have_one_id_and_others_have_none_in_common() {
        let (one, other) = (Key([7; 16]), Key([8; 16]));
        assert_eq!(SweepId::of(batch_key(one, 0)), SweepId::of(batch_key(one, 70_000)));
        assert_ne!(SweepId::of(one), SweepId::of(other));
        let id = SweepId::of(one);
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in ["", "+", "0", "zz", &id.to_string()[1..], &id.to_string().to_uppercase()] {
            assert!(wrong.parse::<SweepId>().is_err(), "{wrong}");
        }
    }
}
