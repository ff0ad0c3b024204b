//! Scenarios 1 and 2: the log runs from empty queues for a while, first come, first served on one processor for each cluster,
//! and is frozen. Its remaining work precedes the instances of the multi-job.

use pliant_model::{Span, Time};
use pliant_trace::generate::JobLaw;
use rand::Rng;

use super::Background;

/// The distribution of the runtimes of instances.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RuntimeLaw {
    /// The kind of distribution.
    pub law: JobLaw,
    /// Its mean.
    pub mean: Span,
}

/// The remaining work of each cluster. With `job_time` every job of the log has this runtime instead of its own.
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

/// Draws runtimes and returns the end of the last instance, given the pending work and the instances of each cluster.
pub fn run_frozen(pending: &[Span], counts: &[u64], law: &RuntimeLaw, rng: &mut impl Rng) -> Span {
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
