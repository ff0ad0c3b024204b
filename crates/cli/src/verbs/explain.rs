//! `pliant explain`: explains why a job is at its server, or why it waits.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use pliant_client::{PlacementReason, placement_reason};
use pliant_control::explain::{Explanation, Release, Shortage, Wait};
use pliant_control::job::{ComparedEstimate, EstimateChange, Hop, JobRecord, SizeChoice};
use pliant_control::names::{Handle, Name};
use pliant_control::reason::{Cause, DiscoverySummary};
use pliant_model::{Estimate, Mebibytes, MoveReason, Span, Time};
use pliant_policy::batch::order::{Factor, PriorityParts};
use pliant_policy::tuning::slack::{self, Saving};
use pliant_site::services::show_duration;
use serde_json::{Value, json};

use super::moves::described as moved_value;
use crate::failure::Failure;
use crate::federation::Access;
use crate::job::{change, described, estimate};
use crate::output::Output;
use crate::table::{Table, counted};
use crate::time_text::{both, from_now, known, moment, rough};

/// How many running jobs are listed.
const SHOWN: usize = 12;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The job ID.
    #[arg(value_name = "JOB")]
    handle: Handle,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let session = arguments.access.open()?;
    let explanation = session.run(session.client.explain(&arguments.handle))?;
    output.print("explain", || text(&explanation), value(&explanation))
}

fn value(explanation: &Explanation) -> Value {
    let Explanation { record, at, waits, unplanned } = explanation;
    let compared = |one: &ComparedEstimate| {
        let mut value = estimate(&one.estimate);
        value["server"] = json!(one.server);
        value["chosen"] = json!(one.server == record.handle.server);
        value
    };
    let changed = |change: &EstimateChange| {
        let mut value = estimate(&change.plan);
        value["at_s"] = json!(change.at);
        value
    };
    json!({
        "job": described(record),
        "at_s": at,
        "compared": record.compared.iter().map(compared).collect::<Vec<Value>>(),
        "discovery": discovery_value(&record.discovery),
        "reason": placement_reason(record).word(),
        "estimates": record.estimates.iter().map(changed).collect::<Vec<Value>>(),
        "moves": record.hops.iter().map(|hop| moved_value(&record.handle, hop)).collect::<Vec<Value>>(),
        "size_choice": record.size_choice.as_ref().map(|choice| size_value(choice, &record.expected)),
        "waits": waits.as_ref().map(wait_value),
        "unplanned": unplanned,
    })
}

/// The answers of the other servers; none if they are not known.
fn discovery_value(discovery: &DiscoverySummary) -> Option<Value> {
    let passed = |(server, cause): &(Name, Cause)| json!({ "server": server, "cause": cause.word() });
    let DiscoverySummary { servers, answered, not_asked, passed: list } = discovery;
    (!discovery.is_empty()).then(|| {
        json!({
            "servers": servers,
            "answered": answered,
            "not_asked": not_asked,
            "passed": list.iter().map(passed).collect::<Vec<Value>>(),
        })
    })
}

fn wait_value(wait: &Wait) -> Value {
    let release = |one: &Release| json!({ "job_id": one.handle, "end_s": one.end, "procs": one.procs });
    json!({
        "ahead": wait.ahead,
        "free_procs": wait.free,
        "plan": estimate(&wait.plan),
        "until": wait.until.iter().map(release).collect::<Vec<Value>>(),
        "siblings": wait.siblings,
        "priority": wait.priority.as_ref().map(priority_value),
        "operator_priority": (wait.operator_priority != 0).then_some(wait.operator_priority),
        "shortages": wait.shortages,
    })
}

fn priority_value(parts: &PriorityParts) -> Value {
    let PriorityParts { age, size, fair_share, class } = parts;
    let factor = |factor: &Factor| json!({ "value": factor.value, "weight": factor.weight });
    json!({
        "total": parts.total(),
        "age": factor(age),
        "size": factor(size),
        "fair_share": factor(fair_share),
        "class": class,
    })
}

