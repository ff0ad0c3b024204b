//! `pliant explore`: a few mandatory runs of a service or a script, and as many optional ones as free cores allow until a deadline (paper
//! 004).

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use pliant_client::{ExplorationFolder, ExplorationStatus, ExplorationUpdate, Explorer};
use pliant_control::optional::explore::Plan;
use pliant_model::{Span, SpanMs};
use pliant_request::explore::ExploreOptions;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::federation::{Access, Session, ctrl_c, inform, interrupted};
use crate::output::Output;
use crate::progress::spinner;
use crate::table::{counted, grouped};
use crate::time_text::rough;
use crate::work_folders::register;

/// The exit code if a mandatory request did not complete.
const NOT_COMPLETED: u8 = 3;
/// How long a cancellation waits for a server.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(20);

const USAGE: &str = "pliant explore [OPTIONS] --deadline TIME --out DIR SERVICE [KEY=VALUE]...
       pliant explore [OPTIONS] --deadline TIME --out DIR --time TIME --script FILE [KEY=VALUE]... [-- ARGUMENT...]";

#[derive(Args)]
#[command(override_usage = USAGE)]
pub(crate) struct Arguments {
    #[command(flatten)]
    exploration: ExploreOptions,
    /// The folder of results and progress. The same command resumes the exploration in it.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let spec = arguments.exploration.spec(&mut |note| inform(|| note.to_owned()))?;
    let session = arguments.access.open()?;
    let folder = ExplorationFolder::open(&arguments.out)?;
    let explorer = session.run(async { Explorer::new(&session.client, &spec, Some(folder)) })?;
    register(&arguments.out);
    let (resumed, plan) = (explorer.is_resumed(), explorer.plan().clone());
    let was_over = explorer.is_over();
    if resumed && !was_over {
        inform(|| format!("resumes the exploration in {}, with its deadline", arguments.out.display()));
    }
    let explored = driven(&session, explorer, ctrl_c())?;
    let mut value = described(&explored, &plan, &arguments.out);
    value["resumed"] = json!(resumed);
    output.print("explore", || format!("{}\n", line(&explored, plan.mandatory)), value)?;
    end(arguments, &explored, &plan, was_over)
}

/// Runs the exploration until it is over or interrupted, with its progress on a terminal.
fn driven(
    session: &Session,
    explorer: Explorer,
    interrupted: impl Future<Output = ()>,
) -> Result<ExplorationStatus, Failure> {
    let (bar, mandatory) = (spinner(), explorer.plan().mandatory);
    let explored = session.run(explorer.run(interrupted, |update| match update {
        ExplorationUpdate::Progress(explored) => bar.set_message(line(explored, mandatory)),
        ExplorationUpdate::Warning(what) => bar.suspend(|| stderr_line!("warning: {what}")),
    }));
    bar.finish_and_clear();
    Ok(explored?)
}

/// True if the folder has an exploration.
pub(super) fn is_exploration(dir: &Path) -> bool {
    ExplorationFolder::exists(dir)
}

/// Cancels the open requests of the exploration of a folder: a line and a description of it.
pub(super) fn cancel(session: &Session, dir: &Path) -> Result<(String, Value), Failure> {
    let folder = ExplorationFolder::existing(dir)?;
    let explorer = session.run(async { Explorer::resume(&session.client, folder, CANCEL_TIMEOUT) })?;
    let plan = explorer.plan().clone();
    let explored = driven(session, explorer, std::future::ready(()))?;
    let (shown, completed) = (dir.display(), explored.progress.mandatory + explored.progress.optional);
    if !explored.settled {
        let problem = format!("{shown}: not every server has acknowledged the cancellation of open requests");
        return Err(Failure::system(problem).hint(format!("`pliant cancel {shown}` asks again")));
    }
    let mut value = described(&explored, &plan, dir);
    value["kind"] = json!("exploration");
    Ok((format!("{shown} is cancelled: {} completed\n", counted(completed.into(), "request")), value))
}

