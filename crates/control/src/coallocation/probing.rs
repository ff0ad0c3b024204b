//! Which link is measured next.
//!
//! Each pair of servers that are there is measured when it is new, and again after some time; one that cannot be measured is
//! tried again later and later, by the one and by the other in turns, and soon if a server only was busy with another
//! measurement. One measurement goes on at a time. To look for the next
//! one is bounded, however many servers there are: pairs are gone through in turns.

use std::collections::BTreeMap;

use pliant_model::{Span, Time};

use super::links::{Links, Pair, pair};
use crate::names::Name;

/// How many pairs are looked at for the next one: all of those of 32 servers.
const LOOKED_AT: usize = 512;
/// The pause after the first failure. It is doubled with each further one, up to the time between two measures.
const AGAIN: Span = Span(60);
/// The pause after a server was busy. A measurement takes seconds.
const BUSY: Span = Span(2);

/// Who measures what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    /// The server that is asked to measure.
    pub by: Name,
    /// The other one.
    pub to: Name,
}

/// How a probe went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeOutcome {
    /// The link was measured.
    Measured,
    /// It could not be measured.
    Failed,
    /// One of both servers takes part in another measurement, which says nothing about the link.
    Busy,
}

/// Which link is measured next. It remembers failures and nothing else; what was measured is in [`Links`].
#[derive(Clone, PartialEq, Debug)]
pub struct Prober {
    /// The time between two measures of a link.
    every: Span,
    /// Where the last look ended, in the list of pairs.
    place: usize,
    failed: BTreeMap<Pair, Failed>,
}

/// A link that could not be measured.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Failed {
    times: u32,
    until: Time,
}

impl Prober {
    /// One that has a link measured again after so much time.
    pub fn new(every: Span) -> Prober {
        Prober { every, place: 0, failed: BTreeMap::new() }
    }

    /// The link that is measured now, of those between `there`: one that never was, or else the one that was longest ago, if
    /// that is long enough ago.
    pub fn next(&mut self, now: Time, there: &[Name], links: &Links) -> Option<Probe> {
        // What cannot be measured any more, or was not tried for long, starts anew.
        let kept = self.every.max(AGAIN);
        self.failed.retain(|_, failed| now < failed.until + kept);
        let count = there.len();
        let pairs = count * count.saturating_sub(1) / 2;
        let looked_at = pairs.min(LOOKED_AT);
        let mut best: Option<(Option<Time>, Pair)> = None;
        let place = if pairs == 0 { 0 } else { self.place % pairs };
        for (one, other) in pairs_from(place, count).take(looked_at) {
            let between = pair(&there[one], &there[other]);
            let last = links.last(&between);
            let is_due = last.is_none_or(|at| at + self.every <= now || now < at);
            let waits = self.failed.get(&between).is_some_and(|failed| now < failed.until);
            let is_better = best.as_ref().is_none_or(|(longest, _)| last < *longest);
            if is_due && !waits && is_better {
                best = Some((last, between));
            }
        }
        self.place = place + looked_at;
        let (_, (one, other)) = best?;
        let times = self.failed.get(&(one.clone(), other.clone())).map_or(0, |failed| failed.times);
        Some(if times.is_multiple_of(2) {
            Probe { by: one, to: other }
        } else {
            Probe { by: other, to: one }
        })
    }

    /// How a probe went.
    pub fn done(&mut self, now: Time, probe: &Probe, tried: ProbeOutcome) {
        let between = pair(&probe.by, &probe.to);
        let times = self.failed.get(&between).map_or(0, |failed| failed.times);
        let failed = match tried {
            ProbeOutcome::Measured => {
                self.failed.remove(&between);
                return;
            }
            ProbeOutcome::Busy => Failed { times, until: now + BUSY },
            ProbeOutcome::Failed => {
                let pause = AGAIN.0.saturating_mul(1 << times.min(20)).min(self.every.0.max(AGAIN.0));
                Failed { times: times + 1, until: now + Span(pause) }
            }
        };
        self.failed.insert(between, failed);
    }
}

