//! `pliant twin`: what the federation recorded, replayed under other policies.

use clap::Args;
use pliant_client::History;
use pliant_control::job::JobRecord;
use pliant_model::{JobOutcome, Run, Span};
use pliant_report::{Interval, mean_difference, summarize};
use pliant_sim::twin::{Replayed, Twin, TwinCluster, TwinError};
use pliant_site::services::parse_duration;

use super::twin_told::{Told, tell};
use crate::failure::Failure;
use crate::federation::Access;
use crate::numbers::whole;
use crate::output::Output;
use crate::what_if::{WhatIf, defaults};

#[derive(Args)]
pub(crate) struct Arguments {
    /// How far back: jobs submitted since then are compared.
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = duration)]
    since: Span,
    /// A policy to replay: `none`, ALGORITHM[/HEURISTIC] or `now` (the policy in force), then changes: `,KEY=VALUE` with
    /// mapping, batch, algorithm, heuristic, period, threshold or window. May be repeated [default: none and regular/mct].
    #[arg(long = "policy", value_name = "NAME")]
    policies: Vec<String>,
    /// Seed of the intervals and of policies that draw.
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = whole(0..=u64::MAX))]
    seed: u64,
    #[command(flatten)]
    access: Access,
}

fn duration(text: &str) -> Result<Span, String> {
    parse_duration(text).map_err(|error| format!("{error}; {}", error.hint()))
}

/// What the jobs that are compared were, in one run of them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Measures {
    pub(super) jobs: usize,
    pub(super) mean_response_s: f64,
    pub(super) median_response_s: f64,
    pub(super) mean_bounded_slowdown: f64,
    pub(super) moves: u64,
}

/// A policy, and what it would have made of it.
pub(super) struct Outcome {
    pub(super) what_if: WhatIf,
    pub(super) measures: Measures,
    /// Of the responses to those under the policy in force, job for job; none of that policy itself, or of too few jobs.
    pub(super) difference: Option<Interval>,
}

/// How well the replay of the policy in force follows what happened.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Calibration {
    /// Of the mean response, relative to what was measured.
    pub(super) mean_response_error: f64,
    /// Half of the jobs end closer than that to when they did.
    pub(super) median_end_error_s: f64,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let session = arguments.access.open()?;
    let history = session.run(session.client.history(arguments.since))?;
    let in_force = WhatIf::in_force(history.moving.map(|moving| moving.policy));
    let others = match arguments.policies.is_empty() {
        true => defaults(&in_force),
        false => {
            let read = arguments.policies.iter().map(|words| WhatIf::read(words, &in_force));
            read.collect::<Result<Vec<_>, _>>()?
        }
    };
    if history.servers.is_empty() {
        let failure = Failure::system("no server of the federation tells what its cluster is like");
        return Err(failure.hint("`pliant servers` says which are there"));
    }
    let twin = twin(&history).map_err(Failure::system)?;
    if twin.measured().is_empty() {
        let failure = Failure::input(format!(
            "expected jobs that were submitted since then and have run, found none of {} in the record",
            history.jobs.len()
        ));
        return Err(failure.hint("--since goes further back"));
    }
    let now = replay(&twin, &in_force, arguments.seed)?;
    let mut outcomes = vec![outcome(&twin, &in_force, &now, None)];
    for what_if in others.into_iter().filter(|other| other.name != in_force.name) {
        let replayed = replay(&twin, &what_if, arguments.seed)?;
        let difference = difference(&now, &replayed, arguments.seed);
        outcomes.push(outcome(&twin, &what_if, &replayed, difference));
    }
    let live: Vec<JobOutcome> = twin.measured().to_vec();
    let moves = live.iter().map(|job| u64::from(job.moves)).sum();
    let told = Told {
        since: history.since,
        until: history.now,
        counts: *twin.counts(),
        silent: history.silent.iter().map(|(info, why)| (info.name.to_string(), why.to_string())).collect(),
        early: history.moving.is_some_and(|moving| moving.early.is_some()),
        happened: measures(&twin, live, moves),
        calibration: calibration(&twin, &now),
        outcomes,
    };
    tell(output, &told)
}

fn twin(history: &History) -> Result<Twin, TwinError> {
    let cluster = |(info, page): &(_, pliant_wire::LocalsPage)| TwinCluster {
        info: pliant_control::server_info::ServerInfo::clone(info),
        tuner: page.tuner,
        nodes: page.nodes.clone(),
        locals: page.jobs.clone(),
    };
    let records: &[JobRecord] = &history.jobs;
    Twin::new(history.servers.iter().map(cluster).collect(), records, history.since)
}

fn replay(twin: &Twin, what_if: &WhatIf, seed: u64) -> Result<Replayed, Failure> {
    let policies = what_if.policies(seed);
    let twin = twin.with_tuners(|server, present| {
        what_if.sizing.changed(present).map_err(|error| {
            Failure::input(format!("--policy {}: server {server}: {error}", what_if.name))
                .hint("name the tuner as well: tuner=slack")
        })
    })?;
    let replayed = match &what_if.batch {
        Some(batch) => twin.with_batch(batch).replay(&policies),
        None => twin.replay(&policies),
    };
    replayed.map_err(Failure::system)
}

fn outcome(twin: &Twin, what_if: &WhatIf, replayed: &Replayed, difference: Option<Interval>) -> Outcome {
    let jobs = replayed.jobs.iter().flatten().copied().collect();
    Outcome { what_if: what_if.clone(), measures: measures(twin, jobs, replayed.moves), difference }
}

fn measures(twin: &Twin, jobs: Vec<JobOutcome>, moves: u64) -> Measures {
    let platform = twin.platform().clone();
    let count = jobs.len();
    let run = Run { platform, jobs, refused: Vec::new(), moves: Vec::new(), reallocations: moves };
    let summary = summarize(&run);
    Measures {
        jobs: count,
        mean_response_s: summary.mean_response_s,
        median_response_s: summary.median_response_s,
        mean_bounded_slowdown: summary.mean_bounded_slowdown,
        moves,
    }
}

/// Of the jobs that ran under both.
fn difference(now: &Replayed, other: &Replayed, seed: u64) -> Option<Interval> {
    let pairs = now.jobs.iter().zip(&other.jobs).filter_map(|(now, other)| now.as_ref().zip(other.as_ref()));
    let differences: Vec<f64> = pairs.map(|(now, other)| (other.end - now.end).0 as f64).collect();
    mean_difference(&differences, seed)
}

fn calibration(twin: &Twin, now: &Replayed) -> Option<Calibration> {
    let pairs = twin.measured().iter().zip(&now.jobs).filter_map(|(live, job)| Some((live, job.as_ref()?)));
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
