//! The walltimes of one request by fine classes of sizes, from which a federation of many clusters bounds completions.

use std::ops::Range;

use pliant_model::{Procs, Speed, Walltimes};

use super::class_times::whole_seconds;
use crate::profile::{FineClasses, SizeClasses, size};

/// Classes of walltimes, 2 for each octave. Short ones are one class, the first.
type Octaves = FineClasses<1>;

/// Shorter walltimes are one class.
const SHORT_S: u32 = 64;

/// Number of classes of walltimes.
pub(crate) const WALLTIME_CLASSES: usize = walltime_class(i32::MAX) + 1;

/// The class of a walltime, which is at least 1 s.
pub(crate) const fn walltime_class(walltime_s: i32) -> usize {
    let walltime_s = walltime_s as u32;
    if walltime_s < SHORT_S { 0 } else { Octaves::of(walltime_s) - Octaves::of(SHORT_S) + 1 }
}

/// The least walltime of a class.
pub(crate) const fn shortest_s(class: usize) -> i32 {
    if class == 0 { 1 } else { Octaves::corner(class - 1 + Octaves::of(SHORT_S)) as i32 }
}

/// Classes of sizes with walltimes of one class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    /// The class of the walltimes.
    pub(crate) walltimes: usize,
    /// The classes of the sizes.
    pub(crate) sizes: Range<usize>,
}

/// What all clusters share about a request: the walltime of the largest size of each fine class of sizes. Owns its buffers.
#[derive(Clone, Default, Debug)]
pub(crate) struct SizeTimes {
    first: usize,
    is_fixed: bool,
    /// At reference speed.
    quickest_s: Vec<f64>,
    /// The speed of the following, and the largest walltime that they may have.
    speed: Option<(Speed, i32)>,
    quickest_there_s: Vec<i32>,
    parts: Vec<Part>,
}

impl SizeTimes {
    /// Takes another request, given its walltimes on a cluster of reference speed as large as the largest.
    pub(crate) fn set(&mut self, walltimes: &Walltimes<'_>) {
        let (least, most) = (size(walltimes.least()), size(walltimes.most()));
        self.first = SizeClasses::of(least);
        self.is_fixed = walltimes.is_fixed();
        self.speed = None;
        self.quickest_s.clear();
        // The ratio depends on the size alone.
        self.quickest_s.extend((self.first..=SizeClasses::of(most)).map(|class| {
            walltimes.scale_s() * walltimes.ratio(Procs(SizeClasses::largest(class).min(most)))
        }));
    }

    /// The parts of the request on clusters of that speed and the least walltimes of their sizes there, all from the first size on.
    /// Walltimes longer than `never` count as that.
    pub(crate) fn at(&mut self, speed: Speed, never: i32) -> (&[Part], &[i32]) {
        let speed = if self.is_fixed { Speed::REFERENCE } else { speed };
        if self.speed != Some((speed, never)) {
            self.speed = Some((speed, never));
            let scale = 1.0 / speed.get();
            self.quickest_there_s.clear();
            let there = |quickest_s: &f64| whole_seconds(quickest_s * scale).min(never.into()) as i32;
            self.quickest_there_s.extend(self.quickest_s.iter().map(there));
            self.parts.clear();
            for (size, quickest_s) in (self.first..).zip(&self.quickest_there_s) {
                let walltimes = walltime_class(*quickest_s);
                match self.parts.last_mut() {
                    Some(last) if last.walltimes == walltimes => last.sizes.end = size + 1,
                    _ => self.parts.push(Part { walltimes, sizes: size..size + 1 }),
                }
            }
        }
        (&self.parts, &self.quickest_there_s)
    }

    /// The first class of sizes.
    pub(crate) fn first(&self) -> usize {
        self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walltime_is_not_shorter_than_its_class() {
        for walltime_s in (1..20_000).chain([1 << 20, 3 << 20, i32::MAX]) {
            let class = walltime_class(walltime_s);
            assert!(class < WALLTIME_CLASSES && shortest_s(class) <= walltime_s);
            assert!(class == 0 || walltime_class(shortest_s(class) - 1) == class - 1, "{walltime_s}");
        }
    }
}
