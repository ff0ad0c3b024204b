//! Searches for starts: earliest for fixed shapes, best shapes for moldable requests.

use std::ops::Range;

use pliant_model::{Procs, Span, Time};

use super::{Cursor, Profile, plus};

/// A start found for a moldable request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fit {
    /// Start.
    pub start: Time,
    /// Processors.
    pub procs: Procs,
    /// Walltime on that many.
    pub walltime: Span,
}

impl Fit {
    /// No fit yet: a search that begins with it finds the fits that complete by `latest`.
    pub(crate) fn none_by(latest: Time) -> Fit {
        Fit { start: Time(latest.0.saturating_add(1)), procs: Procs(0), walltime: Span(0) }
    }

    /// The fit, if there is one.
    pub(crate) fn found(self) -> Option<Fit> {
        (self.procs > Procs(0)).then_some(self)
    }

    pub(super) fn completion(self) -> i64 {
        self.start.0 + self.walltime.0
    }
}

impl Profile {
    /// The earliest time not before `from` at which `procs` processors are free for `walltime`. None only
    /// if the cluster is too small. O(blocks + steps of the blocks where a run may begin or end).
    pub fn earliest_fit(&self, from: Time, procs: Procs, walltime: Span) -> Option<Time> {
        self.earliest_fit_by(from, Time::MAX, procs, walltime).ok()
    }

    /// As [`Profile::earliest_fit`], but gives up once the job could not end by `deadline`.
    pub fn earliest_fit_ending_by(
        &self,
        from: Time,
        procs: Procs,
        walltime: Span,
        deadline: Time,
    ) -> Option<Time> {
        self.earliest_fit_by(from, deadline - walltime, procs, walltime).ok()
    }

    /// The earliest time in `from..=last` at which `procs` processors are free for `walltime`, or else a time
    /// before which there is none.
    pub(super) fn earliest_fit_by(
        &self,
        from: Time,
        last: Time,
        procs: Procs,
        walltime: Span,
    ) -> Result<Time, Time> {
        let need = i64::from(procs.0);
        let mut cursor = self.locate(from.0);
        loop {
            let Some(wide) = self.next_with_at_least(cursor, need) else { return Err(Time::MAX) };
            let start = self.time(wide).max(from.0);
            if start > last.0 {
                return Err(Time(start));
            }
            match self.next_below(wide, need, plus(start, walltime)) {
                None => return Ok(Time(start)),
                Some(end) => cursor = end,
            }
        }
    }

    /// The first step from `cursor` on with at least `need` free processors.
    fn next_with_at_least(&self, cursor: Cursor, need: i64) -> Option<Cursor> {
        let Cursor { mut block, mut step } = cursor;
        while block < self.blocks.len() {
            let this = &self.blocks[block];
            if this.max >= need {
                let own = need - this.shift;
                if let Some(offset) = this.steps[step..].iter().position(|one| one.free >= own) {
                    return Some(Cursor { block, step: step + offset });
                }
            }
            block += 1;
            step = 0;
        }
        None
    }

    /// The first step from `cursor` on with fewer than `need` free processors that begins before `until`.
    fn next_below(&self, cursor: Cursor, need: i64, until: i64) -> Option<Cursor> {
        let Cursor { mut block, mut step } = cursor;
        while block < self.blocks.len() {
            let this = &self.blocks[block];
            if this.first >= until {
                return None;
            }
            if this.min < need {
                let own = need - this.shift;
                if let Some(offset) = this.steps[step..].iter().position(|one| one.free < own) {
                    let found = Cursor { block, step: step + offset };
                    return (self.time(found) < until).then_some(found);
                }
            }
            block += 1;
            step = 0;
        }
        None
    }

    /// The completion-minimal shape of a moldable request, in one pass.
    ///
    /// Candidate starts are `from` and every rise of the profile. At each, the size begins as large as the
    /// start allows and shrinks as the walk to the right meets narrower steps, until the walltime of that
    /// size fits: that is the largest size that can start there, and the best, because walltimes never
    /// grow with the size. The pass ends when even `most` processors could not complete earlier.
    /// Only sizes in `least..=most` are considered and only completions up to that of `best`, ties
    /// included when they use fewer processors.
    pub(crate) fn best_shape(
        &self,
        from: Time,
        least: Procs,
        most: Procs,
        walltime: &dyn Fn(Procs) -> Span,
        best: &mut Fit,
    ) {
        let (low, high) = (i64::from(least.0), i64::from(most.0).min(self.capacity));
        if low > high {
            return;
        }
        let quickest = walltime(Procs(high as u32));
        let mut cursor = self.locate(from.0);
        let mut before = -1;
        loop {
            let Some(candidate) = self.next_with_at_least(cursor, low) else { return };
            if candidate != cursor {
                before = 0;
            }
            cursor = candidate;
            let start = self.time(cursor).max(from.0);
            if plus(start, quickest) > best.completion() {
                return;
            }
            let free = self.blocks[cursor.block].free(cursor.step);
            if free > before {
                self.try_start(cursor, start, low, free.min(high), walltime, best);
            }
            before = free;
            match self.following(cursor) {
                Some(next) => cursor = next,
                None => return,
            }
        }
    }