fn described(explored: &ExplorationStatus, plan: &Plan, out: &Path) -> Value {
    json!({
        "out": out,
        "interrupted": explored.interrupted,
        "mandatory": { "wanted": plan.mandatory, "completed": explored.progress.mandatory },
        "optional": { "wanted": plan.most - plan.mandatory, "completed": explored.progress.optional },
        "failed": explored.progress.failed,
        "mandatory_done_s": explored.mandatory_done.map(seconds),
        "late_s": explored.late.map(seconds),
        "settled": explored.settled,
        "usage_s": explored.platform.usage_s,
        "fair_share_s": explored.platform.fair_share_s,
    })
}

fn seconds(span: SpanMs) -> f64 {
    span.0 as f64 / 1e3
}

/// The failure of an exploration that was interrupted or has failed requests.
fn end(
    arguments: &Arguments,
    explored: &ExplorationStatus,
    plan: &Plan,
    was_over: bool,
) -> Result<(), Failure> {
    let out = arguments.out.display();
    if !explored.settled {
        stderr_line!(
            "warning: not every server has acknowledged the cancellation of open requests; the same command asks again"
        );
    }
    if explored.interrupted && was_over {
        let message = format!("{out}: this exploration was interrupted, and its open requests are cancelled");
        return Err(interrupted(message, "its results are there; choose another --out to begin a new one"));
    }
    if explored.interrupted {
        let kept = format!("results are in {out}");
        let message = match explored.settled {
            true => "interrupted: open requests are cancelled",
            false => "interrupted: not every server has acknowledged the cancellation of open requests",
        };
        return Err(interrupted(message, kept));
    }
    if explored.progress.mandatory < plan.mandatory {
        let missing = plan.mandatory - explored.progress.mandatory;
        let all = counted(plan.mandatory.into(), "mandatory request");
        let message = format!("{missing} of {all} failed");
        let hint = format!("the errors are in {}", arguments.out.join("failed").display());
        return Err(Failure::system(message).hint(hint).code(NOT_COMPLETED));
    }
    Ok(())
}

/// The progress on a line.
fn line(explored: &ExplorationStatus, mandatory: u32) -> String {
    let ExplorationStatus { progress, open, left, platform, .. } = explored;
    let left = match left.0 {
        ms if ms > 0 => format!("{} left", rough(Span(ms / 1_000))),
        _ => "the deadline has passed".to_owned(),
    };
    let share = match platform.fair_share_s {
        fair_share if fair_share > 0.0 => {
            let (usage, percent) = (platform.usage_s, 100.0 * platform.usage_s / fair_share);
            format!(", {usage:.0} s of the platform: {percent:.0} % of the fair share")
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
        "{} of {} mandatory{late}, {} optional{failed}, {open} open, {left}{share}",
        grouped(progress.mandatory.into()),
        grouped(mandatory.into()),
        grouped(progress.optional.into()),
    )
}

#[cfg(test)]
mod tests {
    use pliant_client::PlatformUsage;
    use pliant_control::optional::explore::Progress;

    use super::*;

    #[test]
    fn the_line_shows_progress_and_usage() {
        let mut explored = ExplorationStatus {
            progress: Progress { mandatory: 2, optional: 1_234, failed: 0 },
            open: 8,
            servers: 4,
            mandatory_done: None,
            late: None,
            left: SpanMs(90_000),
            platform: PlatformUsage { usage_s: 30.0, fair_share_s: 40.0 },
            interrupted: false,
            settled: false,
        };
        let expected = "2 of 3 mandatory, 1,234 optional, 8 open, 1m30s left, 30 s of the platform: 75 % of the fair \
                        share";
        assert_eq!(line(&explored, 3), expected);
        explored.progress.failed = 1;
        (explored.left, explored.platform) = (SpanMs(0), PlatformUsage::default());
        let expected = "2 of 3 mandatory, 1,234 optional, 1 failed, 8 open, the deadline has passed";
        assert_eq!(line(&explored, 3), expected);
        (explored.progress.mandatory, explored.late) = (3, Some(SpanMs(65_400)));
        let expected = "3 of 3 mandatory (1m5s after the deadline), ";
        assert!(line(&explored, 3).starts_with(expected), "{}", line(&explored, 3));
    }
}
