//! The last listing, corrected by what was done since.

use std::borrow::Cow;

use pliant_model::JobId;

use super::External;
use super::job::Job;
use crate::listing::{ListedJob, Listing, Phase, State};

impl External {
    /// The last listing without our jobs that were withdrawn since, and with our held jobs as pending: they will start or be
    /// withdrawn soon. Otherwise estimates would offer processors that are already promised.
    pub(super) fn current_listing(&self) -> Cow<'_, Listing> {
        let is_old = |job: &ListedJob| self.is_obsolete(job) || self.is_held_by_us(job);
        if !self.mirror.jobs.iter().any(is_old) {
            return Cow::Borrowed(&self.mirror);
        }
        let mut listing = self.mirror.clone();
        listing.jobs.retain(|job| !self.is_obsolete(job));
        for job in &mut listing.jobs {
            if self.is_held_by_us(job) {
                (job.state, job.wait_reason) = (State::Pending, None);
            }
        }
        Cow::Owned(listing)
    }

    /// True if the entry is of a job that waits for this server.
    pub(super) fn is_ours(&self, listed: &ListedJob) -> bool {
        listed.job_number.is_some_and(|number| self.jobs.contains_key(&JobId(number)))
    }

    /// True if the entry is of a job of this server that no longer waits.
    fn is_obsolete(&self, listed: &ListedJob) -> bool {
        let of_this_journal = |number| {
            self.numbers.is_some_and(|(lowest, highest)| (lowest..=highest).contains(&number))
                && !self.jobs.contains_key(&number)
        };
        listed.phase() == Phase::Waiting && listed.job_number.map(JobId).is_some_and(of_this_journal)
    }

    /// True if the entry is held by this server, now or when the listing was made, for a job that may start.
    fn is_held_by_us(&self, listed: &ListedJob) -> bool {
        // A deferred job will not start soon: it waits for processors from then on.
        let is_deferred = |job: &Job| job.held && !job.releasing && self.mirror.at < job.submission.submit;
        let by_us = |number| {
            self.jobs
                .get(&number)
                .filter(|job| !job.tentative && !is_deferred(job))
                .is_some_and(|job| job.held || job.releasing || self.mirror.at <= job.released_at)
        };
        listed.state == State::Held && listed.job_number.map(JobId).is_some_and(by_us)
    }
}
