//! The availability profile: free processors of one cluster as a step function of time, from now to
//! infinity.
//!
//! The steps are kept in blocks of at most `BLOCK` with each block's least and largest value, so that a
//! search passes over blocks that cannot matter and a change touches few of them: with `k` steps, finding
//! a place costs O(k / BLOCK) block looks plus the steps of the blocks that qualify, and reserving or
//! releasing costs O(BLOCK) plus one addition per whole block covered. Integers only: a floating-point
//! profile books processors twice, by rounding errors.

mod bounds;
mod classes;
mod earliest_starts;
mod free_plan;
mod runs;
mod search;
mod slide;
#[cfg(test)]
mod tests;
mod touched;

use std::cell::Cell;

use pliant_model::{Procs, Span, Time};

pub use bounds::StartBounds;
pub(crate) use classes::{CLASSES, class_of, largest};
pub(crate) use earliest_starts::{
    FineClasses, Free, SizeClasses, earliest_starts, lower_to, seconds_after, size,
};
pub use free_plan::{FreePlan, FreeStep};
pub use runs::Freed;
pub use search::Fit;
pub(crate) use slide::Hints;
pub use touched::Touched;

/// Most steps in a block. A block splits in two halves when it is full.
const BLOCK: usize = 32;

/// From `time` on, `free` processors are free, until the next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Step {
    time: i64,
    free: i64,
}

/// Some consecutive steps. `shift` is owed to each of them; `min` and `max` include it.
#[derive(Clone, Debug)]
struct Block {
    first: i64,
    min: i64,
    max: i64,
    shift: i64,
    steps: Vec<Step>,
}

impl Block {
    fn new(steps: Vec<Step>) -> Block {
        let mut block = Block { first: steps[0].time, min: 0, max: 0, shift: 0, steps };
        block.summarise();
        block
    }

    /// Applies the pending shift and computes the summary again.
    fn summarise(&mut self) {
        let (mut min, mut max) = (i64::MAX, i64::MIN);
        for step in &mut self.steps {
            step.free += self.shift;
            min = min.min(step.free);
            max = max.max(step.free);
        }
        self.shift = 0;
        self.first = self.steps[0].time;
        (self.min, self.max) = (min, max);
    }

    /// Corrects the summary after values from `changed.0` to `changed.1` were changed by `delta`: nothing is looked at
    /// if the extremes were not among them, or still are.
    fn summarise_after(&mut self, changed: (i64, i64), delta: i64) {
        self.first = self.steps[0].time;
        let (least, most) = changed;
        // The value at the extreme may be one that was changed, and no other may have it.
        let lost = if delta > 0 { least == self.min } else { most == self.max };
        if lost {
            self.summarise();
        } else if delta > 0 {
            self.max = self.max.max(most + delta);
        } else {
            self.min = self.min.min(least + delta);
        }
    }

    fn free(&self, index: usize) -> i64 {
        self.steps[index].free + self.shift
    }
}

/// A position in the profile: step `step` of block `block`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Cursor {
    block: usize,
    step: usize,
}

/// Free processors of a cluster over time.
#[derive(Clone, Debug)]
pub struct Profile {
    capacity: i64,
    blocks: Vec<Block>,
    steps: usize,
    /// The block found last.
    near: Cell<usize>,
    /// Where the last change began.
    changed: Cursor,
}

impl Profile {
    /// A cluster on which everything is free from `origin` on.
    pub fn new(capacity: Procs, origin: Time) -> Profile {
        let capacity = i64::from(capacity.0);
        let first = Step { time: origin.0, free: capacity };
        Profile {
            capacity,
            blocks: vec![Block::new(vec![first])],
            steps: 1,
            near: Cell::new(0),
            changed: Cursor::default(),
        }
    }

    /// A profile of these steps, of which there is at least one; they are in order. The most that is ever free counts as the cluster.
    pub(crate) fn of_steps(steps: impl Iterator<Item = (Time, Procs)>) -> Profile {
        let mut kept: Vec<Step> = Vec::new();
        for (time, free) in steps {
            let step = Step { time: time.0, free: free.0.into() };
            match kept.last() {
                Some(last) if last.free == step.free || last.time >= step.time => {}
                _ => kept.push(step),
            }
        }
        let capacity = kept.iter().map(|step| step.free).max().unwrap_or(0);
        let count = kept.len();
        let blocks = kept.chunks(BLOCK).map(|steps| Block::new(steps.to_vec())).collect();
        Profile { capacity, blocks, steps: count, near: Cell::new(0), changed: Cursor::default() }
    }

