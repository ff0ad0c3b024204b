//! What clients ask of a server about explorations.

use pliant_telemetry::{RequestId, spawn_of_call};
use pliant_wire::proto;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::Explorations;
use crate::host::stopped;
use crate::server::service::{Service, stopping};

impl Service {
    /// Serves the requests of an exploration, over one stream.
    pub(in crate::server) fn explored(
        &self,
        request: Request<Streaming<proto::ExploreRequest>>,
    ) -> Result<Response<ReceiverStream<Result<proto::ExploreReply, Status>>>, Status> {
        let (caller, open) = self.open(&request)?;
        let id = RequestId::of_call(request.metadata());
        let explorations = self.explorations()?;
        let mut calls = request.into_inner();
        let (sender, receiver) = mpsc::channel(16);
        let stop = self.stop.clone();
        // A late first message must not delay the headers of the answer.
        spawn_of_call(async move {
            let serve = async {
                match explorations.open_call(caller.user, id.to_string(), &mut calls).await {
                    Ok(call) => call.serve(calls, sender.clone(), &open).await,
                    Err(status) => drop(sender.send(Err(status)).await),
                }
            };
            let broken = tokio::select! {
                () = serve => return,
                () = sender.closed() => return,
                status = open.refused() => status,
                () = stopped(stop) => stopping(),
            };
            // The caller may have gone.
            let _ = sender.send(Err(broken)).await;
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    /// The shares of users in the cores for explorations.
    pub(in crate::server) async fn shares(
        &self,
        request: &Request<proto::UsersRequest>,
    ) -> Result<Response<proto::UsersReply>, Status> {
        let (caller, _pass) = self.gate.user(request)?;
        let of = (!caller.operator).then_some(caller.user);
        let shares = self.explorations()?.shares(of).await.map_err(|_| stopping())?;
        Ok(Response::new((&shares).into()))
    }

    fn explorations(&self) -> Result<Explorations, Status> {
        let none = || Status::failed_precondition("the server has no cores for explorations");
        self.explorations.clone().ok_or_else(none)
    }
}
