//! How fast the links between servers are: what agents ask of servers, what these say, and what users are told.

use std::time::Duration;

use pliant_control::coallocation::{Link, Measure};
use pliant_control::handoff::Peer;

use super::field::*;
use super::table::message;
use super::{Malformed, bounds, proto};

/// Measure the link to another server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProbeOrder {
    /// The server.
    pub server: Peer,
    /// At most so many bytes each way.
    pub bytes: u64,
    /// At most so long each way.
    pub limit: Duration,
}

/// A link that was measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Probed {
    /// To the other server, in Mb/s.
    pub there_mbps: f64,
    /// From the other server, in Mb/s.
    pub back_mbps: f64,
    /// From a question to its answer.
    pub round_trip: Duration,
}

/// Give bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GiveOrder {
    /// At most so many.
    pub bytes: u64,
    /// At most so long.
    pub limit: Duration,
}

impl GiveOrder {
    /// How long bytes are taken or given.
    ///
    /// # Errors
    /// It is too short or too long.
    pub fn limit(found: u32) -> Result<Duration, Malformed> {
        PROBE_LIMIT.decode("limit_ms", found)
    }
}

impl Probed {
    /// A bandwidth as it was told.
    ///
    /// # Errors
    /// It is no number, or out of bounds.
    pub fn mbps(field: &str, found: f64) -> Result<f64, Malformed> {
        MBPS.decode(field, found)
    }

    /// A bandwidth as it is told.
    pub fn written(mbps: f64) -> f64 {
        MBPS.encode(&mbps)
    }
}

/// How long a measurement may take each way.
const PROBE_LIMIT: Number<u32, Duration> = milliseconds(bounds::PROBE_LIMIT_MS);
/// How many bytes a measurement sends each way.
const PROBE_BYTES: Number<u64, u64> = number("bytes", bounds::PROBE_BYTES);
/// What goes over a link.
const MBPS: Number<f64, f64> = number("Mb/s", bounds::LINK_MBPS);

message! {
    proto::ProbeRequest <=> ProbeOrder {
        server: Peer { server <=> name: NAME, address: ADDRESS },
        bytes: PROBE_BYTES,
        limit_ms <=> limit: PROBE_LIMIT,
    }

    proto::ProbeReply <=> Probed {
        there_mbps: MBPS,
        back_mbps: MBPS,
        round_trip_us <=> round_trip: MICROSECONDS,
    }

    proto::GiveRequest <=> GiveOrder {
        bytes: PROBE_BYTES,
        limit_ms <=> limit: PROBE_LIMIT,
    }

    proto::MeasuredLink <=> Link {
        between: (one: NAME, other: NAME),
        mbps: MBPS,
        last: Measure { measured <=> at: TIME, last_mbps <=> mbps: MBPS, round_trip_us },
        measures,
    }
}

/// The links that an agent knows.
pub fn links_reply(links: &[Link]) -> proto::LinksReply {
    proto::LinksReply { links: links.iter().take(bounds::LINKS_MAX).map(Into::into).collect() }
}

/// The links that it told.
///
/// # Errors
///
/// [`Malformed`], with a path from [`proto::LinksReply`].
pub fn links(reply: proto::LinksReply) -> Result<Vec<Link>, Malformed> {
    list(nested(), bounds::LINKS_MAX).decode("links", reply.links)
}
