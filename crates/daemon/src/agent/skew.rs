//! Clocks of children that differ from ours. Estimates are compared by their instants, so that a server whose clock is
//! wrong is given too many jobs or too few.
//!
//! A child says its time with each heartbeat. A heartbeat that had to wait on its way makes the child's clock look late,
//! never early: of those that came since the last look, the one that makes it earliest is the nearest to the truth. A
//! state changes when several looks in a row say so, and the way back needs a smaller difference than the way there.

use pliant_model::Span;

/// More than so many seconds are worth a warning: far more than a second of rounding and what a message takes.
const APART_S: u64 = 5;
/// At so many or fewer, clocks that were apart agree again.
const TOGETHER_S: u64 = 3;
/// So many looks in a row must say so.
const POLLS_MAX: u32 = 3;

/// How far the clock of a child is ahead of ours.
#[derive(Clone, Default, Debug)]
pub(super) struct Skew {
    /// The most that was heard since the last look.
    heard: Option<Span>,
    /// What the last look found.
    ahead: Span,
    is_apart: bool,
    /// How many looks in a row have said that this is not so any more.
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
    /// A heartbeat says so.
    pub(super) fn add(&mut self, ahead: Span) {
        self.heard = self.heard.max(Some(ahead));
    }

    /// Looks at what was heard since the last time: the difference, if anything was heard, and whether the state has
    /// changed.
    pub(super) fn update(&mut self) -> Option<(Span, Option<Change>)> {
        let ahead = self.heard.take()?;
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

    /// The changes that heartbeats lead to, one look after each of them.
    fn changes(heard: &[i64]) -> Vec<(usize, Change)> {
        let mut skew = Skew::default();
        let look = |(index, ahead): (usize, &i64)| {
            skew.add(Span(*ahead));
            Some((index, skew.update()?.1?))
        };
        heard.iter().enumerate().filter_map(look).collect()
    }

    #[test]
    fn a_change_is_told_once_and_only_when_it_lasts() {
        use Change::{Apart, Together};
        for (heard, expected) in [
            (&[0, 1, -1, 5, -5, 5, 5, 5][..], vec![]),
            (&[6, 6, 6, 6, 6, 7, 6], vec![(2, Apart(Span(6)))]),
            (&[-9, -9, -8, -9], vec![(2, Apart(Span(-8)))]),
            // A message that took its time.
            (&[0, -30, 0, -30, -30, 0], vec![]),
            // Between the bounds nothing changes, whichever way it came.
            (&[6, 6, 6, 4, 5, 6, 4, 4, 4], vec![(2, Apart(Span(6)))]),
            (&[6, 6, 6, 3, 3, 4, 3, 0, -3, 0], vec![(2, Apart(Span(6))), (8, Together)]),
        ] {
            assert_eq!(changes(heard), expected, "{heard:?}");
        }
    }

    #[test]
    fn heartbeats_that_waited_do_not_count_beside_one_that_did_not() {
        let mut skew = Skew::default();
        assert_eq!(skew.update(), None, "nothing was heard");
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
