//! What a batch system lists, as far as it is still true: a listing is older than what was done since.

use std::borrow::Cow;

use pliant_model::JobId;

use super::External;
use crate::listing::{ListedJob, Listing, Phase, State};

impl External {
    /// The last listing without our jobs that have been withdrawn since, and with those that are or were held until now
    /// in their places: they will start in their turn, or be withdrawn soon. Otherwise whoever is asked next where a job
    /// would complete early would be told of room that is given away already.
    pub(super) fn current_listing(&self) -> Cow<'_, Listing> {
        let is_old = |job: &ListedJob| self.is_gone(job) || self.is_held_by_us(job);
        if !self.mirror.jobs.iter().any(is_old) {
            return Cow::Borrowed(&self.mirror);
        }
        let mut listing = self.mirror.clone();
        listing.jobs.retain(|job| !self.is_gone(job));
        for job in &mut listing.jobs {
            if self.is_held_by_us(job) {
                (job.state, job.waits_for) = (State::Pending, None);
            }
        }
        Cow::Owned(listing)
    }

    /// It is one that waits here for this server.
    pub(super) fn is_ours(&self, listed: &ListedJob) -> bool {
        listed.ours.is_some_and(|number| self.jobs.contains_key(&JobId(number)))
    }

    /// It was ours, and waits here no more.
    fn is_gone(&self, listed: &ListedJob) -> bool {
        let of_this_journal = |number| {
            self.numbers.is_some_and(|(lowest, highest)| (lowest..=highest).contains(&number))
                && !self.jobs.contains_key(&number)
        };
        listed.phase() == Phase::Waits && listed.ours.map(JobId).is_some_and(of_this_journal)
    }

    /// It is listed as held because we hold it, or did when the listing was made; not because somebody else does.
    fn is_held_by_us(&self, listed: &ListedJob) -> bool {
        let by_us = |number| {
            self.jobs
                .get(&number)
                .filter(|job| !job.tentative)
                .is_some_and(|job| job.held || job.releasing || self.mirror.at <= job.released_at)
        };
        listed.state == State::Held && listed.ours.map(JobId).is_some_and(by_us)
    }
}
