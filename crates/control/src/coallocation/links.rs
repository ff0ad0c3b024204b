//! Measured links between servers.

use std::collections::{BTreeMap, VecDeque};

use pliant_model::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::names::Name;

/// The number of measurements kept for a link, the last ones. A link counts as their median, so that a single disturbed
/// measurement decides nothing.
const KEPT: usize = 5;
/// How long a measurement is kept.
const KEPT_FOR: Span = Span(7 * 86_400);

/// A pair of servers, the lower name first.
pub type ServerPair = (Name, Name);

/// Orders two servers into a pair.
pub fn server_pair(one: &Name, other: &Name) -> ServerPair {
    if one <= other { (one.clone(), other.clone()) } else { (other.clone(), one.clone()) }
}

/// A measurement of a link.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct LinkQuality {
    /// When it was made.
    pub at: Time,
    /// The bandwidth in the slower direction, in Mb/s.
    pub mbps: f64,
    /// The round-trip time, in microseconds.
    pub round_trip_us: u32,
}

/// A link, by its measurements.
#[derive(Clone, PartialEq, Debug)]
pub struct Link {
    /// The servers.
    pub between: ServerPair,
    /// The median of the kept measurements, the lower one of two, in Mb/s.
    pub mbps: f64,
    /// The last measurement.
    pub last: LinkQuality,
    /// The number of kept measurements.
    pub measures: u32,
}

/// The measured links, each with its last measurements.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Links(BTreeMap<ServerPair, VecDeque<LinkQuality>>);

/// The links as plain data.
pub(super) type LinksState = Vec<(Name, Name, VecDeque<LinkQuality>)>;

impl Links {
    /// Restores links from their state.
    pub(super) fn from_state(state: LinksState) -> Links {
        Links(state.into_iter().map(|(one, other, measures)| ((one, other), measures)).collect())
    }

    /// The state of all links.
    pub(super) fn state(&self) -> LinksState {
        let links = self.0.iter();
        links.map(|((one, other), measures)| (one.clone(), other.clone(), measures.clone())).collect()
    }

    /// Records a measurement and removes outdated ones. A bandwidth that is not finite or not above 0 is ignored.
    pub fn measured(&mut self, one: &Name, other: &Name, measure: LinkQuality) {
        self.forget(measure.at);
        if one == other || !measure.mbps.is_finite() || measure.mbps <= 0.0 {
            return;
        }
        let measures = self.0.entry(server_pair(one, other)).or_default();
        measures.push_back(measure);
        while measures.len() > KEPT {
            measures.pop_front();
        }
    }

    /// Removes outdated measurements.
    pub(super) fn forget(&mut self, now: Time) {
        self.0.retain(|_, measures| {
            measures.retain(|measure| now - measure.at < KEPT_FOR);
            !measures.is_empty()
        });
    }

    /// The bandwidth of a link, in Mb/s; none without measurements.
    pub fn mbps(&self, one: &Name, other: &Name) -> Option<f64> {
        Some(self.median_measurement(one, other)?.mbps)
    }

    /// The median measurement of a link; none without measurements.
    pub(super) fn median_measurement(&self, one: &Name, other: &Name) -> Option<LinkQuality> {
        median(self.0.get(&server_pair(one, other))?)
    }

    /// The bandwidth of the slowest link, in Mb/s.
    pub fn slowest_mbps(&self) -> Option<f64> {
        self.0.values().filter_map(median).map(|measure| measure.mbps).reduce(f64::min)
    }

    /// When a link was last measured.
    pub fn last(&self, between: &ServerPair) -> Option<Time> {
        Some(self.0.get(between)?.back()?.at)
    }

    /// A link, if it was measured.
    pub fn get(&self, between: &ServerPair) -> Option<Link> {
        link(between, self.0.get(between)?)
    }

    /// Every measured link, in the order of the servers.
    pub fn known(&self) -> impl Iterator<Item = Link> {
        self.0.iter().filter_map(|(between, measures)| link(between, measures))
    }
}

fn link(between: &ServerPair, measures: &VecDeque<LinkQuality>) -> Option<Link> {
    let (mbps, last) = (median(measures)?.mbps, *measures.back()?);
    Some(Link { between: between.clone(), mbps, last, measures: measures.len() as u32 })
}

/// The median, as the last one of equal measurements.
fn median(measures: &VecDeque<LinkQuality>) -> Option<LinkQuality> {
    let mut sorted: Vec<&LinkQuality> = measures.iter().collect();
    sorted.sort_by(|one, other| one.mbps.total_cmp(&other.mbps));
    let median = *sorted.get(sorted.len().saturating_sub(1) / 2)?;
    measures.iter().rev().find(|measure| measure.mbps == median.mbps).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn measures(links: &mut Links, mbps: &[f64]) {
        for (at, mbps) in mbps.iter().enumerate() {
            let measure = LinkQuality { at: Time(at as i64), mbps: *mbps, round_trip_us: 1 };
            links.measured(&name("b"), &name("a"), measure);
        }
    }

    #[test]
    fn a_link_is_the_median_of_its_last_measures() {
        for (mbps, expected) in [
            (&[8.0][..], Some(8.0)),
            (&[8.0, 2.0], Some(2.0)),
            (&[8.0, 2.0, 9.0], Some(8.0)),
            (&[1.0, 1.0, 1.0, 9.0, 9.0, 9.0], Some(9.0)),
            (&[f64::NAN, 0.0, -1.0, f64::INFINITY], None),
        ] {
            let mut links = Links::default();
            measures(&mut links, mbps);
            assert_eq!(links.mbps(&name("a"), &name("b")), expected, "{mbps:?}");
            assert_eq!(links.slowest_mbps(), expected, "{mbps:?}");
        }
    }

    #[test]
    fn outdated_measurements_are_removed_and_others_kept() {
        let mut links = Links::default();
        measures(&mut links, &[8.0, 2.0]);
        links.forget(Time(KEPT_FOR.0));
        let known: Vec<Link> = links.known().collect();
        assert_eq!((known.len(), known[0].mbps, known[0].measures), (1, 2.0, 1));
        assert_eq!(known[0].between, (name("a"), name("b")));
        assert_eq!(Links::from_state(links.state()), links);
        links.forget(Time(KEPT_FOR.0 + 1));
        assert_eq!(links, Links::default());
    }
}
