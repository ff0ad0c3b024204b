//! Acts of operators, and the audit trail.

use std::time::Instant;

use pliant_control::access::Caller;
use pliant_control::names::{Handle, Token, User};
use pliant_control::server::{Answer, Event, LimitChange, Server, UserLimits};
use pliant_wire::{
    self as wire, AdminOrder, ForgetOrder, JobAdminOrder, LimitOrder, LimitsList, ListedBan, ListedLimits,
    PriorityOrder, UserAdminOrder, proto,
};
use tonic::{Request, Response, Status};

use super::service::{Service, stopping};
use crate::audit;
use crate::call_log::log_call;
use crate::gate::{ASK_OPERATOR, for_operators};
use crate::host::no_such_job;

impl Service {
    /// Has the machine carry out and journal an act, which `what` names.
    pub(super) async fn administer(
        &self,
        what: &str,
        request: Request<proto::AdminRequest>,
        act: impl FnOnce(Token, User, String) -> Event,
    ) -> Result<Response<proto::DrainReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        self.check_operator(&caller, what)?;
        let AdminOrder { why } = AdminOrder::try_from(request.into_inner())?;
        tracing::info!(by = %caller.user, act = what, why, "administration");
        let bytes = why.len();
        match self.call(|reply| act(reply, caller.user, why), bytes).await? {
            Answer::Drained(drained) => Ok(Response::new(wire::drain_reply(drained.as_ref()))),
            _ => Err(Status::internal("not an answer to an act of an operator")),
        }
    }

    /// The same about a job, whose record is the answer.
    pub(super) async fn administer_job(
        &self,
        what: &str,
        request: Request<proto::JobAdminRequest>,
        act: impl FnOnce(Token, u32, User, String) -> Event,
    ) -> Result<Response<proto::Job>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        self.check_operator(&caller, what)?;
        let JobAdminOrder { job, why } = JobAdminOrder::try_from(request.into_inner())?;
        tracing::info!(%job, by = %caller.user, act = what, why, "administration");
        let bytes = why.len();
        self.act_on_job(what, &job, bytes, |reply, number| act(reply, number, caller.user, why)).await
    }

    /// Has the machine give a waiting job a priority.
    pub(super) async fn change_priority(
        &self,
        request: Request<proto::PriorityRequest>,
    ) -> Result<Response<proto::Job>, Status> {
        let what = "set the priority of a job";
        let (caller, _pass) = self.gate.user(&request)?;
        self.check_operator(&caller, what)?;
        let PriorityOrder { job, why, priority } = PriorityOrder::try_from(request.into_inner())?;
        tracing::info!(%job, by = %caller.user, act = what, priority, why, "administration");
        let bytes = why.len();
        let act = |reply, number| Event::Prioritise { reply, number, priority, by: caller.user, why };
        self.act_on_job(what, &job, bytes, act).await
    }

    async fn act_on_job(
        &self,
        what: &str,
        job: &Handle,
        bytes: usize,
        act: impl FnOnce(Token, u32) -> Event,
    ) -> Result<Response<proto::Job>, Status> {
        let Some(number) = self.number(job).await? else { return Err(no_such_job(job)) };
        match self.call(|reply| act(reply, number), bytes).await? {
            Answer::Job(record) | Answer::Elsewhere(record) => {
                Ok(Response::new((&record.without_signatures()).into()))
            }
            Answer::Unsuited(why) => Err(Status::failed_precondition(format!("cannot {what}, {job}: {why}"))),
            _ => Err(no_such_job(job)),
        }
    }

    /// The same about a user, whose ban is the answer.
    pub(super) async fn administer_user(
        &self,
        what: &str,
        request: Request<proto::UserAdminRequest>,
        act: impl FnOnce(Token, User, User, String) -> Event,
    ) -> Result<Response<proto::BanReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        self.check_operator(&caller, what)?;
        let UserAdminOrder { user, why } = UserAdminOrder::try_from(request.into_inner())?;
        tracing::info!(%user, by = %caller.user, act = what, why, "administration");
        let bytes = why.len();
        match self.call(|reply| act(reply, user, caller.user, why), bytes).await? {
            Answer::Banned(banned) => Ok(Response::new(wire::ban_reply(banned.as_ref()))),
            _ => Err(Status::internal("not an answer to an act of an operator")),
        }
    }

    /// Has the machine change limits of a user.
    pub(super) async fn change_limits(
        &self,
        request: Request<proto::LimitRequest>,
    ) -> Result<Response<proto::LimitsReply>, Status> {
        let what = "limit a user";
        let (caller, _pass) = self.gate.user(&request)?;
        self.check_operator(&caller, what)?;
        let LimitOrder { user, why, changes } = LimitOrder::try_from(request.into_inner())?;
        tracing::info!(%user, by = %caller.user, act = what, ?changes, why, "administration");
        let (named, bytes) = (user.clone(), why.len());
        let event = |reply| Event::Limit { reply, user, changes, by: caller.user, why };
        match self.call(event, bytes).await? {
            Answer::Limited(limits) => {
                let users = limits.iter().map(|limits| listed_limits(&named, limits)).collect();
                Ok(Response::new((&LimitsList { users, bans: Vec::new() }).into()))
            }
            Answer::Unsuited(why) => Err(Status::failed_precondition(format!("cannot {what}: {why}"))),
            _ => Err(Status::internal("not an answer to an act of an operator")),
        }
    }

    /// The limits of all users, and the banned users.
    pub(super) async fn list_limits(
        &self,
        request: Request<proto::LimitsRequest>,
    ) -> Result<Response<proto::LimitsReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        self.check_operator(&caller, "list the limits of users")?;
        let list = |server: &mut Server, _| {
            let limits = server.user_limits().iter().map(|(user, limits)| listed_limits(user, limits));
            let bans = server.bans().iter();
            let bans = bans.map(|(user, ban)| ListedBan { user: user.clone(), ban: ban.clone() });
            LimitsList { users: limits.collect(), bans: bans.collect() }
        };
        let list = self.mailbox.ask(list).await.map_err(|_| stopping())?;
        Ok(Response::new((&list).into()))
    }

    /// Has the machine give up what waits for a lost server.
    pub(super) async fn forget_server(
        &self,
        request: Request<proto::ForgetRequest>,
    ) -> Result<Response<proto::ForgetReply>, Status> {
        let what = "declare a server lost";
        let (caller, _pass) = self.gate.user(&request)?;
        self.check_operator(&caller, what)?;
        let ForgetOrder { server, why } = ForgetOrder::try_from(request.into_inner())?;
        tracing::info!(%server, by = %caller.user, act = what, why, "administration");
        let bytes = why.len();
        match self.call(|reply| Event::Forget { reply, server, by: caller.user, why }, bytes).await? {
            Answer::Forgotten(handoffs) => Ok(Response::new(proto::ForgetReply { jobs: 0, handoffs })),
            Answer::Unsuited(why) => Err(Status::failed_precondition(format!("cannot {what}: {why}"))),
            _ => Err(Status::internal("not an answer to an act of an operator")),
        }
    }

    /// A page of the audit trail.
    pub(super) async fn audit_page(
        &self,
        request: Request<proto::AuditRequest>,
    ) -> Result<Response<proto::AuditReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        self.check_operator(&caller, "read the audit trail")?;
        let page = audit::page(&self.archive, request.into_inner().try_into()?).await?;
        Ok(Response::new((&page).into()))
    }

    /// Refuses callers who are not operators, and records that.
    pub(super) fn check_operator(&self, caller: &Caller, what: &str) -> Result<(), Status> {
        if caller.operator {
            return Ok(());
        }
        self.denied(caller, what);
        Err(for_operators(what, ASK_OPERATOR))
    }

    /// Records that a caller may not do what was asked for.
    pub(super) fn denied(&self, caller: &Caller, what: &str) {
        log_call!(warn, caller.user, by = %caller.user, act = what, "refused for lack of rights");
        if self.denials.admit(&caller.user, Instant::now()) {
            let event = Event::Denied { by: caller.user.clone(), act: what.to_owned() };
            // The log has it if the machine has too much to do.
            let _ = self.mailbox.try_send(event, what.len());
        }
    }
}

fn listed_limits(user: &User, limits: &UserLimits) -> ListedLimits {
    let UserLimits { values, at, by, why } = limits;
    let limits = values.iter().map(|(key, value)| LimitChange { key: *key, value: Some(*value) }).collect();
    ListedLimits { user: user.clone(), limits, at: *at, by: by.clone(), why: why.clone() }
}
