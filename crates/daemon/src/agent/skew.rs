//! Clocks of children that differ from this agent's. Estimates are compared by their instants, so that a server whose clock is
//! wrong is given too many jobs or too few.
//!
//! A child sends its time with each heartbeat. A heartbeat that had to wait on its way makes the child's clock look late,
//! never early: of those that came since the last poll, the one that makes it earliest is the nearest to the truth. A
//! state changes when several polls in a row say so, and the way back needs a smaller difference than the way there.

use pliant_model::Span;

/// More than so many seconds are worth a warning: far more than a second of rounding and what a message takes.
const APART_S: u64 = 5;
/// At so many or fewer, clocks that were apart agree again.
const TOGETHER_S: u64 = 3;
/// How many polls in a row must agree.
const POLLS_MAX: u32 = 3;

/// How far the clock of a child is ahead of this agent's.
#[derive(Clone, Default, Debug)]
pub(super) struct Skew {
    /// The largest value since the last poll.
    largest: Option<Span>,
    /// The result of the last poll.
    ahead: Span,
    is_apart: bool,
    /// How many polls in a row have contradicted this state.
    against: u32,
}

/// A change worth a line in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// The clocks differ by that.
    Apart(Span),
    /// They agree again.
    Together,
}

impl Skew {
    /// Adds the value of a heartbeat.
    pub(super) fn add(&mut self, ahead: Span) {
        self.largest = self.largest.max(Some(ahead));
    }

    /// Polls: the difference since the last poll, if a heartbeat came, and whether the state has
    /// changed.
    pub(super) fn update(&mut self) -> Option<(Span, Option<Change>)> {
        let ahead = self.largest.take()?;
        self.ahead = ahead;
        let bound = if self.is_apart { TOGETHER_S } else { APART_S };
        let is_apart = ahead.0.unsigned_abs() > bound;
        self.against = if is_apart == self.is_apart { 0 } else { self.against + 1 };
        if self.against < POLLS_MAX {
            return Some((ahead, None));
        }
        (self.is_apart, self.against) = (is_apart, 0);
        Some((ahead, Some(if is_apart { Change::Apart(ahead) } else { Change::Together })))
    }

    /// How far the clocks are apart, if that is more than they should be.
    pub(super) fn apart(&self) -> Option<Span> {
        self.is_apart.then_some(self.ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The changes that heartbeats lead to, one poll after each of them.
    fn changes(heartbeats: &[i64]) -> Vec<(usize, Change)> {
        let mut skew = Skew::default();
        let poll = |(index, ahead): (usize, &i64)| {
            skew.add(Span(*ahead));
            Some((index, skew.update()?.1?))
        };
        heartbeats.iter().enumerate().filter_map(poll).collect()
    }

    #[test]
    fn a_change_is_reported_once_and_only_when_it_lasts() {
        use Change::{Apart, Together};
        for (heartbeats, expected) in [
            (&[0, 1, -1, 5, -5, 5, 5, 5][..], vec![]),
            (&[6, 6, 6, 6, 6, 7, 6], vec![(2, Apart(Span(6)))]),
            (&[-9, -9, -8, -9], vec![(2, Apart(Span(-8)))]),
            // A message that took its time.
            (&[0, -30, 0, -30, -30, 0], vec![]),
            // Between the bounds nothing changes, whichever way it came.
            (&[6, 6, 6, 4, 5, 6, 4, 4, 4], vec![(2, Apart(Span(6)))]),
            (&[6, 6, 6, 3, 3, 4, 3, 0, -3, 0], vec![(2, Apart(Span(6))), (8, Together)]),
        ] {
            assert_eq!(changes(heartbeats), expected, "{heartbeats:?}");
        }
    }

    #[test]
    fn heartbeats_that_waited_do_not_count_beside_one_that_did_not() {
        let mut skew = Skew::default();
        assert_eq!(skew.update(), None, "no heartbeat came");
        for _ in 0..POLLS_MAX {
            for late in [-20, -18, 0, -16] {
                skew.add(Span(late));
            }
            assert_eq!(skew.update(), Some((Span(0), None)));
        }
        assert_eq!((skew.apart(), skew.update()), (None, None));
    }

    #[test]
    fn the_present_difference_is_shown() {
        let mut skew = Skew::default();
        for ahead in [60, 60, 60, 61] {
            skew.add(Span(ahead));
            skew.update();
        }
        assert_eq!(skew.apart(), Some(Span(61)));
    }
}
