//! The second half of `pliant demo`: replays the recorded journal under other policies.

use pliant_control::job::JobRecord;
use pliant_control::server_info::ServerInfo;
use pliant_journal::{Filter, open_sqlite};
use pliant_model::{Run, Span};
use pliant_policy::mapping::Mapping;
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};
use pliant_report::summarize;
use pliant_sim::recorded::Recorded;
use pliant_sim::{NoObserver, Policies, simulate};
use serde_json::json;

use crate::failure::Failure;
use crate::local::{Folder, server_infos};
use crate::output::Output;
use crate::table::Table;

/// Time between two reallocation events: the paper's hour, for a day that lasts a minute.
const PERIOD: Span = Span(5);
/// The least gain for which a job is moved.
const THRESHOLD: Span = Span(1);

/// A policy of the comparison.
struct ComparedPolicy {
    name: &'static str,
    batch: Option<&'static str>,
    mapping: Mapping,
    reallocation: Option<Algorithm>,
}

const OTHERS: [ComparedPolicy; 7] = [
    ComparedPolicy { name: "what ran: cbf, mct", batch: None, mapping: Mapping::Mct, reallocation: None },
    ComparedPolicy {
        name: "waiting jobs moved (MCT-reg)",
        batch: None,
        mapping: Mapping::Mct,
        reallocation: Some(Algorithm::Regular),
    },
    ComparedPolicy {
        name: "all resubmitted (MCT-can)",
        batch: None,
        mapping: Mapping::Mct,
        reallocation: Some(Algorithm::AllCancellation),
    },
    ComparedPolicy {
        name: "all resubmitted, none worse",
        batch: None,
        mapping: Mapping::Mct,
        reallocation: Some(Algorithm::NoWorse),
    },
    ComparedPolicy {
        name: "easy backfilling",
        batch: Some("easy"),
        mapping: Mapping::Mct,
        reallocation: None,
    },
    ComparedPolicy {
        name: "first come, first served",
        batch: Some("fcfs"),
        mapping: Mapping::Mct,
        reallocation: None,
    },
    ComparedPolicy {
        name: "clusters drawn at random",
        batch: None,
        mapping: Mapping::Random,
        reallocation: None,
    },
];

/// The result of a replay.
struct PolicyResult {
    name: &'static str,
    mean_response_s: f64,
    makespan_s: i64,
    moves: u64,
}

/// Replays the agent's journal of a stopped federation.
pub(crate) fn run(output: Output, folder: &Folder, accepted: Vec<JobRecord>) -> Result<(), Failure> {
    let journal = open_sqlite(&folder.agent_state()).map_err(Failure::system)?;
    let mut archive = journal.archive().map_err(Failure::system)?;
    let rows = archive.jobs(&Filter { limit: 100_000, ..Filter::default() }).map_err(Failure::system)?;
    let records: Vec<JobRecord> = rows
        .iter()
        .map(|row| serde_json::from_str(&row.record))
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::system(format!("a record of the journal cannot be read: {error}")))?;
    if records.len() != accepted.len() {
        let (expected, found) = (accepted.len(), records.len());
        return Err(Failure::system(format!(
            "expected {expected} jobs in the agent's journal, found {found}"
        )));
    }
    let servers: Vec<ServerInfo> = server_infos(folder)?;
    let recorded = Recorded::new(servers, records).map_err(Failure::system)?;
    let replayed = OTHERS.iter().map(|other| replay(&recorded, other)).collect::<Result<Vec<_>, _>>()?;
    let text = || {
        let mut table =
            Table::new(1, &["policy", "mean response s", "vs. what ran %", "last end s", "moves"]);
        let live = recorded.mean_response_s();
        table.row(vec![
            "measured live".to_owned(),
            format!("{live:.1}"),
            String::new(),
            recorded.makespan().0.to_string(),
            "0".to_owned(),
        ]);
        let reference = replayed.first().map_or(live, |first| first.mean_response_s);
        for one in &replayed {
            table.row(vec![
                format!("simulated {}", one.name),
                format!("{:.1}", one.mean_response_s),
                format!("{:+.1}", 100.0 * (one.mean_response_s / reference - 1.0)),
                one.makespan_s.to_string(),
                one.moves.to_string(),
            ]);
        }
        format!(
            "The agent's journal ({} jobs), run again in the simulator under other policies:\n\n{}\n{}",
            recorded.jobs.len(),
            table.render(),
            findings(live, &replayed)
        )
    };
    let row = |one: &PolicyResult| {
        json!({
            "policy": one.name,
            "mean_response_s": one.mean_response_s,
            "makespan_s": one.makespan_s,
            "moves": one.moves,
        })
    };
    let value = json!({
        "jobs": recorded.jobs.len(),
        "live": { "mean_response_s": recorded.mean_response_s(), "makespan_s": recorded.makespan().0 },
        "simulated": replayed.iter().map(row).collect::<Vec<_>>(),
    });
    output.print("demo", text, value)
}

fn replay(recorded: &Recorded, other: &ComparedPolicy) -> Result<PolicyResult, Failure> {
    let reallocation = other.reallocation.map(|algorithm| Reallocation {
        period: PERIOD,
        threshold: THRESHOLD,
        ..Reallocation::new(algorithm, Heuristic::Mct)
    });
    let mut clusters = recorded.platform.clusters().to_vec();
    for cluster in &mut clusters {
        if let Some(batch) = other.batch {
            batch.clone_into(&mut cluster.batch);
        }
    }
    let platform = pliant_model::Platform::new(clusters).map_err(Failure::system)?;
    let policies = Policies { mapping: other.mapping, reallocation, ..Policies::default() };
    let run: Run =
        simulate(&platform, &recorded.jobs, &policies, &mut NoObserver).map_err(Failure::system)?;
    let summary = summarize(&run);
    let last = run.jobs.iter().map(|job| job.end.0).max().unwrap_or(0);
    Ok(PolicyResult {
        name: other.name,
        mean_response_s: summary.mean_response_s,
        makespan_s: last,
        moves: run.reallocations,
    })
}

fn findings(live: f64, replayed: &[PolicyResult]) -> String {
    let Some(first) = replayed.first() else { return String::new() };
    let error = 100.0 * (first.mean_response_s / live - 1.0);
    let best =
        replayed.iter().min_by(|a, b| a.mean_response_s.total_cmp(&b.mean_response_s)).unwrap_or(first);
    let best = if best.mean_response_s < first.mean_response_s {
        format!("Best here: {}.", best.name)
    } else {
        "No other policy is better here: with so few jobs there is little to gain.".to_owned()
    };
    format!("Under the policy that ran, the simulator is {error:+.1} % off the measurement. {best}\n")
}
