//! Jobs as the client verbs show them.

use pliant_control::job::{Exit, JobRecord, JobState};
use pliant_model::{Estimate, Time};
use pliant_site::services::{SpeedupSpec, show_duration};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::table::counted;
use crate::time_text::{against_expected, both, from_now, rough};

/// The exit code of a verb that waited for a job which did not complete.
pub(crate) const NOT_COMPLETED: u8 = 3;

/// Every fact of a job, for scripts.
pub(crate) fn described(record: &JobRecord) -> Value {
    json!({
        "job_id": record.handle,
        "name": record.name,
        "owner": record.owner,
        "server": record.server(),
        "moves": record.hops.len(),
        "state": record.state,
        "procs": record.procs,
        "walltime_s": record.walltime,
        "gpus": record.gpus,
        "submitted_s": record.submitted,
        "started_s": record.started,
        "ended_s": record.ended,
        "exit": record.exit.as_ref().map(exit),
        "requeues": record.requeues,
        "expected": estimate(&record.expected),
        "start_error_s": record.start_error(),
        "completion_error_s": record.completion_error(),
        "requested": {
            "procs": record.work.procs,
            "walltime_s": record.work.walltime,
            "fixed_time": record.work.fixed_time,
            "speedup": speedup(record),
            "resources": record.work.resources.as_ref().map(ToString::to_string),
            "begin_s": record.work.begin,
            "deadline_s": record.work.deadline,
            "nice": record.work.nice,
            "requeue": record.work.requeue,
        },
    })
}

/// The failure if a job has no output because it has not run.
pub(crate) fn did_not_run(record: &JobRecord) -> Option<Failure> {
    if record.started.is_some() {
        return None;
    }
    let JobRecord { handle, state, .. } = record;
    let wrote_nothing = "it has no output";
    Some(match (state, &record.exit) {
        (JobState::Canceled, _) => Failure::input(format!(
            "{handle} is {state}: it was cancelled before it started, so {wrote_nothing}"
        )),
        (state, exit) if state.is_final() => {
            let why = exit.as_ref().map_or_else(|| "did not run".to_owned(), ToString::to_string);
            Failure::input(format!("{handle} is {state}: {why}, so {wrote_nothing}"))
        }
        _ => Failure::input(format!("{handle} is {state}: it has not started, so {wrote_nothing} yet")).hint(
            format!(
                "`pliant wait {handle}` waits for its end, `pliant explain {handle}` shows when it starts"
            ),
        ),
    })
}

/// An estimate, for scripts.
pub(crate) fn estimate(estimate: &Estimate) -> Value {
    json!({
        "procs": estimate.procs,
        "walltime_s": estimate.walltime,
        "start_s": estimate.start,
        "completion_s": estimate.completion(),
    })
}

/// How something ended, for scripts.
pub(crate) fn exit(exit: &Exit) -> Value {
    match exit {
        Exit::Code(code) => json!({ "how": "code", "code": code }),
        Exit::Signal(signal) => json!({ "how": "signal", "signal": signal }),
        Exit::OverWalltime => json!({ "how": "over-walltime" }),
        Exit::OverLimit(why) => json!({ "how": "over-limit", "why": why }),
        Exit::Cancelled => json!({ "how": "cancelled" }),
        Exit::NotStarted(why) => json!({ "how": "not-started", "why": why }),
        Exit::Lost(why) => json!({ "how": "lost", "why": why }),
    }
}

/// How a job ended, in a table.
pub(crate) fn short_exit(record: &JobRecord) -> String {
    short(record.exit.as_ref())
}

/// How something ended, in a table: its exit code, or a word or two.
pub(crate) fn short(exit: Option<&Exit>) -> String {
    match exit {
        None => "-".to_owned(),
        Some(Exit::Code(code)) => code.to_string(),
        Some(Exit::NotStarted(_)) => "not started".to_owned(),
        Some(Exit::OverLimit(_)) => "over a limit".to_owned(),
        Some(Exit::Lost(_)) => "lost".to_owned(),
        Some(other) => other.to_string(),
    }
}

/// How a job scales, as `--speedup` takes it.
fn speedup(record: &JobRecord) -> String {
    SpeedupSpec { speedup: record.work.speedup.clone(), procs: record.work.procs }.to_string()
}

