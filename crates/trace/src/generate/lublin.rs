//! The workload model of Lublin and Feitelson 2003 ("The workload on parallel supercomputers"), typeless
//! parameters, with over-estimated walltimes added, since the model has none.

use pliant_model::{Job, Procs, rng::stream_seed};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Gamma};

use super::{finish, job, walltime};
use crate::workload::Workload;

const SERIAL: f64 = 0.244;
const POWER_OF_TWO: f64 = 0.576;
/// Log2 sizes: uniform in [LOW, MEDIUM] with probability SMALL, else in [MEDIUM, log2 of the machine].
const LOW: f64 = 0.8;
const MEDIUM_BELOW_HIGH: f64 = 2.5;
const SMALL: f64 = 0.86;
/// Log runtimes: a mix of two gamma laws whose weights depend on the size.
const SHORT: (f64, f64) = (4.2, 0.94);
const LONG: (f64, f64) = (312.0, 0.03);
const SHORT_SLOPE: f64 = -0.0054;
const SHORT_OFFSET: f64 = 0.78;
const LONGEST_LOG_RUNTIME: f64 = 12.0;
/// Log inter-arrival times, and the daily cycle.
const ARRIVAL: (f64, f64) = (10.2303 * 1.0225, 0.4871);
const LONGEST_LOG_GAP: f64 = 13.0;
const CYCLE: (f64, f64) = (8.1737, 3.9631);
const BUCKETS: usize = 48;
const BUCKET_S: f64 = 1_800.0;
/// The cycle's first half-hour is number 11 of the fitted law.
const FIRST_BUCKET: usize = 11;

/// `jobs` jobs for a machine of `procs` processors.
pub fn lublin(jobs: u32, procs: Procs, seed: u64) -> Workload {
    let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "lublin"));
    let mut arrivals = Arrivals::new();
    let all: Vec<Job> = (0..jobs)
        .map(|_| {
            let at = arrivals.next(&mut rng);
            let size = draw_size(procs, &mut rng);
            let runtime = draw_runtime(size, &mut rng);
            let request = walltime::request(runtime, walltime::factor(&mut rng));
            job(at, size, request, runtime)
        })
        .collect();
    finish("lublin", all, Some(i64::from(procs.0)))
}

fn gamma((shape, scale): (f64, f64), rng: &mut ChaCha8Rng) -> f64 {
    Gamma::new(shape, scale).map_or(shape * scale, |law| law.sample(rng))
}

fn draw_size(procs: Procs, rng: &mut ChaCha8Rng) -> u32 {
    let kind: f64 = rng.random();
    let high = f64::from(procs.0.max(1)).log2();
    if kind <= SERIAL || high < LOW {
        return 1;
    }
    let medium = (high - MEDIUM_BELOW_HIGH).max(LOW);
    let (from, to) = if rng.random::<f64>() <= SMALL { (LOW, medium) } else { (medium, high) };
    let mut exponent = from + (to - from) * rng.random::<f64>();
    if kind <= SERIAL + POWER_OF_TWO {
        exponent = (exponent + 0.5).floor();
    }
    ((2_f64.powf(exponent) + 0.5) as u32).clamp(1, procs.0.max(1))
}

fn draw_runtime(size: u32, rng: &mut ChaCha8Rng) -> i64 {
    let short = (SHORT_SLOPE * f64::from(size) + SHORT_OFFSET).clamp(0.0, 1.0);
    loop {
        let log = gamma(if rng.random::<f64>() <= short { SHORT } else { LONG }, rng);
        if log <= LONGEST_LOG_RUNTIME {
            return log.exp().round().max(1.0) as i64;
        }
    }
}

/// Arrivals: an inter-arrival law in "points" that busy half-hours pay out faster than quiet ones. What is
/// left of the points, and how far into the bucket they reach, carries over from one job to the next.
struct Arrivals {
    weights: [f64; BUCKETS],
    bucket: usize,
    elapsed_buckets: f64,
    points: f64,
}

impl Arrivals {
    fn new() -> Arrivals {
        let mut weights = [0.0; BUCKETS];
        for number in FIRST_BUCKET..FIRST_BUCKET + BUCKETS {
            weights[(number - 1) % BUCKETS] = cycle_weight(number as f64);
        }
        let mean = weights.iter().sum::<f64>() / BUCKETS as f64;
        Arrivals {
            weights: weights.map(|weight| weight / mean),
            bucket: 0,
            elapsed_buckets: 0.0,
            points: 0.0,
        }
    }

    /// The time of the next arrival in seconds.
    fn next(&mut self, rng: &mut ChaCha8Rng) -> f64 {
        let log = loop {
            let log = gamma(ARRIVAL, rng);
            if log <= LONGEST_LOG_GAP {
                break log;
            }
        };
        self.points += log.exp() / BUCKET_S;
        while self.points > self.weights[self.bucket] {
            self.points -= self.weights[self.bucket];
            self.bucket = (self.bucket + 1) % BUCKETS;
            self.elapsed_buckets += 1.0;
        }
        (self.elapsed_buckets + self.points / self.weights[self.bucket]) * BUCKET_S
    }
}

/// The fitted gamma law's mass between half a bucket before and after `number`, up to a constant factor: only
/// the weights' proportions matter. Simpson's rule with 32 intervals.
fn cycle_weight(number: f64) -> f64 {
    let density = |x: f64| ((CYCLE.0 - 1.0) * x.ln() - x / CYCLE.1).exp();
    let step = 1.0 / 32.0;
    (0..=32)
        .map(|index| {
            let x = number - 0.5 + f64::from(index) * step;
            let factor = if index == 0 || index == 32 { 1.0 } else { 2.0 + 2.0 * f64::from(index % 2) };
            factor * density(x)
        })
        .sum::<f64>()
        * step
        / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_arrivals_follow_the_model() {
        let workload = lublin(20_000, Procs(128), 5);
        let share = |test: &dyn Fn(&Job) -> bool| {
            workload.jobs.iter().filter(|job| test(job)).count() as f64 / workload.jobs.len() as f64
        };
        let serial = share(&|job| job.procs.0 == 1);
        let powers = share(&|job| job.procs.0 > 1 && job.procs.0.is_power_of_two());
        assert!((SERIAL - 0.02..SERIAL + 0.08).contains(&serial), "{serial} sequential");
        assert!((POWER_OF_TWO - 0.06..POWER_OF_TWO + 0.15).contains(&powers), "{powers} powers of two");
        let night = share(&|job| (4..8).contains(&(job.submit.0 / 3600 % 24)));
        let day = share(&|job| (10..14).contains(&(job.submit.0 / 3600 % 24)));
        assert!(day > 2.0 * night, "{day} by day, {night} by night");
        assert!(workload.jobs.iter().all(|job| job.runtime <= job.walltime && job.procs.0 <= 128));
    }

    #[test]
    fn weights_average_to_one() {
        let arrivals = Arrivals::new();
        let mean = arrivals.weights.iter().sum::<f64>() / 48.0;
        assert!((mean - 1.0).abs() < 1e-12);
    }
}