fn why(record: &JobRecord) -> String {
    let server = &record.handle.server;
    let apart = |other: &ComparedEstimate| {
        let chosen = record.compared.iter().find(|one| one.server == *server);
        let ends = chosen.unwrap_or(other).estimate.completion();
        rough(Span((ends - other.estimate.completion()).0.abs()))
    };
    // The comparison decided about its first server.
    let is = if record.hops.is_empty() { "is" } else { "was first" };
    match placement_reason(record) {
        PlacementReason::Unknown => {
            format!("It {is} on {server}; which estimates were compared is not known.\n")
        }
        PlacementReason::Only => {
            format!("It {is} on {server}: no other server was asked, or no other server can take it.\n")
        }
        PlacementReason::Earliest(next) => {
            let (apart, next) = (apart(next), &next.server);
            format!("It {is} on {server}, which completes it first: {apart} before {next}.\n")
        }
        PlacementReason::Tie(other) => format!(
            "It {is} on {server}: {} completes it at the same time and comes later by rank, then by name.\n",
            other.server
        ),
        PlacementReason::PassedOver(other) => format!(
            "It {is} on {server}: {} would have completed it {} earlier, but could not be reached or did not take \
             it when it was submitted.\n",
            other.server,
            apart(other)
        ),
    }
}

fn text(explanation: &Explanation) -> String {
    let Explanation { record, at, waits, unplanned } = explanation;
    let mut text = format!("{} ({} of {})\n", state(explanation), record.name, record.owner);
    text.push_str(&format!("Submitted {}.\n", both(record.submitted, *at)));
    text.push_str(&needs(record));
    text.push('\n');
    if !record.compared.is_empty() {
        text.push_str("Estimates when it was submitted:\n");
        text.push_str(&compared(record));
        text.push_str(&others(record));
        text.push('\n');
    }
    text.push_str(&why(record));
    text.push_str(&moves(record));
    text.push_str(&promised(record, *at));
    text.push_str(&changes(record, *at));
    text.push_str(&record.size_choice.map_or_else(String::new, |choice| size(&choice, &record.expected)));
    if let Some(wait) = waits {
        text.push('\n');
        text.push_str(&waiting(wait, *at));
    }
    if let Some(why) = unplanned {
        text.push_str(&format!("\nIt waits, and has no planned start: {why}.\n"));
    }
    text
}

/// The job with its state, and when it is expected to start by its present plan.
fn state(explanation: &Explanation) -> String {
    let Explanation { record, at, waits, unplanned } = explanation;
    match (waits, unplanned) {
        (Some(wait), _) => {
            format!(
                "{} {}, expected to start {}",
                record.handle,
                record.state,
                from_now(wait.plan.start, *at)
            )
        }
        (None, Some(_)) => format!("{} {}", record.handle, record.state),
        (None, None) => change(record, *at),
    }
}

/// What it needs besides processors, and how many GPUs its size has.
fn needs(record: &JobRecord) -> String {
    let needed = record.work.resources.as_ref().map(|needed| format!("It needs {needed}.\n"));
    let procs = counted(record.procs.0.into(), "processor");
    let gpus = record.gpus.map(|gpus| format!("On {procs} it has {}.\n", counted(gpus.into(), "GPU")));
    needed.into_iter().chain(gpus).collect()
}

fn compared(record: &JobRecord) -> String {
    let mut table = Table::new(4, &["", "server", "start", "completion", "procs", "walltime"]);
    for ComparedEstimate { server, estimate } in &record.compared {
        let mark = if *server == record.handle.server { "*" } else { "" };
        table.row(vec![
            mark.to_owned(),
            server.to_string(),
            moment(estimate.start),
            moment(estimate.completion()),
            estimate.procs.to_string(),
            show_duration(estimate.walltime),
        ]);
    }
    table.render()
}

