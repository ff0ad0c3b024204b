//! How the jobs of a log become moldable, and which of them come through the federation (paper 000, sections
//! 4.2.1 and 4.3.2; spec A.0.1, A.0.7). Drawn job by job from streams of the seed that depend on nothing else.

use pliant_model::{Job, Procs, Speedup, rng::stream_seed};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Paper 000's four types: parallel fraction, limit of processors, share of the jobs.
pub const TYPES: [(f64, u32, f64); 4] =
    [(0.8, 32, 0.50), (0.9, 96, 0.30), (0.99, 256, 0.15), (0.999, 650, 0.05)];

/// One speedup per job: a type drawn with the paper's probabilities; jobs on one processor stay sequential.
pub fn assign_types(jobs: &[Job], seed: u64) -> Vec<Speedup> {
    let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "job types"));
    jobs.iter()
        .map(|job| {
            // Drawn for sequential jobs too, so that a job's type depends on its position only.
            let drawn = draw_type(rng.random());
            if job.procs == Procs::ONE { Speedup::Rigid } else { drawn }
        })
        .collect()
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

/// Whether each job comes through the federation: with probability `dedicated_share` (1 for a dedicated
/// platform, a third for the paper's non-dedicated one).
pub fn assign_managed(jobs: &[Job], dedicated_share: f64, seed: u64) -> Vec<bool> {
    let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "locality"));
    jobs.iter().map(|_| rng.random::<f64>() < dedicated_share).collect()
}
