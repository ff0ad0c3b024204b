//! Connections to servers: their addresses, and which server has a job.

use pliant_control::job::JobRecord;
use pliant_control::names::{Handle, Name};
use pliant_wire as wire;
use pliant_wire::proto::server_client::ServerClient;
use tonic::Status;
use tonic::transport::Channel;

use super::{ANSWER_BYTES_MAX, Client, ClientError, is_unavailable};

impl Client {
    /// The last known server of a job.
    fn known_server(&self, handle: &Handle) -> Name {
        self.job_servers.lock().get(handle).unwrap_or(&handle.server).clone()
    }

    /// True if the server that was asked has the job. If not, the right one is asked next.
    pub(super) fn is_there(&self, record: &JobRecord) -> bool {
        let (asked, there) = (self.known_server(&record.handle), record.server());
        if asked != *there {
            self.job_servers.lock().insert(record.handle.clone(), there.clone());
        }
        asked == *there
    }

    pub(super) async fn server_of(&self, handle: &Handle) -> Result<ServerClient<Channel>, ClientError> {
        let server = self.known_server(handle);
        if let Some(channel) = self.servers.known(&server) {
            return Ok(client(channel));
        }
        let (server, address) = match self.find(handle).await {
            // It may have been moved since, which the agent may not know yet: an earlier server of the job knows.
            Ok(located) if *located.record.server() == server => (server, located.address),
            Ok(located) if server == handle.server => {
                self.job_servers.lock().insert(handle.clone(), located.record.server().clone());
                (located.record.server().clone(), located.address)
            }
            Ok(_) => {
                let address = self.address(&server).await?;
                (server, Some(address))
            }
            // The agent may not know a new job yet, and a master that has its record may be down. Its server knows.
            Err(error) if error.is_missing() || error.is_down() && self.masters.are_several() => {
                let address = self.address(&server).await;
                let unknown = |unknown: ClientError| if unknown.is_missing() { error } else { unknown };
                (server, Some(address.map_err(unknown)?))
            }
            Err(error) => return Err(error),
        };
        let address = address.ok_or_else(|| {
            ClientError::unavailable(format!("server {server} is not known to the agent at the moment"))
        })?;
        self.server(&server, &address)
    }

    /// The address of a server.
    pub(super) async fn address(&self, name: &Name) -> Result<String, ClientError> {
        let servers = self.servers().await?.servers.into_iter();
        let server = servers.map(|server| server.info).find(|info| info.name == *name);
        let missing = || ClientError::missing(format!("the federation has no server {name}"));
        server.map(|info| info.address).ok_or_else(missing)
    }

    /// A server at its known address, or at the one that the agent says.
    pub(super) async fn server_named(&self, name: &Name) -> Result<ServerClient<Channel>, ClientError> {
        self.channel_named(name).await.map(client)
    }

    /// The connection to a server.
    pub(super) async fn channel_named(&self, name: &Name) -> Result<Channel, ClientError> {
        match self.servers.known(name) {
            Some(channel) => Ok(channel),
            None => self.channel(name, &self.address(name).await?),
        }
    }

    pub(super) fn server(&self, name: &Name, address: &str) -> Result<ServerClient<Channel>, ClientError> {
        self.channel(name, address).map(client)
    }

    fn channel(&self, name: &Name, address: &str) -> Result<Channel, ClientError> {
        self.servers.to(name, address).map_err(ClientError::usage)
    }

    /// Forgets the address of a server.
    pub(super) fn forget_server(&self, server: &Name) {
        self.servers.forget(server);
    }

    pub(super) fn server_failed(&self, handle: &Handle, status: &Status) -> ClientError {
        let server = self.known_server(handle);
        if is_unavailable(status) {
            // The server may come up at another address, and the job may have been moved.
            self.forget_server(&server);
            self.job_servers.lock().remove(handle);
        }
        if let Some(to) = wire::moved_to(status) {
            self.job_servers.lock().insert(handle.clone(), to);
        }
        ClientError::call(format!("server {server}"), status)
    }
}

fn client(channel: Channel) -> ServerClient<Channel> {
    ServerClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX)
}
