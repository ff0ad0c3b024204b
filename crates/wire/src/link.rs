//! Measurements of links between servers, and the links that agents know.

use std::time::Duration;

use pliant_control::coallocation::{Link, LinkQuality};
use pliant_control::handoff::Peer;

use super::field::*;
use super::table::message;
use super::{Malformed, bounds, proto};

message! {
    /// LinkQuality the link to another server.
    #[derive(Clone, PartialEq, Eq, Debug)]
    proto::ProbeRequest <=> pub struct LinkProbe {
        /// The server.
        server: Peer = Peer { server <=> name: NAME, address: ADDRESS },
        /// At most so many bytes each way.
        bytes: u64 = PROBE_BYTES,
        /// At most so long each way.
        limit_ms <=> limit: Duration = PROBE_LIMIT,
    }

    /// A link that was measured.
    #[derive(Clone, PartialEq, Debug)]
    proto::ProbeReply <=> pub struct LinkMeasurement {
        /// To the other server, in Mb/s.
        there_mbps: f64 = MBPS,
        /// From the other server, in Mb/s.
        back_mbps: f64 = MBPS,
        /// The round trip time.
        round_trip_us <=> round_trip: Duration = MICROSECONDS,
    }

    /// Send bytes.
    #[derive(Clone, PartialEq, Eq, Debug)]
    proto::GiveRequest <=> pub struct DownloadProbe {
        /// At most so many.
        bytes: u64 = PROBE_BYTES,
        /// At most so long.
        limit_ms <=> limit: Duration = PROBE_LIMIT,
    }
}

impl DownloadProbe {
    /// The duration of a transfer.
    ///
    /// # Errors
    /// It is too short or too long.
    pub fn limit(found: u32) -> Result<Duration, Malformed> {
        PROBE_LIMIT.decode("limit_ms", found)
    }
}

impl LinkMeasurement {
    /// A received bandwidth.
    ///
    /// # Errors
    /// It is no number, or out of bounds.
    pub fn mbps(field: &str, found: f64) -> Result<f64, Malformed> {
        MBPS.decode(field, found)
    }

    /// A bandwidth as it is sent.
    pub fn written(mbps: f64) -> f64 {
        MBPS.encode(&mbps)
    }
}

/// How long a measurement may take each way.
const PROBE_LIMIT: Number<u32, Duration> = milliseconds(bounds::PROBE_LIMIT_MS);
/// How many bytes a measurement sends each way.
const PROBE_BYTES: Number<u64, u64> = number("bytes", bounds::PROBE_BYTES);
/// The bandwidth of a link.
const MBPS: Number<f64, f64> = number("Mb/s", bounds::LINK_MBPS);

message! {
    proto::MeasuredLink <=> Link {
        between: (one: NAME, other: NAME),
        mbps: MBPS,
        last: LinkQuality { measured <=> at: TIME, last_mbps <=> mbps: MBPS, round_trip_us },
        measures,
    }
}

/// The links that an agent knows.
pub fn links_reply(links: &[Link]) -> proto::LinksReply {
    proto::LinksReply { links: links.iter().take(bounds::LINKS_MAX).map(Into::into).collect() }
}

/// The links of a reply.
///
/// # Errors
///
/// [`Malformed`], with a path from [`proto::LinksReply`].
pub fn links(reply: proto::LinksReply) -> Result<Vec<Link>, Malformed> {
    list(nested(), bounds::LINKS_MAX).decode("links", reply.links)
}
