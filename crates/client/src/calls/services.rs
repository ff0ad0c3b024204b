//! Typed services of the federation.

use std::collections::BTreeMap;
use std::time::Duration;

use pliant_calls::Signature;
use pliant_control::names::Name;
use pliant_wire::{Offer, OfferedService};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::CallError;
use crate::{Client, ClientError};

/// How many servers are asked for their services at a time.
const SERVERS_AT_A_TIME: usize = 32;
/// How long other servers may still answer once one offers the service.
const OTHERS_WITHIN: Duration = Duration::from_secs(5);

/// A typed service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypedService {
    /// Its name.
    pub name: String,
    /// Its parameters.
    pub signature: Signature,
    /// The servers that offer it with this signature to the caller, by name; one that does not answer is not among them.
    pub servers: Vec<Name>,
}

/// What servers have answered.
#[derive(Default)]
struct Answers {
    /// The signatures of the service by server; none of one that has no signature.
    signatures: BTreeMap<Name, Option<Signature>>,
    /// Why a server has not answered.
    failure: Option<ClientError>,
}

impl Answers {
    fn add(&mut self, server: Name, name: &str, offer: Result<Offer, ClientError>) {
        let offer = match offer {
            Ok(offer) => offer,
            Err(error) => {
                self.failure = Some(error);
                return;
            }
        };
        let is_wanted = |service: &&OfferedService| service.name == name && !service.for_others;
        let Some(service) = offer.services.iter().find(is_wanted) else { return };
        let signature = match service.signature.is_empty() {
            true => None,
            false => match service.signature.parse::<Signature>() {
                Ok(signature) => Some(signature),
                Err(_) => return,
            },
        };
        self.signatures.insert(server, signature);
    }

    fn has_typed(&self) -> bool {
        self.signatures.values().any(Option::is_some)
    }

    /// The service with the signature of the first server: a call has one signature.
    fn service(self, name: &str) -> Result<TypedService, CallError> {
        let Answers { signatures, failure } = self;
        let Some(signature) = signatures.values().flatten().next().cloned() else {
            return Err(match (signatures.is_empty(), failure) {
                (false, _) => CallError::NotTyped(name.to_owned()),
                (true, Some(error)) => error.into(),
                (true, None) => CallError::NoSuchService(name.to_owned()),
            });
        };
        let has_it =
            |(server, of): (Name, Option<Signature>)| (of.as_ref() == Some(&signature)).then_some(server);
        let servers = signatures.into_iter().filter_map(has_it).collect();
        Ok(TypedService { name: name.to_owned(), signature, servers })
    }
}

impl Client {
    /// Finds a typed service at one server, or at any.
    ///
    /// # Errors
    ///
    /// There is no such server, it does not offer such a service to the caller, or no agent or server answers.
    pub async fn typed_service(&self, name: &str, server: Option<&Name>) -> Result<TypedService, CallError> {
        let mut wanted = self.servers().await?.servers;
        wanted.retain(|found| server.is_none_or(|only| found.info.name == *only));
        if let (Some(server), true) = (server, wanted.is_empty()) {
            return Err(CallError::NoSuchServer(server.clone()));
        }
        let mut wanted = wanted.into_iter().map(|found| (found.info.name, found.info.address));
        let (mut open, mut answers) = (JoinSet::new(), Answers::default());
        loop {
            while open.len() < SERVERS_AT_A_TIME
                && let Some((server, address)) = wanted.next()
            {
                let client = self.clone();
                open.spawn(async move {
                    let offer = client.offer(&server, &address).await;
                    (server, offer)
                });
            }
            let next = match answers.has_typed() {
                false => open.join_next().await,
                // A server that does not answer must not hold up a call of another one.
                true => timeout(OTHERS_WITHIN, open.join_next()).await.unwrap_or(None),
            };
            match next {
                Some(Ok((server, offer))) => answers.add(server, name, offer),
                // The task was not cancelled, so it panicked.
                Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
                None => return answers.service(name),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(services: &[(&str, &str)]) -> Result<Offer, ClientError> {
        let service = |(name, signature): &(&str, &str)| OfferedService {
            name: (*name).to_owned(),
            signature: (*signature).to_owned(),
            ..OfferedService::default()
        };
        Ok(Offer { services: services.iter().map(service).collect(), scripts: false, hidden: 0 })
    }

    #[test]
    fn the_first_server_by_name_has_the_signature_of_a_call() {
        let check = |answers: Vec<(&str, Result<Offer, ClientError>)>, expected: Result<&[&str], &str>| {
            let mut all = Answers::default();
            for (server, offer) in answers {
                all.add(server.parse().unwrap(), "mmul", offer);
            }
            let found = all.service("mmul").map_err(|error| error.to_string());
            match (found, expected) {
                (Ok(service), Ok(servers)) => {
                    assert_eq!(service.signature, "in int n".parse().unwrap());
                    assert_eq!(service.servers.iter().map(Name::as_str).collect::<Vec<_>>(), servers);
                }
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
                (found, expected) => panic!("expected {expected:?}, found {found:?}"),
            }
        };
        let typed = || offer(&[("succ", "out int m"), ("mmul", "in int n")]);
        let other = || offer(&[("mmul", "in long n")]);
        let untyped = || offer(&[("mmul", "")]);
        let down = || Err(ClientError::unavailable("server paris: it does not answer"));
        // As they have answered, which may be in any order.
        check(vec![("nancy", typed()), ("paris", other()), ("lyon", typed())], Ok(&["lyon", "nancy"]));
        check(vec![("lyon", untyped()), ("paris", down()), ("nancy", typed())], Ok(&["nancy"]));
        check(vec![("lyon", untyped()), ("paris", down())], Err("a service with a signature"));
        check(vec![("lyon", offer(&[])), ("paris", down())], Err("it does not answer"));
        check(vec![("lyon", offer(&[("mul", "in int n")]))], Err("a service that a server offers"));
        check(vec![], Err("a service that a server offers"));
    }
}
