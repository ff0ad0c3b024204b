//! `pliant sweep`: many runs of a service or a script with different arguments, allocated to servers by statistics (paper 002).

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use pliant_client::{
    InstanceRecord, SweepFolder, SweepPreview, SweepResults, SweepSpec, SweepStatus, Sweeper,
};
use pliant_control::multi_job::{Progress, RuntimeSource, Share};
use pliant_model::{Span, SpanMs, Time};
use pliant_policy::runtimes::Level;
use pliant_request::sweep::SweepOptions;
use pliant_request::work_folders::{Tables, write_results};
use serde_json::{Value, json};

use crate::executable_options::EXECUTABLE_OPTIONS;
use crate::failure::Failure;
use crate::federation::{Access, Session, ctrl_c, inform, interrupted};
use crate::output::Output;
use crate::progress::spinner;
use crate::resource_options::RESOURCE_OPTIONS;
use crate::table::{Table as Shown, counted, grouped};
use crate::time_text::{now, rough};
use crate::work_folders::register;

/// How many failed instances are listed.
const FAILED_SHOWN: usize = 20;
/// The exit code if an instance failed.
const NOT_COMPLETED: u8 = 3;
/// How long a cancellation waits for a server.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(60);

const USAGE: &str = "pliant sweep [OPTIONS] SERVICE [KEY=VALUE]... --vary KEY=VALUES --out DIR
       pliant sweep [OPTIONS] --time TIME --script FILE [KEY=VALUE]... --vary KEY=VALUES --out DIR [-- ARGUMENT...]
       pliant sweep --resume DIR";

/// The options that a new sweep takes and a resumed one has in its folder.
fn beginning() -> impl Iterator<Item = &'static str> {
    let of_sweep =
        ["service", "inputs", "allocate", "allocate_once", "retries", "at_once", "out", "dry_run", "rigid"];
    of_sweep.into_iter().chain(EXECUTABLE_OPTIONS).chain(RESOURCE_OPTIONS)
}

#[derive(Args)]
#[command(override_usage = USAGE)]
pub(crate) struct Arguments {
    #[command(flatten)]
    sweep: SweepOptions,
    /// The folder of results and progress. The same command resumes the sweep in it.
    #[arg(long, value_name = "DIR", required_unless_present_any = ["resume", "dry_run"])]
    out: Option<PathBuf>,
    /// Resumes the sweep of this folder.
    #[arg(long, value_name = "DIR", conflicts_with_all = beginning())]
    resume: Option<PathBuf>,
    /// Shows the allocation and the expected makespan, and submits nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let session = arguments.access.open()?;
    let spec = || arguments.sweep.spec(&mut |note| inform(|| note.to_owned()));
    match (&arguments.resume, &arguments.out) {
        (Some(dir), _) => {
            let sweeper = existing(&session, dir, arguments.sweep.server_timeout)?;
            register(dir);
            follow(output, &session, sweeper, dir)
        }
        (None, _) if arguments.dry_run => dry_run(output, &session, &spec()?),
        (None, Some(dir)) => begin(output, &session, &spec()?, dir),
        (None, None) => Err(Failure::input("expected --out DIR or --resume DIR, found neither")),
    }
}

/// Begins a sweep, or resumes it if it is the one of the folder, and follows it.
pub(super) fn begin(output: Output, session: &Session, spec: &SweepSpec, dir: &Path) -> Result<(), Failure> {
    let folder = SweepFolder::open(dir)?;
    let sweeper = session.run(async { Sweeper::new(&session.client, spec, folder) })?;
    register(dir);
    follow(output, session, sweeper, dir)
}

/// Follows a sweep until it is over or interrupted.
fn follow(output: Output, session: &Session, sweeper: Sweeper, dir: &Path) -> Result<(), Failure> {
    let resumed = sweeper.is_resumed();
    if resumed {
        inform(|| format!("resumes the sweep in {}", dir.display()));
    }
    let DrivenSweep { status, names, failures, late } = driven(session, sweeper, dir)?;
    let mut value = described_sweep(&status, dir);
    value["resumed"] = json!(resumed);
    value["failures"] = failures.iter().map(described).collect();
    let lines = || {
        let late = late.as_deref().map(|how| format!("not started: {how}\n"));
        text(&status, &names, &failures) + &late.unwrap_or_default()
    };
    output.print("sweep", lines, value)?;
    conclusion(&status, dir)
}

fn existing(session: &Session, dir: &Path, timeout: Duration) -> Result<Sweeper, Failure> {
    let folder = SweepFolder::existing(dir)?;
    Ok(session.run(async { Sweeper::resume(&session.client, folder, timeout) })?)
}

