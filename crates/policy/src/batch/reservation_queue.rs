//! The queue of a conservative-backfilling cluster: waiting jobs in order of submission with their reservations, in chunks
//! that can be skipped as a whole.

use std::collections::VecDeque;

use pliant_model::{Estimate, JobId, Procs, Span, Time};
use rustc_hash::FxHashMap;

use crate::profile::{CLASSES, Freed, Hints, Profile, Touched, class_of};

/// Jobs per chunk: the bits of a word.
const CHUNK: u64 = 64;

/// Removals and moves after which a chunk's summary is computed again.
const LOOSE: u8 = 8;

/// The position of a job in the queue. Positions are not reused; removed jobs leave gaps.
pub(super) type Slot = u64;

/// A waiting job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) job: JobId,
    pub(super) procs: Procs,
    pub(super) walltime: Span,
    pub(super) start: Time,
    /// Walltime in whole seconds, as in summaries.
    seconds: u32,
    /// Class of its size.
    class: u8,
    /// The profile's steps just before its start and its end when they were last searched.
    pub(super) hints: Hints,
}

impl Entry {
    pub(super) fn new(job: JobId, procs: Procs, walltime: Span, start: Time) -> Entry {
        let class = class_of(i64::from(procs.0)) as u8;
        Entry { job, procs, walltime, start, seconds: seconds(walltime), class, hints: Hints::default() }
    }

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
    /// Per class of sizes, a lower bound on the walltimes of its waiting entries (in seconds).
    shortest_s: [u32; CLASSES],
    /// A lower bound on the starts.
    earliest: Time,
    /// An upper bound on the starts.
    latest: Time,
    /// Removals and moves since the summary was computed.
    loose: u8,
    entries: Vec<Entry>,
}

/// The queue.
#[derive(Clone, Default, Debug)]
pub(super) struct ReservationQueue {
    chunks: VecDeque<Chunk>,
    /// Number of the first chunk.
    first: u64,
    next: Slot,
    slots: FxHashMap<JobId, Slot>,
    /// The earliest reservation; ties to the first in the queue.
    first_start: Option<(Time, Slot)>,
}

