//! `pliant queue --moves`: which waiting jobs were moved, from where to where, and why.

use pliant_control::agent::ProposedMove;
use pliant_control::handoff::MoveOutcome;
use pliant_control::job::Hop;
use pliant_control::names::Handle;
use pliant_model::{MoveReason, Reason, Time};
use pliant_wire::{JobMove, MOVES_DEFAULT, bounds};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::federation::{Session, inform};
use crate::job::estimate;
use crate::output::Output;
use crate::table::Table;
use crate::time_text::{before_from_now, from_now, known, now, signed};

/// The largest and the default number of moves of one answer.
pub(super) const LAST: (u32, u32) = (bounds::MOVES_MAX as u32, MOVES_DEFAULT);

/// Lists the last moves of the user's jobs, or of all jobs.
pub(super) fn run(output: Output, session: &Session, all: bool, last: u32) -> Result<(), Failure> {
    let moves = session.run(session.client.moves(all, last))?;
    let value = json!({ "moves": moves.iter().map(|moved| described(&moved.job, &moved.hop)).collect::<Vec<Value>>() });
    output.print("moves", || table(&moves, now()), value)?;
    if moves.is_empty() {
        inform(|| "no job was moved".to_owned());
    }
    Ok(())
}

/// The stable word of a reason.
fn reason(reason: MoveReason) -> &'static str {
    Reason::Moved(reason).word()
}

/// A move, for scripts.
pub(super) fn described(job: &Handle, hop: &Hop) -> Value {
    json!({
        "job_id": job,
        "from": hop.from,
        "to": hop.to,
        "at_s": hop.at,
        "before_s": known(hop.before),
        "expected": estimate(&hop.expected),
        "gain_s": known(hop.before).map(|before| before - hop.expected.completion()),
        "reason": reason(hop.reason),
    })
}

fn table(moves: &[JobMove], now: Time) -> String {
    let mut table =
        Table::new(4, &["job", "from", "to", "reason", "when", "procs", "end before", "end after", "gain"]);
    for JobMove { job, hop } in moves {
        let after = hop.expected.completion();
        table.row(vec![
            job.to_string(),
            hop.from.to_string(),
            hop.to.to_string(),
            reason(hop.reason).to_owned(),
            from_now(hop.at, now),
            hop.expected.procs.to_string(),
            before_from_now(hop.before, now),
            from_now(after, now),
            known(hop.before).map(|before| signed(before - after)).unwrap_or_default(),
        ]);
    }
    table.render()
}

/// The outcome of a proposal; in a dry run the expected one.
pub(super) fn outcome(proposal: &ProposedMove) -> String {
    match &proposal.outcome {
        None if proposal.sibling => "would queue a sibling".to_owned(),
        None => "would be moved".to_owned(),
        Some(MoveOutcome::Moved(_)) => "moved".to_owned(),
        Some(MoveOutcome::SiblingQueued(_)) => "sibling queued".to_owned(),
        Some(MoveOutcome::Stays(why)) => format!("stays: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use pliant_model::{Estimate, Procs, Span};

    use super::*;

    #[test]
    fn the_gain_of_an_unplanned_job_is_unknown() {
        let hop = |before| Hop {
            from: "lyon".parse().unwrap(),
            to: "paris".parse().unwrap(),
            attempt: 1,
            at: Time(1_000),
            before,
            expected: Estimate { procs: Procs(2), walltime: Span(60), start: Time(1_040) },
            reason: MoveReason::EarlierCompletion,
            signed: None,
        };
        let check = |before, seconds: Value, gain: Value, row: &str| {
            let (job, hop) = ("lyon.7".parse().unwrap(), hop(before));
            let value = described(&job, &hop);
            assert_eq!((&value["before_s"], &value["gain_s"]), (&seconds, &gain));
            let table = table(&[JobMove { job, hop }], Time(1_010));
            assert_eq!(table.lines().nth(1).unwrap().trim_end(), row, "{table}");
        };
        let row = "lyon.7  lyon  paris  moved-earlier  10s ago      2    in 2m30s   in 1m30s   +1m";
        check(Time(1_160), json!(1_160), json!(60), row);
        let row = "lyon.7  lyon  paris  moved-earlier  10s ago      2  not planned   in 1m30s";
        check(Time::MAX, Value::Null, Value::Null, row);
    }
}
