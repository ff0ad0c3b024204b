//! `pliant explain`: explains why a job is at its server, or why it waits.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use pliant_control::explain::{Explanation, Release, Wait};
use pliant_control::job::{ComparedEstimate, Hop, JobRecord, SizeChoice};
use pliant_control::names::{Handle, Name};
use pliant_control::reason::{Cause, DiscoverySummary};
use pliant_model::{Estimate, MoveReason, Span, Time};
use pliant_policy::completion::is_earlier;
use pliant_policy::tuning::slack::{self, Saving};
use pliant_site::services::show_duration;
use serde_json::{Value, json};

use super::moves::described as moved_value;
use crate::failure::Failure;
use crate::federation::Access;
use crate::job::{change, described, estimate};
use crate::output::Output;
use crate::table::{Table, counted};
use crate::time_text::{both, known, moment, rough};

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
    json!({
        "job": described(record),
        "at_s": at,
        "compared": record.compared.iter().map(compared).collect::<Vec<Value>>(),
        "discovery": discovery_value(&record.discovery),
        "reason": reason(record).word(),
        "moves": record.hops.iter().map(|hop| moved_value(&record.handle, hop)).collect::<Vec<Value>>(),
        "size_choice": record.size_choice.as_ref().map(|choice| size_value(choice, &record.expected)),
        "waits": waits.as_ref().map(wait_value),
        "unplanned": unplanned,
    })
}

/// The answers of the other servers; none if they are not known.
fn discovery_value(discovery: &DiscoverySummary) -> Option<Value> {
    let passed = |(server, cause): &(Name, Cause)| json!({ "server": server, "cause": cause.word() });
    let DiscoverySummary { servers, answered, passed: list } = discovery;
    (!discovery.is_empty()).then(|| {
        json!({
            "servers": servers,
            "answered": answered,
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
    })
}

/// Why a job is at its server.
#[derive(Clone, PartialEq, Debug)]
enum Reason<'a> {
    /// The compared estimates are not known.
    Unknown,
    /// No other server offered to run it.
    Only,
    /// It completes there earlier than at the next best server.
    Earliest(&'a ComparedEstimate),
    /// It completes there as early as at another server, which comes later by rank or name.
    Tie(&'a ComparedEstimate),
    /// Another server would have completed it earlier.
    PassedOver(&'a ComparedEstimate),
}

impl Reason<'_> {
    fn word(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Only => "only-one",
            Self::Earliest(_) => "earliest-completion",
            Self::Tie(_) => "tie",
            Self::PassedOver(_) => "passed-over",
        }
    }
}

fn reason(record: &JobRecord) -> Reason<'_> {
    let (chosen, others): (Vec<&ComparedEstimate>, Vec<&ComparedEstimate>) =
        record.compared.iter().partition(|one| one.server == record.handle.server);
    let earlier = |best, one| if precedes(one, best) { one } else { best };
    match (chosen.first(), others.into_iter().reduce(earlier)) {
        (None, _) => Reason::Unknown,
        (Some(_), None) => Reason::Only,
        (Some(chosen), Some(best)) if precedes(chosen, best) => Reason::Earliest(best),
        (Some(chosen), Some(best)) if precedes(best, chosen) => Reason::PassedOver(best),
        (Some(_), Some(best)) => Reason::Tie(best),
    }
}

fn precedes(one: &ComparedEstimate, other: &ComparedEstimate) -> bool {
    is_earlier(&one.estimate, &other.estimate)
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
    match reason(record) {
        Reason::Unknown => format!("It {is} on {server}; which estimates were compared is not known.\n"),
        Reason::Only => {
            format!("It {is} on {server}: no other server was asked, or no other server can take it.\n")
        }
        Reason::Earliest(next) => {
            let (apart, next) = (apart(next), &next.server);
            format!("It {is} on {server}, which completes it first: {apart} before {next}.\n")
        }
        Reason::Tie(other) => format!(
            "It {is} on {server}: {} completes it at the same time and comes later by rank, then by name.\n",
            other.server
        ),
        Reason::PassedOver(other) => format!(
            "It {is} on {server}: {} would have completed it {} earlier, but could not be reached or did not take \
             it when it was submitted.\n",
            other.server,
            apart(other)
        ),
    }
}

fn text(explanation: &Explanation) -> String {
    let Explanation { record, at, waits, unplanned } = explanation;
    let mut text = format!("{} ({} of {})\n", change(record, *at), record.name, record.owner);
    text.push_str(&format!("Submitted {}.\n\n", both(record.submitted, *at)));
    if !record.compared.is_empty() {
        text.push_str("Estimates when it was submitted:\n");
        text.push_str(&compared(record));
        text.push_str(&others(record));
        text.push('\n');
    }
    text.push_str(&why(record));
    text.push_str(&moves(record));
    text.push_str(&promised(record, *at));
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
    let DiscoverySummary { servers, answered, passed } = &record.discovery;
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
        Cause::KeyTaken => "another user's job had the same key",
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
    }
}

