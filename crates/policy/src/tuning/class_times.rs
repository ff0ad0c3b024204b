//! What all clusters share about one request, from which a federation bounds completions before it asks a cluster.

use pliant_model::{Procs, Span, Speed, Time, Walltimes};

use crate::profile::{CLASSES, StartBounds, class_of, largest};

/// What all clusters share about one request: per class of sizes, the walltime of the class's largest size
/// at reference speed. Made once per request, asked once per cluster or group of clusters.
#[derive(Clone, Debug)]
pub struct ClassTimes {
    first: usize,
    last: usize,
    /// The walltimes are the same at every speed.
    is_fixed: bool,
    quickest_s: [f64; CLASSES],
}

/// Seconds as a walltime that is not longer than that of a cluster. Walltimes are rounded up; those that are slightly shaved before are
/// never rounded to more. A table may make them endless.
pub(super) fn whole_seconds(seconds: f64) -> i64 {
    let seconds = seconds * (1.0 - 1e-9);
    let whole = (seconds as i64).min(Span::MAX.0 - 1);
    (whole + i64::from((whole as f64) < seconds)).max(1)
}

impl ClassTimes {
    /// The classes of a request, given its walltimes on a cluster of reference speed as large as the largest.
    pub fn new(walltimes: &Walltimes<'_>) -> ClassTimes {
        let (least, most) = (i64::from(walltimes.least().0), i64::from(walltimes.most().0));
        let (first, last) = (class_of(least), class_of(most));
        let mut quickest_s = [f64::INFINITY; CLASSES];
        for (class, quickest) in quickest_s.iter_mut().enumerate().take(last + 1).skip(first) {
            let ratio = walltimes.ratio(Procs(largest(class).min(most) as u32));
            *quickest = walltimes.scale_s() * ratio;
        }
        ClassTimes { first, last, is_fixed: walltimes.is_fixed(), quickest_s }
    }

    /// The classes of sizes that a cluster of `procs` processors can take, each with the least walltime of
    /// its sizes there.
    pub(crate) fn classes(&self, speed: Speed, procs: Procs) -> impl Iterator<Item = (usize, Span)> + '_ {
        let last = self.last.min(class_of(i64::from(procs.0)));
        let scale = if self.is_fixed { 1.0 } else { 1.0 / speed.get() };
        let quickest = move |class: usize| Span(whole_seconds(self.quickest_s[class] * scale));
        (self.first..=last).rev().filter(|class| *class != 1).map(move |class| (class, quickest(class)))
    }

    /// A completion time that no size can beat on a cluster: for each class of sizes, the bound on its start
    /// plus its least walltime. True whether or not `bounds` are kept; closer when they are.
    pub fn completion_bound(
        &self,
        bounds: Option<&StartBounds>,
        now: Time,
        speed: Speed,
        procs: Procs,
    ) -> Time {
        let start = |class, quickest| bounds.map_or(now, |bounds| bounds.of_class(class, quickest, now));
        let mut bound = Time::MAX;
        for (class, quickest) in self.classes(speed, procs) {
            if now + quickest >= bound {
                break;
            }
            bound = bound.min(start(class, quickest) + quickest);
        }
        bound
    }
}