impl ReservationQueue {
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
            self.chunks.push_back(Chunk { entries, ..Chunk::default() });
        }
        let chunk = &mut self.chunks[(slot / CHUNK - self.first) as usize];
        chunk.entries.push(entry);
        chunk.waiting |= 1 << (slot % CHUNK);
        chunk.count_in(&entry);
        self.slots.insert(entry.job, slot);
        self.starts(slot, entry.start);
        slot
    }

    /// Updates bounds for a job that starts at `start`, not later than before.
    fn starts(&mut self, slot: Slot, start: Time) {
        if self.first_start.is_none_or(|first| (start, slot) < first) {
            self.first_start = Some((start, slot));
        }
    }

    pub(super) fn slot(&self, job: JobId) -> Option<Slot> {
        self.slots.get(&job).copied()
    }

    pub(super) fn entry(&self, slot: Slot) -> Entry {
        self.chunks[(slot / CHUNK - self.first) as usize].entries[(slot % CHUNK) as usize]
    }

    /// Removes a job.
    pub(super) fn remove(&mut self, slot: Slot) -> Entry {
        let entry = self.entry(slot);
        self.slots.remove(&entry.job);
        let chunk = &mut self.chunks[(slot / CHUNK - self.first) as usize];
        chunk.waiting &= !(1 << (slot % CHUNK));
        chunk.loose = chunk.loose.saturating_add(1);
        if entry.start == chunk.earliest {
            chunk.earliest = chunk.waiting().map(|(_, entry)| entry.start).min().unwrap_or(Time::MAX);
        }
        while self.chunks.front().is_some_and(|chunk| chunk.waiting == 0) {
            self.chunks.pop_front();
            self.first += 1;
        }
        if self.chunks.len() as u64 * CHUNK > 8 * CHUNK + 4 * self.len() as u64 {
            self.close_gaps();
        } else if self.first_start == Some((entry.start, slot)) {
            self.first_start = self.find_first_start();
        }
        entry
    }

    /// Gives the waiting jobs new, dense positions in the same order.
    fn close_gaps(&mut self) {
        let entries: Vec<Entry> = self.iter().map(|(_, entry)| entry).collect();
        *self = ReservationQueue { next: self.next, ..ReservationQueue::default() };
        for entry in entries {
            self.push(entry);
        }
    }

    /// Moves a reservation to an earlier start.
    pub(super) fn set_start(&mut self, slot: Slot, start: Time, hints: Hints) {
        let chunk = &mut self.chunks[(slot / CHUNK - self.first) as usize];
        let entry = &mut chunk.entries[(slot % CHUNK) as usize];
        (entry.start, entry.hints) = (start, hints);
        chunk.earliest = chunk.earliest.min(start);
        chunk.loose = chunk.loose.saturating_add(1);
        self.starts(slot, start);
    }

    /// False if no job behind `slot` can gain from a freed interval: all begin before it or request no more processors than
    /// were free there before.
    pub(super) fn any_gains_behind(&self, slot: Slot, freed: &Freed) -> bool {
        let index = (slot / CHUNK - self.first) as usize;
        let chunk = &self.chunks[index];
        let behind = chunk.waiting & (u64::MAX << (slot % CHUNK) << 1);
        let mut bits = if chunk.latest > freed.from { behind } else { 0 };
        while bits != 0 {
            let entry = &chunk.entries[bits.trailing_zeros() as usize];
            if entry.start > freed.from && entry.procs >= freed.least {
                return true;
            }
            bits &= bits - 1;
        }
        self.chunks.range(index + 1..).any(|chunk| chunk.latest > freed.from)
    }

    /// An upper bound on the starts of the waiting jobs from position `from` to before `until`.
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
                let mut bits =
                    chunk.waiting & (u64::MAX << (slot - base)) & (u64::MAX >> (CHUNK - (end - base)));
                while bits != 0 {
                    latest = latest.max(chunk.entries[bits.trailing_zeros() as usize].start);
                    bits &= bits - 1;
                }
            }
            slot = end;
        }
        latest
    }

    /// Per class of sizes, a lower bound on the walltimes of the waiting jobs, in seconds; `u32::MAX` where none waits. The last ones
    /// that left may still count.
    pub(super) fn shortest_s(&self) -> [u32; CLASSES] {
        let mut shortest = [u32::MAX; CLASSES];
        for chunk in &self.chunks {
            for (all, own) in shortest.iter_mut().zip(&chunk.shortest_s) {
                *all = (*all).min(*own);
            }
        }
        shortest
    }

    /// The earliest reservation; ties to the first in the queue.
    pub(super) fn first_start(&self) -> Option<(Time, Slot)> {
        self.first_start
    }

    fn find_first_start(&self) -> Option<(Time, Slot)> {
        let mut first: Option<(Time, Slot)> = None;
        for (index, chunk) in self.chunks.iter().enumerate() {
            if first.is_some_and(|(start, _)| start <= chunk.earliest) {
                continue;
            }
            let base = (self.first + index as u64) * CHUNK;
            for (bit, entry) in chunk.waiting() {
                if first.is_none_or(|(start, _)| entry.start < start) {
                    first = Some((entry.start, base + bit));
                }
            }
        }
        first
    }

    /// An upper bound on the starts of the waiting jobs; none if no job waits.
    pub(super) fn last_start(&self) -> Option<Time> {
        self.chunks.iter().map(|chunk| chunk.latest).max()
    }

    /// The waiting jobs in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, Entry)> + '_ {
        self.chunks.iter().enumerate().flat_map(move |(index, chunk)| {
            let base = (self.first + index as u64) * CHUNK;
            chunk.waiting().map(move |(bit, entry)| (base + bit, *entry))
        })
    }

    /// The first job at or after position `from` that may get an earlier reservation: by its size and walltime it may fit into a
    /// freed run, or it can slide into processors that are free just before it. Due jobs stay. Chunks without such a job
    /// are skipped.
    pub(super) fn next_movable(
        &mut self,
        from: Slot,
        now: Time,
        touched: &Touched,
        profile: &Profile,
    ) -> Option<Movable> {
        let start = from.max(self.first * CHUNK);
        let mut index = (start / CHUNK - self.first) as usize;
        let mut low = start % CHUNK;
        while let Some(chunk) = self.chunks.get_mut(index) {
            if low > 0 || chunk.has_movable(touched) {
                let mut bits = chunk.waiting & (!0_u64 << low);
                while bits != 0 {
                    let bit = bits.trailing_zeros();
                    let (fits, slides) = chunk.entries[bit as usize].movable(now, touched, profile);
                    if fits || slides {
                        let slot = (self.first + index as u64) * CHUNK + u64::from(bit);
                        return Some(Movable { slot, fits, slides });
                    }
                    bits &= bits - 1;
                }
                if chunk.loose > LOOSE {
                    chunk.summarise();
                }
            }
            index += 1;
            low = 0;
        }
        None
    }
}

