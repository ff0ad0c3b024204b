//! `pliant moves`: which waiting jobs were moved, from where to where, and why.

use clap::Args;
use pliant_control::agent::Proposal;
use pliant_control::handoff::MoveOutcome;
use pliant_control::job::Hop;
use pliant_control::names::Handle;
use pliant_live::wire::{MOVES_DEFAULT, Moved, bounds};
use pliant_model::{MoveReason, Reason, Time};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::federation::{Access, tell};
use crate::job::estimate;
use crate::moment::{from_now, now, signed};
use crate::numbers::whole;
use crate::output::Output;
use crate::table::Table;

/// The most moves of one answer.
const LAST_MAX: u32 = bounds::MOVES_MAX as u32;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Everybody's jobs; for operators.
    #[arg(long)]
    all: bool,
    /// At most so many, the last ones.
    #[arg(long, value_name = "N", default_value_t = MOVES_DEFAULT, value_parser = whole(1..=LAST_MAX))]
    last: u32,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let session = arguments.access.open()?;
    let moves = session.run(session.client.moves(arguments.all, arguments.last))?;
    let value = json!({ "moves": moves.iter().map(|moved| described(&moved.job, &moved.hop)).collect::<Vec<Value>>() });
    output.print("moves", || table(&moves, now()), value)?;
    if moves.is_empty() {
        tell(|| "no job was moved".to_owned());
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
        "handle": job,
        "from": hop.from,
        "to": hop.to,
        "at_s": hop.at,
        "before_s": hop.before,
        "expected": estimate(&hop.expected),
        "gain_s": hop.before - hop.expected.completion(),
        "reason": reason(hop.reason),
    })
}

fn table(moves: &[Moved], now: Time) -> String {
    let mut table =
        Table::new(4, &["job", "from", "to", "reason", "when", "procs", "end before", "end after", "gain"]);
    for Moved { job, hop } in moves {
        let after = hop.expected.completion();
        table.row(vec![
            job.to_string(),
            hop.from.to_string(),
            hop.to.to_string(),
            reason(hop.reason).to_owned(),
            from_now(hop.at, now),
            hop.expected.procs.to_string(),
            from_now(hop.before, now),
            from_now(after, now),
            signed(hop.before - after),
        ]);
    }
    table.render()
}

/// What came of a proposal, in words; what it would be in a dry run.
pub(super) fn outcome(proposal: &Proposal) -> String {
    match &proposal.outcome {
        None if proposal.copy => "would be copied".to_owned(),
        None => "would be moved".to_owned(),
        Some(MoveOutcome::Moved(_)) => "moved".to_owned(),
        Some(MoveOutcome::Copied(_)) => "copied".to_owned(),
        Some(MoveOutcome::Stays(why)) => format!("stays: {why}"),
    }
}
