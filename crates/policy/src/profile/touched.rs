//! Stretches of time in which waiting jobs may now fit, since processors were freed there.
//!
//! [`Touched`] knows, after processors were given back, how long the runs of free processors are that the
//! freed intervals lie in. Time is cut into *stretches*, and for each of them and each class of sizes the
//! longest such run that meets it is kept: a job whose walltime is longer than every run of a stretch finds
//! no fit that begins there. The bounds say where not to search; the search of the profile decides.

use std::ops::Range;

use pliant_model::{Procs, Span, Time};

use super::classes::{CLASSES, class_of, corner};
use super::runs::{Freed, Runs};
use super::{BLOCK, Profile};

/// The length of a run that never ends, in seconds.
const ENDLESS: u32 = u32::MAX - 1;

/// A row has a multiple of so many stretches, which are compared with few instructions.
const LANES: usize = 16;

/// The runs of free processors that meet some freed intervals.
#[derive(Clone, Debug)]
pub struct Touched {
    /// Per class of sizes, the longest of all runs, in seconds.
    longest_s: [u32; CLASSES],
    /// Per class of sizes, when the first of the runs that are long enough for a job begins.
    first_begin: [i64; CLASSES],
    /// Per class of sizes, no job is shorter, in seconds; `u32::MAX` where there is none.
    shortest_s: [u32; CLASSES],
    /// No job starts later. Runs count until then: a job can only use processors before its start.
    last_start: Time,
    /// Where each stretch begins; it ends where the next one begins.
    begins: Vec<i64>,
    /// Per class of sizes a row of `width`: per stretch the longest run that meets it, in seconds.
    rows: Vec<u32>,
    width: usize,
    /// The classes of sizes that have rows.
    classes: Range<usize>,
    /// All freed intervals lie within `from..until`.
    from: Time,
    until: Time,
    around: Runs,
}

impl Default for Touched {
    fn default() -> Self {
        Touched {
            longest_s: [0; CLASSES],
            first_begin: [i64::MAX; CLASSES],
            shortest_s: [u32::MAX; CLASSES],
            last_start: Time::MAX,
            begins: Vec::new(),
            rows: Vec::new(),
            width: 0,
            classes: 0..0,
            from: Time::MAX,
            until: Time(i64::MIN),
            around: Runs::NONE,
        }
    }
}

impl Touched {
    /// Nothing was freed. Cuts the time from now on into stretches of about as many steps each. The jobs that are asked about start
    /// by `last_start`, and are not shorter than the seconds given for the class of their size: shorter runs have no row.
    pub fn clear(&mut self, profile: &Profile, shortest_s: [u32; CLASSES], last_start: Time) {
        self.last_start = last_start;
        let waits = |shortest: &u32| *shortest < u32::MAX;
        let (first, last) = (shortest_s.iter().position(waits), shortest_s.iter().rposition(waits));
        self.classes = first.zip(last).map_or(0..0, |(first, last)| first..last + 1);
        self.shortest_s = shortest_s;
        self.longest_s = [0; CLASSES];
        self.first_begin = [i64::MAX; CLASSES];
        (self.from, self.until) = (Time::MAX, Time(i64::MIN));
        profile.landmarks((profile.steps() / LANES).clamp(1, BLOCK), &mut self.begins);
        self.width = self.begins.len().next_multiple_of(LANES);
        self.rows.clear();
        self.rows.resize(self.classes.len() * self.width, 0);
    }

    /// True if nothing was freed.
    pub fn is_empty(&self) -> bool {
        self.from == Time::MAX
    }

    /// Adds the runs that meet an interval where processors were just given back. Runs count from `now`
    /// on. O(blocks met while walking out of the interval).
    pub fn add(&mut self, profile: &Profile, now: Time, freed: Freed) {
        let Touched { around, begins, rows, width, longest_s, first_begin, .. } = self;
        let Touched { shortest_s, last_start, classes, .. } = self;
        if !around.measure(profile, (now, *last_start), freed, classes.clone()) {
            return;
        }
        self.from = self.from.min(freed.from);
        self.until = self.until.max(freed.until);
        let mut first = begins.partition_point(|begin| *begin <= freed.from.0).saturating_sub(1);
        let mut last = first;
        // Runs get longer from class to class.
        for class in (around.first..around.classes).rev() {
            let (begin, end) = (around.begin[class], around.end[class]);
            let length = u32::try_from(end.saturating_sub(begin)).unwrap_or(ENDLESS).min(ENDLESS);
            longest_s[class] = longest_s[class].max(length);
            if length < shortest_s[class] {
                continue;
            }
            first_begin[class] = first_begin[class].min(begin);
            while first > 0 && begins[first] > begin {
                first -= 1;
            }
            while last + 1 < begins.len() && begins[last + 1] < end {
                last += 1;
            }
            for longest in &mut rows[(class - classes.start) * *width..][first..=last] {
                *longest = (*longest).max(length);
            }
        }
    }

