//! Acts of operators.

use std::collections::VecDeque;

use pliant_control::job::JobRecord;
use pliant_control::names::Name;
use pliant_control::server::{Ban, Drain};
use pliant_wire::{
    self as wire, AdminOrder, AuditEntry, AuditPage, AuditQuery, ForgetOrder, JobAdminOrder, LimitOrder,
    LimitsList, PriorityOrder, UserAdminOrder, bounds, proto,
};

use super::{Client, ClientError};

impl Client {
    /// Has a server accept no new jobs, and returns the act that it knows now; for operators.
    pub async fn drain(&self, server: &Name, order: &AdminOrder) -> Result<Option<Drain>, ClientError> {
        let request = self.request(proto::AdminRequest::from(order));
        let reply = self.server_named(server).await?.drain(request).await;
        let reply = reply.map_err(|status| ClientError::call(format!("server {server}"), &status))?;
        wire::drained(reply.into_inner()).map_err(ClientError::protocol)
    }

    /// Keeps a waiting job from starting; for operators.
    pub async fn hold(&self, order: &JobAdminOrder) -> Result<JobRecord, ClientError> {
        loop {
            let mut server = self.server_of(&order.job).await?;
            let reply = server.hold(self.request(proto::JobAdminRequest::from(order))).await;
            let job = reply.map_err(|status| self.server_failed(&order.job, &status))?;
            let record = JobRecord::try_from(job.into_inner()).map_err(ClientError::protocol)?;
            if self.is_there(&record) {
                return Ok(record);
            }
        }
    }

    /// Lets a held job start again; for operators.
    pub async fn release(&self, order: &JobAdminOrder) -> Result<JobRecord, ClientError> {
        loop {
            let mut server = self.server_of(&order.job).await?;
            let reply = server.release(self.request(proto::JobAdminRequest::from(order))).await;
            let job = reply.map_err(|status| self.server_failed(&order.job, &status))?;
            let record = JobRecord::try_from(job.into_inner()).map_err(ClientError::protocol)?;
            if self.is_there(&record) {
                return Ok(record);
            }
        }
    }

    /// Gives a waiting job a priority in the queue of its server; for operators.
    pub async fn prioritise(&self, order: &PriorityOrder) -> Result<JobRecord, ClientError> {
        loop {
            let mut server = self.server_of(&order.job).await?;
            let reply = server.prioritise(self.request(proto::PriorityRequest::from(order))).await;
            let job = reply.map_err(|status| self.server_failed(&order.job, &status))?;
            let record = JobRecord::try_from(job.into_inner()).map_err(ClientError::protocol)?;
            if self.is_there(&record) {
                return Ok(record);
            }
        }
    }

    /// Has a server accept nothing of a user, and returns the act that it knows now; for operators.
    pub async fn ban(&self, server: &Name, order: &UserAdminOrder) -> Result<Option<Ban>, ClientError> {
        let request = self.request(proto::UserAdminRequest::from(order));
        let reply = self.server_named(server).await?.ban(request).await;
        let reply = reply.map_err(|status| ClientError::call(format!("server {server}"), &status))?;
        wire::banned(reply.into_inner()).map_err(ClientError::protocol)
    }

    /// Ends the ban of a user at a server; for operators.
    pub async fn unban(&self, server: &Name, order: &UserAdminOrder) -> Result<Option<Ban>, ClientError> {
        let request = self.request(proto::UserAdminRequest::from(order));
        let reply = self.server_named(server).await?.unban(request).await;
        let reply = reply.map_err(|status| ClientError::call(format!("server {server}"), &status))?;
        wire::banned(reply.into_inner()).map_err(ClientError::protocol)
    }

    /// Changes limits of a user at a server, and returns those of the user; for operators.
    pub async fn limit(&self, server: &Name, order: &LimitOrder) -> Result<LimitsList, ClientError> {
        let request = self.request(proto::LimitRequest::from(order));
        let reply = self.server_named(server).await?.limit(request).await;
        let reply = reply.map_err(|status| ClientError::call(format!("server {server}"), &status))?;
        LimitsList::try_from(reply.into_inner()).map_err(ClientError::protocol)
    }

