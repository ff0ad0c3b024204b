//! Discovery: what is asked for, and what comes of it.

use std::collections::BTreeMap;

use pliant_control::access::Caller;
use pliant_control::agent::{Ask, Found, What};
use pliant_control::handoff::{Order, Picture};
use pliant_control::job::Work;
use pliant_control::names::Name;
use pliant_control::server_info::ServerInfo;
use pliant_control::vector::Vector;
use pliant_model::Span;
use pliant_telemetry::RequestId;

use super::cause::{refusal, refused};
use super::proto;
use super::{Malformed, bounds, read, write};

impl From<&What> for proto::What {
    fn from(what: &What) -> proto::What {
        let what = match what {
            What::Work(work) => proto::what::What::Work(work.into()),
            What::Service { name, arguments } => proto::what::What::Service(service_call(name, arguments)),
            What::Pictures => proto::what::What::Pictures(proto::Pictures {}),
            What::Order(order) => proto::what::What::Order((&**order).into()),
        };
        proto::What { what: Some(what) }
    }
}

impl TryFrom<proto::What> for What {
    type Error = Malformed;
    fn try_from(message: proto::What) -> Result<What, Malformed> {
        match message.what {
            Some(proto::what::What::Work(work)) => {
                Work::try_from(work).map(What::Work).map_err(|malformed| malformed.under("work"))
            }
            Some(proto::what::What::Service(call)) => {
                let (name, arguments) = called(call).map_err(|malformed| malformed.under("service"))?;
                Ok(What::Service { name, arguments })
            }
            Some(proto::what::What::Pictures(_)) => Ok(What::Pictures),
            Some(proto::what::What::Order(order)) => {
                let order = Order::try_from(order).map_err(|malformed| malformed.under("order"))?;
                Ok(What::Order(Box::new(order)))
            }
            None => Err(Malformed::missing("", "work or service")),
        }
    }
}

/// A service with its arguments, as a message. Arguments come from the command line of the same user that is told
/// if they are too long, so nothing is cut.
pub(super) fn service_call(name: &str, arguments: &BTreeMap<String, String>) -> proto::ServiceCall {
    let arguments = arguments.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    proto::ServiceCall { name: name.to_owned(), arguments }
}

/// A service with its arguments: its name, and the value of each argument by name.
pub(super) fn called(call: proto::ServiceCall) -> Result<(String, BTreeMap<String, String>), Malformed> {
    let name = read::word("name", "the name of a service", call.name, bounds::NAME_BYTES_MAX)?;
    Ok((name, arguments("arguments", call.arguments)?))
}