    /// Per class of sizes, no run is longer, in seconds; 0 where there is none.
    pub fn longest_s(&self) -> &[u32; CLASSES] {
        &self.longest_s
    }

    /// False if no run is long enough for a job of that many seconds that has to end by `deadline`.
    #[inline]
    pub(crate) fn may_fit(&self, class: usize, seconds: u32, walltime: Span, deadline: Time) -> bool {
        seconds <= self.longest_s[class] && self.first_begin[class] <= (deadline - walltime).0
    }

    /// True if the instant before `at` lies between the first and the last freed interval.
    pub fn is_around(&self, at: Time) -> bool {
        self.from < at && at <= self.until
    }

    /// True if [`Touched::is_around`] may hold of a time from `earliest` to `latest`.
    pub fn meets(&self, earliest: Time, latest: Time) -> bool {
        self.from < latest && earliest <= self.until
    }

    /// The earliest fit that meets a freed interval and ends by `deadline`, not before `now`.
    ///
    /// Stretches are searched from the first on. Where the search fails, no run that meets the stretch is long enough
    /// any more (one that begins further left was looked for there), which is noted for the jobs that follow. A stretch
    /// that goes on behind the last possible start was not searched as a whole.
    pub fn earliest_fit(
        &mut self,
        profile: &Profile,
        now: Time,
        procs: Procs,
        walltime: Span,
        deadline: Time,
    ) -> Option<Time> {
        let size = i64::from(procs.0);
        let class = class_of(size);
        let length = u32::try_from(walltime.0).unwrap_or(ENDLESS).min(ENDLESS);
        let latest = deadline - walltime;
        let mut tightened = false;
        let row = &mut self.rows[(class - self.classes.start) * self.width..][..self.width];
        let mut from = now;
        let mut found = None;
        let mut stretches = 0..0;
        while let Some(next) = next_at_least(row, stretches.end, length) {
            stretches = next;
            from = from.max(Time(self.begins[stretches.start]));
            if from > latest {
                break;
            }
            let end = self.begins.get(stretches.end).map_or(Time::MAX, |end| Time(end - 1));
            match profile.earliest_fit_by(from, end.min(latest), procs, walltime) {
                Ok(start) => {
                    found = Some(start);
                    break;
                }
                Err(reached) => from = reached,
            }
            if size == corner(class) {
                let ends = self.begins[stretches.start + 1..].iter().chain([&i64::MAX]);
                let searched =
                    row[stretches.clone()].iter_mut().zip(ends).take_while(|(_, end)| **end <= latest.0);
                for (longest, _) in searched {
                    *longest = (*longest).min(length - 1);
                    tightened = true;
                }
            }
        }
        if tightened {
            // Jobs can slide into runs that are too short to have a row.
            self.longest_s[class] = row.iter().fold(1, |longest, one| longest.max(*one));
        }
        found
    }
}

/// The first positions in a row, at or after `from`, with at least `least`, which is more than zero.
fn next_at_least(row: &[u32], from: usize, least: u32) -> Option<Range<usize>> {
    let whole = from / LANES * LANES;
    let mut mask = u32::MAX << (from - whole);
    for (index, lanes) in row[whole..].chunks_exact(LANES).enumerate() {
        let mut bits = 0_u32;
        for (lane, longest) in lanes.iter().enumerate() {
            bits |= u32::from(*longest >= least) << lane;
        }
        bits &= mask;
        if bits != 0 {
            let first = bits.trailing_zeros() as usize;
            let count = (bits >> first).trailing_ones() as usize;
            let begin = whole + index * LANES + first;
            return Some(begin..begin + count);
        }
        mask = u32::MAX;
    }
    None
}
