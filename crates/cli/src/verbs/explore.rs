//! `pliant explore`: as many runs of a service as there is room for until a deadline, and a few for certain (paper 004).

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pliant_client::{ExplorationFolder, ExplorationUpdate, Explored, Explorer, Wanted};
use pliant_control::optional::explore::Plan;
use pliant_model::{Span, SpanMs};
use pliant_policy::optional::Reallocation;
use pliant_site::services::{DurationError, parse_duration};
use serde_json::json;

use crate::failure::Failure;
use crate::federation::{Access, ctrl_c, interrupted, patience, tell};
use crate::job_files::{Input, announced, input};
use crate::moment::rough;
use crate::numbers::whole;
use crate::output::Output;
use crate::progress::spinner;
use crate::table::grouped;
use crate::varying::{REQUESTS_MAX, Varying};

/// By how much sooner another server has to complete a mandatory request for it to be moved there.
const LEAST_GAIN: SpanMs = SpanMs(100);
/// The exit code if a mandatory request did not complete.
const NOT_COMPLETED: u8 = 3;

const USAGE: &str = "pliant explore [OPTIONS] --deadline TIME --out DIR SERVICE [KEY=VALUE]...";

#[derive(Args)]
#[command(override_usage = USAGE)]
pub(crate) struct Arguments {
    /// A service of the federation, for one core.
    #[arg(value_name = "SERVICE")]
    service: String,
    #[command(flatten)]
    varying: Varying,
    /// An input file, under its own name or another, in the folder of every request; may be repeated.
    #[arg(long = "in", value_name = "[NAME=]FILE", value_parser = input)]
    inputs: Vec<Input>,
    /// Requests that have to be completed, whatever the deadline: the first ones.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole(1..=REQUESTS_MAX))]
    min: u32,
    /// All requests at most; as many as there are combinations of values if left out. Where nothing varies they differ
    /// in PLIANT_NUMBER only.
    #[arg(long, value_name = "N", value_parser = whole(1..=REQUESTS_MAX))]
    max: Option<u32>,
    /// Until when more of them are worth something, from now on.
    #[arg(long, value_name = "TIME", value_parser = parse_duration as fn(&str) -> Result<Span, DurationError>)]
    deadline: Span,
    /// Where results are kept, and how far it is. The same command goes on where another one was.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Submits so many requests at once and no more, mandatory ones included, as users do who have to guess: the baseline
    /// of the paper, for servers with order = "fcfs".
    #[arg(long, value_name = "N", value_parser = whole(1..=REQUESTS_MAX))]
    legacy: Option<u32>,
    /// Looks so often whether another server would complete a mandatory request sooner that waits, and moves it there.
    #[arg(long, value_name = "TIME", value_parser = parse_duration as fn(&str) -> Result<Span, DurationError>)]
    reallocate: Option<Span>,
    /// How long a server may be out of reach before others get its requests, and how long to wait for the first one.
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = patience)]
    patience: Duration,
    #[command(flatten)]
    access: Access,
}

impl Arguments {
    fn wanted(&self) -> Result<Wanted, Failure> {
        let sweep = self.varying.sweep()?;
        let most = match (self.max, sweep.combinations()) {
            (Some(max), Some(combinations)) if max > combinations => {
                let message = format!(
                    "--max: expected at most {combinations}, as many as there are combinations of values, found {max}"
                );
                return Err(Failure::input(message).hint("--vary says how requests differ from each other"));
            }
            (Some(max), _) => max,
            (None, Some(combinations)) => combinations,
            (None, None) => {
                let message = "expected --max N, --vary KEY=VALUES or --vary-file FILE, found none of them";
                return Err(Failure::input(message).hint("one of them says how many requests there are"));
            }
        };
        if most < self.min {
            let expected =
                format!("--min: expected at most {most}, as many requests as there are, found {}", self.min);
            return Err(Failure::input(expected).hint("--vary says how requests differ from each other"));
        }
        if let Some(guess) = self.legacy.filter(|guess| !(self.min..=most).contains(guess)) {
            let message =
                format!("--legacy: expected {} (--min) to {most} requests, found {guess}", self.min);
            return Err(Failure::input(message).hint("a guess is of all requests, mandatory ones included"));
        }
        let inputs = announced("--in", &self.inputs)?;
        Ok(Wanted {
            service: self.service.clone(),
            sweep,
            inputs,
            mandatory: self.min,
            most,
            deadline: SpanMs(self.deadline.0 * 1_000),
            legacy: self.legacy,
            reallocation: self
                .reallocate
                .map(|every| Reallocation { every: SpanMs(every.0.max(1) * 1_000), least_gain: LEAST_GAIN }),
            patience: self.patience,
        })
    }
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let wanted = arguments.wanted()?;
    let session = arguments.access.open()?;
    let folder = ExplorationFolder::open(&arguments.out)?;
    let explorer = session.run(async { Explorer::new(&session.client, &wanted, Some(folder)) })?;
    let (resumed, plan) = (explorer.is_resumed(), explorer.plan().clone());
    let was_over = explorer.is_over();
    if resumed && !was_over {
        tell(|| format!("goes on with what {} has, and with its deadline", arguments.out.display()));
    }
    let bar = spinner();
    let explored = session.run(explorer.run(ctrl_c(), |told| match told {
        ExplorationUpdate::Progress(explored) => bar.set_message(line(explored, plan.mandatory)),
        ExplorationUpdate::Trouble(what) => bar.suspend(|| eprintln!("warning: {what}")),
    }));
    bar.finish_and_clear();
    let explored = explored?;
    let value = json!({
        "out": arguments.out,
        "resumed": resumed,
        "interrupted": explored.interrupted,
        "mandatory": { "wanted": plan.mandatory, "completed": explored.progress.mandatory },
        "optional": { "wanted": plan.most - plan.mandatory, "completed": explored.progress.optional },
        "failed": explored.progress.failed,
        "mandatory_done_s": explored.mandatory_done.map(seconds),
        "late_s": explored.late.map(seconds),
        "settled": explored.settled,
        "consumed_s": explored.platform.consumed_s,
        "deserved_s": explored.platform.deserved_s,
    });
    output.print("explore", || format!("{}\n", line(&explored, plan.mandatory)), value)?;
    end(arguments, &explored, &plan, was_over)
}

