//! Reservations that slide to the left, into processors that are free just before them.

use pliant_model::{Procs, Span, Time};

use super::{Cursor, Freed, Profile};

/// Where two steps of a profile were when they were last looked for. They change how long the next search takes, not what it
/// finds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Hints {
    before: Hint,
    end: Hint,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Hint {
    block: u32,
    step: u32,
}

impl Profile {
    /// True if `procs` processors are free just before `start`, which is later than the profile's origin.
    #[inline]
    pub(crate) fn is_free_before(&self, start: Time, procs: Procs, hints: &mut Hints) -> bool {
        let cursor = self.locate_from(hints.before.into(), start.0 - 1);
        hints.before = cursor.into();
        self.blocks[cursor.block].free(cursor.step) >= procs.0.into()
    }

    /// Moves a reservation of `procs` processors for `walltime` from `start` to the left, as far as they are free before
    /// it, but not before `floor`: returns the new start, and what is freed at its end. They are free just before it.
    pub(crate) fn slide(
        &mut self,
        hints: &mut Hints,
        start: Time,
        walltime: Span,
        procs: Procs,
        floor: Time,
    ) -> (Time, Freed) {
        let before = self.locate_from(hints.before.into(), start.0 - 1);
        let (slid, cursor) = self.run_before(before, procs, floor);
        let (end, old_end) = (slid + walltime, start + walltime);
        self.change_at(cursor, slid.0, start.min(end).0, -i64::from(procs.0));
        let from = start.max(end);
        let cursor = self.locate_from(hints.end.into(), from.0);
        *hints = Hints { before: self.changed.into(), end: cursor.into() };
        let least = self.change_at(cursor, from.0, old_end.0, procs.0.into()) + 1;
        (slid, Freed { from, until: old_end, least: Procs(least as u32) })
    }

    /// Moves a reservation to an earlier interval that is free, apart from its own processors; returns the freed interval.
    pub(crate) fn shift(&mut self, start: Time, earlier: Time, walltime: Span, procs: Procs) -> Freed {
        let end = earlier + walltime;
        self.reserve(earlier, start.min(end), procs);
        self.release(start.max(end), start + walltime, procs)
    }

    /// Where the run of steps with at least `procs` free processors that reaches the one at `cursor` begins, but not
    /// before `floor`; and the step there.
    fn run_before(&self, cursor: Cursor, procs: Procs, floor: Time) -> (Time, Cursor) {
        let need = i64::from(procs.0);
        let mut begin = cursor;
        while self.time(begin) > floor.0 {
            let previous = match begin.step {
                0 if begin.block == 0 => break,
                0 => {
                    let block = begin.block - 1;
                    // Blocks that are wide enough all along are passed over.
                    let last = self.blocks[block].steps.len() - 1;
                    let step = if self.blocks[block].min >= need { 0 } else { last };
                    if self.blocks[block].free(last) < need {
                        break;
                    }
                    Cursor { block, step }
                }
                step => Cursor { block: begin.block, step: step - 1 },
            };
            if self.blocks[previous.block].free(previous.step) < need {
                break;
            }
            begin = previous;
        }
        if self.time(begin) < floor.0 {
            begin = self.locate(floor.0);
        }
        (Time(self.time(begin).max(floor.0)), begin)
    }
}

impl Hints {
    /// Any hints, right or wrong.
    #[cfg(test)]
    pub(super) fn guess(block: u32, step: u32) -> Hints {
        Hints { before: Hint { block, step }, end: Hint { block: step, step: block } }
    }
}

impl From<Cursor> for Hint {
    fn from(cursor: Cursor) -> Hint {
        Hint { block: cursor.block as u32, step: cursor.step as u32 }
    }
}

impl From<Hint> for Cursor {
    fn from(hint: Hint) -> Cursor {
        Cursor { block: hint.block as usize, step: hint.step as usize }
    }
}
