//! Acts of operators.

use pliant_control::names::{Token, User};
use pliant_control::server::{Answer, Event};
use pliant_wire::{self as wire, AdminOrder, proto};
use tonic::{Request, Response, Status};

use super::service::Service;
use crate::gate::{ASK_OPERATOR, for_operators};

impl Service {
    /// Has the machine carry out and journal an act, which `what` names.
    pub(super) async fn administer(
        &self,
        what: &str,
        request: Request<proto::AdminRequest>,
        act: impl FnOnce(Token, User, String) -> Event,
    ) -> Result<Response<proto::DrainReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        if !caller.operator {
            tracing::warn!(by = %caller.user, act = what, "refused: not an operator");
            return Err(for_operators(what, ASK_OPERATOR));
        }
        let AdminOrder { why } = AdminOrder::try_from(request.into_inner())?;
        tracing::info!(by = %caller.user, act = what, why, "administration");
        let bytes = why.len();
        match self.call(|reply| act(reply, caller.user, why), bytes).await? {
            Answer::Drained(drained) => Ok(Response::new(wire::drain_reply(drained.as_ref()))),
            _ => Err(Status::internal("not an answer to an act of an operator")),
        }
    }
}
