//! The choice of the link to measure next.
//!
//! Each pair of servers that are up is measured when it is new, and again after some time. A failed measurement is repeated
//! after growing pauses, by the two servers alternately; one that failed because a server was busy is repeated soon. There
//! is one measurement at a time. Each search looks at a bounded number of pairs and continues where the last one ended, so
//! its cost does not grow with the number of servers.

use std::collections::BTreeMap;

use pliant_model::{Span, Time};

use super::links::{Links, ServerPair, server_pair};
use crate::names::Name;

/// The most pairs in one search: all pairs of 32 servers.
const SEARCHED_PAIRS: usize = 512;
/// The pause after the first failure. It doubles with each failure, up to the time between two measurements.
const FIRST_PAUSE: Span = Span(60);
/// The pause after a server was busy. A measurement takes seconds.
const BUSY: Span = Span(2);

/// A measurement of a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    /// The server that measures.
    pub by: Name,
    /// The other server.
    pub to: Name,
}

/// The outcome of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeOutcome {
    /// The link was measured.
    Measured,
    /// It could not be measured.
    Failed,
    /// One of the servers took part in another measurement, which says nothing about the link.
    Busy,
}

/// Chooses the link to measure next. It remembers failures only; measurements are in [`Links`].
#[derive(Clone, PartialEq, Debug)]
pub struct Prober {
    /// The time between two measurements of a link.
    every: Span,
    /// The position of the next search in the list of pairs.
    position: usize,
    failed: BTreeMap<ServerPair, FailedProbe>,
}

/// The failures of a link's measurements.
#[derive(Clone, Copy, PartialEq, Debug)]
struct FailedProbe {
    times: u32,
    until: Time,
}

impl Prober {
    /// Makes a prober that measures each link again after `every`.
    pub fn new(every: Span) -> Prober {
        Prober { every, position: 0, failed: BTreeMap::new() }
    }

    /// The next link to measure between `servers`: one without measurements, or else the one measured longest ago, if it is
    /// due.
    pub fn next(&mut self, now: Time, servers: &[Name], links: &Links) -> Option<Probe> {
        // Failures that are long past no longer count.
        let kept = self.every.max(FIRST_PAUSE);
        self.failed.retain(|_, failed| now < failed.until + kept);
        let count = servers.len();
        let pairs = count * count.saturating_sub(1) / 2;
        let searched = pairs.min(SEARCHED_PAIRS);
        let mut best: Option<(Option<Time>, ServerPair)> = None;
        let position = if pairs == 0 { 0 } else { self.position % pairs };
        for (one, other) in pairs_from(position, count).take(searched) {
            let between = server_pair(&servers[one], &servers[other]);
            let last = links.last(&between);
            let is_due = last.is_none_or(|at| at + self.every <= now || now < at);
            let waits = self.failed.get(&between).is_some_and(|failed| now < failed.until);
            let is_better = best.as_ref().is_none_or(|(longest, _)| last < *longest);
            if is_due && !waits && is_better {
                best = Some((last, between));
            }
        }
        self.position = position + searched;
        let (_, (one, other)) = best?;
        let times = self.failed.get(&(one.clone(), other.clone())).map_or(0, |failed| failed.times);
        Some(if times.is_multiple_of(2) {
            Probe { by: one, to: other }
        } else {
            Probe { by: other, to: one }
        })
    }

    /// Records the outcome of a probe.
    pub fn done(&mut self, now: Time, probe: &Probe, tried: ProbeOutcome) {
        let between = server_pair(&probe.by, &probe.to);
        let times = self.failed.get(&between).map_or(0, |failed| failed.times);
        let failed = match tried {
            ProbeOutcome::Measured => {
                self.failed.remove(&between);
                return;
            }
            ProbeOutcome::Busy => FailedProbe { times, until: now + BUSY },
            ProbeOutcome::Failed => {
                let pause =
                    FIRST_PAUSE.0.saturating_mul(1 << times.min(20)).min(self.every.0.max(FIRST_PAUSE.0));
                FailedProbe { times: times + 1, until: now + Span(pause) }
            }
        };
        self.failed.insert(between, failed);
    }
}

