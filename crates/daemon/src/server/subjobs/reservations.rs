//! What launches hold at this server, for their owners and for operators, who end what an agent that is gone has left.

use pliant_control::coallocation::{SubjobId, SubjobState};
use pliant_control::server::{ListedSubjob, Server, SubjobEvent};
use pliant_wire::{HeldSubjobs, proto};
use tonic::{Request, Response, Status};

use crate::gate::for_operators;
use crate::server::service::{Service, stopping};

#[tonic::async_trait]
impl proto::held_subjobs_server::HeldSubjobs for Service {
    async fn list(
        &self,
        request: Request<proto::HeldSubjobsRequest>,
    ) -> Result<Response<proto::HeldSubjobsReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let held = move |server: &mut Server, now| {
            let subjobs: Vec<ListedSubjob> =
                server.list_subjobs().filter(|subjob| caller.may_access(&subjob.owner)).collect();
            HeldSubjobs { now, subjobs }
        };
        let held = self.mailbox.ask(held).await.map_err(|_| stopping())?;
        Ok(Response::new((&held).into()))
    }

    async fn give_up(
        &self,
        request: Request<proto::SubjobId>,
    ) -> Result<Response<proto::SubjobState>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        if !caller.operator {
            return Err(for_operators(
                "end single subjobs of a launch",
                "`pliant cancel LAUNCH` ends a launch of your own with all its subjobs",
            ));
        }
        let id = SubjobId::try_from(request.into_inner())?;
        tracing::warn!(subjob = %id, by = %caller.user, "an operator ends a subjob");
        let (subjob_id, by) = (id.clone(), caller.user);
        match self.subjob(|reply| SubjobEvent::EndedByOperator { reply, id, by }, 0).await? {
            SubjobState::Unknown => Err(Status::not_found(format!("no {subjob_id} is here"))),
            state => Ok(Response::new((&state).into())),
        }
    }
}
