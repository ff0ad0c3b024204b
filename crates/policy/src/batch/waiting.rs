//! The queue of a conservative-backfilling cluster: waiting jobs in order of submission, each with a
//! reservation, in chunks that can be passed over as a whole.

use std::collections::{BTreeSet, VecDeque};

use pliant_model::{Estimate, JobId, Procs, Span, Time};
use rustc_hash::FxHashMap;

use crate::profile::{CLASSES, class_of};

/// Jobs per chunk: the bits of a word.
const CHUNK: u64 = 64;

/// The position of a job in the queue. Never given twice; dropped positions leave gaps.
pub(super) type Slot = u64;

/// A waiting job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) job: JobId,
    pub(super) procs: Procs,
    pub(super) walltime: Span,
    pub(super) start: Time,
}

impl Entry {
    pub(super) fn plan(&self) -> Estimate {
        Estimate { procs: self.procs, walltime: self.walltime, start: self.start }
    }

    pub(super) fn end(&self) -> Time {
        self.start + self.walltime
    }
}

#[derive(Clone, Debug)]
struct Chunk {
    /// Bit i: entry i waits.
    waiting: u64,
    /// Bit i: the processors just before entry i's reservation may have become free.
    may_slide: u64,
    /// Per class of sizes, no waiting entry of the class has a shorter walltime (in seconds).
    shortest_s: [u32; CLASSES],
    /// No waiting entry starts later.
    latest: Time,
    entries: Vec<Entry>,
}

/// The queue.
#[derive(Clone, Default, Debug)]
pub(super) struct Queue {
    chunks: VecDeque<Chunk>,
    /// Number of the first chunk.
    first: u64,
    next: Slot,
    slots: FxHashMap<JobId, Slot>,
    by_start: BTreeSet<(Time, Slot)>,
    sliding: usize,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Appends a job; returns its position.
    pub(super) fn push(&mut self, entry: Entry) -> Slot {
        let slot = self.next;
        self.next += 1;
        if self.chunks.is_empty() {
            self.first = slot / CHUNK;
        }
        if slot / CHUNK - self.first == self.chunks.len() as u64 {
            let missing = (slot % CHUNK) as usize;
            let entries = vec![entry; missing];
            self.chunks.push_back(Chunk {
                waiting: 0,
                may_slide: 0,
                shortest_s: [u32::MAX; CLASSES],
                latest: Time(i64::MIN),
                entries,
            });
        }
        let chunk = &mut self.chunks[(slot / CHUNK - self.first) as usize];
        chunk.entries.push(entry);
        chunk.waiting |= 1 << (slot % CHUNK);
        let shortest = &mut chunk.shortest_s[class_of(i64::from(entry.procs.0))];
        *shortest = (*shortest).min(seconds(entry.walltime));
        chunk.latest = chunk.latest.max(entry.start);
        self.slots.insert(entry.job, slot);
        self.by_start.insert((entry.start, slot));
        slot
    }

    pub(super) fn slot(&self, job: JobId) -> Option<Slot> {
        self.slots.get(&job).copied()
    }

    pub(super) fn entry(&self, slot: Slot) -> Entry {
        self.chunks[(slot / CHUNK - self.first) as usize].entries[(slot % CHUNK) as usize]
    }

    /// Takes a job out.
    pub(super) fn remove(&mut self, slot: Slot) -> Entry {
        let entry = self.entry(slot);
        self.slots.remove(&entry.job);
        self.by_start.remove(&(entry.start, slot));
        self.clear_slide(slot);
        self.chunks[(slot / CHUNK - self.first) as usize].waiting &= !(1 << (slot % CHUNK));
        while self.chunks.front().is_some_and(|chunk| chunk.waiting == 0) {
            self.chunks.pop_front();
            self.first += 1;
        }
        if self.chunks.len() as u64 * CHUNK > 8 * CHUNK + 4 * self.len() as u64 {
            self.close_gaps();
        }
        entry
    }

    /// Gives the waiting jobs new, dense positions in the same order.
    fn close_gaps(&mut self) {
        let entries: Vec<(Entry, bool)> =
            self.iter().map(|(slot, entry)| (entry, self.slides(slot))).collect();
        *self = Queue { next: self.next, ..Queue::default() };
        for (entry, slides) in entries {
            let slot = self.push(entry);
            if slides {
                self.mark_slide(slot);
            }
        }
    }

    /// Changes a reservation's start.
    pub(super) fn set_start(&mut self, slot: Slot, start: Time) {
        let entry = &mut self.chunks[(slot / CHUNK - self.first) as usize].entries[(slot % CHUNK) as usize];
        self.by_start.remove(&(entry.start, slot));
        entry.start = start;
        self.by_start.insert((start, slot));
    }

