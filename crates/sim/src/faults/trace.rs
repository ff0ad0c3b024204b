//! Describes each event in one line, for the trace of a failing schedule.

use std::fmt::Debug;

use pliant_control::agent::{self, DiscoverySubject};
use pliant_control::server;

/// The maximal length of a line, in characters.
const WIDTH: usize = 160;

/// The debug output of a value, truncated to one line.
pub(super) fn shorten(what: &impl Debug) -> String {
    let text = format!("{what:?}");
    match text.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

pub(super) fn server_event(event: &server::Event) -> String {
    use server::Event;
    match event {
        Event::Submit { submit, .. } => format!("Submit {} of {:?}", submit.name, submit.work),
        Event::Cancel { number, .. } => format!("Cancel its job {number}"),
        Event::Withdraw { number, .. } => format!("Withdraw its job {number} if it waits"),
        Event::Drain { by, why, .. } => format!("Drained by {by}: {why}"),
        Event::Resume { by, why, .. } => format!("Resumed by {by}: {why}"),
        Event::Hold { number, by, .. } => format!("Job {number} held by {by}"),
        Event::Release { number, by, .. } => format!("Job {number} released by {by}"),
        Event::Prioritise { number, priority, by, .. } => {
            format!("Priority {priority} of job {number} by {by}")
        }
        Event::Ban { user, by, .. } => format!("{user} banned by {by}"),
        Event::Unban { user, by, .. } => format!("Ban of {user} ended by {by}"),
        Event::Limit { user, changes, by, .. } => format!("{user} limited by {by}: {changes:?}"),
        Event::Forget { server, by, why, .. } => format!("{server} declared lost by {by}: {why}"),
        Event::Denied { by, act } => format!("Denied to {by}: {act}"),
        Event::Numbered { highest } => format!("Numbered after {highest}"),
        Event::SkipNumbers => "Numbers skipped after a failure of the host".to_owned(),
        Event::Restored { highest, known, .. } => {
            format!("Restored, numbered after {highest}, {} jobs known", known.len())
        }
        Event::RestoredLater(known) => format!("{} jobs known that were submitted later", known.len()),
        Event::Configured { procs, policy, .. } => format!("{policy} on {} processors", procs.0),
        Event::PrioritySettings(priority) => format!("{priority:?}"),
        Event::WaitingLimits(limits) => format!("{limits:?}"),
        Event::LongestInstance { number, ms } => format!("Longest of its job {number}: {ms} ms"),
        Event::ProposeMove { proposal, .. } => {
            format!("Move of {} to {} proposed, {:?}", proposal.job, proposal.to, proposal.reason)
        }
        Event::Prepare { handoff, .. } => {
            let (id, sibling) = (&handoff.id, if handoff.sibling { ", a sibling" } else { "" });
            format!("Prepare {} from {}, attempt {}{sibling}", id.job, handoff.from.name, id.attempt)
        }
        Event::Ready { id, .. } => format!("Ready {}, attempt {}", id.job, id.attempt),
        Event::HandoffSigned { id, .. } => format!("Signed {}, attempt {}", id.job, id.attempt),
        Event::Commit { id, cancelled, .. } => {
            let cancelled = if *cancelled { ", and cancel it" } else { "" };
            format!("Commit {}, attempt {}{cancelled}", id.job, id.attempt)
        }
        Event::Abort { id, .. } => format!("Abort {}, attempt {}", id.job, id.attempt),
        Event::Answered { id, reply } => {
            format!("Answered {}, attempt {}: {}", id.job, id.attempt, shorten(reply))
        }
        Event::Decided { id, decision } => format!("Judged {}, attempt {}: {decision:?}", id.job, id.attempt),
        Event::Subjob(event) => shorten(event),
        Event::Batch(event) => shorten(event),
        Event::Due => "Due".to_owned(),
    }
}

pub(super) fn agent_event(event: &agent::Event) -> String {
    use agent::Event;
    match event {
        Event::Attached { child, .. } => format!("Attached {child}"),
        Event::StatusUpdate { child, sequence, record } => {
            let (job, state, hops) = (&record.handle, record.state, record.hops.len());
            format!("Update {sequence} of {child}: {job} {state} after {hops} moves")
        }
        Event::Queried { requester, query } => match &query.subject {
            DiscoverySubject::Move(proposal) => {
                format!("Asked by {requester:?} to move {} to {}", proposal.job, proposal.to)
            }
            DiscoverySubject::Snapshots => format!("Asked by {requester:?} for snapshots"),
            _ => format!("Asked by {requester:?}"),
        },
        Event::Answered { child, discovery, found } => {
            let (vectors, snapshots) = (found.vectors.len(), found.snapshots.len());
            let outcome = found.outcome.as_ref().map(|outcome| format!(", {}", shorten(outcome)));
            let outcome = outcome.unwrap_or_default();
            format!("Answered {discovery} by {child}: {vectors} vectors, {snapshots} snapshots{outcome}")
        }
        other => shorten(other),
    }
}