    /// The largest size that can start at `start`, if it completes before `best` does.
    fn try_start(
        &self,
        cursor: Cursor,
        start: i64,
        low: i64,
        high: i64,
        walltime: &dyn Fn(Procs) -> Span,
        best: &mut Fit,
    ) {
        let mut size = high;
        let mut cursor = cursor;
        loop {
            let span = walltime(Procs(size as u32));
            let completion = plus(start, span);
            if (completion, size) >= (best.completion(), best.procs.0.into()) {
                return;
            }
            match self.next_below(cursor, size, completion) {
                None => {
                    *best = Fit { start: Time(start), procs: Procs(size as u32), walltime: span };
                    return;
                }
                Some(narrower) => {
                    cursor = narrower;
                    size = self.blocks[cursor.block].free(cursor.step);
                    if size < low {
                        return;
                    }
                }
            }
        }
    }

    /// The fewest processors from `least` on that complete by `latest` when they start not before `from`, at their earliest
    /// start; `known` is a fit that completes by then.
    ///
    /// Candidate starts are `from` and every rise of the profile. The later the start, the more processors are needed to
    /// complete in time, so the pass ends at the first start at which nothing below the best size is short enough. At
    /// each start the size begins as small as time allows and grows as the walk to the right meets narrower steps,
    /// until it ends before them.
    pub(crate) fn fewest_by(
        &self,
        from: Time,
        least: Procs,
        latest: Time,
        walltime: &dyn Fn(Procs) -> Span,
        known: Fit,
    ) -> Fit {
        let mut best = known;
        if least >= known.procs {
            return best;
        }
        let quickest = walltime(Procs(known.procs.0 - 1));
        let (mut cursor, mut low, mut before) = (self.locate(from.0), least.0, -1);
        while let Some(candidate) = self.next_with_at_least(cursor, low.into()) {
            if candidate != cursor {
                before = 0;
            }
            let start = self.time(candidate).max(from.0);
            if start > latest.0 - quickest.0 {
                break;
            }
            if let Some(narrower) = self.next_below(candidate, low.into(), plus(start, quickest)) {
                // Not even the quickest size starts before that.
                (cursor, before) = (narrower, 0);
                continue;
            }
            let shortest = smallest_within(low..best.procs.0, latest.0 - start, walltime);
            let Some(smallest) = shortest else { break };
            low = smallest;
            let free = self.blocks[candidate.block].free(candidate.step);
            // Behind a step that was no narrower nothing starts that did not fit there.
            let fit = if free > before {
                self.fewest_at(candidate, start, low..best.procs.0, walltime)
            } else {
                None
            };
            if let Some(fit) = fit {
                best = fit;
                if fit.procs.0 == low {
                    break;
                }
            }
            before = free;
            match self.following(candidate) {
                Some(next) => cursor = next,
                None => break,
            }
        }
        best
    }

    /// The fewest processors of `sizes` that can start at `start`, when step `cursor` holds.
    fn fewest_at(
        &self,
        cursor: Cursor,
        start: i64,
        sizes: Range<u32>,
        walltime: &dyn Fn(Procs) -> Span,
    ) -> Option<Fit> {
        let mut size = sizes.start;
        loop {
            let span = walltime(Procs(size));
            match self.next_below(cursor, size.into(), plus(start, span)) {
                None => return Some(Fit { start: Time(start), procs: Procs(size), walltime: span }),
                // No larger size fits across the narrower step either: it has to end before.
                Some(narrower) => {
                    size = smallest_within(size + 1..sizes.end, self.time(narrower) - start, walltime)?;
                }
            }
        }
    }

    fn following(&self, cursor: Cursor) -> Option<Cursor> {
        if cursor.step + 1 < self.blocks[cursor.block].steps.len() {
            Some(Cursor { block: cursor.block, step: cursor.step + 1 })
        } else if cursor.block + 1 < self.blocks.len() {
            Some(Cursor { block: cursor.block + 1, step: 0 })
        } else {
            None
        }
    }

