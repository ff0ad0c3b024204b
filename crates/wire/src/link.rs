//! How fast the links between servers are: what agents ask of servers, what these say, and what users are told.

use std::time::Duration;

use pliant_control::coallocation::{Link, Measure};
use pliant_control::handoff::Peer;

use super::proto;
use super::{Malformed, bounds, read, write};

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
        let ms = read::number("limit_ms", "milliseconds", &bounds::PROBE_LIMIT_MS, found)?;
        Ok(Duration::from_millis(ms.into()))
    }

    fn limit_ms(limit: Duration) -> u32 {
        write::number(&bounds::PROBE_LIMIT_MS, u32::try_from(limit.as_millis()).unwrap_or(u32::MAX))
    }

    fn bytes(found: u64) -> Result<u64, Malformed> {
        read::number("bytes", "bytes", &bounds::PROBE_BYTES, found)
    }
}

impl Probed {
    /// A bandwidth as it was told.
    ///
    /// # Errors
    /// It is no number, or out of bounds.
    pub fn mbps(field: &str, found: f64) -> Result<f64, Malformed> {
        read::number(field, "Mb/s", &bounds::LINK_MBPS, found)
    }

    /// A bandwidth as it is told.
    pub fn written(mbps: f64) -> f64 {
        write::measured(&bounds::LINK_MBPS, mbps)
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

impl From<&ProbeOrder> for proto::ProbeRequest {
    fn from(order: &ProbeOrder) -> proto::ProbeRequest {
        proto::ProbeRequest {
            server: order.server.name.to_string(),
            address: order.server.address.clone(),
            bytes: write::number(&bounds::PROBE_BYTES, order.bytes),
            limit_ms: GiveOrder::limit_ms(order.limit),
        }
    }
}

impl TryFrom<proto::ProbeRequest> for ProbeOrder {
    type Error = Malformed;
    fn try_from(message: proto::ProbeRequest) -> Result<ProbeOrder, Malformed> {
        let name = read::name("server", &message.server)?;
        Ok(ProbeOrder {
            server: Peer { name, address: read::address("address", message.address)? },
            bytes: GiveOrder::bytes(message.bytes)?,
            limit: GiveOrder::limit(message.limit_ms)?,
        })
    }
}

impl From<&Probed> for proto::ProbeReply {
    fn from(probed: &Probed) -> proto::ProbeReply {
        proto::ProbeReply {
            there_mbps: Probed::written(probed.there_mbps),
            back_mbps: Probed::written(probed.back_mbps),
            round_trip_us: micros(probed.round_trip),
        }
    }
}

impl TryFrom<proto::ProbeReply> for Probed {
    type Error = Malformed;
    fn try_from(message: proto::ProbeReply) -> Result<Probed, Malformed> {
        Ok(Probed {
            there_mbps: Probed::mbps("there_mbps", message.there_mbps)?,
            back_mbps: Probed::mbps("back_mbps", message.back_mbps)?,
            round_trip: Duration::from_micros(message.round_trip_us.into()),
        })
    }
}

impl From<&GiveOrder> for proto::GiveRequest {
    fn from(order: &GiveOrder) -> proto::GiveRequest {
        let bytes = write::number(&bounds::PROBE_BYTES, order.bytes);
        proto::GiveRequest { bytes, limit_ms: GiveOrder::limit_ms(order.limit) }
    }
}

impl TryFrom<proto::GiveRequest> for GiveOrder {
    type Error = Malformed;
    fn try_from(message: proto::GiveRequest) -> Result<GiveOrder, Malformed> {
        let bytes = GiveOrder::bytes(message.bytes)?;
        Ok(GiveOrder { bytes, limit: GiveOrder::limit(message.limit_ms)? })
    }
}

impl From<&Link> for proto::MeasuredLink {
    fn from(link: &Link) -> proto::MeasuredLink {
        let Link { between: (one, other), mbps, last, measures } = link;
        proto::MeasuredLink {
            one: one.to_string(),
            other: other.to_string(),
            mbps: Probed::written(*mbps),
            last_mbps: Probed::written(last.mbps),
            round_trip_us: last.round_trip_us,
            measured: write::time(last.at),
            measures: *measures,
        }
    }
}

impl TryFrom<proto::MeasuredLink> for Link {
    type Error = Malformed;
    fn try_from(message: proto::MeasuredLink) -> Result<Link, Malformed> {
        let last = Measure {
            at: read::time("measured", message.measured)?,
            mbps: Probed::mbps("last_mbps", message.last_mbps)?,
            round_trip_us: message.round_trip_us,
        };
        Ok(Link {
            between: (read::name("one", &message.one)?, read::name("other", &message.other)?),
            mbps: Probed::mbps("mbps", message.mbps)?,
            last,
            measures: message.measures,
        })
    }
}

/// The links that an agent knows.
pub fn links_reply(links: &[Link]) -> proto::LinksReply {
    proto::LinksReply { links: write::list(links, bounds::LINKS_MAX) }
}

/// The links that it told.
///
/// # Errors
///
/// [`Malformed`], with a path from [`proto::LinksReply`].
pub fn links(reply: proto::LinksReply) -> Result<Vec<Link>, Malformed> {
    read::list("links", reply.links, bounds::LINKS_MAX, Link::try_from)
}
