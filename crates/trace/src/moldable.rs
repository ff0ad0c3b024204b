//! How the jobs of a log become moldable, and which of them come through the federation (paper 000, sections
//! 4.2.1 and 4.3.2; spec A.0.1, A.0.7). Drawn job by job from streams of the seed that depend on nothing else.

use pliant_model::{Job, Procs, Speedup, rng::stream_seed};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Paper 000's four types: parallel fraction, limit of processors, share of the jobs.
pub const TYPES: [(f64, u32, f64); 4] =
    [(0.8, 32, 0.50), (0.9, 96, 0.30), (0.99, 256, 0.15), (0.999, 650, 0.05)];

/// Draws the jobs' types, one job after the other.
#[derive(Clone, Debug)]
pub struct Types {
    rng: ChaCha8Rng,
}

impl Types {
    /// Drawn from `seed`.
    pub fn new(seed: u64) -> Types {
        Types { rng: ChaCha8Rng::seed_from_u64(stream_seed(seed, "job types")) }
    }

    /// The speedup of the next job: a type drawn with the paper's probabilities; jobs on one processor stay
    /// sequential.
    pub fn draw(&mut self, job: &Job) -> Speedup {
        // Drawn for sequential jobs too, so that a job's type depends on its position only.
        let drawn = draw_type(self.rng.random());
        if job.procs == Procs::ONE { Speedup::Rigid } else { drawn }
    }
}

/// Draws which jobs come through the federation, one job after the other.
#[derive(Clone, Debug)]
pub struct Locality {
    rng: ChaCha8Rng,
    dedicated_share: f64,
}

impl Locality {
    /// Drawn from `seed`: a job is managed with probability `dedicated_share` (1 for a dedicated platform, a
    /// third for the paper's non-dedicated one).
    pub fn new(dedicated_share: f64, seed: u64) -> Locality {
        Locality { rng: ChaCha8Rng::seed_from_u64(stream_seed(seed, "locality")), dedicated_share }
    }

    /// Whether the next job comes through the federation.
    pub fn draw(&mut self) -> bool {
        self.rng.random::<f64>() < self.dedicated_share
    }
}

/// One speedup per job, drawn by [`Types`].
pub fn assign_types(jobs: &[Job], seed: u64) -> Vec<Speedup> {
    let mut types = Types::new(seed);
    jobs.iter().map(|job| types.draw(job)).collect()
}

fn draw_type(mut uniform: f64) -> Speedup {
    for (parallel, limit, share) in TYPES {
        if uniform < share {
            return Speedup::Amdahl { parallel, limit: Procs(limit) };
        }
        uniform -= share;
    }
    let (parallel, limit, _) = TYPES[TYPES.len() - 1];
    Speedup::Amdahl { parallel, limit: Procs(limit) }
}

/// Whether each job comes through the federation, drawn by [`Locality`].
pub fn assign_managed(jobs: &[Job], dedicated_share: f64, seed: u64) -> Vec<bool> {
    let mut locality = Locality::new(dedicated_share, seed);
    jobs.iter().map(|_| locality.draw()).collect()
}
