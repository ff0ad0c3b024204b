//! The ranks: a job of `n` processors and walltime `r` s that was submitted at `s` and has waited `w` s. The lowest
//! rank goes first.

use super::Candidate;
use super::log2::{log2, log10};

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

/// After this wait the age of a job no longer grows, s: a week, Slurm's default.
const AGE_MAX_S: f64 = 604_800.0;

/// Three factors of Slurm's multifactor priority, each from 0 to 1 and with equal weights: the age of the job, its
/// share of the cluster's processors, and `1 / (1 + U / S)` for a user who has used the part `U` of all usage, where
/// `S` is an equal part. Slurm's classic `2^(-U/S)` has the same values for `U = 0` and `U = S`.
pub(super) fn multifactor(job: &Candidate) -> f64 {
    let age = (job.waited.0 as f64 / AGE_MAX_S).min(1.0);
    let size = n(job) / f64::from(job.capacity.0.max(1));
    let part = if job.used_by_all > 0.0 { job.used / job.used_by_all } else { 0.0 };
    let fair_share = 1.0 / (1.0 + part * f64::from(job.users));
    -(age + size + fair_share)
}

pub(super) fn fair_share(job: &Candidate) -> f64 {
    job.used
}
