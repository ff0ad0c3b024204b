//! `pliant reallocate`: starts a reallocation cycle, shows what it would do, or changes the reallocation policy.

use clap::Args;
use pliant_control::agent::{ProposedMove, ReallocationConfig, ReallocationReport};
use pliant_control::handoff::MoveOutcome;
use pliant_daemon::config::ReallocationFile;
use pliant_model::Span;
use pliant_site::services::show_duration;
use pliant_wire::MovingChange;
use serde_json::{Value, json};

use super::moves::outcome;
use crate::failure::Failure;
use crate::federation::Access;
use crate::job::estimate;
use crate::output::Output;
use crate::reallocation_keys::span;
use crate::table::{Table, counted};
use crate::time_text::{before_from_now, from_now, known, now, signed};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Shows what would be moved and the expected gain, and moves nothing; with --set under that policy.
    #[arg(long)]
    dry_run: bool,
    /// Changes the reallocation policy, also for later restarts: algorithm, heuristic, period, threshold, window,
    /// early (`off`, or the shortest time between two cycles).
    #[arg(long, value_name = "KEY=VALUE", num_args = 1.., conflicts_with_all = ["off", "reset", "show"])]
    set: Vec<String>,
    /// Turns reallocation off.
    #[arg(long, conflicts_with_all = ["dry_run", "reset", "show"])]
    off: bool,
    /// Returns to the policy in the agent's file.
    #[arg(long, conflicts_with_all = ["dry_run", "show"])]
    reset: bool,
    /// Shows the reallocation policy.
    #[arg(long, conflicts_with = "dry_run")]
    show: bool,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let session = arguments.access.open()?;
    let client = &session.client;
    if arguments.dry_run {
        let present = session.run(client.moving())?;
        let moving = changed(present, &arguments.set)?;
        let report = checked(session.run(client.would_reallocate(&moving))?, Some(&moving))?;
        let text = || would_text(&report, &moving, present.as_ref());
        let mut value = report_value(&report);
        value["moving"] = moving_value(&moving);
        return output.print("reallocate", text, value);
    }
    let change = if arguments.off {
        Some(MovingChange::Off)
    } else if arguments.reset {
        Some(MovingChange::Reset)
    } else if arguments.set.is_empty() {
        None
    } else {
        let present = session.run(client.moving())?;
        Some(MovingChange::Set(changed(present, &arguments.set)?))
    };
    if arguments.show || change.is_some() {
        let moving = match change {
            Some(change) => session.run(client.change_moving(&change))?,
            None => session.run(client.moving())?,
        };
        return output.print(
            "reallocate",
            || moving_text(moving.as_ref()),
            json!({ "moving": moving.as_ref().map(moving_value) }),
        );
    }
    let report = session.run(client.reallocate(false))?;
    let report = checked(report, session.run(client.moving())?.as_ref())?;
    output.print("reallocate", || report_text(&report, false), report_value(&report))
}

/// The report of the cycle, if the agent has run one.
fn checked(
    report: ReallocationReport,
    moving: Option<&ReallocationConfig>,
) -> Result<ReallocationReport, Failure> {
    let hint = match moving {
        None => {
            "`pliant reallocate --set algorithm=regular` switches it on, `--dry-run` says what that would do now"
        }
        Some(_) => "ask again in a moment",
    };
    match report.refused {
        Some(why) => Err(Failure::input(why).hint(hint)),
        None => Ok(report),
    }
}

/// The text of a dry run, with its policy if another one is in force.
fn would_text(
    report: &ReallocationReport,
    moving: &ReallocationConfig,
    present: Option<&ReallocationConfig>,
) -> String {
    let proposed = report_text(report, true);
    if present == Some(moving) {
        return proposed;
    }
    let ReallocationConfig { policy, .. } = moving;
    let off = if present.is_none() { "The agent does not move waiting jobs. " } else { "" };
    format!(
        "{off}With algorithm={} heuristic={} threshold={}:\n{proposed}",
        policy.algorithm,
        policy.heuristic,
        show_duration(policy.threshold),
    )
}

