//! `pliant what-if`: replays the history of the federation under other policies.

use clap::Args;
use pliant_client::History;
use pliant_control::job::JobRecord;
use pliant_model::{JobOutcome, Mebibytes, Procs, Run, Span, parse_amount};
use pliant_report::{Interval, mean_difference, summarize};
use pliant_sim::what_if::{WhatIfCluster, WhatIfError, WhatIfOutcome, WhatIfReplay};
use pliant_site::services::parse_duration;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::what_if_report::{Schedule, WhatIfReport, print};
use crate::failure::Failure;
use crate::federation::Access;
use crate::numbers::whole;
use crate::output::Output;
use crate::what_if_policy::{WhatIfPolicy, defaults};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Compares jobs that were submitted in the last TIME.
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = duration)]
    since: Span,
    /// A policy to replay: `none`, ALGORITHM[/HEURISTIC] or `now` (the policy in force), then changes as `,KEY=VALUE` of
    /// mapping, batch, tuner, slack, share, algorithm, heuristic, period, threshold or window. May be repeated
    /// [default: none and regular/mct].
    #[arg(long = "policy", value_name = "NAME")]
    policies: Vec<String>,
    /// The seed of the intervals and of random policies.
    #[arg(long, value_name = "SEED", default_value_t = 1, value_parser = whole(0..=u64::MAX))]
    seed: u64,
    /// Adds the start and the end of every compared job, recorded and replayed, to the JSON document.
    #[arg(long)]
    schedule: bool,
    /// Fails rather than use more memory than AMOUNT, such as 2G [default: no limit].
    #[arg(long, value_name = "AMOUNT", value_parser = parse_amount)]
    mem: Option<Mebibytes>,
    #[command(flatten)]
    access: Access,
}

fn duration(text: &str) -> Result<Span, String> {
    parse_duration(text).map_err(|error| format!("{error}; {}", error.hint()))
}

/// The metrics of the compared jobs in one run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct RunMetrics {
    pub(super) jobs: usize,
    pub(super) mean_response_s: f64,
    pub(super) median_response_s: f64,
    pub(super) mean_bounded_slowdown: f64,
    pub(super) moves: u64,
}

/// The outcome under a policy.
pub(super) struct Outcome {
    pub(super) what_if: WhatIfPolicy,
    pub(super) measures: RunMetrics,
    /// The difference of responses to the policy in force, job for job; none for that policy itself or for few jobs.
    pub(super) difference: Option<Interval>,
    /// How many jobs would have started too late for their deadlines.
    pub(super) too_late: u32,
}

/// How well the replay of the policy in force reproduces the recorded jobs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Calibration {
    /// The relative error of the mean response.
    pub(super) mean_response_error: f64,
    /// The median error of the end of a job.
    pub(super) median_end_error_s: f64,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    limit_memory(arguments.mem)?;
    let session = arguments.access.open()?;
    let history = session.run(session.client.history(arguments.since))?;
    let in_force = WhatIfPolicy::in_force(history.moving.map(|moving| moving.policy));
    let others = match arguments.policies.is_empty() {
        true => defaults(&in_force),
        false => {
            let read = arguments.policies.iter().map(|words| WhatIfPolicy::read(words, &in_force));
            read.collect::<Result<Vec<_>, _>>()?
        }
    };
    if history.servers.is_empty() {
        let failure = Failure::system("no server has answered with the description of its cluster");
        return Err(failure.hint("`pliant servers` lists the connected servers"));
    }
    let replay = load(&history).map_err(Failure::system)?;
    if replay.measured().is_empty() {
        let failure = Failure::input(format!(
            "expected jobs that were submitted since then and have run, found none of {} in the history",
            history.jobs.len()
        ));
        return Err(failure.hint("--since goes further back"));
    }
    let now = replay_policy(&replay, &in_force, arguments.seed)?;
    let mut schedules = Vec::new();
    if arguments.schedule {
        schedules.push(schedule("recorded", &replay, replay.measured().iter()));
        schedules.push(schedule(&in_force.name, &replay, now.jobs.iter().flatten()));
    }
    let mut outcomes = vec![outcome(&replay, &in_force, &now, None)];
    for what_if in others.into_iter().filter(|other| other.name != in_force.name) {
        let replayed = replay_policy(&replay, &what_if, arguments.seed)?;
        let difference = difference(&now, &replayed, arguments.seed);
        if arguments.schedule {
            schedules.push(schedule(&what_if.name, &replay, replayed.jobs.iter().flatten()));
        }
        outcomes.push(outcome(&replay, &what_if, &replayed, difference));
    }
    let live: Vec<JobOutcome> = replay.measured().to_vec();
    let moves = live.iter().map(|job| u64::from(job.moves)).sum();
    let report = WhatIfReport {
        since: history.since,
        until: history.now,
        counts: *replay.counts(),
        silent: history.silent.iter().map(|(info, why)| (info.name.to_string(), why.to_string())).collect(),
        early: history.moving.is_some_and(|moving| moving.early.is_some()),
        happened: measures(&replay, live, moves),
        calibration: calibration(&replay, &now),
        outcomes,
        clusters: platform(&replay),
        schedules,
    };
    print(output, &report)
}

