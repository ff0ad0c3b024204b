//! The records and results of a campaign of multi-jobs.

use std::collections::BTreeMap;

use pliant_model::Span;
use serde::{Deserialize, Serialize};

use super::execute::{longest, range};
use super::ratios::log_ratios;
use super::{
    Arriving, ArrivingCell, ErrorRow, ExperimentRow, Frozen, FrozenCell, LogRow, MultiJobCampaign, RatioRow,
    Results, Spread,
};
use crate::multi_job::Outcome;

/// The version of `results.json`.
const SCHEMA: &str = "pliant.multi-job-campaign/1";

/// The record of a cell.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::campaign) enum Record {
    /// A log.
    Log {
        /// The log as clusters.
        log: LogRow,
        /// The prediction errors on it.
        errors: Vec<ErrorRow>,
    },
    /// Both policies of scenarios 1 and 2, over all starts.
    Frozen(Vec<FrozenCell>),
    /// All multi-jobs of one start of scenarios 3 and 4, after one delay.
    Arriving {
        /// The experiment.
        experiment: String,
        /// The log.
        log: String,
        /// The position of the start.
        start: usize,
        /// The position of the delay.
        delay: usize,
        /// One outcome for each multi-job and policy.
        outcomes: Vec<OutcomeRow>,
    },
}

/// A multi-job under a policy: positions of the number of instances, of their runtimes and of the policy; then expected
/// makespan and makespan in s, mean response in s, moves and replicas. A campaign has hundreds of thousands of these rows, so
/// they are written without names.
#[derive(Serialize, Deserialize)]
pub(in crate::campaign) struct OutcomeRow([usize; 3], i64, i64, f64, u64, u64);

impl OutcomeRow {
    pub(super) fn of(indices: [usize; 3], outcome: &Outcome) -> OutcomeRow {
        let Outcome { expected, makespan, mean_response_s, moves, replicas } = *outcome;
        OutcomeRow(indices, expected.0, makespan.0, mean_response_s, moves, replicas)
    }

    fn outcome(&self) -> Outcome {
        let OutcomeRow(_, expected, makespan, mean_response_s, moves, replicas) = *self;
        Outcome { expected: Span(expected), makespan: Span(makespan), mean_response_s, moves, replicas }
    }
}

/// A cell of scenarios 3 and 4: positions of the delay, of the number of instances, of their times and of the policy.
pub(super) type CellPosition = [usize; 4];

/// The input of results that is not in the records.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::campaign) struct Plan {
    draws: usize,
    frozen: Vec<ExperimentPlan>,
    arriving: Vec<ArrivingPlan>,
}

/// An experiment and its logs.
#[derive(Serialize, Deserialize)]
struct ExperimentPlan {
    name: String,
    logs: Vec<String>,
    processors: Vec<u32>,
    starts: usize,
    delays_s: Vec<i64>,
}

/// An experiment of scenarios 3 and 4.
#[derive(Serialize, Deserialize)]
struct ArrivingPlan {
    #[serde(flatten)]
    experiment: ExperimentPlan,
    instances: Vec<usize>,
    times: Vec<String>,
    policies: Vec<String>,
    /// The position of the reference policy.
    reference: Option<usize>,
}

impl Plan {
    pub(super) fn of(campaign: &MultiJobCampaign) -> Plan {
        let logs = |logs: &[usize]| logs.iter().map(|log| campaign.logs[*log].name.clone()).collect();
        let seconds = |delays: &[Span]| delays.iter().map(|delay| delay.0).collect();
        let frozen = |one: &Frozen| ExperimentPlan {
            name: one.name.clone(),
            logs: logs(&one.logs),
            processors: vec![1],
            starts: one.starts,
            delays_s: seconds(&one.delays),
        };
        let arriving = |one: &Arriving| ArrivingPlan {
            experiment: ExperimentPlan {
                name: one.name.clone(),
                logs: logs(&one.logs),
                processors: one.processors.clone(),
                starts: one.starts,
                delays_s: seconds(&one.delays),
            },
            instances: one.instances.clone(),
            times: one.times.iter().map(|times| times.label()).collect(),
            policies: one.policies.iter().map(|at| campaign.policies[*at].name.clone()).collect(),
            reference: one.policies.iter().position(|policy| Some(*policy) == one.reference),
        };
        Plan {
            draws: campaign.draws,
            frozen: campaign.frozen.iter().map(frozen).collect(),
            arriving: campaign.arriving.iter().map(arriving).collect(),
        }
    }
}

/// The outcomes of an experiment on a log, by start, each with its position.
type StartOutcomes = BTreeMap<usize, Vec<(CellPosition, Outcome)>>;