    /// No waiting job from position `from` to before `until` starts later.
    pub(super) fn latest_start(&self, from: Slot, until: Slot) -> Time {
        let mut latest = Time(i64::MIN);
        let mut slot = from.max(self.first * CHUNK);
        while slot < until {
            let chunk = &self.chunks[(slot / CHUNK - self.first) as usize];
            let base = slot / CHUNK * CHUNK;
            let end = until.min(base + CHUNK);
            if slot == base && end == base + CHUNK {
                latest = latest.max(chunk.latest);
            } else {
                for bit in slot - base..end - base {
                    if chunk.waiting >> bit & 1 == 1 {
                        latest = latest.max(chunk.entries[bit as usize].start);
                    }
                }
            }
            slot = end;
        }
        latest
    }

    /// The earliest reservation.
    pub(super) fn first_start(&self) -> Option<(Time, Slot)> {
        self.by_start.first().copied()
    }

    /// The start of the last reservation.
    pub(super) fn last_start(&self) -> Option<Time> {
        self.by_start.last().map(|(start, _)| *start)
    }

    /// Positions of the reservations that start in `(after, until]`, by start.
    pub(super) fn starting(&self, after: Time, until: Time) -> impl Iterator<Item = (Time, Slot)> + '_ {
        let bounds = (Time(after.0 + 1), 0)..=(until.max(after), Slot::MAX);
        let range = if after < until { Some(self.by_start.range(bounds)) } else { None };
        range.into_iter().flatten().copied()
    }

    /// The waiting jobs in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, Entry)> + '_ {
        self.chunks.iter().enumerate().flat_map(move |(index, chunk)| {
            let base = (self.first + index as u64) * CHUNK;
            (0..chunk.entries.len() as u64)
                .filter(|bit| chunk.waiting >> bit & 1 == 1)
                .map(move |bit| (base + bit, chunk.entries[bit as usize]))
        })
    }

    /// Notes that the job may slide to the left.
    pub(super) fn mark_slide(&mut self, slot: Slot) {
        let chunk = &mut self.chunks[(slot / CHUNK - self.first) as usize];
        let bit = 1 << (slot % CHUNK);
        self.sliding += usize::from(chunk.may_slide & bit == 0);
        chunk.may_slide |= bit;
    }

    pub(super) fn clear_slide(&mut self, slot: Slot) {
        let chunk = &mut self.chunks[(slot / CHUNK - self.first) as usize];
        let bit = 1 << (slot % CHUNK);
        self.sliding -= usize::from(chunk.may_slide & bit != 0);
        chunk.may_slide &= !bit;
    }

    pub(super) fn slides(&self, slot: Slot) -> bool {
        self.chunks[(slot / CHUNK - self.first) as usize].may_slide >> (slot % CHUNK) & 1 == 1
    }

    /// True if some job may slide.
    pub(super) fn any_slides(&self) -> bool {
        self.sliding > 0
    }

    /// The first position at or after `from` whose job may slide or, judging by its size and walltime
    /// alone, may fit into runs of `longest_s` seconds (per class of sizes). Whole chunks without such a
    /// job are passed over.
    pub(super) fn next_movable(&mut self, from: Slot, longest_s: &[u32; CLASSES]) -> Option<Slot> {
        let start = from.max(self.first * CHUNK);
        let mut index = (start / CHUNK - self.first) as usize;
        let mut low = start % CHUNK;
        while let Some(chunk) = self.chunks.get_mut(index) {
            // Without an early exit the comparison is a few vector instructions.
            let pairs = chunk.shortest_s.iter().zip(longest_s);
            let fits = pairs.fold(false, |any, (shortest, longest)| any | (shortest <= longest));
            let rest = !0_u64 << low;
            let mut bits = chunk.may_slide & rest;
            if fits {
                bits = chunk.waiting & rest;
            }
            while bits != 0 {
                let bit = bits.trailing_zeros();
                let entry = &chunk.entries[bit as usize];
                let class = class_of(i64::from(entry.procs.0));
                let fits = seconds(entry.walltime) <= longest_s[class];
                if fits || chunk.may_slide >> bit & 1 == 1 {
                    return Some((self.first + index as u64) * CHUNK + u64::from(bit));
                }
                bits &= bits - 1;
            }
            if fits || low > 0 {
                chunk.tighten();
            }
            index += 1;
            low = 0;
        }
        None
    }
}

impl Chunk {
    /// Computes the summary anew after removals and moves made it loose.
    fn tighten(&mut self) {
        self.shortest_s = [u32::MAX; CLASSES];
        self.latest = Time(i64::MIN);
        let mut bits = self.waiting;
        while bits != 0 {
            let entry = &self.entries[bits.trailing_zeros() as usize];
            let shortest = &mut self.shortest_s[class_of(i64::from(entry.procs.0))];
            *shortest = (*shortest).min(seconds(entry.walltime));
            self.latest = self.latest.max(entry.start);
            bits &= bits - 1;
        }
    }
}

/// A walltime in whole seconds, saturated below the marks for "none" and "endless".
fn seconds(walltime: Span) -> u32 {
    u32::try_from(walltime.0).unwrap_or(u32::MAX - 2).min(u32::MAX - 2)
}
