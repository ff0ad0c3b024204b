//! Everybody's jobs, page by page: what a replay needs of the federation's own.

use pliant_control::agent::Agent;
use pliant_control::job::JobRecord;
use pliant_control::names::User;
use pliant_journal::{Archive, JobRow};
use pliant_model::Time;
use pliant_wire::{HistoryCursor, HistoryPage, HistoryQuery};
use tonic::Status;

use super::child_connection::stopped;
use crate::host::Mailbox;
use crate::host::{SharedArchive, listed, record};

/// A page: jobs that have ended, the last to end first, and with the first page those that have not.
pub(super) async fn page(
    mailbox: &Mailbox<Agent>,
    archive: &SharedArchive,
    user: &User,
    query: HistoryQuery,
) -> Result<HistoryPage, Status> {
    let mut jobs = Vec::new();
    if query.after.is_none() {
        let present = |agent: &mut Agent, _| -> Vec<JobRecord> {
            agent.jobs().filter(|job| !job.state.is_final()).cloned().collect()
        };
        jobs = mailbox.ask(present).await.map_err(|_| stopped())?;
    }
    let HistoryQuery { since, after, limit } = query;
    let before = after.map(|position| (position.ended.0, position.server.to_string(), position.number));
    let look = move |archive: &mut dyn Archive| archive.ended_since(since.0, before, limit);
    let rows = listed(archive, user, look).await?;
    let is_full = rows.len() == limit as usize;
    let next = rows.last().filter(|_| is_full).map(position).transpose()?;
    let ended = rows.iter().map(record).collect::<Result<Vec<_>, _>>()?;
    // One that has gone to a server below another agent is reported by that agent.
    jobs.extend(ended.into_iter().filter(|job| job.state.is_final()));
    Ok(HistoryPage { jobs, next })
}

fn position(row: &JobRow) -> Result<HistoryCursor, Status> {
    let JobRow { server, number, ended, .. } = row;
    let name = server.parse();
    let server = name.map_err(|_| Status::data_loss(format!("`{server}` in the archive names no server")))?;
    Ok(HistoryCursor { ended: Time(*ended), server, number: *number })
}