fn seconds(span: SpanMs) -> f64 {
    span.0 as f64 / 1e3
}

/// What is wrong with how it came to its end, if anything is.
fn end(arguments: &Arguments, explored: &Explored, plan: &Plan, was_over: bool) -> Result<(), Failure> {
    let out = arguments.out.display();
    if !explored.settled {
        eprintln!(
            "warning: not every server has said that what was left is cancelled; the same command asks again"
        );
    }
    if explored.interrupted && was_over {
        let message =
            format!("{out}: this exploration was interrupted, and what was left of it is cancelled");
        return Err(interrupted(message, "what was completed is there; take another --out to begin anew"));
    }
    if explored.interrupted {
        let kept = format!("what was completed is in {out}");
        let message = match explored.settled {
            true => "interrupted: what was left is cancelled",
            false => "interrupted: not every server has said that what was left is cancelled",
        };
        return Err(interrupted(message, kept));
    }
    if explored.progress.mandatory < plan.mandatory {
        let missing = plan.mandatory - explored.progress.mandatory;
        let message = format!("{missing} of {} mandatory requests failed", plan.mandatory);
        let hint = format!("why is in {}", arguments.out.join("failed").display());
        return Err(Failure::system(message).hint(hint).code(NOT_COMPLETED));
    }
    Ok(())
}

/// How far it is.
fn line(explored: &Explored, mandatory: u32) -> String {
    let Explored { progress, open, left, platform, .. } = explored;
    let left = match left.0 {
        ms if ms > 0 => format!("{} left", rough(Span(ms / 1_000))),
        _ => "the deadline has passed".to_owned(),
    };
    let share = match platform.deserved_s {
        deserved if deserved > 0.0 => {
            let (had, percent) = (platform.consumed_s, 100.0 * platform.consumed_s / deserved);
            format!(", {had:.0} s of the platform: {percent:.0} % of what is deserved")
        }
        _ => String::new(),
    };
    let failed = match progress.failed {
        0 => String::new(),
        failed => format!(", {} failed", grouped(failed.into())),
    };
    let late = match explored.late {
        Some(late) => format!(" ({} after the deadline)", rough(Span(late.0.div_euclid(1_000).max(1)))),
        None => String::new(),
    };
    format!(
        "{} of {} mandatory{late}, {} optional{failed}, {open} under way, {left}{share}",
        grouped(progress.mandatory.into()),
        grouped(mandatory.into()),
        grouped(progress.optional.into()),
    )
}

#[cfg(test)]
mod tests {
    use pliant_client::Platform;
    use pliant_control::optional::explore::Progress;

    use super::*;

    #[test]
    fn the_line_says_how_far_it_is_and_what_was_had_of_what_is_deserved() {
        let mut explored = Explored {
            progress: Progress { mandatory: 2, optional: 1_234, failed: 0 },
            open: 8,
            servers: 4,
            mandatory_done: None,
            late: None,
            left: SpanMs(90_000),
            platform: Platform { consumed_s: 30.0, deserved_s: 40.0 },
            interrupted: false,
            settled: false,
        };
        let expected = "2 of 3 mandatory, 1,234 optional, 8 under way, 1m30s left, 30 s of the platform: 75 % of what is \
                        deserved";
        assert_eq!(line(&explored, 3), expected);
        explored.progress.failed = 1;
        (explored.left, explored.platform) = (SpanMs(0), Platform::default());
        let expected = "2 of 3 mandatory, 1,234 optional, 1 failed, 8 under way, the deadline has passed";
        assert_eq!(line(&explored, 3), expected);
        (explored.progress.mandatory, explored.late) = (3, Some(SpanMs(65_400)));
        let expected = "3 of 3 mandatory (1m5s after the deadline), ";
        assert!(line(&explored, 3).starts_with(expected), "{}", line(&explored, 3));
    }
}
