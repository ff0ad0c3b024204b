//! `pliant servers --links`: how fast the links between servers are, as they were measured.

use pliant_control::coallocation::Link;
use pliant_model::Time;
use serde_json::{Value, json};

use crate::table::Table;
use crate::time_text::both;

pub(super) fn value(links: &[Link]) -> Value {
    let one = |link: &Link| {
        let Link { between: (one, other), mbps, last, measures } = link;
        json!({
            "between": [one, other],
            "mbps": mbps,
            "last_mbps": last.mbps,
            "round_trip_us": last.round_trip_us,
            "measured_s": last.at,
            "measures": measures,
        })
    };
    links.iter().map(one).collect()
}

pub(super) fn text(links: &[Link], now: Time) -> String {
    if links.is_empty() {
        return "No link between two servers was measured yet.\n".to_owned();
    }
    let mut table = Table::new(2, &["servers", "", "Mb/s", "last", "round trip ms", "measures", "measured"]);
    for Link { between: (one, other), mbps, last, measures } in links {
        table.row(vec![
            one.to_string(),
            other.to_string(),
            figures(*mbps),
            figures(last.mbps),
            format!("{:.2}", f64::from(last.round_trip_us) / 1_000.0),
            measures.to_string(),
            both(last.at, now),
        ]);
    }
    table.render()
}

/// As many decimals as mean something.
fn figures(mbps: f64) -> String {
    if mbps < 100.0 { format!("{mbps:.2}") } else { format!("{mbps:.0}") }
}

#[cfg(test)]
mod tests {
    use pliant_control::coallocation::LinkQuality;

    use super::*;

    #[test]
    fn links_are_listed_with_their_age() {
        let last = LinkQuality { at: Time(940), mbps: 3.9, round_trip_us: 12_340 };
        let between = ("lyon".parse().unwrap(), "nice".parse().unwrap());
        let links = [Link { between, mbps: 941.2, last, measures: 3 }];
        let text = text(&links, Time(1000));
        assert!(
            ["lyon", "nice", " 941 ", " 3.90 ", " 12.34 ", " 3 "].iter().all(|word| text.contains(word)),
            "{text}"
        );
        assert_eq!(value(&links)[0]["round_trip_us"], 12_340);
        assert!(super::text(&[], Time(0)).contains("yet"));
    }
}