/// The policy with changes, checked as in the agent's file; the defaults of such a file if reallocation is off.
fn changed(present: Option<ReallocationConfig>, changes: &[String]) -> Result<ReallocationConfig, Failure> {
    let mut file = present.as_ref().map_or_else(ReallocationFile::default, ReallocationFile::from);
    for change in changes {
        let Some((key, value)) = change.split_once('=') else {
            return Err(Failure::input(format!("expected KEY=VALUE, found `{change}`")));
        };
        match key {
            "algorithm" => value.clone_into(&mut file.algorithm),
            "heuristic" => value.clone_into(&mut file.heuristic),
            "period" => file.period_s = span(key, value, 0)?.0,
            "threshold" => file.threshold_s = span(key, value, 0)?.0,
            "window" => {
                let wrong = || {
                    let most = u32::MAX;
                    format!("window: expected a number of jobs from 1 to {most}, found `{value}`")
                };
                file.window = value.parse().map_err(|_| Failure::input(wrong()))?;
            }
            "early" if value == "off" => file.early_s = 0,
            "early" => file.early_s = span(key, value, 0)?.0,
            _ => {
                let expected = "algorithm, heuristic, period, threshold, window or early";
                return Err(Failure::input(format!("expected one of {expected}, found `{key}`")));
            }
        }
    }
    file.moving().map_err(|(key, why)| {
        let key = key.trim_start_matches("reallocation.").trim_end_matches("_s");
        Failure::input(format!("{key}: {why}"))
    })
}

fn moving_value(moving: &ReallocationConfig) -> Value {
    let ReallocationConfig { policy, early } = moving;
    json!({
        "algorithm": policy.algorithm.name(),
        "heuristic": policy.heuristic.name(),
        "period_s": policy.period,
        "threshold_s": policy.threshold,
        "window": policy.window,
        "early_s": early,
    })
}

fn moving_text(moving: Option<&ReallocationConfig>) -> String {
    let Some(ReallocationConfig { policy, early }) = moving else {
        return "Waiting jobs are not moved.\n".to_owned();
    };
    let early = early.map_or_else(
        || "never".to_owned(),
        |pause| format!("when a job ends early, at most every {}", show_duration(pause)),
    );
    let lines = [
        ("algorithm", policy.algorithm.to_string()),
        ("heuristic", policy.heuristic.to_string()),
        ("period", show_duration(policy.period)),
        ("threshold", show_duration(policy.threshold)),
        ("window", counted(policy.window as u64, "job")),
        ("early", early),
    ];
    lines.iter().map(|(key, value)| format!("{key:<9}  {value}\n")).collect()
}

fn proposal_value(proposal: &ProposedMove) -> Value {
    json!({
        "job_id": proposal.job,
        "from": proposal.from,
        "to": proposal.to,
        "before_s": known(proposal.before),
        "expected": estimate(&proposal.expected),
        "gain_s": known(proposal.before).map(|before| before - proposal.expected.completion()),
        "outcome": outcome(proposal),
        "reason": proposal.outcome.as_ref().and_then(stays_word),
        "moved": proposal.outcome.as_ref().map(|outcome| matches!(outcome, MoveOutcome::Moved(_))),
        "sibling_queued": proposal.outcome.as_ref().map(|outcome| matches!(outcome, MoveOutcome::SiblingQueued(_))),
    })
}

/// The stable word of the reason why a job stays.
fn stays_word(outcome: &MoveOutcome) -> Option<&'static str> {
    match outcome {
        MoveOutcome::Moved(_) | MoveOutcome::SiblingQueued(_) => None,
        MoveOutcome::Stays(why) => Some(why.word()),
    }
}

fn report_value(report: &ReallocationReport) -> Value {
    json!({
        "servers": report.servers,
        "silent": report.silent,
        "closed": report.closed.iter().map(|(server, why)| json!({ "server": server, "why": why })).collect::<Vec<Value>>(),
        "movable": report.movable,
        "proposals": report.proposals.iter().map(proposal_value).collect::<Vec<Value>>(),
    })
}

