//! What was measured of the links between servers.

use std::collections::{BTreeMap, VecDeque};

use pliant_model::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::names::Name;

/// How many measures of a link are kept, the last ones. What it is taken for is their median, so that one that met other
/// traffic decides nothing.
const KEPT: usize = 5;
/// For how long a measure says something.
const KEPT_FOR: Span = Span(7 * 86_400);

/// Two servers, the lower name first.
pub type Pair = (Name, Name);

/// Two servers as a pair.
pub fn pair(one: &Name, other: &Name) -> Pair {
    if one <= other { (one.clone(), other.clone()) } else { (other.clone(), one.clone()) }
}

/// One measure of a link.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct LinkQuality {
    /// When.
    pub at: Time,
    /// How much went over it, in Mb/s: the slower of both ways.
    pub mbps: f64,
    /// From a question to its answer, in microseconds.
    pub round_trip_us: u32,
}

/// A link as it is known.
#[derive(Clone, PartialEq, Debug)]
pub struct Link {
    /// Between which servers.
    pub between: Pair,
    /// The median of the last measures, the lower one of two, in Mb/s.
    pub mbps: f64,
    /// The last measure.
    pub last: LinkQuality,
    /// How many measures there are.
    pub measures: u32,
}

/// The links that were measured, each with its last measures.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Links(BTreeMap<Pair, VecDeque<LinkQuality>>);

/// The same as plain data.
pub(super) type LinksState = Vec<(Name, Name, VecDeque<LinkQuality>)>;

impl Links {
    /// The links that had this state.
    pub(super) fn from_state(state: LinksState) -> Links {
        Links(state.into_iter().map(|(one, other, measures)| ((one, other), measures)).collect())
    }

    /// All of them.
    pub(super) fn state(&self) -> LinksState {
        let links = self.0.iter();
        links.map(|((one, other), measures)| (one.clone(), other.clone(), measures.clone())).collect()
    }

    /// Takes in a measure. One that is no number above 0 says nothing. What is too old is forgotten.
    pub fn measured(&mut self, one: &Name, other: &Name, measure: LinkQuality) {
        self.forget(measure.at);
        if one == other || !measure.mbps.is_finite() || measure.mbps <= 0.0 {
            return;
        }
        let measures = self.0.entry(pair(one, other)).or_default();
        measures.push_back(measure);
        while measures.len() > KEPT {
            measures.pop_front();
        }
    }

    /// Forgets what is too old to say anything.
    pub(super) fn forget(&mut self, now: Time) {
        self.0.retain(|_, measures| {
            measures.retain(|measure| now - measure.at < KEPT_FOR);
            !measures.is_empty()
        });
    }

    /// What goes over a link, in Mb/s; none if nobody has measured it.
    pub fn mbps(&self, one: &Name, other: &Name) -> Option<f64> {
        Some(self.typical(one, other)?.mbps)
    }

    /// The measure that a link is taken for; none if nobody has measured it.
    pub(super) fn typical(&self, one: &Name, other: &Name) -> Option<LinkQuality> {
        median(self.0.get(&pair(one, other))?)
    }

    /// The slowest link of all, in Mb/s.
    pub fn slowest_mbps(&self) -> Option<f64> {
        self.0.values().filter_map(median).map(|measure| measure.mbps).reduce(f64::min)
    }

    /// When a link was measured last.
    pub fn last(&self, between: &Pair) -> Option<Time> {
        Some(self.0.get(between)?.back()?.at)
    }

    /// A link, if it is known.
    pub fn of(&self, between: &Pair) -> Option<Link> {
        link(between, self.0.get(between)?)
    }

    /// Every link that is known, in the order of the servers.
    pub fn known(&self) -> impl Iterator<Item = Link> {
        self.0.iter().filter_map(|(between, measures)| link(between, measures))
    }
}

fn link(between: &Pair, measures: &VecDeque<LinkQuality>) -> Option<Link> {
    let (mbps, last) = (median(measures)?.mbps, *measures.back()?);
    Some(Link { between: between.clone(), mbps, last, measures: measures.len() as u32 })
}

/// The last one of equal ones.
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
    fn what_is_old_says_nothing_and_the_rest_is_kept() {
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
