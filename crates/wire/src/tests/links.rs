//! Messages about links that do not say what they should.

use std::time::Duration;

use pliant_control::coallocation::Link;
use pliant_control::handoff::Peer;

use super::super::proto;
use super::super::{DownloadProbe, LinkMeasurement, LinkProbe, links};
use super::samples::{ADDRESS, EMPTY, NAME, TIME, check};

const BYTES: &str = "bytes from 65536 to 67108864";
const LIMIT: &str = "milliseconds from 1000 to 30000";
const MBPS: &str = "Mb/s from 0.001 to 1000000000";

#[test]
fn orders_to_measure() {
    let server = Peer { name: "nice".parse().unwrap(), address: "nice.example.org:7450".to_owned() };
    let order = LinkProbe { server, bytes: 1 << 20, limit: Duration::from_secs(5) };
    type Change = fn(&mut proto::ProbeRequest);
    let cases: [(Change, &str, &str, &str); 5] = [
        (|order| order.server.clear(), "server", NAME, EMPTY),
        (|order| order.address = "nice".into(), "address", ADDRESS, "`nice`"),
        (|order| order.bytes = 1, "bytes", BYTES, "1"),
        (|order| order.bytes = u64::MAX, "bytes", BYTES, "18446744073709551615"),
        (|order| order.limit_ms = 60_000, "limit_ms", LIMIT, "60000"),
    ];
    for (damage, field, expected, found) in cases {
        check::<_, LinkProbe>((&order).into(), damage, field, expected, found);
    }
    let give = DownloadProbe { bytes: order.bytes, limit: order.limit };
    let damage = |give: &mut proto::GiveRequest| give.limit_ms = 0;
    check::<_, DownloadProbe>((&give).into(), damage, "limit_ms", LIMIT, "0");
}

#[test]
fn measures() {
    let probed = LinkMeasurement { there_mbps: 8.0, back_mbps: 9.0, round_trip: Duration::from_millis(3) };
    type Change = fn(&mut proto::ProbeReply);
    let cases: [(Change, &str, &str); 3] = [
        (|probed| probed.there_mbps = f64::NAN, "there_mbps", "NaN"),
        (|probed| probed.there_mbps = 0.0, "there_mbps", "0"),
        (|probed| probed.back_mbps = f64::INFINITY, "back_mbps", "inf"),
    ];
    for (damage, field, found) in cases {
        check::<_, LinkMeasurement>((&probed).into(), damage, field, MBPS, found);
    }
    // What was measured badly does not end the line.
    let wild = LinkMeasurement { there_mbps: f64::NAN, back_mbps: f64::INFINITY, ..probed };
    let read = LinkMeasurement::try_from(proto::ProbeReply::from(&wild)).unwrap();
    assert_eq!((read.there_mbps, read.back_mbps), (1e-3, 1e9));
}

#[test]
fn links_that_are_known() {
    let link = proto::MeasuredLink {
        one: "lyon".to_owned(),
        other: "nice".to_owned(),
        mbps: 8.0,
        last_mbps: 9.0,
        round_trip_us: 300,
        measured: 1_000,
        measures: 2,
    };
    type Change = fn(&mut proto::MeasuredLink);
    let cases: [(Change, &str, &str, &str); 4] = [
        (|link| link.other = "Nice".into(), "other", NAME, "`Nice`"),
        (|link| link.mbps = -1.0, "mbps", MBPS, "-1"),
        (|link| link.last_mbps = 0.0, "last_mbps", MBPS, "0"),
        (|link| link.measured = i64::MAX, "measured", TIME, "9223372036854775807"),
    ];
    for (damage, field, expected, found) in cases {
        check::<_, Link>(link.clone(), damage, field, expected, found);
    }
    let reply =
        proto::LinksReply { links: vec![link.clone(), proto::MeasuredLink { one: String::new(), ..link }] };
    assert!(links(reply).unwrap_err().to_string().contains("links[1].one"));
}