/// All pairs of `count` servers in an endless cycle, (0, 1), (0, 2), (1, 2), (0, 3), ..., from this position.
fn pairs_from(number: usize, count: usize) -> impl Iterator<Item = (usize, usize)> {
    // The last row that begins at or before the position.
    let row = (1..count).rev().find(|row| row * (row - 1) / 2 <= number).unwrap_or(1);
    let next = move |(one, row): &(usize, usize)| match (one + 1, *row) {
        (one, row) if one < row => Some((one, row)),
        (_, row) if row + 1 < count => Some((0, row + 1)),
        _ => Some((0, 1)),
    };
    std::iter::successors(Some((number - row * (row - 1) / 2, row)), next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coallocation::links::LinkQuality;

    fn names(count: usize) -> Vec<Name> {
        (0..count).map(|number| format!("s{number:03}").parse().unwrap()).collect()
    }

    fn measure(at: Time) -> LinkQuality {
        LinkQuality { at, mbps: 1.0, round_trip_us: 1 }
    }

    #[test]
    fn pairs_can_start_at_any_position() {
        for count in 2..6 {
            let all: Vec<(usize, usize)> =
                (0..count).flat_map(|row| (0..row).map(move |one| (one, row))).collect();
            for from in 0..all.len() {
                let found: Vec<(usize, usize)> = pairs_from(from, count).take(all.len() + 1).collect();
                let expected = all.iter().cycle().skip(from).take(all.len() + 1);
                assert!(found.iter().eq(expected), "{found:?}");
            }
        }
    }

    #[test]
    fn a_new_pair_is_measured_at_once_and_again_when_due() {
        let (mut prober, mut links, mut now) = (Prober::new(Span(100)), Links::default(), Time(0));
        let mut servers = names(4);
        let mut measured = |now: Time, servers: &[Name], links: &mut Links| {
            let probe = prober.next(now, servers, links)?;
            links.measured(&probe.by, &probe.to, measure(now));
            prober.done(now, &probe, ProbeOutcome::Measured);
            Some(server_pair(&probe.by, &probe.to))
        };
        let mut order = Vec::new();
        while let Some(between) = measured(now, &servers, &mut links) {
            order.push(between);
            now += Span(1);
        }
        assert_eq!((order.len(), links.known().count()), (6, 6));
        servers.push("new".parse().unwrap());
        let new: Vec<ServerPair> = std::iter::from_fn(|| measured(now, &servers, &mut links)).collect();
        assert!(new.len() == 4 && new.iter().all(|(one, _)| one.as_str() == "new"), "{new:?}");
        // The link measured longest ago is the next one.
        assert_eq!(measured(Time(99), &servers, &mut links), None);
        assert_eq!(measured(Time(102), &servers, &mut links), Some(order[0].clone()));
        assert_eq!(measured(Time(102), &servers, &mut links), Some(order[1].clone()));
        // After the clock goes back, no link waits for the earlier time.
        assert!(measured(Time(-500), &servers, &mut links).is_some());
        assert_eq!(measured(now, &servers[..1], &mut links), None);
    }

    #[test]
    fn failed_measurements_alternate_servers_with_growing_pauses() {
        let (mut prober, links, servers) = (Prober::new(Span(300)), Links::default(), names(2));
        let (mut now, mut tries) = (Time(0), Vec::new());
        while now < Time(1200) {
            if let Some(probe) = prober.next(now, &servers, &links) {
                prober.done(now, &probe, ProbeOutcome::Failed);
                tries.push((now.0, probe.by.as_str().to_owned()));
            }
            now += Span(1);
        }
        let expected =
            [(0, "s000"), (60, "s001"), (180, "s000"), (420, "s001"), (720, "s000"), (1020, "s001")];
        assert_eq!(tries, expected.map(|(at, by)| (at, by.to_owned())));
    }

    #[test]
    fn a_busy_server_is_asked_again_soon_and_others_meanwhile() {
        let (mut prober, mut links, servers) = (Prober::new(Span(300)), Links::default(), names(3));
        let busy = prober.next(Time(0), &servers, &links).unwrap();
        prober.done(Time(0), &busy, ProbeOutcome::Busy);
        for _ in 0..2 {
            let other = prober.next(Time(0), &servers, &links).unwrap();
            assert_ne!(other, busy);
            links.measured(&other.by, &other.to, measure(Time(0)));
            prober.done(Time(0), &other, ProbeOutcome::Measured);
        }
        assert_eq!(prober.next(Time(1), &servers, &links), None);
        assert_eq!(
            prober.next(Time(2), &servers, &links),
            Some(busy.clone()),
            "the same server: it has not failed"
        );
        prober.done(Time(2), &busy, ProbeOutcome::Failed);
        assert_eq!(prober.next(Time(61), &servers, &links), None);
        assert!(prober.next(Time(62), &servers, &links).is_some());
    }

    #[test]
    fn all_pairs_of_many_servers_are_measured() {
        let (mut prober, mut links, servers) = (Prober::new(Span(1 << 40)), Links::default(), names(60));
        let mut measured = 0;
        // A search that finds nothing continues where it ended.
        for now in 0..4_000 {
            if let Some(probe) = prober.next(Time(0), &servers, &links) {
                links.measured(&probe.by, &probe.to, measure(Time(0)));
                prober.done(Time(now), &probe, ProbeOutcome::Measured);
                measured += 1;
            }
        }
        assert_eq!(measured, 60 * 59 / 2);
    }
}