/// A job that may get an earlier reservation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Movable {
    pub(super) slot: Slot,
    /// True if by its size and walltime it may fit into a freed run.
    pub(super) fits: bool,
    /// True if enough processors are free just before it.
    pub(super) slides: bool,
}

impl Entry {
    /// Whether the job may fit into a freed run, and whether it can slide.
    #[inline]
    fn movable(&mut self, now: Time, touched: &Touched, profile: &Profile) -> (bool, bool) {
        let longest_s = touched.longest_s()[usize::from(self.class)];
        if longest_s == 0 || self.start <= now {
            return (false, false);
        }
        let slides =
            touched.is_around(self.start) && profile.is_free_before(self.start, self.procs, &mut self.hints);
        let class = usize::from(self.class);
        (touched.may_fit(class, self.seconds, self.walltime, self.start), slides)
    }
}

impl Default for Chunk {
    fn default() -> Self {
        Chunk {
            waiting: 0,
            shortest_s: [u32::MAX; CLASSES],
            earliest: Time::MAX,
            latest: Time(i64::MIN),
            loose: 0,
            entries: Vec::new(),
        }
    }
}

impl Chunk {
    /// The waiting entries with their positions.
    fn waiting(&self) -> impl Iterator<Item = (u64, &Entry)> + '_ {
        let mut bits = self.waiting;
        std::iter::from_fn(move || {
            let bit = bits.trailing_zeros();
            let entry = self.entries.get(bit as usize)?;
            bits &= bits - 1;
            Some((u64::from(bit), entry))
        })
    }

    /// False if no entry can use any freed run.
    fn has_movable(&self, touched: &Touched) -> bool {
        // Without an early exit the comparison compiles to a few vector instructions.
        let pairs = self.shortest_s.iter().zip(touched.longest_s());
        let fits = pairs.fold(false, |any, (shortest, longest)| any | (shortest <= longest));
        fits || touched.meets(self.earliest, self.latest)
    }

    /// Adds an entry to the summary.
    fn count_in(&mut self, entry: &Entry) {
        let shortest = &mut self.shortest_s[usize::from(entry.class)];
        *shortest = (*shortest).min(entry.seconds);
        self.earliest = self.earliest.min(entry.start);
        self.latest = self.latest.max(entry.start);
    }

    /// Computes the summary again.
    fn summarise(&mut self) {
        let mut summary = Chunk::default();
        self.waiting().for_each(|(_, entry)| summary.count_in(entry));
        self.shortest_s = summary.shortest_s;
        (self.earliest, self.latest) = (summary.earliest, summary.latest);
        self.loose = 0;
    }
}

/// A walltime in whole seconds, saturated below the special values of summaries.
fn seconds(walltime: Span) -> u32 {
    u32::try_from(walltime.0).unwrap_or(u32::MAX - 2).min(u32::MAX - 2)
}
