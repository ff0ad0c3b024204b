//! The walltimes that users ask for: too long, and round.
//!
//! Users choose among a few popular values and over-estimate by a factor that varies widely (the observations
//! behind Tsafrir, Etsion and Feitelson's 2005 model; the values and the factor's law are ours).

use rand::Rng;

/// Popular requests in seconds: 5 min to 14 days.
const POPULAR_S: [i64; 18] = [
    300, 600, 900, 1_200, 1_800, 3_600, 7_200, 10_800, 14_400, 21_600, 28_800, 43_200, 64_800, 86_400,
    172_800, 259_200, 604_800, 1_209_600,
];

/// How often a user asks for just about what the job needs.
const ACCURATE: f64 = 0.15;

/// The factor by which a user over-estimates: 1 for the accurate ones, else log-uniform in 1..=10.
pub(super) fn factor(rng: &mut impl Rng) -> f64 {
    if rng.random_bool(ACCURATE) { 1.0 } else { 10_f64.powf(rng.random::<f64>()) }
}

/// The popular value that covers `factor` times the runtime; whole days beyond the largest.
pub(super) fn request(runtime: i64, factor: f64) -> i64 {
    let wanted = (runtime as f64 * factor).ceil() as i64;
    let covering = POPULAR_S.iter().copied().find(|popular| *popular >= wanted);
    covering.unwrap_or_else(|| (wanted + 86_399) / 86_400 * 86_400)
}
