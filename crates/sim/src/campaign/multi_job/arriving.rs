//! Scenarios 3 and 4 of a campaign.

use std::sync::Arc;

use pliant_model::{Span, Time, rng::stream_seed};
use pliant_policy::allocation::Strategy;
use pliant_policy::runtimes::Categories;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::execute::{Divided, failed, starts};
use super::ratios::log_ratios;
use super::results::{ArrivingCell, RatioRow, Spread};
use super::{Arriving, MultiJobCampaign, Times};
use crate::campaign::CampaignError;
use crate::multi_job::{Broker, Learned, MultiJob, Outcome, Session, settle};

/// A cell's place: positions of the delay, of the number of instances, of their times and of the policy.
pub(super) type Place = [usize; 4];

/// The cells of an experiment, and how its policies compare.
pub(super) fn run(
    campaign: &MultiJobCampaign,
    arriving: &Arriving,
    logs: &[Divided<'_>],
) -> Result<(Vec<ArrivingCell>, Vec<RatioRow>), CampaignError> {
    let (mut cells, mut ratios) = (Vec::new(), Vec::new());
    let name_of = |policy: usize| campaign.policies[arriving.policies[policy]].name.clone();
    for log in arriving.logs.iter().map(|at| &logs[*at]) {
        let key = format!("{} {}", arriving.name, log.log.name);
        let starts = starts(campaign, &key, log, arriving.starts, &arriving.delays);
        let times: Vec<Drawn> =
            arriving.times.iter().map(|times| drawn(log, *times)).collect::<Result<_, _>>()?;
        let trials: Vec<Vec<(Place, Outcome)>> = starts
            .par_iter()
            .with_max_len(1)
            .enumerate()
            .map(|(at, start)| run_start(campaign, arriving, log, *start, &times, &format!("{key} {at}")))
            .collect();
        for (delay, delay_of) in arriving.delays.iter().enumerate() {
            for (count, count_of) in arriving.instances.iter().enumerate() {
                for (time, time_of) in arriving.times.iter().enumerate() {
                    for policy in 0..arriving.policies.len() {
                        let place = [delay, count, time, policy];
                        let of_cell: Vec<&Outcome> = trials
                            .iter()
                            .flatten()
                            .filter(|(at, _)| *at == place)
                            .map(|(_, one)| one)
                            .collect();
                        cells.push(ArrivingCell {
                            experiment: arriving.name.clone(),
                            log: log.log.name.clone(),
                            delay_s: delay_of.0,
                            instances: *count_of,
                            times: time_of.label(),
                            policy: name_of(policy),
                            ..cell(&of_cell)
                        });
                    }
                }
            }
        }
        let Some(reference) = arriving.reference else { continue };
        let Some(reference) = arriving.policies.iter().position(|policy| *policy == reference) else {
            continue;
        };
        for policy in (0..arriving.policies.len()).filter(|policy| *policy != reference) {
            ratios.push(RatioRow {
                experiment: arriving.name.clone(),
                log: log.log.name.clone(),
                policy: name_of(policy),
                reference: name_of(reference),
                log_ratios: log_ratios(&trials, policy, reference),
            });
        }
    }
    Ok((cells, ratios))
}

fn cell(outcomes: &[&Outcome]) -> ArrivingCell {
    let spread =
        |of: fn(&Outcome) -> f64| Spread::of(&outcomes.iter().map(|outcome| of(outcome)).collect::<Vec<_>>());
    ArrivingCell {
        makespan_s: spread(|outcome| outcome.makespan.0 as f64),
        response_s: spread(|outcome| outcome.mean_response_s),
        expected_s: spread(|outcome| outcome.expected.0 as f64).mean,
        moves: spread(|outcome| outcome.moves as f64).mean,
        copies: spread(|outcome| outcome.copies as f64).mean,
        ..ArrivingCell::default()
    }
}

/// The times of instances: equal, or those of a category to draw from.
struct Drawn {
    equal: Option<Span>,
    from: Vec<Span>,
    categories: Categories<i32>,
}

fn drawn(log: &Divided<'_>, times: Times) -> Result<Drawn, CampaignError> {
    match times {
        Times::Equal(time) => {
            Ok(Drawn { equal: Some(time), from: vec![time], categories: Categories::default() })
        }
        Times::Category { level, rank } => {
            let found = log.background.category(level, rank).ok_or_else(|| {
                let problem = format!("expected a {level} with the {rank}. most jobs, found fewer of them");
                failed(&log.log.name, problem)
            })?;
            Ok(Drawn { equal: None, from: found.1, categories: found.0 })
        }
    }
}

/// All that begins at one moment of the log.
fn run_start(
    campaign: &MultiJobCampaign,
    arriving: &Arriving,
    log: &Divided<'_>,
    start: Time,
    times: &[Drawn],
    key: &str,
) -> Vec<(Place, Outcome)> {
    let processors: Vec<u32> =
        arriving.processors.iter().copied().cycle().take(log.background.clusters).collect();
    let learned = Learned {
        whole: Arc::clone(&log.whole),
        finished: Arc::new(log.background.ended_by(campaign.settings, start)),
    };
    let mut outcomes = Vec::new();
    for (delay, delay_of) in arriving.delays.iter().enumerate() {
        let mut session = Session::new(&log.background, &processors, start, learned.clone());
        session.run_for(*delay_of);
        let truth = session.truth();
        for (time, drawn) in times.iter().enumerate() {
            for (policy, policy_of) in arriving.policies.iter().enumerate() {
                let broker = &campaign.policies[*policy_of].broker;
                let view = session.view(&drawn.categories, drawn.equal, broker);
                for (count, count_of) in arriving.instances.iter().enumerate() {
                    for draw in 0..arriving.draws {
                        if draw > 0 && drawn.equal.is_some() && !draws(broker) {
                            continue;
                        }
                        let seed =
                            stream_seed(campaign.seed, &format!("{key} {delay} {count} {time} {draw}"));
                        let job = multi_job(drawn, *count_of, seed);
                        let mut rng = ChaCha8Rng::seed_from_u64(seed);
                        let outcome = if broker.leaves_instances() {
                            settle(&job, broker, &view, &truth, &mut rng)
                        } else {
                            session.clone().run(&job, broker, &view, &mut rng)
                        };
                        outcomes.extend(outcome.map(|outcome| ([delay, count, time, policy], outcome)));
                    }
                }
            }
        }
    }
    outcomes
}

/// True if a policy may do something else another time.
fn draws(broker: &Broker) -> bool {
    matches!(broker.strategy, Strategy::Random | Strategy::TwoChoices)
}

/// The same for every policy.
fn multi_job(drawn: &Drawn, count: usize, seed: u64) -> MultiJob {
    let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "instances"));
    let mut draw = || {
        let one = |_| drawn.from[rng.random_range(0..drawn.from.len())];
        (0..count).map(one).collect::<Vec<Span>>()
    };
    let (runtimes, copies) = (draw(), draw());
    MultiJob { runtimes, copies, categories: drawn.categories }
}
