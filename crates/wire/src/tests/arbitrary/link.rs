//! Links between servers, and how they are measured.

use std::time::Duration;

use pliant_control::coallocation::{Link, Measure};
use pliant_control::handoff::Peer;

use super::super::super::{GiveOrder, ProbeOrder, Probed};
use super::*;

fn limit() -> impl Strategy<Value = Duration> {
    bounds::PROBE_LIMIT_MS.prop_map(|ms| Duration::from_millis(ms.into()))
}

pub(in super::super) fn probe_order() -> impl Strategy<Value = ProbeOrder> {
    (name(), address(), bounds::PROBE_BYTES, limit()).prop_map(|(name, address, bytes, limit)| ProbeOrder {
        server: Peer { name, address },
        bytes,
        limit,
    })
}

pub(in super::super) fn probed() -> impl Strategy<Value = Probed> {
    (bounds::LINK_MBPS, bounds::LINK_MBPS, any::<u32>()).prop_map(|(there_mbps, back_mbps, us)| Probed {
        there_mbps,
        back_mbps,
        round_trip: Duration::from_micros(us.into()),
    })
}

pub(in super::super) fn give_order() -> impl Strategy<Value = GiveOrder> {
    (bounds::PROBE_BYTES, limit()).prop_map(|(bytes, limit)| GiveOrder { bytes, limit })
}

pub(in super::super) fn link() -> impl Strategy<Value = Link> {
    let last = (time(), bounds::LINK_MBPS, any::<u32>());
    let last = last.prop_map(|(at, mbps, round_trip_us)| Measure { at, mbps, round_trip_us });
    (name(), name(), bounds::LINK_MBPS, last, any::<u32>())
        .prop_map(|(one, other, mbps, last, measures)| Link { between: (one, other), mbps, last, measures })
}