/// Builds results from the available records.
pub(super) fn collect(name: String, plan: &Plan, records: Vec<Record>) -> Results {
    let mut results = Results {
        schema: SCHEMA.to_owned(),
        name,
        draws: plan.draws,
        logs: Vec::new(),
        experiments: Vec::new(),
        frozen: Vec::new(),
        arriving: Vec::new(),
        ratios: Vec::new(),
        errors: Vec::new(),
    };
    let mut outcomes_of: BTreeMap<(String, String), StartOutcomes> = BTreeMap::new();
    for record in records {
        match record {
            Record::Log { log, errors } => {
                results.logs.push(log);
                results.errors.extend(errors);
            }
            Record::Frozen(pair) => results.frozen.extend(pair),
            Record::Arriving { experiment, log, start, delay, outcomes } => {
                let of_start = outcomes_of.entry((experiment, log)).or_default().entry(start).or_default();
                of_start.extend(outcomes.iter().map(|one| {
                    let OutcomeRow([count, time, policy], ..) = *one;
                    ([delay, count, time, policy], one.outcome())
                }));
            }
        }
    }
    let experiments = plan.frozen.iter().chain(plan.arriving.iter().map(|one| &one.experiment));
    results.experiments = experiments.flat_map(|one| experiment_rows(one, &results.logs)).collect();
    for experiment in &plan.arriving {
        for log in &experiment.experiment.logs {
            let key = (experiment.experiment.name.clone(), log.clone());
            if let Some(starts) = outcomes_of.remove(&key) {
                let starts: Vec<Vec<(CellPosition, Outcome)>> = starts.into_values().collect();
                results.arriving.extend(arriving_cells(experiment, log, &starts));
                results.ratios.extend(ratio_rows(experiment, log, &starts));
            }
        }
    }
    results
}

/// An experiment on its logs.
fn experiment_rows(plan: &ExperimentPlan, logs: &[LogRow]) -> Vec<ExperimentRow> {
    let delays: Vec<Span> = plan.delays_s.iter().map(|delay| Span(*delay)).collect();
    let longest = longest(&delays);
    let row = |log: &LogRow| ExperimentRow {
        experiment: plan.name.clone(),
        log: log.log.clone(),
        processors: plan.processors.clone(),
        starts: plan.starts,
        within_s: range(Span(log.span_s), longest).0,
        longest_delay_s: longest.0,
    };
    let of = |name: &String| logs.iter().find(|log| log.log == *name).map(row);
    plan.logs.iter().filter_map(of).collect()
}

fn arriving_cells(
    plan: &ArrivingPlan,
    log: &str,
    starts: &[Vec<(CellPosition, Outcome)>],
) -> Vec<ArrivingCell> {
    let mut by_cell: BTreeMap<CellPosition, Vec<Outcome>> = BTreeMap::new();
    for (indices, outcome) in starts.iter().flatten() {
        by_cell.entry(*indices).or_default().push(*outcome);
    }
    let mut cells = Vec::new();
    for (delay, delay_s) in plan.experiment.delays_s.iter().enumerate() {
        for (count, instances) in plan.instances.iter().enumerate() {
            for (time, times) in plan.times.iter().enumerate() {
                for (policy, name) in plan.policies.iter().enumerate() {
                    let outcomes = by_cell.remove(&[delay, count, time, policy]).unwrap_or_default();
                    cells.push(ArrivingCell {
                        experiment: plan.experiment.name.clone(),
                        log: log.to_owned(),
                        delay_s: *delay_s,
                        instances: *instances,
                        times: times.clone(),
                        policy: name.clone(),
                        ..cell(&outcomes)
                    });
                }
            }
        }
    }
    cells
}

fn cell(outcomes: &[Outcome]) -> ArrivingCell {
    let spread = |of: fn(&Outcome) -> f64| Spread::of(&outcomes.iter().map(of).collect::<Vec<_>>());
    ArrivingCell {
        makespan_s: spread(|outcome| outcome.makespan.0 as f64),
        response_s: spread(|outcome| outcome.mean_response_s),
        expected_s: spread(|outcome| outcome.expected.0 as f64).mean,
        moves: spread(|outcome| outcome.moves as f64).mean,
        copies: spread(|outcome| outcome.replicas as f64).mean,
        ..ArrivingCell::default()
    }
}

/// Compares the policies of an experiment with its reference, if it has one.
fn ratio_rows(plan: &ArrivingPlan, log: &str, starts: &[Vec<(CellPosition, Outcome)>]) -> Vec<RatioRow> {
    let Some(reference) = plan.reference else { return Vec::new() };
    let row = |policy: usize| RatioRow {
        experiment: plan.experiment.name.clone(),
        log: log.to_owned(),
        policy: plan.policies[policy].clone(),
        reference: plan.policies[reference].clone(),
        log_ratios: log_ratios(starts, policy, reference),
    };
    (0..plan.policies.len()).filter(|policy| *policy != reference).map(row).collect()
}
