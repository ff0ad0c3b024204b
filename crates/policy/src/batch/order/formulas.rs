//! The ranks: a job of `n` processors and walltime `r` s that was submitted at `s` and has waited `w` s. The lowest
//! rank goes first.

use super::Candidate;
use super::log2::{log2, log10};
use super::priority::{Entitlement, Factor, PriorityParts, Weights};

/// The walltime in seconds; exact up to 2^53.
fn r(job: &Candidate) -> f64 {
    job.walltime.0 as f64
}

fn n(job: &Candidate) -> f64 {
    f64::from(job.procs.0)
}

fn log10_r(job: &Candidate) -> f64 {
    log10(job.walltime.0.max(1) as u64)
}

fn log10_s(job: &Candidate) -> f64 {
    log10(job.since.0.max(1) as u64)
}

pub(super) fn shortest(job: &Candidate) -> f64 {
    r(job)
}

pub(super) fn smallest_area(job: &Candidate) -> f64 {
    r(job) * n(job)
}

/// F1 of Carastan-Santos and de Camargo, "Obtaining dynamic scheduling policies with simulation and machine
/// learning" (SC 2017), table 3; F2 to F4 follow.
pub(super) fn f1(job: &Candidate) -> f64 {
    log10_r(job) * n(job) + 870.0 * log10_s(job)
}

pub(super) fn f2(job: &Candidate) -> f64 {
    r(job).sqrt() * n(job) + 25_600.0 * log10_s(job)
}

pub(super) fn f3(job: &Candidate) -> f64 {
    r(job) * n(job) + 6_860_000.0 * log10_s(job)
}

pub(super) fn f4(job: &Candidate) -> f64 {
    r(job) * n(job).sqrt() + 530_000.0 * log10_s(job)
}

/// WFP3 of Tang, Lan, Desai and Buettner, "Fault-aware, utility-based job scheduling on Blue Gene/P systems"
/// (CLUSTER 2009).
pub(super) fn wfp3(job: &Candidate) -> f64 {
    let stretch = job.waited.0 as f64 / r(job);
    -(stretch * stretch * stretch * n(job))
}

/// UNICEF of the same paper, which later ones call UNICEP. The formula divides by zero for one processor; its limit
/// puts such jobs first, by wait over walltime, and so does a logarithm of 2^-50.
pub(super) fn unicep(job: &Candidate) -> f64 {
    const LEAST: f64 = 1.0 / (1_u64 << 50) as f64;
    let width = log2(u64::from(job.procs.0)).max(LEAST);
    -(job.waited.0 as f64 / (width * r(job)))
}

/// The factors of Slurm's multifactor priority: the age of the job, its part of the cluster's processors, and
/// `1 / (1 + U / S)` for a user who has used the part `U` of all usage and has the part `S` of the shares. Slurm's classic
/// `2^(-U/S)` has the same values for `U = 0` and `U = S`. What the class adds is not a factor.
pub(super) fn parts(job: &Candidate) -> PriorityParts {
    let Entitlement { used, used_by_all, shares, shares_of_all, bonus } = job.user;
    let part = if used_by_all > 0.0 { used / used_by_all } else { 0.0 };
    let factor = |value: f64, weight: u32| Factor { value, weight };
    let Weights { age, size, fair_share } = job.weights;
    PriorityParts {
        age: factor((job.waited.0 as f64 / job.age_max.0.max(1) as f64).min(1.0), age),
        size: factor(n(job) / f64::from(job.capacity.0.max(1)), size),
        fair_share: factor(1.0 / (1.0 + part * (shares_of_all / shares)), fair_share),
        class: bonus,
    }
}

pub(super) fn multifactor(job: &Candidate) -> f64 {
    -parts(job).total()
}

/// What the user has used for each share.
pub(super) fn fair_share(job: &Candidate) -> f64 {
    job.user.used / job.user.shares
}
