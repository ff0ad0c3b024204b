//! Which jobs have changed, for those who follow many.

use pliant_wire::{ChangesPage, ChangesQuery, proto};
use tonic::transport::Channel;
use tonic::{Code, Response};

use super::{AgentClient, Client, ClientError};

impl Client {
    /// The jobs that changed after a position, or the present position; none if the agent has an earlier version, which does not know, or if they are of
    /// the users of several masters.
    pub async fn changes(&self, query: &ChangesQuery) -> Result<Option<ChangesPage>, ClientError> {
        if query.all && self.masters.are_several() {
            // Each master numbers the changes of its own users' jobs.
            return Ok(None);
        }
        let request = proto::ChangesRequest::from(query);
        let ask = |mut agent: AgentClient<Channel>, request| async move {
            match agent.changes(request).await {
                Err(status) if status.code() == Code::Unimplemented => Ok(Response::new(None)),
                reply => reply.map(|reply| reply.map(Some)),
            }
        };
        let user = self.own_name()?;
        let reply = self.ask_master_of(&user, request, ask);
        reply.await?.map(ChangesPage::try_from).transpose().map_err(ClientError::protocol)
    }
}