/// The moves of the job.
fn moves(record: &JobRecord) -> String {
    let one = |hop: &Hop| {
        let came = match hop.reason {
            MoveReason::FirstStart => "A sibling job was the first to start: moved",
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
    let Wait { ahead, plan, free, until, siblings } = wait;
    let ahead = match ahead {
        0 => "no job is ahead of it".to_owned(),
        1 => "1 job is ahead of it".to_owned(),
        ahead => format!("{ahead} jobs are ahead of it"),
    };
    let mut text = format!(
        "It waits: {ahead}; it needs {}, {} free now.\nPlanned start {}",
        counted(plan.procs.0.into(), "processor"),
        free.0,
        both(plan.start, now)
    );
    let siblings: Vec<&str> = siblings.iter().map(Name::as_str).collect();
    let siblings = match siblings[..] {
        [] => String::new(),
        _ => format!("Sibling jobs wait at {}: the first to start runs.\n", siblings.join(", ")),
    };
    if until.is_empty() {
        text.push_str(".\n");
        return text + &siblings;
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
    text + &siblings
}

#[cfg(test)]
mod tests {
    use pliant_control::job::{JobState, Work};
    use pliant_control::names::Key;
    use pliant_model::{Procs, Speedup};

    use super::*;

    fn estimate(start: i64, walltime: i64) -> Estimate {
        Estimate { procs: Procs(4), walltime: Span(walltime), start: Time(start) }
    }

    /// A job on lyon, compared with what these servers would have given: start and walltime.
    fn job(compared: &[(&str, i64, i64)]) -> JobRecord {
        let one = |(server, start, walltime): &(&str, i64, i64)| ComparedEstimate {
            server: server.parse().unwrap(),
            estimate: estimate(*start, *walltime),
        };
        JobRecord {
            handle: "lyon.7".parse().unwrap(),
            key: Key([0; 16]),
            owner: "alice".parse().unwrap(),
            name: "pi".to_owned(),
            work: Work { procs: Procs(1), walltime: Span(400), speedup: Speedup::Folding },
            state: JobState::Queued,
            submitted: Time(1_000),
            expected: estimate(1_100, 100),
            procs: Procs(4),
            walltime: Span(100),
            started: None,
            ended: None,
            exit: None,
            compared: compared.iter().map(one).collect(),
            discovery: DiscoverySummary::default(),
            pinned: false,
            hops: Vec::new(),
            unit_runtime: None,
            runtime: None,
            size_choice: None,
            claim: None,
        }
    }

    #[test]
    fn the_reason_follows_from_the_estimates() {
        let check = |compared: &[(&str, i64, i64)], word: &str, expected: &str| {
            let job = job(compared);
            assert_eq!(reason(&job).word(), word);
            assert!(why(&job).contains(expected), "{}", why(&job));
        };
        check(&[], "unknown", "not known");
        check(&[("lyon", 1_100, 100)], "only-one", "no other server was asked");
        check(
            &[("lyon", 1_100, 100), ("nancy", 1_000, 230), ("nice", 1_000, 260)],
            "earliest-completion",
            "30s before nancy",
        );
        check(&[("lyon", 1_100, 100), ("nancy", 1_000, 200)], "tie", "nancy completes it at the same time");
        check(
            &[("nancy", 1_000, 140), ("lyon", 1_100, 100)],
            "passed-over",
            "nancy would have completed it 1m earlier",
        );
    }

    #[test]
    fn servers_outside_the_table_are_listed_with_the_reason() {
        let mut job = job(&[("lyon", 1_100, 100), ("nancy", 1_000, 230)]);
        assert_eq!((others(&job), discovery_value(&job.discovery)), (String::new(), None));
        let passed = [
            ("nice", Cause::TooLarge),
            ("lille", Cause::NotConnected),
            ("brest", Cause::TooLarge),
            ("nice", Cause::TooLarge),
        ];
        let passed: Vec<(Name, Cause)> =
            passed.iter().map(|(server, cause)| (server.parse().unwrap(), *cause)).collect();
        job.discovery = DiscoverySummary { servers: 5, answered: 4, passed };
        assert_eq!(others(&job), "Not nice, brest: too small.\nNot lille: not connected.\n");
        assert_eq!(discovery_value(&job.discovery).unwrap()["passed"][1]["cause"], "not-connected");
        // Agents below have cut what they passed on.
        job.discovery = DiscoverySummary { servers: 138, answered: 130, ..job.discovery };
        let cut = "130 of 138 servers answered; the best estimates were compared.\n";
        assert!(others(&job).ends_with(cut), "{}", others(&job));
    }

    #[test]
    fn what_a_job_gave_up_is_explained() {
        let mut job = job(&[("lyon", 1_100, 100)]);
        let earliest = Estimate { procs: Procs(8), walltime: Span(60), start: Time(1_100) };
        let choice = SizeChoice { earliest, other_jobs: 3 };
        let expected = "With 8 processors it would complete 40s earlier and take 80 more processor-seconds from 3 other jobs there.\n";
        assert_eq!(size(&choice, &job.expected), expected);
        // A tuner may also choose more processors than what completes first has.
        let wider = SizeChoice { earliest: Estimate { procs: Procs(1), ..earliest }, ..choice };
        assert_eq!(size(&wider, &job.expected), "With 1 processor it would complete 40s earlier.\n");
        let value = size_value(&choice, &job.expected);
        assert_eq!((&value["later_s"], &value["saved_processor_s"]), (&json!(40), &json!(80)));
        job.size_choice = Some(choice);
        let shown = text(&Explanation { record: job, at: Time(1_030), waits: None, unplanned: None });
        assert!(shown.ends_with(expected), "{shown}");
    }

    #[test]
    fn an_explanation_lists_the_jobs_that_a_job_waits_for() {
        let release = |handle: Option<&str>, end| Release {
            handle: handle.map(|handle| handle.parse().unwrap()),
            end: Time(end),
            procs: Procs(2),
        };
        let until = vec![release(Some("lyon.5"), 1_060), release(None, 1_090)];
        let wait = Wait { ahead: 2, plan: estimate(1_090, 100), free: Procs(1), until, siblings: Vec::new() };
        let record = job(&[("lyon", 1_100, 100), ("nancy", 1_000, 230)]);
        let unplanned = text(&Explanation {
            record: record.clone(),
            at: Time(1_030),
            waits: None,
            unplanned: Some("a limit is reached (MaxJobs)".to_owned()),
        });
        assert!(
            unplanned.ends_with("\n\nIt waits, and has no planned start: a limit is reached (MaxJobs).\n")
        );
        let shown = text(&Explanation { record, at: Time(1_030), waits: Some(wait), unplanned: None });
        let expected = "\
lyon.7 QUEUED, expected to start in 1m10s (pi of alice)
Submitted 1970-01-01 00:16:40Z (30s ago).

Estimates when it was submitted:
   server  start                 completion            procs  walltime
*  lyon    1970-01-01 00:18:20Z  1970-01-01 00:20:00Z      4     1m40s
   nancy   1970-01-01 00:16:40Z  1970-01-01 00:20:30Z      4     3m50s

It is on lyon, which completes it first: 30s before nancy.
lyon promised 4 processors for 1m40s, start 1970-01-01 00:18:20Z (in 1m10s), completion 1970-01-01 00:20:00Z (in 2m50s).

It waits: 2 jobs are ahead of it; it needs 4 processors, 1 free now.
Planned start 1970-01-01 00:18:10Z (in 1m), when these running jobs have ended:
  job             end at the latest              procs
  lyon.5          1970-01-01 00:17:40Z (in 30s)      2
  another user's  1970-01-01 00:18:10Z (in 1m)       2
";
        assert_eq!(shown, expected);
    }
}
