//! Scenarios 3 and 4 of a campaign.

use std::sync::Arc;
use std::time::Instant;

use pliant_model::{Span, Time, rng::stream_seed};
use pliant_policy::allocation::Strategy;
use pliant_policy::runtimes::Categories;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::execute::{Divided, failed, starts};
use super::results::{OutcomeRow, Record};
use super::{Arriving, MultiJobCampaign, Times};
use crate::campaign::CampaignError;
use crate::campaign::experiment::RecordSink;
use crate::multi_job::{Broker, MultiJob, RuntimeStatistics, Session, settle};

/// Runs the cells of one start of a log, given by its position; each delay is a cell.
pub(super) fn run(
    campaign: &MultiJobCampaign,
    arriving: &Arriving,
    log: &Divided<'_>,
    start: usize,
    delays: &[usize],
    keep: &RecordSink<'_, Record>,
) -> Result<(), CampaignError> {
    let key = format!("{} {}", arriving.name, log.log.name);
    let begin = starts(campaign, &key, log, arriving.starts, &arriving.delays)[start];
    let times: Vec<InstanceRuntimes> =
        arriving.times.iter().map(|times| drawn(log, *times)).collect::<Result<_, _>>()?;
    let statistics = RuntimeStatistics {
        whole: Arc::clone(&log.whole),
        finished: Arc::new(log.background.ended_by(campaign.settings, begin)),
    };
    for delay in delays.iter().copied() {
        let started = Instant::now();
        let key = format!("{key} {start} {delay}");
        let outcomes =
            run_delay(campaign, arriving, log, (begin, arriving.delays[delay]), &statistics, &times, &key);
        let (experiment, log) = (arriving.name.clone(), log.log.name.clone());
        let record = Record::Arriving { experiment, log, start, delay, outcomes };
        keep(delay, record, started.elapsed().as_secs_f64())?;
    }
    Ok(())
}

/// The runtimes of instances: equal, or drawn from those of a category.
struct InstanceRuntimes {
    equal: Option<Span>,
    from: Vec<Span>,
    categories: Categories<i32>,
}

fn drawn(log: &Divided<'_>, times: Times) -> Result<InstanceRuntimes, CampaignError> {
    match times {
        Times::Equal(time) => {
            Ok(InstanceRuntimes { equal: Some(time), from: vec![time], categories: Categories::default() })
        }
        Times::Category { level, rank } => {
            let found = log.background.category(level, rank).ok_or_else(|| {
                let problem = format!("expected a {level} with the {rank}. most jobs, found fewer of them");
                failed(&log.log.name, problem)
            })?;
            Ok(InstanceRuntimes { equal: None, from: found.1, categories: found.0 })
        }
    }
}

/// Runs all multi-jobs of one start after one delay.
fn run_delay(
    campaign: &MultiJobCampaign,
    arriving: &Arriving,
    log: &Divided<'_>,
    (start, delay): (Time, Span),
    statistics: &RuntimeStatistics,
    times: &[InstanceRuntimes],
    key: &str,
) -> Vec<OutcomeRow> {
    let processors: Vec<u32> =
        arriving.processors.iter().copied().cycle().take(log.background.clusters).collect();
    let mut session = Session::new(&log.background, &processors, start, statistics.clone());
    session.run_for(delay);
    let truth = session.truth();
    let mut outcomes = Vec::new();
    for (time, drawn) in times.iter().enumerate() {
        for (policy, policy_of) in arriving.policies.iter().enumerate() {
            let broker = &campaign.policies[*policy_of].broker;
            let view = session.view(&drawn.categories, drawn.equal, broker);
            for (count, count_of) in arriving.instances.iter().enumerate() {
                for draw in 0..arriving.draws {
                    if draw > 0 && drawn.equal.is_some() && !draws(broker) {
                        continue;
                    }
                    let seed = stream_seed(campaign.seed, &format!("{key} {count} {time} {draw}"));
                    let job = multi_job(drawn, *count_of, seed);
                    let mut rng = ChaCha8Rng::seed_from_u64(seed);
                    let outcome = if broker.never_moves() {
                        settle(&job, broker, &view, &truth, &mut rng)
                    } else {
                        session.clone().run(&job, broker, &view, &mut rng)
                    };
                    outcomes.extend(outcome.map(|outcome| OutcomeRow::of([count, time, policy], &outcome)));
                }
            }
        }
    }
    outcomes
}

/// True if a policy is random.
fn draws(broker: &Broker) -> bool {
    matches!(broker.strategy, Strategy::Random | Strategy::TwoChoices)
}

/// Draws a multi-job, the same for every policy.
fn multi_job(drawn: &InstanceRuntimes, count: usize, seed: u64) -> MultiJob {
    let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "instances"));
    let mut draw = || {
        let one = |_| drawn.from[rng.random_range(0..drawn.from.len())];
        (0..count).map(one).collect::<Vec<Span>>()
    };
    let (runtimes, replicas) = (draw(), draw());
    MultiJob { runtimes, replicas, categories: drawn.categories }
}