fn report_text(report: &ReallocationReport, dry_run: bool) -> String {
    let now = now();
    let mut text = format!(
        "{} on {} that may be moved\n",
        counted(report.movable.into(), "waiting job"),
        counted(report.servers.into(), "server"),
    );
    if !report.silent.is_empty() {
        let names: Vec<String> = report.silent.iter().map(ToString::to_string).collect();
        text.push_str(&format!("no queue from {}\n", names.join(", ")));
    }
    for (server, why) in &report.closed {
        text.push_str(&format!("{server} takes none: {why}\n"));
    }
    let mut table =
        Table::new(4, &["job", "from", "to", "outcome", "procs", "end before", "end after", "gain"]);
    let mut gained = Span(0);
    for proposal in &report.proposals {
        let after = proposal.expected.completion();
        let gain = known(proposal.before).map(|before| before - after);
        gained = gained + gain.filter(|_| !proposal.sibling).unwrap_or(Span(0));
        table.row(vec![
            proposal.job.to_string(),
            proposal.from.to_string(),
            proposal.to.to_string(),
            outcome(proposal),
            proposal.expected.procs.to_string(),
            before_from_now(proposal.before, now),
            from_now(after, now),
            gain.map(signed).unwrap_or_default(),
        ]);
    }
    if report.proposals.is_empty() {
        text.push_str("no job is to be moved\n");
        return text;
    }
    text.push_str(&table.render());
    if dry_run && gained > Span(0) {
        text.push_str(&format!("together they would complete {} earlier\n", show_duration(gained)));
    }
    text
}

#[cfg(test)]
mod tests {
    use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};

    use super::*;

    fn change(present: Option<ReallocationConfig>, words: &[&str]) -> Result<ReallocationConfig, Failure> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        changed(present, &words)
    }

    #[test]
    fn changed_keys_are_read_and_the_others_stay() {
        let words = ["period=5m", "threshold=0", "heuristic=minmin", "window=7", "early=off"];
        let moving = change(None, &words).unwrap();
        let policy = Reallocation {
            algorithm: Algorithm::Regular,
            heuristic: Heuristic::MinMin,
            period: Span(300),
            threshold: Span(0),
            window: 7,
        };
        assert_eq!(moving, ReallocationConfig { policy, early: None });
        let later = change(Some(moving), &["period=1h", "early=30s"]).unwrap();
        let policy = Reallocation { period: Span(3600), ..policy };
        assert_eq!(later, ReallocationConfig { policy, early: Some(Span(30)) });
    }

    #[test]
    fn where_nothing_is_said_the_values_of_a_file_count() {
        let moving = change(None, &["algorithm=regular"]).unwrap();
        assert_eq!(moving, ReallocationFile::default().moving().unwrap());
    }

    #[test]
    fn what_an_agent_would_not_take_is_refused_with_what_it_takes() {
        let check = |word: &str, expected: &str| {
            let refused = format!("{:?}", change(None, &[word]).unwrap_err());
            assert!(refused.contains(expected), "{word}: {refused}");
        };
        check("period", "expected KEY=VALUE, found `period`");
        check("period=8d", "period: expected 1 s to a week, found 691200");
        check("period=0s", "period: expected 1 s to a week, found 0");
        check("period=soon", "period: expected a time like 30s, 5m or 1h, found `soon`");
        check("window=0", "window: expected at least 1 job, found 0");
        check(
            "window=99999999999",
            "window: expected a number of jobs from 1 to 4294967295, found `99999999999`",
        );
        check("window=x", "window: expected a number of jobs from 1 to 4294967295, found `x`");
        check("algorithm=best", "algorithm: ");
        check("early=never", "early: expected a time like 30s, 5m or 1h, found `never`");
        check("x=1", "found `x`");
    }
}