/// Every fact of a job, for people.
pub(crate) fn facts(record: &JobRecord, now: Time) -> String {
    let mut lines = vec![
        ("state", record.state.to_string()),
        ("name", record.name.clone()),
        ("owner", record.owner.to_string()),
        ("server", format!("{}, {}", record.server(), processors(record))),
        ("walltime", show_duration(record.walltime)),
        ("request", format!("{}, {}", speedup(record), show_duration(record.work.walltime))),
    ];
    lines.extend(record.work.resources.as_ref().map(|needed| ("needs", needed.to_string())));
    lines.push(("submitted", both(record.submitted, now)));
    lines.extend(record.work.begin.map(|begin| ("begin", both(begin, now))));
    lines.extend(record.work.deadline.map(|deadline| ("deadline", both(deadline, now))));
    lines.extend((record.work.nice > 0).then(|| ("nice", record.work.nice.to_string())));
    let requeue = record.work.requeue;
    lines.extend((requeue > 0).then(|| ("requeues", format!("{} of at most {requeue}", record.requeues))));
    let error =
        |error: Option<_>| error.map_or_else(String::new, |error| format!(", {}", against_expected(error)));
    match record.started {
        Some(started) => {
            lines.push(("started", format!("{}{}", both(started, now), error(record.start_error()))));
        }
        None if record.state.is_final() => {}
        None => lines.push(("start", both(record.expected.start, now))),
    }
    match record.ended {
        Some(ended) => {
            lines.push(("ended", format!("{}{}", both(ended, now), error(record.completion_error()))));
        }
        None => lines.push(("end by", both(end_by(record), now))),
    }
    if let (Some(started), Some(ended)) = (record.started, record.ended) {
        lines.push(("runtime", show_duration(ended - started)));
    }
    if let Some(exit) = &record.exit {
        lines.push(("exit", exit.to_string()));
    }
    let mut text = format!("{}\n", record.handle);
    for (name, value) in lines {
        text.push_str(format!("  {name:<9}  {value}").trim_end());
        text.push('\n');
    }
    text
}

fn processors(record: &JobRecord) -> String {
    let mut text = counted(record.procs.0.into(), "processor");
    if record.procs != record.expected.procs {
        text.push_str(&format!(" ({} expected)", record.expected.procs.0));
    }
    if let Some(gpus) = record.gpus {
        text.push_str(&format!(", {}", counted(gpus.into(), "GPU")));
    }
    text
}

/// When a job will have ended at the latest, as far as is known.
pub(crate) fn end_by(record: &JobRecord) -> Time {
    record.started.map_or_else(|| record.expected.completion(), |started| started + record.walltime)
}

/// What a job that was just accepted may expect.
pub(crate) fn promise(record: &JobRecord, now: Time) -> String {
    let Estimate { procs, walltime, start } = record.expected;
    let start = if start <= now { "now".to_owned() } else { from_now(start, now) };
    format!(
        "{}: {} of {} for at most {}, expected to start {start} and to end by {}",
        record.handle,
        counted(procs.0.into(), "processor"),
        record.server(),
        rough(walltime),
        both(record.expected.completion(), now),
    )
}

/// The state of a job on a line.
pub(crate) fn change(record: &JobRecord, now: Time) -> String {
    let state = match (record.state, &record.exit) {
        (JobState::Active, _) => format!(
            "ACTIVE on {}, ends by {}",
            counted(record.procs.0.into(), "processor"),
            both(end_by(record), now)
        ),
        (state @ (JobState::New | JobState::Queued), _) => {
            format!("{state}, expected to start {}", from_now(record.expected.start, now))
        }
        (state, Some(exit)) => format!("{state}, {exit}"),
        (state, None) => state.to_string(),
    };
    format!("{} {state}", record.handle)
}

/// An error if one of the jobs, which have all ended, did not complete.
pub(crate) fn all_completed(records: &[JobRecord]) -> Result<(), Failure> {
    let others: Vec<&JobRecord> = records.iter().filter(|one| one.state != JobState::Completed).collect();
    let Some(first) = others.first() else { return Ok(()) };
    let how = first.exit.as_ref().map_or_else(String::new, |exit| format!(": {exit}"));
    let message = match others.len() {
        1 => format!("{} {}{how}", first.handle, first.state),
        count => {
            let all = counted(records.len() as u64, "job");
            format!("{count} of {all} did not complete; the first is {}, {}{how}", first.handle, first.state)
        }
    };
    let mut failure = Failure::system(message);
    failure.code = NOT_COMPLETED;
    // Other failures are printed already.
    let by_itself = matches!(first.exit, Some(Exit::Code(_) | Exit::Signal(_)));
    let hint = format!("`pliant logs {} --stderr` shows its errors", first.handle);
    Err(if by_itself { failure.hint(hint) } else { failure })
}
