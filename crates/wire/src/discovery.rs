//! Discovery: questions and answers.

use pliant_control::access::Caller;
use pliant_control::agent::{DiscoveryQuery, DiscoveryResult, DiscoverySubject};
use pliant_control::names::Name;
use pliant_control::server_info::ServerInfo;
use pliant_model::Span;

use super::field::*;
use super::table::{message, one_of};
use super::{Malformed, bounds, proto};

/// The expected subject of a question.
pub(super) const WORK_OR_SERVICE: &str = "work or service";

/// The number of best answers.
pub(super) const BEST: Number<u32, u32> = number("a number of answers", bounds::BEST);

one_of! {
    proto::DiscoverySubject { what: proto::discovery_subject::What } <=> DiscoverySubject {
        Work <=> Work(nested()),
        Service(proto::ServiceCall) <=> Service { name: SERVICE, arguments: ARGUMENTS },
        Snapshots(empty()) <=> Snapshots,
        Move <=> Move(boxed(nested())),
        InPlace(proto::WorkInPlace) <=> InPlace { work: required("the work"), folder: SHARED_FOLDER },
    } => (expected: "work or service")
}

message! {
    proto::DiscoveryResult <=> DiscoveryResult {
        vectors: list(nested(), bounds::VECTORS_MAX),
        refusals: list(nested(), bounds::SERVERS_MAX),
        silent: list(NAME, bounds::SERVERS_MAX),
        more,
        down: list(NAME, bounds::SERVERS_MAX),
        servers,
        answered,
        not_asked,
        snapshots: list(nested(), bounds::SERVERS_MAX),
        outcome: optional(nested()),
    }

    proto::ServerInfo <=> ServerInfo {
        name: NAME,
        address: ADDRESS,
        rank,
        procs: PROCS_OR_NONE,
        speed: SPEED,
        policy: text(bounds::NAME_BYTES_MAX),
        services: list(nested(), bounds::SERVICES_MAX),
        scripts,
        optional_cores: CORES,
        optional_per_core: CORES,
    }

    proto::ServiceInfo <=> (String, String) (
        name: word("the name of a service", bounds::NAME_BYTES_MAX),
        summary: TEXT,
    )
}

/// Where a daemon is reached, `host:port`, as messages may say it.
///
/// # Errors
///
/// [`Malformed`] in `address`.
pub fn address_of(address: &str) -> Result<String, Malformed> {
    ADDRESS.decode("address", address.to_owned())
}

/// The question of a client.
pub fn discover(what: &DiscoverySubject, best: u32, only: Option<&Name>) -> proto::DiscoverRequest {
    proto::DiscoverRequest {
        what: Some(what.into()),
        best: BEST.encode(&best),
        only: only.map(Name::to_string).unwrap_or_default(),
    }
}

/// The question of a client with the identity of its certificate. `timeout` is the time until the deadline of the call.
///
/// # Errors
///
/// [`Malformed`], with a path from [`proto::DiscoverRequest`].
pub fn asked(
    request: proto::DiscoverRequest,
    caller: Caller,
    timeout: Option<Span>,
) -> Result<DiscoveryQuery, Malformed> {
    let what: DiscoverySubject = required(WORK_OR_SERVICE).decode("what", request.what)?;
    match what {
        DiscoverySubject::Work(_) | DiscoverySubject::InPlace { .. } | DiscoverySubject::Service { .. } => {}
        DiscoverySubject::Snapshots => {
            return Err(Malformed::text("what", WORK_OR_SERVICE, "what only agents ask"));
        }
        DiscoverySubject::Move(_) => {
            return Err(Malformed::text("what", WORK_OR_SERVICE, "a move proposal, which only agents send"));
        }
    }
    Ok(DiscoveryQuery {
        subject: what,
        caller,
        best: BEST.or(1).decode("best", request.best)?,
        only: unless_empty(NAME).decode("only", request.only)?,
        timeout,
        latest: None,
    })
}