    /// The smallest number of free processors on `[from, until)`, which is not empty.
    pub(crate) fn min_free(&self, from: Time, until: Time) -> i64 {
        let mut cursor = self.locate(from.0);
        let mut least = i64::MAX;
        while cursor.block < self.blocks.len() {
            let block = &self.blocks[cursor.block];
            if block.first >= until.0 {
                break;
            }
            let next = self.blocks.get(cursor.block + 1).map_or(i64::MAX, |block| block.first);
            if cursor.step == 0 && next <= until.0 {
                least = least.min(block.min);
            } else {
                let own = block.steps[cursor.step..].iter().take_while(|step| step.time < until.0);
                least = own.fold(least, |least, step| least.min(step.free + block.shift));
            }
            cursor = Cursor { block: cursor.block + 1, step: 0 };
        }
        least
    }

    /// A walk across `[from, until)`, which is not empty: the steps that hold at `from` and at `until`, and
    /// the largest number of free processors in between.
    pub(super) fn across(&self, from: Time, until: Time) -> (Cursor, Cursor, i64) {
        let begin = self.locate_from(self.changed, from.0);
        let mut cursor = begin;
        let mut most = 0;
        loop {
            let block = &self.blocks[cursor.block];
            let next = self.blocks.get(cursor.block + 1).map_or(i64::MAX, |block| block.first);
            if next > until.0 {
                let shift = block.shift;
                while let Some(step) = block.steps.get(cursor.step)
                    && step.time < until.0
                {
                    most = most.max(step.free + shift);
                    cursor.step += 1;
                }
                if block.steps.get(cursor.step).is_none_or(|step| step.time > until.0) {
                    cursor.step -= 1;
                }
                return (begin, cursor, most);
            }
            if cursor.step == 0 {
                most = most.max(block.max);
            } else {
                let own = block.steps[cursor.step..].iter();
                most = own.fold(most, |most, step| most.max(step.free + block.shift));
            }
            cursor = Cursor { block: cursor.block + 1, step: 0 };
            if next == until.0 {
                return (begin, cursor, most);
            }
        }
    }

    /// Calls `meet(time, free)` for each step before `from` at which the free processors fall below every
    /// value met on the way from `from` to the left; stops at `floor` or when `meet` says so. `time` is
    /// when the narrower step ends, `cursor` the step that holds at `from`.
    pub(super) fn narrowing_left(
        &self,
        cursor: Cursor,
        from: Time,
        floor: Time,
        mut meet: impl FnMut(i64, i64) -> bool,
    ) {
        let mut least = i64::MAX;
        let Cursor { mut block, step } = cursor;
        let mut step = step as isize;
        let mut end = from.0;
        // The step that holds at `from` may begin before it; it counts up to `from` unless it starts there.
        loop {
            let this = &self.blocks[block];
            if this.min < least || step < this.steps.len() as isize - 1 {
                while step >= 0 {
                    let own = this.steps[step as usize];
                    let free = own.free + this.shift;
                    if own.time < from.0 && free < least {
                        least = free;
                        if !meet(end, free) {
                            return;
                        }
                    }
                    end = end.min(own.time);
                    step -= 1;
                }
            }
            end = end.min(this.first);
            if block == 0 || end <= floor.0 {
                return;
            }
            block -= 1;
            step = self.blocks[block].steps.len() as isize - 1;
        }
    }

    /// Calls `meet(time, free)` for each step from `from` on at which the free processors fall below every
    /// value met since `from`, at least to `last` and until `meet` says stop. `time` is when the step begins (at least `from`),
    /// `cursor` the step that holds at `from`.
    pub(super) fn narrowing_right(
        &self,
        mut cursor: Cursor,
        from: Time,
        last: Time,
        mut meet: impl FnMut(i64, i64) -> bool,
    ) {
        let mut least = i64::MAX;
        while cursor.block < self.blocks.len() {
            let this = &self.blocks[cursor.block];
            if this.first >= last.0 {
                return;
            }
            if this.min < least {
                for own in &this.steps[cursor.step..] {
                    let free = own.free + this.shift;
                    if free < least {
                        least = free;
                        if !meet(own.time.max(from.0), free) {
                            return;
                        }
                    }
                }
            }
            cursor = Cursor { block: cursor.block + 1, step: 0 };
        }
    }
}

/// The smallest of some sizes with a walltime of at most that many seconds.
fn smallest_within(sizes: Range<u32>, seconds: i64, walltime: &dyn Fn(Procs) -> Span) -> Option<u32> {
    let Range { start: mut low, end } = sizes;
    let mut high = end.checked_sub(1).filter(|last| *last >= low)?;
    if walltime(Procs(high)).0 > seconds {
        return None;
    }
    while low < high {
        let middle = low.midpoint(high);
        if walltime(Procs(middle)).0 <= seconds {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}