/// Why other servers are not in the table, or did not take the job, as far as it was reported.
fn others(record: &JobRecord) -> String {
    let DiscoverySummary { servers, answered, not_asked, passed } = &record.discovery;
    let mut shown: BTreeMap<Cause, Vec<&str>> = BTreeMap::new();
    for (server, cause) in passed {
        let names = shown.entry(*cause).or_default();
        if !names.contains(&server.as_str()) {
            names.push(server.as_str());
        }
    }
    let line =
        |(cause, names): (&Cause, &Vec<&str>)| format!("Not {}: {}.\n", names.join(", "), why_not(*cause));
    let mut text: String = shown.iter().map(line).collect();
    let named: BTreeSet<&Name> = record.compared.iter().map(|one| &one.server).collect();
    let named = named.union(&passed.iter().map(|(server, _)| server).collect()).count();
    // Each level of agents passes on the best few estimates and the first few refusals.
    if *servers as usize > named {
        text.push_str(&format!(
            "{answered} of {} answered; the best estimates were compared.\n",
            counted((*servers).into(), "server")
        ));
    }
    if *not_asked > 0 {
        text.push_str(&format!(
            "Not asked: {}. By what was reported to the agents, none of them could complete it earlier.\n",
            counted((*not_asked).into(), "server")
        ));
    }
    text
}

/// Why servers do not take a job.
fn why_not(cause: Cause) -> &'static str {
    match cause {
        Cause::Unknown => "refused for a reason that this version does not know",
        Cause::NotOffered => "not offered there, or not to this user",
        Cause::Invalid => "the arguments or files are not valid there",
        Cause::TooLarge => "too small",
        Cause::TooLong => "longer than a job may be there",
        Cause::TooMany => "too many jobs of this user waited there",
        Cause::Stale => "its estimate was out of date when the job arrived",
        Cause::KeyTaken => "another job had the same key",
        Cause::NoNumbersLeft => "no job numbers were left",
        Cause::NoAnswer => "no answer in time",
        Cause::NotConnected => "not connected",
        Cause::Unreachable => "unreachable, or refused the call",
        Cause::Busy => "too much to do",
        Cause::Stopping => "was being stopped",
        Cause::BatchSystem => "its batch system was down, or accepted no jobs",
        Cause::NoAccount => "this user has no account there",
        Cause::Drained => "an operator had drained it",
        Cause::Banned => "an operator had banned this user",
        Cause::Resources => "it did not have, or did not count, the resources that the job needs",
        Cause::Deadline => "it would have completed the job after its deadline",
        Cause::NoData => "data that the call names were not there",
        Cause::DataBounds => "the user had too much data there",
    }
}

/// The estimates as they changed while the job waited.
fn changes(record: &JobRecord, now: Time) -> String {
    let one = |change: &EstimateChange| {
        let EstimateChange { at, plan } = change;
        let (start, end) = (both(plan.start, now), moment(plan.completion()));
        format!("{}: planned to start at {start} and to complete at {end}\n", moment(*at))
    };
    match record.estimates.is_empty() {
        true => String::new(),
        false => {
            format!("Estimates as they changed:\n{}", record.estimates.iter().map(one).collect::<String>())
        }
    }
}

/// The moves of the job.
fn moves(record: &JobRecord) -> String {
    let one = |hop: &Hop| {
        let came = match hop.reason {
            MoveReason::FirstStart => "A sibling job was the first to start: moved",
            MoveReason::Drained => "An operator had drained its server: moved",
            MoveReason::EarlierCompletion | MoveReason::Resubmitted => "Moved",
        };
        let after = moment(hop.expected.completion());
        let why = match known(hop.before) {
            Some(before) => {
                format!("was expected to complete at {} there and at {after} here", moment(before))
            }
            None => format!("was not planned there, and was expected to complete at {after} here"),
        };
        format!("{came} from {} to {} at {}: it {why}.\n", hop.from, hop.to, moment(hop.at))
    };
    record.hops.iter().map(one).collect()
}

/// The estimate of the server when it accepted the job.
fn promised(record: &JobRecord, now: Time) -> String {
    let Estimate { procs, walltime, start } = record.expected;
    // The time from now is shown for future times only.
    let to_come = record.started.is_none() && !record.state.is_final();
    let shown = |time| if to_come { both(time, now) } else { moment(time) };
    format!(
        "{} promised {} for {}, start {}, completion {}.\n",
        record.server(),
        counted(procs.0.into(), "processor"),
        show_duration(walltime),
        shown(start),
        shown(record.expected.completion())
    )
}

