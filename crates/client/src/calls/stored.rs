//! Data that stay at a server after a call, and are arguments of later calls there (DIET's persistent data).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use pliant_control::names::{Key, Name};
use pliant_wire::{self as wire, KeptParameter, StoredArgument, StoredDataList, StoredDataQuery};

use super::{CallError, CallOrder, StartedCall};
use crate::{Client, ClientError};

/// Data that a call has left at a server. They are the user's own, expire unless calls name them, and may be gone at any time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredData {
    /// Their key.
    pub key: Key,
    /// The server that has them. Calls that name them go there.
    pub server: Name,
}

/// The ID of the data: `lyon/0123456789abcdef0123456789abcdef`.
impl fmt::Display for StoredData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.server, self.key)
    }
}

impl FromStr for StoredData {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<StoredData, ClientError> {
        let parse = || {
            let (server, key) = text.split_once('/')?;
            Some(StoredData { server: server.parse().ok()?, key: key.parse().ok()? })
        };
        parse().ok_or_else(|| {
            let shown: String = text.chars().take(120).flat_map(char::escape_debug).collect();
            ClientError::usage(format!(
                "expected the ID of data, a server and 32 hexadecimal digits as in `lyon/01234567...`, found `{shown}`"
            ))
        })
    }
}

/// A value that is to stay at the server after a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keep {
    /// The key of the data. Data of the same user with that key at the server are replaced.
    pub key: Key,
    /// Whether the value comes back, too. An argument that does not come back anyway never does.
    pub returned: bool,
}

impl Keep {
    /// A value that stays at the server with a new key, and comes back or not.
    pub fn new(returned: bool) -> Keep {
        Keep { key: Key(rand::random()), returned }
    }
}

impl StartedCall {
    /// The data that the call leaves at its server once it has completed, by the positions of their parameters.
    pub fn stored_data(&self) -> BTreeMap<usize, StoredData> {
        let server = &self.job.server;
        let data = |(at, keep): (&usize, &Keep)| (*at, StoredData { key: keep.key, server: server.clone() });
        self.keep.iter().map(data).collect()
    }
}

/// The only server that can carry an order out, if the user or its data choose one.
pub(super) fn server_of(order: &CallOrder) -> Result<Option<Name>, CallError> {
    let mut server = order.server.clone();
    for (at, data) in &order.stored {
        match &server {
            Some(server) if *server != data.server => {
                let parameter = name_of(order, *at)?;
                return Err(CallError::StoredElsewhere {
                    parameter,
                    server: server.clone(),
                    found: data.server.clone(),
                });
            }
            _ => server = Some(data.server.clone()),
        }
    }
    Ok(server)
}

/// The arguments of an order that are at the server.
pub(super) fn arguments(order: &CallOrder) -> Result<Vec<StoredArgument>, CallError> {
    let argument = |(at, data): (&usize, &StoredData)| {
        Ok(StoredArgument { parameter: name_of(order, *at)?, data: data.key })
    };
    order.stored.iter().map(argument).collect()
}

/// The values of an order that stay at the server.
pub(super) fn kept(order: &CallOrder) -> Result<Vec<KeptParameter>, CallError> {
    let parameter = |(at, keep): (&usize, &Keep)| {
        Ok(KeptParameter { parameter: name_of(order, *at)?, data: keep.key, returned: keep.returned })
    };
    order.keep.iter().map(parameter).collect()
}

fn name_of(order: &CallOrder, at: usize) -> Result<String, CallError> {
    let parameters = order.service.signature.parameters();
    let parameter = parameters.get(at).ok_or_else(|| {
        ClientError::usage(format!(
            "data of a call: expected a parameter of {}, found the position {at}",
            parameters.len()
        ))
    })?;
    Ok(parameter.name.clone())
}

impl Client {
    /// The user's data at a server.
    ///
    /// # Errors
    ///
    /// There is no such server, or it does not answer.
    pub async fn stored_data(&self, server: &Name) -> Result<StoredDataList, ClientError> {
        self.ask_for_data(server, StoredDataQuery::default()).await
    }

    /// Deletes data. It is no error if they are gone.
    ///
    /// # Errors
    ///
    /// Their server does not answer.
    pub async fn delete_data(&self, data: &StoredData) -> Result<(), ClientError> {
        self.ask_for_data(&data.server, StoredDataQuery { delete: vec![data.key] }).await.map(drop)
    }

    async fn ask_for_data(&self, name: &Name, query: StoredDataQuery) -> Result<StoredDataList, ClientError> {
        let mut server = self.server_named(name).await?;
        let request = wire::proto::StoredDataRequest::from(&query);
        let reply = server.stored_data(self.request(request)).await;
        let reply = reply.map_err(|status| ClientError::call(format!("server {name}"), &status))?;
        StoredDataList::try_from(reply.into_inner()).map_err(ClientError::protocol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_data_is_read_again() {
        let data = StoredData { key: Key([7; 16]), server: "lyon".parse().unwrap() };
        let id = data.to_string();
        assert_eq!(id, "lyon/07070707070707070707070707070707");
        assert_eq!(id.parse::<StoredData>().unwrap(), data);
        for wrong in [
            "",
            "lyon",
            "lyon/",
            "/07070707070707070707070707070707",
            "lyon/07",
            &format!("{id}0"),
            &format!(" {id}"),
        ] {
            let error = wrong.parse::<StoredData>().unwrap_err().to_string();
            assert!(error.contains(&format!("found `{wrong}`")), "{error}");
        }
    }
}