/// Has allocations beyond that fail, which ends this process.
fn limit_memory(most: Option<Mebibytes>) -> Result<(), Failure> {
    let Some(most) = most else { return Ok(()) };
    let limit = Rlimit { current: Some(u64::from(most.0) << 20), ..getrlimit(Resource::Data) };
    setrlimit(Resource::Data, limit)
        .map_err(|error| Failure::system(format!("--mem: cannot limit memory: {error}")))
}

fn platform(replay: &WhatIfReplay) -> Vec<(String, Procs)> {
    replay.platform().clusters().iter().map(|cluster| (cluster.name.clone(), cluster.procs)).collect()
}

fn schedule<'a>(name: &str, replay: &WhatIfReplay, jobs: impl Iterator<Item = &'a JobOutcome>) -> Schedule {
    let place = |job: &JobOutcome| replay.measured().binary_search_by_key(&job.log_id, |one| one.log_id).ok();
    let jobs = jobs.filter_map(|job| Some((place(job)?, *job)));
    Schedule { name: name.to_owned(), jobs: jobs.collect() }
}

fn load(history: &History) -> Result<WhatIfReplay, WhatIfError> {
    let cluster = |(info, page): &(_, pliant_wire::LocalJobsPage)| WhatIfCluster {
        info: pliant_control::server_info::ServerInfo::clone(info),
        tuner: page.tuner,
        nodes: page.nodes.clone(),
        locals: page.jobs.clone(),
    };
    let records: &[JobRecord] = &history.jobs;
    WhatIfReplay::new(history.servers.iter().map(cluster).collect(), records, history.since)
}

fn replay_policy(replay: &WhatIfReplay, what_if: &WhatIfPolicy, seed: u64) -> Result<WhatIfOutcome, Failure> {
    let policies = what_if.policies(seed);
    let replay = replay.with_tuners(|server, present| {
        what_if.sizing.changed(present).map_err(|error| {
            Failure::input(format!("--policy {}: server {server}: {error}", what_if.name))
                .hint("name the tuner as well: tuner=slack")
        })
    })?;
    let replayed = match &what_if.batch {
        Some(batch) => replay.with_batch(batch).replay(&policies),
        None => replay.replay(&policies),
    };
    replayed.map_err(Failure::system)
}

fn outcome(
    replay: &WhatIfReplay,
    what_if: &WhatIfPolicy,
    replayed: &WhatIfOutcome,
    difference: Option<Interval>,
) -> Outcome {
    let jobs = replayed.jobs.iter().flatten().copied().collect();
    let (measures, too_late) = (measures(replay, jobs, replayed.moves), replayed.too_late);
    Outcome { what_if: what_if.clone(), measures, difference, too_late }
}

fn measures(replay: &WhatIfReplay, jobs: Vec<JobOutcome>, moves: u64) -> RunMetrics {
    let platform = replay.platform().clone();
    let count = jobs.len();
    let run = Run { platform, jobs, refused: Vec::new(), moves: Vec::new(), reallocations: moves };
    let summary = summarize(&run);
    RunMetrics {
        jobs: count,
        mean_response_s: summary.mean_response_s,
        median_response_s: summary.median_response_s,
        mean_bounded_slowdown: summary.mean_bounded_slowdown,
        moves,
    }
}

/// Over the jobs that ran under both policies.
fn difference(now: &WhatIfOutcome, other: &WhatIfOutcome, seed: u64) -> Option<Interval> {
    let pairs = now.jobs.iter().zip(&other.jobs).filter_map(|(now, other)| now.as_ref().zip(other.as_ref()));
    let differences: Vec<f64> = pairs.map(|(now, other)| (other.end - now.end).0 as f64).collect();
    mean_difference(&differences, seed)
}

fn calibration(replay: &WhatIfReplay, now: &WhatIfOutcome) -> Option<Calibration> {
    let pairs = replay.measured().iter().zip(&now.jobs).filter_map(|(live, job)| Some((live, job.as_ref()?)));
    let (mut live_s, mut replayed_s, mut errors) = (0.0, 0.0, Vec::new());
    for (live, replayed) in pairs {
        live_s += live.response().0 as f64;
        replayed_s += replayed.response().0 as f64;
        errors.push((replayed.end - live.end).0.abs() as f64);
    }
    errors.sort_by(f64::total_cmp);
    Some(Calibration {
        mean_response_error: (live_s > 0.0).then_some(replayed_s / live_s - 1.0)?,
        median_end_error_s: pliant_report::quantile(&errors, 0.5)?,
    })
}