/// The pairs of so many, again and again: 0 and 1, 0 and 2, 1 and 2, 0 and 3, ... beginning with that number.
fn pairs_from(number: usize, count: usize) -> impl Iterator<Item = (usize, usize)> {
    // The last row that begins at or before it.
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
    fn pairs_are_gone_through_from_anywhere() {
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
    fn every_new_pair_is_measured_at_once_and_each_again_when_its_time_is_over() {
        let (mut prober, mut links, mut now) = (Prober::new(Span(100)), Links::default(), Time(0));
        let mut there = names(4);
        let mut measured = |now: Time, there: &[Name], links: &mut Links| {
            let probe = prober.next(now, there, links)?;
            links.measured(&probe.by, &probe.to, measure(now));
            prober.done(now, &probe, ProbeOutcome::Measured);
            Some(pair(&probe.by, &probe.to))
        };
        let mut order = Vec::new();
        while let Some(between) = measured(now, &there, &mut links) {
            order.push(between);
            now += Span(1);
        }
        assert_eq!((order.len(), links.known().count()), (6, 6));
        there.push("new".parse().unwrap());
        let new: Vec<Pair> = std::iter::from_fn(|| measured(now, &there, &mut links)).collect();
        assert!(new.len() == 4 && new.iter().all(|(one, _)| one.as_str() == "new"), "{new:?}");
        // The one that was longest ago is the next one.
        assert_eq!(measured(Time(99), &there, &mut links), None);
        assert_eq!(measured(Time(102), &there, &mut links), Some(order[0].clone()));
        assert_eq!(measured(Time(102), &there, &mut links), Some(order[1].clone()));
        // After a clock went back nothing waits for the time that was.
        assert!(measured(Time(-500), &there, &mut links).is_some());
        assert_eq!(measured(now, &there[..1], &mut links), None);
    }

    #[test]
    fn what_cannot_be_measured_is_tried_later_and_later_and_by_the_other_one() {
        let (mut prober, links, there) = (Prober::new(Span(300)), Links::default(), names(2));
        let (mut now, mut tries) = (Time(0), Vec::new());
        while now < Time(1200) {
            if let Some(probe) = prober.next(now, &there, &links) {
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
        let (mut prober, mut links, there) = (Prober::new(Span(300)), Links::default(), names(3));
        let busy = prober.next(Time(0), &there, &links).unwrap();
        prober.done(Time(0), &busy, ProbeOutcome::Busy);
        for _ in 0..2 {
            let other = prober.next(Time(0), &there, &links).unwrap();
            assert_ne!(other, busy);
            links.measured(&other.by, &other.to, measure(Time(0)));
            prober.done(Time(0), &other, ProbeOutcome::Measured);
        }
        assert_eq!(prober.next(Time(1), &there, &links), None);
        assert_eq!(
            prober.next(Time(2), &there, &links),
            Some(busy.clone()),
            "by the same one: it has not failed"
        );
        prober.done(Time(2), &busy, ProbeOutcome::Failed);
        assert_eq!(prober.next(Time(61), &there, &links), None);
        assert!(prober.next(Time(62), &there, &links).is_some());
    }

    #[test]
    fn of_very_many_servers_all_have_their_turn() {
        let (mut prober, mut links, there) = (Prober::new(Span(1 << 40)), Links::default(), names(60));
        let mut measured = 0;
        // A look that finds nothing goes on where it ended.
        for now in 0..4_000 {
            if let Some(probe) = prober.next(Time(0), &there, &links) {
                links.measured(&probe.by, &probe.to, measure(Time(0)));
                prober.done(Time(now), &probe, ProbeOutcome::Measured);
                measured += 1;
            }
        }
        assert_eq!(measured, 60 * 59 / 2);
    }
}