    /// The limits of all users at a server; for operators.
    pub async fn limits(&self, server: &Name) -> Result<LimitsList, ClientError> {
        let request = self.request(proto::LimitsRequest {});
        let reply = self.server_named(server).await?.limits(request).await;
        let reply = reply.map_err(|status| ClientError::call(format!("server {server}"), &status))?;
        LimitsList::try_from(reply.into_inner()).map_err(ClientError::protocol)
    }

    /// Declares a server lost that is not connected, and returns how many jobs ended with it; for operators.
    pub async fn forget(&self, order: &ForgetOrder) -> Result<u32, ClientError> {
        let request = proto::ForgetRequest::from(order);
        let answers =
            self.ask_each(request, |mut agent, request| async move { agent.forget(request).await }).await;
        let mut refused = None;
        let mut ended = None;
        for (_, answer) in answers {
            match answer {
                Ok(reply) => ended = Some(ended.unwrap_or(0) + reply.jobs),
                // It has the jobs of its users still: the command is to be given again.
                Err(error) if error.is_down() => return Err(error),
                // Another master may have forgotten the server before.
                Err(error) => drop(refused.get_or_insert(error)),
            }
        }
        let none = || ClientError::usage("the client's file names no agent");
        ended.ok_or_else(|| refused.unwrap_or_else(none))
    }

    /// Has a server give up the handoffs and siblings from and to a lost server, and returns how many; for operators.
    pub async fn forget_at(&self, server: &Name, order: &ForgetOrder) -> Result<u32, ClientError> {
        let request = self.request(proto::ForgetRequest::from(order));
        let reply = self.server_named(server).await?.forget(request).await;
        let reply = reply.map_err(|status| ClientError::call(format!("server {server}"), &status))?;
        Ok(reply.into_inner().handoffs)
    }

    /// A page of the audit trail of a server, or of an agent of the client's file; for operators.
    pub async fn audit(&self, daemon: &Name, query: &AuditQuery) -> Result<AuditPage, ClientError> {
        let request = self.request(proto::AuditRequest::from(query));
        let reply = match self.agents.iter().find(|(name, _)| name == daemon) {
            Some((_, agent)) => {
                let reply = agent.clone().audit(request).await;
                reply.map_err(|status| ClientError::call(format!("agent {daemon}"), &status))?
            }
            None => {
                let reply = self.server_named(daemon).await?.audit(request).await;
                reply.map_err(|status| ClientError::call(format!("server {daemon}"), &status))?
            }
        };
        AuditPage::try_from(reply.into_inner()).map_err(ClientError::protocol)
    }

    /// The last records of the audit trail of a server, or of an agent of the client's file, in the order of their numbers; for
    /// operators.
    pub async fn audit_trail(&self, daemon: &Name, most: usize) -> Result<Vec<AuditEntry>, ClientError> {
        let mut query = AuditQuery { after: 0, limit: bounds::AUDIT_MAX as u32 };
        let mut entries = VecDeque::new();
        loop {
            let page = self.audit(daemon, &query).await?;
            entries.extend(page.records);
            entries.drain(..entries.len().saturating_sub(most));
            match page.next {
                Some(next) if next > query.after => query.after = next,
                _ => return Ok(entries.into()),
            }
        }
    }

    /// The agents of the client's file.
    pub fn agents(&self) -> impl Iterator<Item = &Name> {
        self.agents.iter().map(|(name, _)| name)
    }

    /// Has a server accept jobs again; for operators.
    pub async fn resume(&self, server: &Name, order: &AdminOrder) -> Result<Option<Drain>, ClientError> {
        let request = self.request(proto::AdminRequest::from(order));
        let reply = self.server_named(server).await?.resume(request).await;
        let reply = reply.map_err(|status| ClientError::call(format!("server {server}"), &status))?;
        wire::drained(reply.into_inner()).map_err(ClientError::protocol)
    }
}
