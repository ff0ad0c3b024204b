//! Jobs that have gone to servers below other agents.

use std::collections::{BTreeMap, VecDeque};

use pliant_model::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::job::JobRecord;
use crate::names::Handle;

/// How long a departed job is remembered: longer than an earlier server of the job may be down, whose status updates then come late.
const KEPT: Span = Span(7 * 86_400);

/// What is remembered of a departed job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct DepartedJob {
    at: Time,
    job: Handle,
    /// The progress of its last record ([`JobRecord::progress`]).
    progress: (usize, u32),
}

/// The progress of jobs that have gone to servers below other agents, so that a late status update of an earlier server does not
/// restore them.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(from = "VecDeque<DepartedJob>", into = "VecDeque<DepartedJob>")]
pub(super) struct DepartedJobs {
    /// By time of departure. A job that has departed twice is in it twice.
    by_time: VecDeque<DepartedJob>,
    progress: BTreeMap<Handle, (usize, u32)>,
}

impl DepartedJobs {
    pub(super) fn is_empty(&self) -> bool {
        self.by_time.is_empty()
    }

    pub(super) fn insert(&mut self, now: Time, record: &JobRecord) {
        let (job, progress) = (record.handle.clone(), record.progress());
        self.progress.insert(job.clone(), progress);
        self.by_time.push_back(DepartedJob { at: now, job, progress });
    }

    /// True if a job departed with more progress than this record has.
    pub(super) fn is_late(&self, record: &JobRecord) -> bool {
        self.progress.get(&record.handle).is_some_and(|known| *known > record.progress())
    }

    /// When [`DepartedJobs::forget`] has to run next.
    pub(super) fn next_forgotten(&self) -> Option<Time> {
        self.by_time.front().map(|first| first.at + KEPT)
    }

    /// Forgets jobs that departed long enough ago.
    pub(super) fn forget(&mut self, now: Time) {
        while self.next_forgotten().is_some_and(|at| at <= now) {
            let Some(DepartedJob { job, progress, .. }) = self.by_time.pop_front() else { return };
            // Unless it has departed again since.
            if self.progress.get(&job) == Some(&progress) {
                self.progress.remove(&job);
            }
        }
    }
}

impl From<VecDeque<DepartedJob>> for DepartedJobs {
    fn from(by_time: VecDeque<DepartedJob>) -> DepartedJobs {
        let progress = by_time.iter().map(|departed| (departed.job.clone(), departed.progress)).collect();
        DepartedJobs { by_time, progress }
    }
}

impl From<DepartedJobs> for VecDeque<DepartedJob> {
    fn from(departed: DepartedJobs) -> VecDeque<DepartedJob> {
        departed.by_time
    }
}
