//! Measured times of pairs of processors and GPUs.

use crate::Procs;

/// An entry of a [`crate::Speedup::GpuTable`]: a size that is possible, and its time.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GpuPoint {
    /// Processors.
    pub procs: Procs,
    /// GPUs in all.
    #[cfg_attr(feature = "serde", serde(default))]
    pub gpus: u32,
    /// The time relative to any unit.
    pub time: f64,
}

/// Whether they are sorted by processors, then by GPUs, have positive times, and one of them has GPUs.
pub(crate) fn is_valid(points: &[GpuPoint]) -> bool {
    let key = |point: &GpuPoint| (point.procs, point.gpus);
    points.is_sorted_by(|one, next| key(one) < key(next))
        && points.iter().all(|one| one.procs.0 > 0 && one.time > 0.0 && one.time.is_finite())
        && points.iter().any(|one| one.gpus > 0)
}

/// The least time on at most so many processors and GPUs; that of the smallest size if there is none.
pub(crate) fn time(points: &[GpuPoint], procs: Procs, gpus: u32) -> f64 {
    let possible = points.iter().filter(|one| one.procs <= procs && one.gpus <= gpus);
    let least = possible.map(|one| one.time).fold(f64::INFINITY, f64::min);
    if least.is_finite() { least } else { points.first().map_or(1.0, |first| first.time) }
}

/// The time to which a walltime on so many processors refers: that of the size with the most of them, and there with the fewest GPUs.
pub(crate) fn reference(points: &[GpuPoint], requested: Procs) -> f64 {
    let known = points.iter().rev().find(|one| one.procs <= requested).or(points.first());
    let same = points.iter().find(|one| known.is_some_and(|known| known.procs == one.procs));
    same.map_or(1.0, |one| one.time)
}
