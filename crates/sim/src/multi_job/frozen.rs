//! Scenarios 1 and 2: the log runs from a start with empty queues for a while, first come, first served on one
//! processor for each cluster, and is frozen. What is left of its work comes before the instances of the multi-job.

use pliant_model::{Span, Time};
use pliant_trace::generate::JobLaw;
use rand::Rng;

use super::Background;

/// The times of the instances of a multi-job.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Law {
    /// How they differ.
    pub law: JobLaw,
    /// Their mean.
    pub mean: Span,
}

/// What is left of the work of each cluster. With `job_time` every job of the log takes so long instead of its own time.
pub fn freeze(background: &Background, start: Time, delay: Span, job_time: Option<Span>) -> Vec<Span> {
    let mut free = vec![start; background.clusters];
    let until = start + delay;
    let from = background.from(start);
    for job in background.jobs[from..].iter().take_while(|job| job.submit < until) {
        let runtime = job_time.unwrap_or(job.runtime);
        free[job.cluster] = free[job.cluster].max(job.submit) + runtime;
    }
    free.into_iter().map(|at| (at - until).max(Span::ZERO)).collect()
}

/// When the last instance ends if each cluster has so much work before and gets so many: times are drawn as they come.
pub fn run_frozen(pending: &[Span], counts: &[u64], law: &Law, rng: &mut impl Rng) -> Span {
    let mean = law.mean.0 as f64;
    let level = |(pending, count): (&Span, &u64)| {
        let work = match law.law {
            JobLaw::Deterministic => mean * *count as f64,
            drawn => (0..*count).map(|_| drawn.draw(mean, rng)).sum(),
        };
        *pending + Span(work.round() as i64)
    };
    let given = pending.iter().zip(counts).filter(|(_, count)| **count > 0);
    given.map(level).max().unwrap_or(Span::ZERO)
}
