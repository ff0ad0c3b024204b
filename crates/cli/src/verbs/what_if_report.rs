//! The report of `pliant what-if`, for people and for scripts.

use pliant_model::{JobOutcome, Procs, Time};
use pliant_report::{Interval, JOBS_MIN};
use pliant_sim::what_if::Counts;
use serde_json::{Value, json};

use super::what_if::{Calibration, Outcome, RunMetrics};
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Table, counted, grouped};
use crate::time_text::moment;

/// The results of all replays.
pub(super) struct WhatIfReport {
    pub(super) since: Time,
    pub(super) until: Time,
    pub(super) counts: Counts,
    /// Servers that did not answer, and why.
    pub(super) silent: Vec<(String, String)>,
    /// The agent also starts a cycle when a cluster frees early.
    pub(super) early: bool,
    pub(super) happened: RunMetrics,
    pub(super) calibration: Option<Calibration>,
    /// The outcomes; the policy in force is the first.
    pub(super) outcomes: Vec<Outcome>,
    /// The clusters, in the order of the schedules.
    pub(super) clusters: Vec<(String, Procs)>,
    /// What happened and what would have happened, job for job, if that was asked for.
    pub(super) schedules: Vec<Schedule>,
}

/// The compared jobs of a run.
pub(super) struct Schedule {
    pub(super) name: String,
    /// Each job with its place in the order of submission.
    pub(super) jobs: Vec<(usize, JobOutcome)>,
}

impl Schedule {
    fn value(&self, report: &WhatIfReport) -> Value {
        let job = |(number, job): &(usize, JobOutcome)| {
            json!({
                "number": number,
                "server": report.clusters.get(job.cluster.0 as usize).map(|(name, _)| name),
                "submitted_s": report.since.0 + job.submit.0,
                "started_s": report.since.0 + job.start.0,
                "ended_s": report.since.0 + job.end.0,
                "procs": job.procs,
                "moves": job.moves,
            })
        };
        json!({ "name": self.name, "jobs": self.jobs.iter().map(job).collect::<Vec<Value>>() })
    }
}

/// Prints the report.
pub(super) fn print(output: Output, report: &WhatIfReport) -> Result<(), Failure> {
    output.print("what-if", || text(report), value(report))
}

fn text(report: &WhatIfReport) -> String {
    let WhatIfReport { since, until, counts, silent, happened, calibration, outcomes, .. } = report;
    let mut text = format!(
        "{} to {}: {} of the federation and {} of local users\n",
        moment(*since),
        moment(*until),
        counted(counts.compared.into(), "job"),
        grouped(counts.locals.into()),
    );
    let Counts { before, unfinished, never_ran, elsewhere, with_resources, with_nice, requeued, .. } =
        *counts;
    for (count, what) in [
        (before, "submitted before: load, not compared"),
        (unfinished, "not ended: load that runs to its walltime, not compared"),
        (never_ran, "never ran: left out"),
        (elsewhere, "on servers that did not answer: left out"),
        (with_resources, "with memory, GPUs, licences or nodes: replayed by their processors alone"),
        (with_nice, "with --nice: replayed in the order of submission"),
        (requeued, "that ran again after a failure: only the last run is replayed"),
    ] {
        if count > 0 {
            text.push_str(&format!("  {} {what}\n", grouped(count.into())));
        }
    }
    for (server, why) in silent {
        text.push_str(&format!("  no history from {server}: {why}\n"));
    }
    text.push('\n');
    let header = [
        "policy",
        "jobs",
        "mean response s",
        "median s",
        "slowdown",
        "moves",
        "difference s",
        "95 % interval",
    ];
    let mut table = Table::new(1, &header);
    table.row(row("recorded", happened, None));
    for (index, outcome) in outcomes.iter().enumerate() {
        let name = format!("replayed: {}", outcome.what_if.name);
        let mut cells = row(&name, &outcome.measures, outcome.difference);
        if index > 0 && outcome.difference.is_none() {
            cells.extend(["-".to_owned(), format!("needs {JOBS_MIN} jobs")]);
        }
        table.row(cells);
    }
    text.push_str(&table.render());
    text.push('\n');
    for Outcome { what_if, too_late, .. } in outcomes.iter().filter(|outcome| outcome.too_late > 0) {
        text.push_str(&format!(
            "{} of {} with a deadline would not have run under {}: too late\n",
            grouped(u64::from(*too_late)),
            counted(counts.with_deadline.into(), "job"),
            what_if.name
        ));
    }
    text.push_str(&calibration.as_ref().map_or_else(String::new, trust));
    if report.early {
        text.push_str(
            "The agent also moves jobs when a cluster frees early; replays start a cycle every period only.\n",
        );
    }
    text
}

