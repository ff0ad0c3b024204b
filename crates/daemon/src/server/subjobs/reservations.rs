//! What launches hold at this server, for their owners and for operators, who end what an agent that is gone has left.

use pliant_control::coallocation::{PartId, Standing};
use pliant_control::server::{HeldPart, PartEvent, Server};
use pliant_wire::{HeldParts, proto};
use tonic::{Request, Response, Status};

use crate::server::service::{Service, stopping};

#[tonic::async_trait]
impl proto::held_parts_server::HeldParts for Service {
    async fn list(
        &self,
        request: Request<proto::HeldPartsRequest>,
    ) -> Result<Response<proto::HeldPartsReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let held = move |server: &mut Server, now| {
            let parts: Vec<HeldPart> =
                server.held_parts().filter(|part| caller.may_touch(&part.owner)).collect();
            HeldParts { now, parts }
        };
        let held = self.mailbox.ask(held).await.map_err(|_| stopping())?;
        Ok(Response::new((&held).into()))
    }

    async fn give_up(
        &self,
        request: Request<proto::PartId>,
    ) -> Result<Response<proto::PartStanding>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        if !caller.operator {
            return Err(Status::permission_denied(
                "only an operator ends what a launch holds here; `pliant cancel` ends one's launch",
            ));
        }
        let id = PartId::try_from(request.into_inner())?;
        tracing::warn!(subjob = %id, by = %caller.user, "an operator ends a subjob");
        let (told, by) = (id.clone(), caller.user);
        match self.part(|reply| PartEvent::GivenUp { reply, id, by }, 0).await? {
            Standing::Unknown => Err(Status::not_found(format!("no {told} is here"))),
            standing => Ok(Response::new((&standing).into())),
        }
    }
}