/// Cancels the sweep of a folder for good, and waits until its jobs have ended: a line and a description of it.
pub(super) fn cancel(session: &Session, dir: &Path) -> Result<(String, Value), Failure> {
    let mut sweeper = existing(session, dir, CANCEL_TIMEOUT)?;
    sweeper.cancel()?;
    let DrivenSweep { status, .. } = driven(session, sweeper, dir)?;
    if status.interrupted {
        let hint = format!("`pliant cancel {}` continues, now or later", dir.display());
        return Err(interrupted("interrupted: submitted jobs may still run", hint));
    }
    let Progress { done, cancelled, .. } = status.progress;
    let (done, cancelled) = (counted(done.into(), "instance"), grouped(cancelled.into()));
    let text = format!("{} is cancelled: {done} completed, {cancelled} cancelled\n", dir.display());
    let mut value = described_sweep(&status, dir);
    value["kind"] = json!("sweep");
    Ok((text, value))
}

fn described_sweep(status: &SweepStatus, dir: &Path) -> Value {
    json!({
        "out": dir,
        "interrupted": status.interrupted,
        "instances": status.instances,
        "completed": status.progress.done,
        "failed": status.progress.failed,
        "not_started": status.progress.not_started,
        "cancelled": status.progress.cancelled,
        "retried": status.progress.retried,
        "batches": status.progress.batches,
    })
}

/// A sweep that is over or interrupted, with the names of its arguments and its first failed instances.
struct DrivenSweep {
    status: SweepStatus,
    names: Vec<String>,
    failures: Vec<InstanceRecord>,
    /// Why the first of those did not run that no server completes by the deadline.
    late: Option<String>,
}

/// Runs the sweep, with its progress on a terminal, and writes its results.
fn driven(session: &Session, mut sweeper: Sweeper, dir: &Path) -> Result<DrivenSweep, Failure> {
    let bar = spinner();
    let driven = drive(session, &mut sweeper, dir, &bar);
    bar.finish_and_clear();
    match driven {
        Ok(status) => {
            let mut rows = SweepResults::of(sweeper.into_folder())?;
            let Tables { failures, late } = write_results(&mut rows, FAILED_SHOWN)?;
            Ok(DrivenSweep { status, names: rows.names(), failures, late })
        }
        Err(failure) => {
            // Known results are written all the same; the failure of the sweep matters more than a failure of that.
            if sweeper.has_begun() {
                let rows = SweepResults::of(sweeper.into_folder()).map_err(Failure::from);
                if let Err(unwritten) = rows.and_then(|mut rows| Ok(write_results(&mut rows, FAILED_SHOWN)?))
                {
                    unwritten.print();
                }
            }
            Err(failure)
        }
    }
}

/// Runs the sweep until it is over or Ctrl-C is pressed.
fn drive(
    session: &Session,
    sweeper: &mut Sweeper,
    dir: &Path,
    bar: &ProgressBar,
) -> Result<SweepStatus, Failure> {
    let status = session.run(sweeper.run(ctrl_c(), |status| bar.set_message(line(status))));
    status.map_err(|error| {
        let failure = Failure::from(error);
        match sweeper.jobs().len() {
            0 => failure,
            jobs => {
                let (jobs, dir) = (counted(jobs as u64, "job"), dir.display());
                failure.hint(format!(
                    "{jobs} may still run: `pliant sweep --resume {dir}` follows them, `pliant cancel {dir}` cancels them"
                ))
            }
        }
    })
}

