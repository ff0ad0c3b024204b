//! Collects the history of a federation for a what-if replay.

use pliant_control::agent::ReallocationConfig;
use pliant_control::job::JobRecord;
use pliant_control::server_info::ServerInfo;
use pliant_model::{Span, Time};
use pliant_wire::{HistoryPage, HistoryQuery, LocalJobsPage, LocalJobsQuery, ServerStatus, bounds, proto};

use super::{Client, ClientError};

/// The recorded history of a federation.
#[derive(Clone, PartialEq, Debug)]
pub struct History {
    /// The start of the history.
    pub since: Time,
    /// The end of the history, by the agent's clock.
    pub now: Time,
    /// The current reallocation policy, if waiting jobs are moved.
    pub moving: Option<ReallocationConfig>,
    /// The servers that answered, each with its local jobs.
    pub servers: Vec<(ServerInfo, LocalJobsPage)>,
    /// The servers that did not answer, and why.
    pub silent: Vec<(ServerInfo, ClientError)>,
    /// The jobs of all users.
    pub jobs: Vec<JobRecord>,
}

impl Client {
    /// The history of the last `back`; for operators.
    pub async fn history(&self, back: Span) -> Result<History, ClientError> {
        let federation = self.servers().await?;
        let now = federation.now.ok_or_else(|| ClientError::protocol("now: expected it, found none"))?;
        let since = now - back;
        let jobs = self.jobs_since(since).await?;
        let (mut servers, mut silent) = (Vec::new(), Vec::new());
        for ServerStatus { info, .. } in federation.servers {
            match self.locals_of(&info, since).await {
                Ok(page) => servers.push((info, page)),
                Err(error) => silent.push((info, error)),
            }
        }
        Ok(History { since, now, moving: self.moving().await?, servers, silent, jobs })
    }

    async fn jobs_since(&self, since: Time) -> Result<Vec<JobRecord>, ClientError> {
        let mut jobs = Vec::new();
        for master in 0..self.masters.count() {
            let mut query = HistoryQuery { since, after: None, limit: bounds::JOBS_MAX as u32 };
            loop {
                let request = proto::HistoryRequest::from(&query);
                let reply = self.ask_nth(master, request, |mut agent, request| async move {
                    agent.history(request).await
                });
                let page = HistoryPage::try_from(reply.await?).map_err(ClientError::protocol)?;
                jobs.extend(page.jobs);
                match page.next {
                    Some(next) => query.after = Some(next),
                    None => break,
                }
            }
        }
        Ok(jobs)
    }

    /// The local jobs of a server, from all pages.
    async fn locals_of(&self, info: &ServerInfo, since: Time) -> Result<LocalJobsPage, ClientError> {
        let mut query = LocalJobsQuery { since, after: None, limit: bounds::LOCALS_MAX as u32 };
        let mut server = self.server(&info.name, &info.address)?;
        let mut all: Option<LocalJobsPage> = None;
        loop {
            let reply = server.locals(self.request(proto::LocalsRequest::from(&query))).await;
            let reply =
                reply.map_err(|status| ClientError::call(format!("server {}", info.name), &status))?;
            let page = LocalJobsPage::try_from(reply.into_inner()).map_err(ClientError::protocol)?;
            let next = page.next;
            let whole = match all.take() {
                Some(mut whole) => {
                    whole.jobs.extend(page.jobs);
                    whole
                }
                None => LocalJobsPage { next: None, ..page },
            };
            match next {
                Some(next) => (query.after, all) = (Some(next), Some(whole)),
                None => return Ok(whole),
            }
        }
    }
}
