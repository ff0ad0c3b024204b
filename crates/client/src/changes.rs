//! Which jobs have changed, for those who follow many.

use pliant_wire::{ChangesPage, ChangesQuery, proto};
use tonic::{Code, Response};

use super::{Client, ClientError};

impl Client {
    /// The jobs that changed after a position, or the present position; none if the agent has an earlier version, which does not know.
    pub async fn changes(&self, query: &ChangesQuery) -> Result<Option<ChangesPage>, ClientError> {
        let request = proto::ChangesRequest::from(query);
        let reply = self.ask_agent(request, |mut agent, request| async move {
            match agent.changes(request).await {
                Err(status) if status.code() == Code::Unimplemented => Ok(Response::new(None)),
                reply => reply.map(|reply| reply.map(Some)),
            }
        });
        reply.await?.map(ChangesPage::try_from).transpose().map_err(ClientError::protocol)
    }
}
