//! Paper 001's synthetic workload ("Experimental settings"), and the Gaussian variant its author planned.

use pliant_model::rng::stream_seed;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::site::normal;
use super::{finish, job};
use crate::workload::Workload;

/// Largest requested time that gives makespans of the order that paper 001 prints; its slides print 20,000.
pub const LONGEST_S: i64 = 200_000;

/// Processors uniform in 30..=90, requested times uniform in 200..=`longest_s`, gaps uniform in 1..=100 s,
/// runtimes 0 to 30 % below the request.
pub fn uniform(jobs: u32, longest_s: i64, seed: u64) -> Workload {
    let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "uniform"));
    let mut at = 0_i64;
    let all = (0..jobs).map(|_| {
        at += rng.random_range(1..=100);
        let walltime = rng.random_range(200..=longest_s.max(200));
        let runtime = walltime as f64 * (1.0 - 0.3 * rng.random::<f64>());
        job(at as f64, rng.random_range(30..=90), walltime, runtime.round() as i64)
    });
    finish("uniform", all.collect(), Some(128))
}

/// The same with normal laws of the same mean and variance, cut to the same ranges.
pub fn gaussian(jobs: u32, longest_s: i64, seed: u64) -> Workload {
    let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "gaussian"));
    let mut draw = |low: f64, high: f64| -> f64 {
        let deviation = (high - low) / 12_f64.sqrt();
        normal((low + high) / 2.0, deviation, &mut rng).clamp(low, high)
    };
    let mut at = 0.0;
    let all = (0..jobs).map(|_| {
        at += draw(1.0, 100.0).round();
        let walltime = draw(200.0, longest_s.max(200) as f64).round();
        let procs = draw(30.0, 90.0).round() as u32;
        let runtime = walltime * (1.0 - draw(0.0, 0.3));
        job(at, procs, walltime as i64, runtime.round() as i64)
    });
    finish("gaussian", all.collect(), Some(128))
}
