//! Reservations that slide to the left, into processors that are free just before them.

use pliant_model::{Procs, Span, Time};

use super::{Cursor, Freed, Profile};

/// Where a search of the step just before a time begins: at the step found last.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Before {
    block: u32,
    step: u32,
}

impl Profile {
    /// True if `procs` processors are free just before `at`, which is later than the profile's origin. `hint` is what
    /// the last such question about the same or a near time left; it changes how long the search takes, not the answer.
    #[inline]
    pub(crate) fn is_free_before(&self, at: Time, procs: Procs, hint: &mut Before) -> bool {
        let cursor = self.locate_from(hint.cursor(), at.0 - 1);
        *hint = Before { block: cursor.block as u32, step: cursor.step as u32 };
        self.blocks[cursor.block].free(cursor.step) >= procs.0.into()
    }

    /// Moves a reservation of `procs` processors for `walltime` from `start` to the left, as far as they are free before
    /// it, but not before `floor`: returns the new start, and what is freed at its end. They are free just before it,
    /// where `before` is.
    pub(crate) fn slide(
        &mut self,
        before: Before,
        start: Time,
        walltime: Span,
        procs: Procs,
        floor: Time,
    ) -> (Time, Freed) {
        let (slid, cursor) = self.run_before(before.cursor(), procs, floor);
        let end = slid + walltime;
        self.change_at(cursor, slid.0, start.min(end).0, -i64::from(procs.0));
        (slid, self.release(start.max(end), start + walltime, procs))
    }

    /// Moves a reservation to a place further left that is free, apart from what it has itself; returns what is freed.
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

impl Before {
    /// Any hint, right or wrong.
    #[cfg(test)]
    pub(super) fn guess(block: u32, step: u32) -> Before {
        Before { block, step }
    }

    fn cursor(self) -> Cursor {
        Cursor { block: self.block as usize, step: self.step as usize }
    }
}