/// What a larger size would have gained for the job and cost others.
fn size(choice: &SizeChoice, chosen: &Estimate) -> String {
    let SizeChoice { earliest, other_jobs } = choice;
    let Saving { later, processor_s } = slack::saving(chosen, earliest);
    let cost = match processor_s {
        1.. => format!(
            " and take {processor_s} more processor-seconds from {} there",
            counted((*other_jobs).into(), "other job")
        ),
        _ => String::new(),
    };
    format!(
        "With {} it would complete {} earlier{cost}.\n",
        counted(earliest.procs.0.into(), "processor"),
        show_duration(later),
    )
}

fn size_value(choice: &SizeChoice, chosen: &Estimate) -> Value {
    let Saving { later, processor_s } = slack::saving(chosen, &choice.earliest);
    json!({
        "earliest": estimate(&choice.earliest),
        "other_jobs": choice.other_jobs,
        "later_s": later,
        "saved_processor_s": processor_s,
    })
}

fn waiting(wait: &Wait, now: Time) -> String {
    let Wait { ahead, plan, free, until, siblings, priority, operator_priority, shortages } = wait;
    let ahead = match ahead {
        0 => "no job is ahead of it".to_owned(),
        1 => "1 job is ahead of it".to_owned(),
        ahead => format!("{ahead} jobs are ahead of it"),
    };
    let mut text = format!(
        "It waits: {ahead}; it needs {}, {} free now.\n{}Planned start {}",
        counted(plan.procs.0.into(), "processor"),
        free.0,
        too_little(shortages),
        both(plan.start, now)
    );
    let siblings: Vec<&str> = siblings.iter().map(Name::as_str).collect();
    let siblings = match siblings[..] {
        [] => String::new(),
        _ => format!("Sibling jobs wait at {}: the first to start runs.\n", siblings.join(", ")),
    };
    let given = match operator_priority {
        0 => String::new(),
        _ => format!("Priority {operator_priority} by an operator, before all else.\n"),
    };
    let last = siblings + &given + &priority.as_ref().map_or_else(String::new, priority_text);
    if until.is_empty() {
        text.push_str(".\n");
        return text + &last;
    }
    text.push_str(", when these running jobs have ended:\n");
    // The last ones decide.
    let from = until.len().saturating_sub(SHOWN);
    if from > 0 {
        text.push_str(&format!("  {} before these\n", counted(from as u64, "job")));
    }
    let mut table = Table::new(2, &["  job", "end at the latest", "procs"]);
    for Release { handle, end, procs } in &until[from..] {
        let whose = handle.as_ref().map_or_else(|| "another user's".to_owned(), Handle::to_string);
        table.row(vec![format!("  {whose}"), both(*end, now), procs.to_string()]);
    }
    text.push_str(&table.render());
    text + &last
}

/// What there is too little of, besides processors.
fn too_little(shortages: &[Shortage]) -> String {
    let amount = |resource: &str, amount: u32| match resource {
        "memory" | "scratch" => Mebibytes(amount).to_string(),
        _ => amount.to_string(),
    };
    let others = shortages.iter().filter(|one| one.resource != "processors");
    let each = others.map(|Shortage { resource, needed, free }| {
        let name = match resource.as_str() {
            "memory" => "memory".to_owned(),
            "scratch" => "local disk space".to_owned(),
            "gpus" => "GPUs".to_owned(),
            other => other.replacen("licences:", "licences of ", 1),
        };
        format!("{name} ({} needed, {} free)", amount(resource, *needed), amount(resource, *free))
    });
    match each.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => String::new(),
        each => format!("Running jobs leave too little of: {each}.\n"),
    }
}

/// The priority with its parts: the value of each factor times its weight.
fn priority_text(parts: &PriorityParts) -> String {
    let PriorityParts { age, size, fair_share, class } = parts;
    let factor = |name: &str, factor: &Factor| format!("{name} {:.3} x {}", factor.value, factor.weight);
    let factors = [factor("age", age), factor("size", size), factor("fair share", fair_share)].join(" + ");
    let class = if *class == 0 { String::new() } else { format!(" + class {class}") };
    format!("Priority {:.3}: {factors}{class}.\n", parts.total())
}

#[cfg(test)]
mod tests;
