//! The jobs of one site of a research grid: bursts of similar jobs, mostly small, with a daily and a weekly
//! cycle and over-estimated walltimes.
//!
//! Users submit *campaigns*: bursts of similar jobs within minutes. Campaigns begin according to the time of day
//! and the day of the week; their number of jobs is heavy-tailed; jobs of one campaign share size, scale of
//! runtime and requested walltime. Runtimes are scaled so that the site's offered load is what was asked for.

use pliant_model::{Job, Procs, Span, rng::stream_seed};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, LogNormal, Normal, Pareto};

use super::{job, walltime};

/// What a site's jobs are to look like.
#[derive(Clone, PartialEq, Debug)]
pub struct Site {
    /// Its name; part of the seed.
    pub name: String,
    /// Processors; no job asks for more than half (grid users rarely ask for a whole site).
    pub procs: Procs,
    /// Jobs.
    pub jobs: u32,
    /// Days over which they are submitted.
    pub days: f64,
    /// Their processor seconds over those of the site in these days. A site does not know its speed: runtimes
    /// are those of speed 1.0.
    pub load: f64,
}

const DAY_S: f64 = 86_400.0;
/// No burst has more jobs.
const LARGEST_BURST: f64 = 300.0;
/// No job runs longer.
const LONGEST_S: f64 = 5.0 * DAY_S;
/// Share of sequential jobs, and of powers of two among the others.
const SERIAL: f64 = 0.35;
const POWER_OF_TWO: f64 = 0.75;

/// Jobs of one site, sorted by submission, from 0 on.
pub fn site(site: &Site, seed: u64) -> Vec<Job> {
    let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, &site.name));
    let mut drafts = Vec::with_capacity(site.jobs as usize);
    while drafts.len() < site.jobs as usize {
        campaign(site, &mut rng, &mut drafts);
    }
    drafts.truncate(site.jobs as usize);
    let factor = runtime_factor(site, &drafts);
    let mut jobs: Vec<Job> = drafts
        .iter()
        .map(|draft| {
            let runtime = scaled(draft.runtime_s, factor).round() as i64;
            let request =
                walltime::request((scaled(draft.typical_s, factor) as i64).max(1), draft.overestimate);
            // A user learns: the walltime covers the campaign's typical job; a longer one is ended at it.
            let mut job = job(draft.submit_s, draft.procs, request, runtime);
            job.user = draft.user;
            job.executable = draft.executable;
            job
        })
        .collect();
    jobs.sort_by_key(|job| job.submit);
    keep_load(site, &mut jobs);
    jobs
}

/// A job before its runtime is scaled.
struct JobDraft {
    submit_s: f64,
    procs: u32,
    runtime_s: f64,
    typical_s: f64,
    overestimate: f64,
    user: i32,
    executable: i32,
}

/// One burst of similar jobs.
fn campaign(site: &Site, rng: &mut ChaCha8Rng, drafts: &mut Vec<JobDraft>) {
    // Heavy-tailed burst sizes; capped, so that no single burst is a month's work.
    let most = (f64::from(site.jobs) / 40.0).clamp(3.0, LARGEST_BURST);
    let size = Pareto::new(1.0_f64, 0.9).map_or(1.0, |law| law.sample(rng)).min(most) as usize;
    let procs = draw_size(site.procs.0, rng);
    let typical = LogNormal::new(0.0, 1.7).map_or(1.0, |law| law.sample(rng));
    let spread = rng.random_range(0.05..0.6);
    let overestimate = walltime::factor(rng);
    // A tenth of the users do most of the work.
    let user = (60.0 * rng.random::<f64>().powi(3)) as i32 + 1;
    let executable = user * 10 + rng.random_range(0..5);
    let mut at = draw_start(site.days, rng);
    let gap = rng.random_range(1.0..120.0);
    for _ in 0..size {
        let jitter = LogNormal::new(0.0, spread).map_or(1.0, |law| law.sample(rng));
        // One in twelve fails early.
        let runtime = if rng.random_bool(1.0 / 12.0) {
            typical * rng.random_range(0.001..0.1)
        } else {
            typical * jitter
        };
        drafts.push(JobDraft {
            submit_s: at.min(site.days * DAY_S - 1.0),
            procs,
            runtime_s: runtime,
            typical_s: typical * (1.0 + spread),
            overestimate,
            user,
            executable,
        });
        at += -gap * (1.0 - rng.random::<f64>()).ln();
    }
}

/// Sizes: a third sequential, else log-uniform with a preference for small ones and for powers of two.
fn draw_size(procs: u32, rng: &mut ChaCha8Rng) -> u32 {
    if rng.random_bool(SERIAL) {
        return 1;
    }
    let most = f64::from((procs / 2).max(1));
    let exponent = rng.random::<f64>().powf(1.4) * most.log2();
    let size =
        if rng.random_bool(POWER_OF_TWO) { 2_f64.powf(exponent.round()) } else { 2_f64.powf(exponent) };
    (size.round() as u32).clamp(1, (procs / 2).max(1))
}

/// When a campaign begins: uniform over the days, then kept by the hour's and the day's weight.
fn draw_start(days: f64, rng: &mut ChaCha8Rng) -> f64 {
    loop {
        let at = rng.random::<f64>() * days * DAY_S;
        let hour = at % DAY_S / 3_600.0;
        let weekend = (at / DAY_S) as u64 % 7 >= 5;
        // Busiest in mid-afternoon, a quarter of that at four in the morning; half on weekends.
        let daily = 0.625 + 0.375 * ((hour - 15.5) / 24.0 * std::f64::consts::TAU).cos();
        if rng.random::<f64>() < daily * if weekend { 0.5 } else { 1.0 } {
            return at;
        }
    }
}

fn scaled(runtime_s: f64, factor: f64) -> f64 {
    (runtime_s * factor).clamp(1.0, LONGEST_S)
}

/// The factor on the drafts' runtimes that gives the site's offered load (bisection: the load grows with it).
fn runtime_factor(site: &Site, drafts: &[JobDraft]) -> f64 {
    let wanted = site.load * f64::from(site.procs.0) * site.days * DAY_S;
    let work = |factor: f64| -> f64 {
        drafts.iter().map(|draft| f64::from(draft.procs) * scaled(draft.runtime_s, factor)).sum()
    };
    let (mut low, mut high) = (1e-6_f64, 1e9_f64);
    for _ in 0..100 {
        let middle = (low * high).sqrt();
        if work(middle) < wanted { low = middle } else { high = middle }
    }
    (low * high).sqrt()
}

/// Makes up for the work that walltimes cut off, as far as walltimes allow.
fn keep_load(site: &Site, jobs: &mut [Job]) {
    let wanted = site.load * f64::from(site.procs.0) * site.days * DAY_S;
    for _ in 0..4 {
        let work: f64 = jobs.iter().map(|job| f64::from(job.procs.0) * job.runtime.0 as f64).sum();
        let factor = wanted / work.max(1.0);
        if factor <= 1.000_1 {
            return;
        }
        for job in jobs.iter_mut() {
            job.runtime = Span((job.runtime.0 as f64 * factor).round() as i64).min(job.walltime);
        }
    }
}

/// A normal law that cannot fail: used by the generators with constant parameters.
pub(super) fn normal(mean: f64, deviation: f64, rng: &mut impl Rng) -> f64 {
    Normal::new(mean, deviation).map_or(mean, |law| law.sample(rng))
}