    /// Processors of the cluster.
    pub fn capacity(&self) -> Procs {
        Procs(self.capacity as u32)
    }

    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Free processors at `at` (not before the origin).
    pub fn free_at(&self, at: Time) -> Procs {
        let cursor = self.locate(at.0);
        Procs(self.blocks[cursor.block].free(cursor.step) as u32)
    }

    /// All steps as (from, free).
    pub fn iter(&self) -> impl Iterator<Item = (Time, Procs)> + '_ {
        self.blocks.iter().flat_map(|block| {
            block.steps.iter().map(|step| (Time(step.time), Procs((step.free + block.shift) as u32)))
        })
    }

    /// Takes `procs` processors on `[from, until)`. They must be free there: callers reserve what a search
    /// has just found.
    pub fn reserve(&mut self, from: Time, until: Time, procs: Procs) {
        self.change(from.0, until.0, -i64::from(procs.0));
    }

    /// Gives back `procs` processors on `[from, until)` that were reserved there; says where, and which
    /// sizes gain.
    pub fn release(&mut self, from: Time, until: Time, procs: Procs) -> Freed {
        let least = self.change(from.0, until.0, procs.0.into()).map_or(1, |least| least + 1);
        Freed { from, until, least: Procs(least as u32) }
    }

    /// Drops the steps before `now`.
    pub fn advance(&mut self, now: Time) {
        let second = match &self.blocks[0].steps[..] {
            [_, second, ..] => second.time,
            _ => self.blocks.get(1).map_or(i64::MAX, |block| block.first),
        };
        if second > now.0 {
            return;
        }
        let mut whole = 0;
        while whole + 1 < self.blocks.len() && self.blocks[whole + 1].first <= now.0 {
            self.steps -= self.blocks[whole].steps.len();
            whole += 1;
        }
        if whole > 0 {
            self.blocks.drain(..whole);
        }
        let block = &mut self.blocks[0];
        let past = block.steps.partition_point(|step| step.time <= now.0).saturating_sub(1);
        if past > 0 {
            self.steps -= past;
            block.steps.drain(..past);
            block.summarise();
        }
    }

    /// Some times at which steps begin, in order, the first of all steps among them: every `every`-th step of each block.
    fn landmarks(&self, every: usize, times: &mut Vec<i64>) {
        times.clear();
        for block in &self.blocks {
            times.extend(block.steps.iter().step_by(every).map(|step| step.time));
        }
    }

    /// Adds `delta` on `[from, until)`; returns the smallest value there before, none if nothing changes.
    fn change(&mut self, from: i64, until: i64, delta: i64) -> Option<i64> {
        if from >= until || delta == 0 {
            return None;
        }
        let cursor = self.locate(from);
        Some(self.change_at(cursor, from, until, delta))
    }

    /// As [`Profile::change`] on an interval that is not empty, `cursor` being the step that holds at `from`.
    fn change_at(&mut self, cursor: Cursor, from: i64, until: i64, delta: i64) -> i64 {
        self.changed = cursor;
        let ends_here = match self.blocks.get(cursor.block + 1) {
            Some(next) => until < next.first,
            None => true,
        };
        let least = if ends_here {
            self.change_within(cursor, from, until, delta)
        } else {
            let least = self.min_free(Time(from), Time(until));
            self.change_across(from, until, delta);
            least
        };
        debug_assert!(self.blocks.iter().all(|block| block.min >= 0 && block.max <= self.capacity));
        least
    }

    /// The common case: `[from, until)` begins in the step at `cursor` and ends before the next block.
    fn change_within(&mut self, cursor: Cursor, from: i64, until: i64, delta: i64) -> i64 {
        let Cursor { block: index, step } = cursor;
        let before = if step == 0 && index > 0 { self.last_free(index - 1) } else { i64::MIN };
        let block = &mut self.blocks[index];
        let shift = block.shift;
        let count = block.steps.len();
        let mut low = step;
        if block.steps[step].time != from {
            debug_assert!(block.steps[step].time < from, "a change before the profile's origin");
            let free = block.steps[step].free;
            block.steps.insert(step + 1, Step { time: from, free });
            low += 1;
        }
        let mut high = low;
        let (mut least, mut most) = (i64::MAX, i64::MIN);
        while let Some(step) = block.steps.get_mut(high).filter(|step| high == low || step.time < until) {
            least = least.min(step.free);
            most = most.max(step.free);
            step.free += delta;
            high += 1;
        }
        if block.steps.get(high).is_none_or(|step| step.time != until) {
            let free = block.steps[high - 1].free - delta;
            block.steps.insert(high, Step { time: until, free });
        }
        if block.steps[high].free == block.steps[high - 1].free {
            block.steps.remove(high);
        }
        let neighbour = if low > 0 { block.steps[low - 1].free } else { before.saturating_sub(shift) };
        let mut merged = false;
        if block.steps[low].free == neighbour && (low > 0 || before != i64::MIN) {
            block.steps.remove(low);
            merged = low == 0;
        }
        self.steps = self.steps + block.steps.len() - count;
        if block.steps.is_empty() {
            self.blocks.remove(index);
            return least + shift;
        }
        if merged {
            block.summarise();
        } else {
            block.summarise_after((least + shift, most + shift), delta);
        }
        if block.steps.len() > BLOCK {
            self.halve(index);
        } else if block.steps.len() < BLOCK / 4 {
            self.join_if_small(index);
        }
        least + shift
    }

    fn change_across(&mut self, from: i64, until: i64, delta: i64) {
        let start = self.split(from);
        let end = self.split(until);
        // Splitting at `until` may have split the block of `start`.
        let start = if self.time(start) == from { start } else { self.locate(from) };
        self.add(start, end, delta);
        self.merge(until);
        self.merge(from);
    }

    fn last_free(&self, index: usize) -> i64 {
        let block = &self.blocks[index];
        block.free(block.steps.len() - 1)
    }

    fn time(&self, cursor: Cursor) -> i64 {
        match self.blocks.get(cursor.block).and_then(|block| block.steps.get(cursor.step)) {
            Some(step) => step.time,
            None => i64::MIN,
        }
    }

    /// Adds `delta` to the steps in `[start, end)`.
    fn add(&mut self, start: Cursor, end: Cursor, delta: i64) {
        for index in start.block..=end.block {
            let block = &mut self.blocks[index];
            let low = if index == start.block { start.step } else { 0 };
            let high = if index == end.block { end.step } else { block.steps.len() };
            if low == 0 && high == block.steps.len() {
                block.shift += delta;
                block.min += delta;
                block.max += delta;
            } else if low < high {
                for step in &mut block.steps[low..high] {
                    step.free += delta;
                }
                block.summarise();
            }
        }
    }

    /// The step that holds at `at`: the last one not after it (the first one if `at` lies before all).
    fn locate(&self, at: i64) -> Cursor {
        let block = self.block_of(at);
        self.near.set(block);
        let step = self.blocks[block].steps.partition_point(|step| step.time <= at).saturating_sub(1);
        Cursor { block, step }
    }

    /// As [`Profile::locate`]; fast if `hint` is not far from it. Whatever the hint is, the answer is the same.
    #[inline]
    fn locate_from(&self, hint: Cursor, at: i64) -> Cursor {
        const CLOSE: usize = 4;
        if let Some(block) = self.blocks.get(hint.block)
            && block.first <= at
            && self.blocks.get(hint.block + 1).is_none_or(|next| next.first > at)
        {
            let mut step = hint.step.min(block.steps.len() - 1);
            for _ in 0..CLOSE {
                if block.steps[step].time > at {
                    step -= 1;
                } else if block.steps.get(step + 1).is_some_and(|next| next.time <= at) {
                    step += 1;
                } else {
                    return Cursor { block: hint.block, step };
                }
            }
        }
        self.locate(at)
    }

    /// The block that holds the step that holds at `at`. Successive queries are about instants close to
    /// each other: the search begins at the last answer.
    #[inline]
    fn block_of(&self, at: i64) -> usize {
        const CLOSE: usize = 4;
        let blocks = &self.blocks[..];
        let mut block = self.near.get().min(blocks.len() - 1);
        for _ in 0..CLOSE {
            if blocks[block].first > at && block > 0 {
                block -= 1;
            } else if blocks.get(block + 1).is_some_and(|next| next.first <= at) {
                block += 1;
            } else {
                return block;
            }
        }
        blocks.partition_point(|block| block.first <= at).saturating_sub(1)
    }

    /// Splits the step at `at` and returns the new position.
    fn split(&mut self, at: i64) -> Cursor {
        let Cursor { block: index, step } = self.locate(at);
        let block = &mut self.blocks[index];
        debug_assert!(block.steps[0].time <= at, "a change before the profile's origin");
        if block.steps[step].time == at {
            return Cursor { block: index, step };
        }
        let free = block.steps[step].free;
        block.steps.insert(step + 1, Step { time: at, free });
        self.steps += 1;
        if block.steps.len() <= BLOCK {
            return Cursor { block: index, step: step + 1 };
        }
        let half = block.steps.len() / 2;
        self.halve(index);
        if step + 1 < half {
            Cursor { block: index, step: step + 1 }
        } else {
            Cursor { block: index + 1, step: step + 1 - half }
        }
    }

    /// Splits a full block in two.
    fn halve(&mut self, index: usize) {
        let block = &mut self.blocks[index];
        let mut tail = Vec::with_capacity(BLOCK + 2);
        tail.extend(block.steps.drain(block.steps.len() / 2..));
        for moved in &mut tail {
            moved.free += block.shift;
        }
        block.summarise();
        self.blocks.insert(index + 1, Block::new(tail));
    }

    /// Drops the step that begins at `at` if it changes nothing.
    fn merge(&mut self, at: i64) {
        let Cursor { block: index, step } = self.locate(at);
        if self.blocks[index].steps[step].time != at || (index == 0 && step == 0) {
            return;
        }
        let before = if step > 0 { self.blocks[index].free(step - 1) } else { self.last_free(index - 1) };
        if before != self.blocks[index].free(step) {
            return;
        }
        self.steps -= 1;
        let block = &mut self.blocks[index];
        block.steps.remove(step);
        if block.steps.is_empty() {
            self.blocks.remove(index);
        } else {
            block.summarise();
            self.join_if_small(index);
        }
    }

    /// Joins a block with its successor when both are sparse, so that blocks stay worth skipping.
    fn join_if_small(&mut self, index: usize) {
        let Some(next) = self.blocks.get(index + 1) else { return };
        if self.blocks[index].steps.len() + next.steps.len() > BLOCK / 2 {
            return;
        }
        let next = self.blocks.remove(index + 1);
        let block = &mut self.blocks[index];
        block.summarise();
        let shift = next.shift;
        block.steps.extend(next.steps.iter().map(|step| Step { time: step.time, free: step.free + shift }));
        block.summarise();
    }

    /// Checks the function's own invariants: times strictly increase, neighbours differ, values lie within
    /// 0..=capacity, summaries are true. For tests and the simulator's checkers.
    pub fn check(&self) -> Result<(), String> {
        let mut last: Option<(i64, i64)> = None;
        let mut count = 0;
        for block in &self.blocks {
            let values = || (0..block.steps.len()).map(|index| block.free(index));
            if values().min() != Some(block.min) || values().max() != Some(block.max) {
                return Err(format!("block at {} has a wrong summary", block.first));
            }
            for (index, step) in block.steps.iter().enumerate() {
                let free = block.free(index);
                if !(0..=self.capacity).contains(&free) {
                    return Err(format!("{free} of {} processors free at {}", self.capacity, step.time));
                }
                if let Some((time, before)) = last
                    && (time >= step.time || before == free)
                {
                    return Err(format!("step at {} follows one at {time} with the same value", step.time));
                }
                last = Some((step.time, free));
                count += 1;
            }
        }
        if count == self.steps { Ok(()) } else { Err(format!("{count} steps, counted {}", self.steps)) }
    }
}

/// `from` plus a span, as raw seconds.
fn plus(from: i64, span: Span) -> i64 {
    from + span.0
}
