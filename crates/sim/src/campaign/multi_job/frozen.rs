//! Scenarios 1 and 2 of a campaign.

use std::time::Instant;

use pliant_model::{Span, rng::stream_seed};
use pliant_policy::allocation::{baseline, levels};
use pliant_trace::generate::JobLaw;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::execute::{Divided, starts};
use super::results::Record;
use super::{Frozen, FrozenCell, MultiJobCampaign, Spread, law_name};
use crate::campaign::CampaignError;
use crate::campaign::experiment::RecordSink;
use crate::multi_job::{RuntimeLaw, freeze, run_frozen};

/// The makespans of one start: of Algorithm 1, of random draws, and the deviation of the printed form.
struct Makespans {
    largest_pending: f64,
    statistics: Vec<f64>,
    random: Vec<f64>,
    printed_instances: u64,
}

/// The cells of a group: each distribution of runtimes with each number of instances.
pub(super) fn cells(frozen: &Frozen) -> impl Iterator<Item = (JobLaw, u64)> + '_ {
    frozen.laws.iter().flat_map(|law| frozen.instances.iter().map(move |instances| (*law, *instances)))
}

/// Runs cells of an experiment on a log after a delay; each job takes `job_time` or its own runtime.
pub(super) fn run(
    campaign: &MultiJobCampaign,
    frozen: &Frozen,
    log: &Divided<'_>,
    (job_time, delay): (Option<Span>, Span),
    positions: &[usize],
    keep: &RecordSink<'_, Record>,
) -> Result<(), CampaignError> {
    let key = format!("{} {}", frozen.name, log.log.name);
    let starts = starts(campaign, &key, log, frozen.starts, &frozen.delays);
    let pending: Vec<Vec<Span>> =
        starts.par_iter().map(|start| freeze(&log.background, *start, delay, job_time)).collect();
    for (position, (law, instances)) in cells(frozen).enumerate().filter(|(at, _)| positions.contains(at)) {
        let started = Instant::now();
        let law = RuntimeLaw { law, mean: frozen.mean };
        let key = format!("{key} {job_time:?} {delay} {instances}");
        let all = makespans(campaign, &key, &pending, &law, instances);
        let record = Record::Frozen(pair(frozen, log, job_time, delay, &law, instances, &all).into());
        keep(position, record, started.elapsed().as_secs_f64())?;
    }
    Ok(())
}

fn makespans(
    campaign: &MultiJobCampaign,
    key: &str,
    pending: &[Vec<Span>],
    law: &RuntimeLaw,
    instances: u64,
) -> Vec<Makespans> {
    let of_start = |(at, pending): (usize, &Vec<Span>)| {
        let seed = stream_seed(campaign.seed, &format!("{key} {at}"));
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let best = levels::fill(pending, law.mean, instances).instances;
        let printed = levels::as_printed(pending, law.mean, instances).instances;
        // Equal jobs need only one draw.
        let repeats = if law.law == JobLaw::Deterministic { 1 } else { campaign.draws };
        let statistics = (0..repeats).map(|_| run_frozen(pending, &best, law, &mut rng).0 as f64).collect();
        let random = (0..campaign.draws)
            .map(|_| {
                let counts = baseline::random(pending.len(), instances, &mut rng);
                run_frozen(pending, &counts, law, &mut rng).0 as f64
            })
            .collect();
        Makespans {
            largest_pending: pending.iter().max().map_or(0.0, |most| most.0 as f64),
            statistics,
            random,
            printed_instances: printed.iter().sum(),
        }
    };
    pending.par_iter().enumerate().map(of_start).collect()
}

/// The cells of both policies.
fn pair(
    frozen: &Frozen,
    log: &Divided<'_>,
    job_time: Option<Span>,
    delay: Span,
    law: &RuntimeLaw,
    instances: u64,
    all: &[Makespans],
) -> [FrozenCell; 2] {
    let wrong = all.iter().filter(|one| one.printed_instances != instances).count();
    let cell = |policy: &str, of: fn(&Makespans) -> &Vec<f64>| FrozenCell {
        experiment: frozen.name.clone(),
        log: log.log.name.clone(),
        job_time_s: job_time.map(|time| time.0),
        delay_s: delay.0,
        instances,
        law: law_name(law.law).to_owned(),
        policy: policy.to_owned(),
        largest_pending_s: Spread::of(&all.iter().map(|one| one.largest_pending).collect::<Vec<_>>()).mean,
        makespan_s: Spread::of(&all.iter().flat_map(of).copied().collect::<Vec<_>>()),
        printed_wrong_percent: 100.0 * wrong as f64 / all.len().max(1) as f64,
    };
    [cell("statistics", |one| &one.statistics), cell("random", |one| &one.random)]
}