fn conclusion(status: &SweepStatus, dir: &Path) -> Result<(), Failure> {
    if status.interrupted {
        let hint = format!("`pliant sweep --resume {}` continues, now or later", dir.display());
        return Err(interrupted("interrupted: submitted jobs continue", hint));
    }
    let Progress { failed, cancelled, not_started, .. } = status.progress;
    let all = counted(status.instances.into(), "instance");
    let parts = [
        (failed, "failed"),
        (not_started, "did not run since no server completes them by the deadline"),
        (cancelled, "were cancelled"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0).enumerate();
    let what: Vec<String> = parts
        .map(|(at, (count, what))| match (grouped(count.into()), at) {
            (count, 0) => format!("{count} of {all} {what}"),
            (count, _) => format!("{count} {what}"),
        })
        .collect();
    if what.is_empty() {
        return Ok(());
    }
    let hint = format!("{} lists them", dir.join("results.csv").display());
    Err(Failure::system(what.join(", ")).hint(hint).code(NOT_COMPLETED))
}

fn described(row: &InstanceRecord) -> Value {
    json!({
        "instance": row.instance,
        "values": row.values,
        "how": row.how,
        "tries": row.tries,
        "job": row.job,
        "error": row.error.to_string(),
    })
}

/// The progress on a line.
fn line(status: &SweepStatus) -> String {
    let SweepStatus { progress, instances, left, servers, begin, .. } = status;
    if let Some(begin) = begin {
        return format!("starts at {} (--begin)", begin.utc());
    }
    let Progress { done, failed, open, .. } = *progress;
    let failed = match failed {
        0 => String::new(),
        failed => format!(", {} failed", grouped(failed.into())),
    };
    let left = match left {
        Some(left) => format!(", about {} left", rough(Span(left.0 / 1_000 + 1))),
        None => String::new(),
    };
    let (done, all) = (grouped(done.into()), grouped((*instances).into()));
    let open = grouped(open.into());
    format!("{done} of {all} done{failed}, {open} submitted to {}{left}", counted(*servers as u64, "server"))
}

fn text(status: &SweepStatus, names: &[String], failures: &[InstanceRecord]) -> String {
    let Progress { done, failed, cancelled, not_started, retried, batches, .. } = status.progress;
    let some = |count: u32, what: &str| match count {
        0 => String::new(),
        count => format!(", {} {what}", grouped(count.into())),
    };
    let (cancelled, again) = (some(cancelled, "cancelled"), some(retried, "run again"));
    let late = some(not_started, "not started before the deadline");
    let mut text = format!(
        "{} of {} done, {} failed{late}{cancelled}{again}, in {}\n",
        grouped(done.into()),
        grouped(status.instances.into()),
        grouped(failed.into()),
        counted(batches.into(), "job"),
    );
    for row in failures {
        let values = names.iter().zip(&row.values).map(|(name, value)| format!("{name}={value}"));
        let values: Vec<String> = values.collect();
        let error =
            row.error.to_string().lines().next_back().map(|line| format!(": {line}")).unwrap_or_default();
        text += &format!("failed: {} ({}), {}{error}\n", row.instance, values.join(" "), row.how);
    }
    if failed as usize > failures.len() {
        text += &format!("and {} more\n", grouped(u64::from(failed) - failures.len() as u64));
    }
    text
}

pub(super) fn dry_run(output: Output, session: &Session, spec: &SweepSpec) -> Result<(), Failure> {
    let preview = session.run(session.client.allocation(spec))?;
    let SweepPreview { shares, makespan, others, asked, refused } = &preview;
    let share = |share: &Share| {
        json!({
            "server": share.server,
            "instances": share.instances,
            "at_a_time": share.slots,
            "instance_s": share.instance.seconds(),
            "known_from": known_from(share.source),
            "makespan_s": share.makespan.seconds(),
        })
    };
    let value = json!({
        "strategy": spec.strategy.name(),
        "instances": spec.parameters.combinations(),
        "makespan_s": makespan.seconds(),
        "deadline_s": deadline(spec).map(|deadline| deadline.0),
        "servers": shares.iter().map(share).collect::<Vec<_>>(),
        "others": others.iter().map(|one| json!({ "server": one.server, "why": one.reason.why })).collect::<Vec<_>>(),
        "asked": asked,
        "refused": refused.iter().map(|(instance, why)| json!({ "instance": instance, "why": why })).collect::<Vec<_>>(),
    });
    output.print("sweep", || allocation(spec, &preview), value)
}

/// The instant by which the instances have to complete.
fn deadline(spec: &SweepSpec) -> Option<Time> {
    spec.executable.script()?.work.deadline
}

fn known_from(source: RuntimeSource) -> String {
    match source {
        RuntimeSource::Walltime => "walltime".to_owned(),
        RuntimeSource::Statistics { jobs } => counted(jobs, "job"),
        RuntimeSource::Federation { level, jobs } => {
            let whose = match level {
                Level::Executable => "elsewhere",
                Level::User => "of the user",
                Level::Group => "of the group",
                Level::All => "of all",
            };
            format!("{} {whose}", counted(jobs, "job"))
        }
        RuntimeSource::Own { instances } => counted(instances, "instance"),
    }
}

fn allocation(spec: &SweepSpec, preview: &SweepPreview) -> String {
    let SweepPreview { shares, makespan, others, asked, refused } = preview;
    let seconds = |span: SpanMs| match span.0 {
        ms if ms < 10_000 => format!("{:.2}s", span.seconds()),
        ms => rough(Span(ms / 1_000)),
    };
    let mut table = Shown::new(1, &["server", "instances", "at a time", "each", "known from", "done after"]);
    for share in shares {
        table.row(vec![
            share.server.to_string(),
            grouped(share.instances),
            grouped(share.slots.into()),
            seconds(share.instance),
            known_from(share.source),
            seconds(share.makespan),
        ]);
    }
    let instances = counted(spec.parameters.combinations().unwrap_or(0).into(), "instance");
    let mut text = table.render();
    text += &format!("{instances} by {}, expected to be done after {}\n", spec.strategy, seconds(*makespan));
    if shares.iter().any(|share| share.source == RuntimeSource::Walltime) {
        text += "known from walltime: no such job has ended there yet, so each is expected to take its whole walltime\n";
    }
    if let Some(deadline) = deadline(spec).filter(|deadline| now() + Span(makespan.0 / 1_000) > *deadline) {
        let deadline = deadline.utc();
        text += &format!(
            "that is after the deadline, {deadline}: instances that no server completes by then do not run\n"
        );
    }
    for one in others {
        text += &format!("{} gets none: {}\n", one.server, one.reason.why);
    }
    if let Some((instance, why)) = refused.first() {
        let values = spec.parameters.arguments(*instance);
        let values = spec.parameters.names().filter_map(|name| Some(format!("{name}={}", values.get(name)?)));
        let values: Vec<String> = values.collect();
        let (refused, asked) = (refused.len() as u64, counted(*asked as u64, "instance"));
        text += &format!(
            "no server accepts {refused} of the {asked} that the servers were asked about; the first of these is {}: {why}\n",
            values.join(" ")
        );
    }
    text
}
