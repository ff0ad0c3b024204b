//! Speedup models for the jobs of a log, and the choice of jobs submitted through the federation (paper 000, sections 4.2.1 and
//! 4.3.2). Drawn job by job from streams of the seed that depend on nothing else.

use pliant_model::{Job, Procs, Speedup, rng::stream_seed};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Paper 000's four types: parallel fraction, limit of processors, share of the jobs.
pub const TYPES: [(f64, u32, f64); 4] =
    [(0.8, 32, 0.50), (0.9, 96, 0.30), (0.99, 256, 0.15), (0.999, 650, 0.05)];

/// Draws the jobs' types, one job after the other.
#[derive(Clone, Debug)]
pub struct JobTypes {
    rng: ChaCha8Rng,
}

impl JobTypes {
    /// Drawn from `seed`.
    pub fn new(seed: u64) -> JobTypes {
        JobTypes { rng: ChaCha8Rng::seed_from_u64(stream_seed(seed, "job types")) }
    }

    /// The speedup of the next job: a type drawn with the paper's probabilities; jobs on one processor stay
    /// sequential.
    pub fn draw(&mut self, job: &Job) -> Speedup {
        // Drawn for sequential jobs too, so that a job's type depends on its position only.
        let drawn = draw_type(self.rng.random());
        if job.procs == Procs::ONE { Speedup::Rigid } else { drawn }
    }
}

/// Draws which jobs are moldable at all, one job after the other.
#[derive(Clone, Debug)]
pub struct MoldableShare {
    rng: ChaCha8Rng,
    share: f64,
}

impl MoldableShare {
    /// Drawn from `seed`: a job is moldable with probability `share`.
    pub fn new(share: f64, seed: u64) -> MoldableShare {
        MoldableShare { rng: ChaCha8Rng::seed_from_u64(stream_seed(seed, "moldable jobs")), share }
    }

    /// Whether the next job is moldable.
    pub fn draw(&mut self) -> bool {
        self.rng.random::<f64>() < self.share
    }
}

/// Factors of the misjudged sequential fraction, all equally likely.
pub const MISJUDGEMENTS: [f64; 4] = [0.25, 0.5, 2.0, 4.0];

/// Draws the speedups that users assume for their jobs, one job after the other.
#[derive(Clone, Debug)]
pub struct PerceivedSpeedups {
    rng: ChaCha8Rng,
}

impl PerceivedSpeedups {
    /// Drawn from `seed`.
    pub fn new(seed: u64) -> PerceivedSpeedups {
        PerceivedSpeedups { rng: ChaCha8Rng::seed_from_u64(stream_seed(seed, "beliefs about speedups")) }
    }

    /// The assumed speedup of the next job, whose true one is `speedup`: Amdahl's law with a sequential fraction of one of
    /// [`MISJUDGEMENTS`] times the true one, and the same limit. Other models are known exactly.
    pub fn draw(&mut self, speedup: &Speedup) -> Speedup {
        let factor = MISJUDGEMENTS[self.rng.random_range(0..MISJUDGEMENTS.len())];
        match speedup {
            Speedup::Amdahl { parallel, limit } => {
                let sequential = ((1.0 - parallel) * factor).min(1.0);
                Speedup::Amdahl { parallel: 1.0 - sequential, limit: *limit }
            }
            known => known.clone(),
        }
    }
}

/// The same speedup, but only for sizes from half (rounded up) to twice `requested`, as far as the model's limit goes. The
/// requested size is possible in any case.
pub fn within_twice(speedup: &Speedup, requested: Procs) -> Speedup {
    let Speedup::Amdahl { limit, .. } = speedup else { return speedup.clone() };
    let most = requested.0.saturating_mul(2).min(limit.0).max(requested.0);
    let sizes = (requested.0.div_ceil(2)..=most).map(Procs);
    Speedup::Table(sizes.map(|procs| (procs, speedup.relative_time(procs, requested))).collect())
}

/// Draws which jobs are submitted through the federation, one job after the other.
#[derive(Clone, Debug)]
pub struct ManagedShare {
    rng: ChaCha8Rng,
    dedicated_share: f64,
}

impl ManagedShare {
    /// Drawn from `seed`: a job is managed with probability `dedicated_share` (1 for a dedicated platform, a
    /// third for the paper's non-dedicated one).
    pub fn new(dedicated_share: f64, seed: u64) -> ManagedShare {
        ManagedShare { rng: ChaCha8Rng::seed_from_u64(stream_seed(seed, "locality")), dedicated_share }
    }

    /// True if the next job is submitted through the federation.
    pub fn draw(&mut self) -> bool {
        self.rng.random::<f64>() < self.dedicated_share
    }
}

/// One speedup per job, drawn by [`JobTypes`].
pub fn assign_types(jobs: &[Job], seed: u64) -> Vec<Speedup> {
    let mut types = JobTypes::new(seed);
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

/// Whether each job comes through the federation, drawn by [`ManagedShare`].
pub fn assign_managed(jobs: &[Job], dedicated_share: f64, seed: u64) -> Vec<bool> {
    let mut locality = ManagedShare::new(dedicated_share, seed);
    jobs.iter().map(|_| locality.draw()).collect()
}