pub(super) fn arguments(
    field: &str,
    found: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, Malformed> {
    read::count(field, found.len(), bounds::ARGUMENTS_MAX)?;
    // In the order of their names, so that the same message always gives the same error.
    let found: BTreeMap<String, String> = found.into_iter().collect();
    let checked = found.into_iter().map(|(key, value)| {
        let key = read::word(field, "the name of an argument", key, bounds::NAME_BYTES_MAX)?;
        let value = read::text(&format!("{field}[{key}]"), value, bounds::ARGUMENT_BYTES_MAX)?;
        Ok((key, value))
    });
    checked.collect()
}

impl From<&Found> for proto::Found {
    fn from(found: &Found) -> proto::Found {
        proto::Found {
            vectors: write::list(&found.vectors, bounds::VECTORS_MAX),
            refusals: found.refusals.iter().take(bounds::SERVERS_MAX).map(refusal).collect(),
            silent: found.silent.iter().take(bounds::SERVERS_MAX).map(Name::to_string).collect(),
            more: found.more,
            absent: found.absent.iter().take(bounds::SERVERS_MAX).map(Name::to_string).collect(),
            servers: found.servers,
            answered: found.answered,
            pictures: write::list(&found.pictures, bounds::SERVERS_MAX),
            outcome: found.outcome.as_ref().map(proto::MoveOutcome::from),
        }
    }
}

impl TryFrom<proto::Found> for Found {
    type Error = Malformed;
    fn try_from(message: proto::Found) -> Result<Found, Malformed> {
        Ok(Found {
            vectors: read::list("vectors", message.vectors, bounds::VECTORS_MAX, Vector::try_from)?,
            refusals: read::list("refusals", message.refusals, bounds::SERVERS_MAX, refused)?,
            silent: read::list("silent", message.silent, bounds::SERVERS_MAX, |name| read::name("", &name))?,
            more: message.more,
            absent: read::list("absent", message.absent, bounds::SERVERS_MAX, |name| read::name("", &name))?,
            servers: message.servers,
            answered: message.answered,
            pictures: read::list("pictures", message.pictures, bounds::SERVERS_MAX, Picture::try_from)?,
            outcome: read::optional("outcome", message.outcome)?,
        })
    }
}

impl From<&ServerInfo> for proto::ServerInfo {
    fn from(info: &ServerInfo) -> proto::ServerInfo {
        let service = |(name, summary): &(String, String)| proto::ServiceInfo {
            name: write::text(name, bounds::NAME_BYTES_MAX),
            summary: write::text(summary, bounds::TEXT_BYTES_MAX),
        };
        proto::ServerInfo {
            name: info.name.to_string(),
            address: info.address.clone(),
            rank: info.rank,
            procs: write::free(info.procs),
            speed: info.speed.get(),
            policy: write::text(&info.policy, bounds::NAME_BYTES_MAX),
            services: info.services.iter().take(bounds::SERVICES_MAX).map(service).collect(),
            scripts: info.scripts,
            optional_cores: write::free(pliant_model::Procs(info.optional_cores)),
            optional_per_core: write::free(pliant_model::Procs(info.optional_per_core)),
        }
    }
}

impl TryFrom<proto::ServerInfo> for ServerInfo {
    type Error = Malformed;
    fn try_from(message: proto::ServerInfo) -> Result<ServerInfo, Malformed> {
        let service = |service: proto::ServiceInfo| {
            let name = read::word("name", "the name of a service", service.name, bounds::NAME_BYTES_MAX)?;
            Ok((name, read::text("summary", service.summary, bounds::TEXT_BYTES_MAX)?))
        };
        Ok(ServerInfo {
            name: read::name("name", &message.name)?,
            address: read::address("address", message.address)?,
            rank: message.rank,
            procs: read::free("procs", message.procs)?,
            speed: read::speed("speed", message.speed)?,
            policy: read::text("policy", message.policy, bounds::NAME_BYTES_MAX)?,
            services: read::list("services", message.services, bounds::SERVICES_MAX, service)?,
            scripts: message.scripts,
            optional_cores: read::free("optional_cores", message.optional_cores)?.0,
            optional_per_core: read::free("optional_per_core", message.optional_per_core)?.0,
        })
    }
}

/// Where a daemon is reached, `host:port`, as messages may say it.
///
/// # Errors
///
/// [`Malformed`] in `address`.
pub fn address_of(address: &str) -> Result<String, Malformed> {
    read::address("address", address.to_owned())
}

/// What a client asks the federation.
pub fn discover(what: &What, best: u32, only: Option<&Name>) -> proto::DiscoverRequest {
    proto::DiscoverRequest {
        what: Some(what.into()),
        best: write::number(&bounds::BEST, best),
        only: write::optional_name(only),
    }
}

/// What a client asks, and who it is by its certificate. `patience` is how long the call may take, if its
/// deadline says.
///
/// # Errors
///
/// [`Malformed`], with a path from [`proto::DiscoverRequest`].
pub fn asked(
    request: proto::DiscoverRequest,
    caller: Caller,
    patience: Option<Span>,
) -> Result<Ask, Malformed> {
    let what: What = read::required("what", "work or service", request.what)?;
    match what {
        What::Work(_) | What::Service { .. } => {}
        What::Pictures => return Err(Malformed::text("what", "work or service", "what only agents ask")),
        What::Order(_) => {
            return Err(Malformed::text("what", "work or service", "an order, which only agents give"));
        }
    }
    Ok(Ask {
        what,
        caller,
        best: read::best("best", request.best)?,
        only: read::optional_name("only", &request.only)?,
        patience,
    })
}

/// A question to a child, with our number of the discovery and the id of the request that it is part of.
pub(super) fn question(discovery: u64, ask: &Ask, request: Option<RequestId>) -> proto::Question {
    let patience = |span: Span| write::number(&bounds::PATIENCE_S, span.0);
    proto::Question {
        discovery,
        what: Some((&ask.what).into()),
        user: ask.caller.user.to_string(),
        operator: ask.caller.operator,
        best: write::number(&bounds::BEST, ask.best),
        only: write::optional_name(ask.only.as_ref()),
        patience_s: ask.patience.map_or(0, patience),
        request: request.map(|id| id.to_string()).unwrap_or_default(),
        pieces: false,
    }
}

/// What the parent asks. Its number of the discovery and the id stay in the message.
pub(super) fn questioned(message: proto::Question) -> Result<Ask, Malformed> {
    let patience = match message.patience_s {
        0 => None,
        found => Some(Span(read::number("patience_s", "seconds", &bounds::PATIENCE_S, found)?)),
    };
    let user = read::user("user", &message.user)?;
    Ok(Ask {
        what: read::required("what", "work or service", message.what)?,
        caller: Caller { user, operator: message.operator },
        best: read::best("best", message.best)?,
        only: read::optional_name("only", &message.only)?,
        patience,
    })
}
