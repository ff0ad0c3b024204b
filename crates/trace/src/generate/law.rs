//! The laws of job times of paper 002's Table 3.
//!
//! The table gives a Pareto law of shape `2 + 2^-12.288`, times 500, for a mean of 1,000 s and a deviation of 100 s. Its
//! mean is 1,000, its deviation 49,997. What is meant, a law of that mean and a deviation of a tenth of it,
//! has the shape `1 + sqrt(101)`. Both are here.

use rand::Rng;
use rand_distr::{Distribution, LogNormal, Pareto};

use super::site::normal;

/// How the times of the instances of a multi-job differ.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum JobLaw {
    /// Not at all.
    Deterministic,
    /// Normal, with a deviation of a tenth of the mean.
    Gaussian,
    /// Pareto, with a deviation of a tenth of the mean: what the paper means.
    Pareto,
    /// Pareto as the paper prints it: a deviation of fifty times the mean.
    ParetoPrinted,
}

impl JobLaw {
    /// One time, in the unit of its mean; never below a thousandth of it.
    pub fn draw(self, mean: f64, rng: &mut impl Rng) -> f64 {
        let relative = match self {
            Self::Deterministic => 1.0,
            Self::Gaussian => normal(1.0, 0.1, rng),
            Self::Pareto => {
                let root = 101_f64.sqrt();
                pareto(root / (1.0 + root), 1.0 + root, rng)
            }
            Self::ParetoPrinted => pareto(0.5, 2.0 + 2_f64.powf(-12.288), rng),
        };
        mean * relative.max(1e-3)
    }
}

/// Of mean 1 if the scale is `(shape - 1) / shape`.
fn pareto(scale: f64, shape: f64, rng: &mut impl Rng) -> f64 {
    Pareto::new(scale, shape).map_or(1.0, |law| law.sample(rng))
}

/// Log-normal of mean 1 with a deviation of `cv`.
pub(super) fn log_normal(cv: f64, rng: &mut impl Rng) -> f64 {
    let variance = (1.0 + cv * cv).ln();
    LogNormal::new(-variance / 2.0, variance.sqrt()).map_or(1.0, |law| law.sample(rng))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn laws_have_the_mean_and_the_deviation_that_they_say() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let draws = 200_000;
        for (law, deviation) in
            [(JobLaw::Deterministic, 0.0), (JobLaw::Gaussian, 100.0), (JobLaw::Pareto, 100.0)]
        {
            let all: Vec<f64> = (0..draws).map(|_| law.draw(1000.0, &mut rng)).collect();
            let mean = all.iter().sum::<f64>() / f64::from(draws);
            let variance = all.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / f64::from(draws);
            assert!((mean - 1000.0).abs() < 15.0, "{law:?}: mean {mean}");
            assert!((variance.sqrt() - deviation).abs() <= 0.1 * deviation, "{law:?}: {}", variance.sqrt());
        }
        // The law as it is printed has half of its mean as its least time, and a deviation that no sample shows.
        let all: Vec<f64> = (0..draws).map(|_| JobLaw::ParetoPrinted.draw(1000.0, &mut rng)).collect();
        let mean = all.iter().sum::<f64>() / f64::from(draws);
        assert!((950.0..1100.0).contains(&mean) && all.iter().all(|time| *time >= 500.0), "{mean}");
    }
}
