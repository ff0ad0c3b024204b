//! How jobs ended, as the controller and the accounts know it together.

use std::collections::{BTreeMap, BTreeSet};

use pliant_control::listing::{ListedJob, Phase};

use super::call::AccountsOf;
use super::mark::Mark;
use super::{IDS_MAX, Slurm, accounts, call};
use crate::batch_system::error::BatchSystemError;

impl Slurm {
    /// The outcomes of these jobs, by ID, with the ends of their processes: those that are over and that Slurm still
    /// knows. One that is missing runs, waits, was over too long ago, was forgotten, or is another user's by now. One of
    /// ours may have the id of an earlier one: see [`ListedJob::job_number`].
    ///
    /// # Errors
    /// Neither the accounts nor the controller answer.
    pub async fn ended(&self, ids: &[&str]) -> Result<BTreeMap<String, ListedJob>, BatchSystemError> {
        let mut ended = BTreeMap::new();
        for ids in ids.chunks(IDS_MAX) {
            let remembered = self.remembered(ids).await;
            let accounted = match self.about.accounts {
                true => self.accounted(ids).await,
                false => Ok(Vec::new()),
            };
            // Either will do: the accounts know longer, and may be a while behind.
            let (remembered, accounted) = match (remembered, accounted) {
                (Err(error), Err(_)) => return Err(error),
                (Err(error), Ok(accounted)) if accounted.is_empty() => return Err(error),
                (remembered, accounted) => (remembered.unwrap_or_default(), accounted.unwrap_or_default()),
            };
            // The controller has the last word: numbers begin anew when its state was lost, and the accounts stay.
            let known: BTreeSet<String> = remembered.iter().map(|job| job.id.clone()).collect();
            let accounted = accounted.into_iter().filter(|job| !known.contains(&job.id));
            let over = |job: &ListedJob| job.phase() == Phase::Ended && ids.contains(&job.id.as_str());
            let jobs = remembered.into_iter().chain(accounted).filter(over);
            ended.extend(jobs.map(|job| (job.id.clone(), job)));
        }
        Ok(ended)
    }

    async fn remembered(&self, ids: &[&str]) -> Result<Vec<ListedJob>, BatchSystemError> {
        let mark = Mark::draw();
        let printed = match self.run(&call::exits(&ids.join(","), &accounts::exits_format(&mark))).await {
            Err(BatchSystemError::UnknownJob { .. }) => return Ok(Vec::new()),
            printed => printed?.stdout,
        };
        Ok(accounts::read_exits(&printed, &mark, &self.submitter)?)
    }

    async fn accounted(&self, ids: &[&str]) -> Result<Vec<ListedJob>, BatchSystemError> {
        self.accounts(&AccountsOf::Ids(ids.join(","))).await
    }

    /// What the accounts say of these jobs.
    pub(super) async fn accounts(&self, of: &AccountsOf) -> Result<Vec<ListedJob>, BatchSystemError> {
        let ends = self.run(&call::accounts(of, accounts::ACCOUNTS)).await?.stdout;
        if ends.is_empty() {
            return Ok(Vec::new());
        }
        let mark = Mark::draw();
        let named = self.run(&call::marked_accounts(of, accounts::NAMES, &mark)).await?.stdout;
        let names = accounts::read_names(&named, &mark)?;
        Ok(accounts::read_accounts(&ends, &names, &self.submitter)?)
    }
}
