//! What local users ran on the cluster, page by page, and how the cluster is planned: what a replay needs of a server.

use pliant_control::local::LocalJob;
use pliant_control::names::User;
use pliant_control::server::Server;
use pliant_model::Time;
use pliant_policy::nodes::ClusterSnapshot;
use pliant_wire::{LocalJobCursor, LocalJobsPage, LocalJobsQuery, proto};
use tonic::{Request, Response, Status};

use super::service::Service;
use crate::host::Mailbox;
use crate::host::{SharedArchive, listed};

impl Service {
    /// Answers an operator who asks for a page.
    pub(super) async fn local_jobs(
        &self,
        request: Request<proto::LocalsRequest>,
    ) -> Result<Response<proto::LocalsReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        self.check_operator(&caller, "read the history of local users' jobs")?;
        let query = LocalJobsQuery::try_from(request.into_inner())?;
        let page = page(&self.mailbox, &self.archive, &caller.user, query).await?;
        Ok(Response::new((&page).into()))
    }
}

/// A page: runs that are over, the first to end first, and with the first page the jobs that run or wait.
async fn page(
    mailbox: &Mailbox<Server>,
    archive: &SharedArchive,
    user: &User,
    query: LocalJobsQuery,
) -> Result<LocalJobsPage, Status> {
    let is_first = query.after.is_none();
    let present = move |server: &mut Server, now| {
        let jobs = if is_first { server.local_jobs() } else { Vec::new() };
        (server.config().tuner, server.nodes(now), jobs)
    };
    let present = mailbox.ask(present).await;
    let (tuner, nodes, mut jobs) = present.map_err(|_| Status::unavailable("the server is stopping"))?;
    let nodes = nodes.map(|nodes| ClusterSnapshot { running: Vec::new(), pending: Vec::new(), ..nodes });
    let after = query.after.map(|position| (position.ended.0, position.number));
    let (since, limit) = (query.since.0, query.limit);
    let rows = listed(archive, user, move |archive| archive.local_jobs(since, after, limit)).await?;
    let is_full = rows.len() == limit as usize;
    let next = rows.last().filter(|_| is_full);
    let next = next.map(|((ended, number), _)| LocalJobCursor { ended: Time(*ended), number: *number });
    for (_, row) in &rows {
        let job: Result<LocalJob, _> = serde_json::from_str(&row.record);
        jobs.push(job.map_err(|error| {
            tracing::error!(%error, "unreadable run of a local user's job in the archive");
            Status::data_loss("a run of a local user's job cannot be read")
        })?);
    }
    Ok(LocalJobsPage { tuner, nodes, jobs, next })
}