fn row(name: &str, measures: &RunMetrics, difference: Option<Interval>) -> Vec<String> {
    let mut cells = vec![
        name.to_owned(),
        grouped(measures.jobs as u64),
        format!("{:.1}", measures.mean_response_s),
        format!("{:.1}", measures.median_response_s),
        format!("{:.2}", measures.mean_bounded_slowdown),
        grouped(measures.moves),
    ];
    if let Some(Interval { mean, low, high }) = difference {
        cells.extend([format!("{mean:+.1}"), format!("{low:+.1} to {high:+.1}")]);
    }
    cells
}

/// How far to trust the replay.
fn trust(calibration: &Calibration) -> String {
    let Calibration { mean_response_error, median_end_error_s } = calibration;
    format!(
        "Replayed under the policy in force, the mean response differs by {:+.1} % from the recorded one, and half of the \
         jobs end within {median_end_error_s:.0} s of their recorded end. Differences are between replays; a difference \
         that is smaller than this error has no meaning, whatever its interval.\n",
        100.0 * mean_response_error
    )
}

fn value(report: &WhatIfReport) -> Value {
    let measures = |measures: &RunMetrics| {
        json!({
            "jobs": measures.jobs,
            "mean_response_s": measures.mean_response_s,
            "median_response_s": measures.median_response_s,
            "mean_bounded_slowdown": measures.mean_bounded_slowdown,
            "moves": measures.moves,
        })
    };
    let outcome = |outcome: &Outcome| {
        let mut value = measures(&outcome.measures);
        value["policy"] = outcome.what_if.value();
        value["difference_s"] = json!(outcome.difference);
        value["too_late"] = json!(outcome.too_late);
        value
    };
    let Counts { compared, before, unfinished, never_ran, elsewhere, locals, .. } = report.counts;
    let Counts { with_resources, with_nice, requeued, with_deadline, .. } = report.counts;
    let silent = report.silent.iter().map(|(server, why)| json!({ "server": server, "why": why }));
    let calibration = report.calibration.map(|found| {
        json!({
            "mean_response_error": found.mean_response_error,
            "median_end_error_s": found.median_end_error_s,
        })
    });
    let mut document = json!({
        "since_s": report.since,
        "until_s": report.until,
        "jobs": {
            "compared": compared,
            "before": before,
            "unfinished": unfinished,
            "never_ran": never_ran,
            "elsewhere": elsewhere,
            "local": locals,
            "with_resources": with_resources,
            "with_nice": with_nice,
            "requeued": requeued,
            "with_deadline": with_deadline,
        },
        "silent": silent.collect::<Vec<Value>>(),
        "happened": measures(&report.happened),
        "calibration": calibration,
        "replayed": report.outcomes.iter().map(outcome).collect::<Vec<Value>>(),
    });
    if !report.schedules.is_empty() {
        let cluster = |(name, procs): &(String, Procs)| json!({ "server": name, "procs": procs });
        document["clusters"] = report.clusters.iter().map(cluster).collect();
        document["schedules"] = report.schedules.iter().map(|schedule| schedule.value(report)).collect();
    }
    document
}
