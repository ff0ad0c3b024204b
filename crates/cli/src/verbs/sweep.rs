//! `pliant sweep`: very many runs of a service with different arguments, spread over the servers by statistics (paper 002).

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use pliant_client::{
    Fate, MultiJobError, MultiJobWanted, Preview, Row, Rows, SweepFolder, SweepStatus, Sweeper,
};
use pliant_control::multi_job::{Progress, RETRIES_MAX, RuntimeSource, Share};
use pliant_model::{Span, SpanMs};
use pliant_policy::allocation::Strategy;
use pliant_policy::runtimes::Level;
use pliant_report::{InstanceRow, write_instances};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::federation::{Access, Session, failed, interrupted, patience, tell};
use crate::job_files::{Input, announced, input};
use crate::moment::rough;
use crate::numbers::whole;
use crate::output::Output;
use crate::progress::spinner;
use crate::table::{Table as Shown, counted, grouped};
use crate::varying::{REQUESTS_MAX, Varying};
use crate::words::strategy;

/// How many failed instances are told one by one.
const FAILED_SHOWN: usize = 20;
/// The exit code if an instance failed.
const NOT_COMPLETED: u8 = 3;

const USAGE: &str = "pliant sweep [OPTIONS] SERVICE [KEY=VALUE]... --vary KEY=VALUES --out DIR
       pliant sweep --resume DIR
       pliant sweep --cancel DIR";
/// What is said anew where a sweep begins, and noted where it goes on.
const BEGINNING: [&str; 11] = [
    "service",
    "arguments",
    "vary",
    "vary_file",
    "zip",
    "inputs",
    "allocate",
    "allocate_once",
    "retries",
    "out",
    "dry_run",
];

#[derive(Args)]
#[command(override_usage = USAGE)]
pub(crate) struct Arguments {
    /// A service of the federation; `pliant servers --services` lists them.
    #[arg(value_name = "SERVICE", required_unless_present_any = ["resume", "cancel"])]
    service: Option<String>,
    #[command(flatten)]
    varying: Varying,
    /// An input file, under its own name or another, in the folder of every instance, which can only read it; may be
    /// repeated. Each server gets it once.
    #[arg(long = "in", value_name = "[NAME=]FILE", value_parser = input)]
    inputs: Vec<Input>,
    /// How instances are spread over servers.
    #[arg(long, value_name = "STRATEGY", value_parser = strategy(), default_value = "statistics")]
    allocate: Strategy,
    /// Spreads instances once, in the beginning: none goes elsewhere because that has become sooner.
    #[arg(long)]
    allocate_once: bool,
    /// How often an instance that failed is tried again.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = whole(0..=RETRIES_MAX))]
    retries: u8,
    /// Where results are kept, and how far it is. The same command goes on where another one was.
    #[arg(long, value_name = "DIR", required_unless_present_any = ["resume", "cancel", "dry_run"])]
    out: Option<PathBuf>,
    /// Goes on with the sweep of this folder, whatever it is.
    #[arg(long, value_name = "DIR", conflicts_with_all = BEGINNING)]
    resume: Option<PathBuf>,
    /// Ends the sweep of this folder: what runs is ended, what waits is withdrawn, what is done is kept. For good.
    #[arg(long, value_name = "DIR", conflicts_with = "resume", conflicts_with_all = BEGINNING)]
    cancel: Option<PathBuf>,
    /// Shows what each server would get and how long it would take, and submits nothing.
    #[arg(long)]
    dry_run: bool,
    /// How long to wait for a server that takes instances.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = patience)]
    patience: Duration,
    #[command(flatten)]
    access: Access,
}

impl Arguments {
    fn wanted(&self) -> Result<MultiJobWanted, Failure> {
        let sweep = self.varying.sweep()?;
        match sweep.combinations() {
            Some(1..=REQUESTS_MAX) => {}
            Some(_) => {
                let most = grouped(REQUESTS_MAX.into());
                return Err(Failure::input(format!("expected at most {most} instances, found more")));
            }
            None => {
                let message = "expected --vary KEY=VALUES or --vary-file FILE, found neither";
                return Err(Failure::input(message).hint("one of them says which instances there are"));
            }
        }
        let inputs = announced("--in", &self.inputs)?;
        Ok(MultiJobWanted {
            service: self.service.clone().unwrap_or_default(),
            sweep,
            inputs,
            strategy: self.allocate,
            once: self.allocate_once,
            retries: self.retries,
            patience: self.patience,
        })
    }
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let session = arguments.access.open()?;
    if arguments.dry_run {
        return dry_run(output, &session, &arguments.wanted()?);
    }
    let (mut sweeper, dir) = match (arguments.resume.as_ref().or(arguments.cancel.as_ref()), &arguments.out) {
        (Some(dir), _) => {
            let folder = SweepFolder::existing(dir)?;
            let resumed = session.run(async { Sweeper::resume(&session.client, folder, arguments.patience) });
            (resumed?, dir)
        }
        (None, Some(dir)) => {
            let wanted = arguments.wanted()?;
            let folder = SweepFolder::open(dir)?;
            let new = session.run(async { Sweeper::new(&session.client, &wanted, folder) });
            (new?, dir)
        }
        (None, None) => return Err(Failure::input("expected --out DIR or --resume DIR, found neither")),
    };
    let resumed = sweeper.is_resumed();
    if arguments.cancel.is_some() {
        sweeper.cancel()?;
    } else if resumed {
        tell(|| format!("goes on with what {} has", dir.display()));
    }
    let bar = spinner();
    let driven = drive(&session, &mut sweeper, dir, &bar);
    bar.finish_and_clear();
    let status = match driven {
        Ok(status) => status,
        Err(failure) if sweeper.has_begun() => {
            // What is known is told all the same; why it went no further matters more than what comes of that.
            let rows = Rows::of(sweeper.into_folder()).map_err(Failure::from);
            if let Err(unwritten) = rows.and_then(|mut rows| results(&mut rows)) {
                unwritten.print();
            }
            return Err(failure);
        }
        Err(failure) => return Err(failure),
    };
    let mut rows = Rows::of(sweeper.into_folder())?;
    let failures = results(&mut rows)?;
    let value = json!({
        "out": dir,
        "resumed": resumed,
        "interrupted": status.interrupted,
        "instances": status.instances,
        "completed": status.progress.done,
        "failed": status.progress.failed,
        "cancelled": status.progress.cancelled,
        "tried_again": status.progress.retried,
        "packs": status.progress.packs,
        "failures": failures.iter().map(described).collect::<Vec<_>>(),
    });
    output.print("sweep", || text(&status, &rows.names(), &failures), value)?;
    conclusion(&status, dir, arguments.cancel.is_some())
}

/// Goes on until it is over or Ctrl-C is pressed.
fn drive(
    session: &Session,
    sweeper: &mut Sweeper,
    dir: &Path,
    bar: &ProgressBar,
) -> Result<SweepStatus, Failure> {
    // If signals cannot be caught, Ctrl-C ends the process at once as usual, and the same command goes on.
    let stop = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let status = session.run(sweeper.run(stop, |status| bar.set_message(line(status))));
    status.map_err(|error| {
        let failure = Failure::from(error);
        match sweeper.jobs().len() {
            0 => failure,
            jobs => {
                let (jobs, dir) = (counted(jobs as u64, "job"), dir.display());
                failure.hint(format!(
                    "{jobs} may go on: `pliant sweep --resume {dir}` follows them, `pliant sweep --cancel {dir}` ends them"
                ))
            }
        }
    })
}

fn conclusion(status: &SweepStatus, dir: &Path, is_cancel: bool) -> Result<(), Failure> {
    if status.interrupted {
        let verb = if is_cancel { "cancel" } else { "resume" };
        let hint = format!("`pliant sweep --{verb} {}` goes on, now or later", dir.display());
        return Err(interrupted("interrupted: what was handed out goes on without it", hint));
    }
    let Progress { failed, cancelled, .. } = status.progress;
    if is_cancel || failed + cancelled == 0 {
        return Ok(());
    }
    let told = |count: u32| grouped(count.into());
    let all = told(status.instances);
    let what = match (failed, cancelled) {
        (_, 0) => format!("{} of {all} instances failed", told(failed)),
        (0, _) => format!("{} of {all} instances were cancelled", told(cancelled)),
        _ => format!("{} of {all} instances failed, {} were cancelled", told(failed), told(cancelled)),
    };
    let hint = format!("{} tells of each", dir.join("results.csv").display());
    Err(Failure::system(what).hint(hint).code(NOT_COMPLETED))
}

/// Writes the tables of results; the first failed instances.
fn results(rows: &mut Rows) -> Result<Vec<Row>, Failure> {
    let mut failures = Vec::new();
    let (dir, names, count) = (rows.dir().to_owned(), rows.names(), rows.len());
    write_instances::<Failure>(&dir, &names, count, |instance| {
        let row = rows.row(instance)?;
        if row.fate == Fate::Failed && failures.len() < FAILED_SHOWN {
            failures.push(row.clone());
        }
        Ok(InstanceRow {
            instance: row.instance,
            values: row.values,
            state: row.fate.word().to_owned(),
            exit_code: row.code,
            how: row.how,
            tries: row.tries,
            server: row.server.map(|server| server.to_string()).unwrap_or_default(),
            job: row.job.map(|job| job.to_string()).unwrap_or_default(),
            elapsed_ms: row.elapsed_ms,
            output: row.output,
            error: row.error,
        })
    })?;
    Ok(failures)
}

fn described(row: &Row) -> Value {
    json!({
        "instance": row.instance,
        "values": row.values,
        "how": row.how,
        "tries": row.tries,
        "job": row.job,
        "error": row.error,
    })
}

/// How far it is.
fn line(status: &SweepStatus) -> String {
    let SweepStatus { progress, instances, left, servers, .. } = status;
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
    format!("{done} of {all} done{failed}, {open} handed out to {}{left}", counted(*servers as u64, "server"))
}

fn text(status: &SweepStatus, names: &[String], failures: &[Row]) -> String {
    let Progress { done, failed, cancelled, retried, packs, .. } = status.progress;
    let some = |count: u32, what: &str| match count {
        0 => String::new(),
        count => format!(", {} {what}", grouped(count.into())),
    };
    let (cancelled, again) = (some(cancelled, "cancelled"), some(retried, "tried again"));
    let mut text = format!(
        "{} of {} done, {} failed{cancelled}{again}, in {}\n",
        grouped(done.into()),
        grouped(status.instances.into()),
        grouped(failed.into()),
        counted(packs.into(), "job"),
    );
    for row in failures {
        let values = names.iter().zip(&row.values).map(|(name, value)| format!("{name}={value}"));
        let values: Vec<String> = values.collect();
        let error = row.error.lines().next_back().map(|line| format!(": {line}")).unwrap_or_default();
        text += &format!("failed: {} ({}), {}{error}\n", row.instance, values.join(" "), row.how);
    }
    if failed as usize > failures.len() {
        text += &format!("and {} more\n", grouped(u64::from(failed) - failures.len() as u64));
    }
    text
}

fn dry_run(output: Output, session: &Session, wanted: &MultiJobWanted) -> Result<(), Failure> {
    let preview = session.run(session.client.allocation(wanted))?;
    let Preview { shares, makespan, others, asked, refused } = &preview;
    let share = |share: &Share| {
        json!({
            "server": share.server,
            "instances": share.instances,
            "at_a_time": share.places,
            "instance_s": share.instance.seconds(),
            "told_by": told_by(share.told),
            "makespan_s": share.makespan.seconds(),
        })
    };
    let value = json!({
        "strategy": wanted.strategy.name(),
        "instances": wanted.sweep.combinations(),
        "makespan_s": makespan.seconds(),
        "servers": shares.iter().map(share).collect::<Vec<_>>(),
        "others": others.iter().map(|one| json!({ "server": one.server, "why": one.reason.why })).collect::<Vec<_>>(),
        "asked": asked,
        "refused": refused.iter().map(|(instance, why)| json!({ "instance": instance, "why": why })).collect::<Vec<_>>(),
    });
    output.print("sweep", || allocation(wanted, &preview), value)
}

fn told_by(told: RuntimeSource) -> String {
    match told {
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

fn allocation(wanted: &MultiJobWanted, preview: &Preview) -> String {
    let Preview { shares, makespan, others, asked, refused } = preview;
    let seconds = |span: SpanMs| match span.0 {
        ms if ms < 10_000 => format!("{:.2}s", span.seconds()),
        ms => rough(Span(ms / 1_000)),
    };
    let mut table = Shown::new(1, &["server", "instances", "at a time", "each", "known from", "done after"]);
    for share in shares {
        table.row(vec![
            share.server.to_string(),
            grouped(share.instances),
            grouped(share.places.into()),
            seconds(share.instance),
            told_by(share.told),
            seconds(share.makespan),
        ]);
    }
    let instances = counted(wanted.sweep.combinations().unwrap_or(0).into(), "instance");
    let mut text = table.render();
    text +=
        &format!("{instances} by {}, expected to be done after {}\n", wanted.strategy, seconds(*makespan));
    if shares.iter().any(|share| share.told == RuntimeSource::Walltime) {
        text +=
            "known from walltime: no such job has ended there yet, so that each is taken to need all of it\n";
    }
    for one in others {
        text += &format!("{} gets none: {}\n", one.server, one.reason.why);
    }
    if let Some((instance, why)) = refused.first() {
        let values = wanted.sweep.arguments(*instance);
        let values = wanted.sweep.names().filter_map(|name| Some(format!("{name}={}", values.get(name)?)));
        let values: Vec<String> = values.collect();
        let (refused, asked) = (refused.len() as u64, counted(*asked as u64, "instance"));
        text += &format!(
            "of {asked} that servers were asked about nobody takes {refused}, the first of them {}: {why}\n",
            values.join(" ")
        );
    }
    text
}

impl From<MultiJobError> for Failure {
    fn from(error: MultiJobError) -> Failure {
        match error {
            MultiJobError::Client(error) => failed(error),
            MultiJobError::Folder(error) => error.into(),
            MultiJobError::Nobody(ref servers) => match servers.iter().any(|one| one.reason.cause.may_pass())
            {
                true => Failure::system(error).hint("try again in a moment"),
                false if servers.is_empty() => Failure::system(error).hint("try again in a moment"),
                false => Failure::input(error).hint("`pliant servers --services` lists what there is"),
            },
            MultiJobError::Refused { .. } => {
                Failure::input(error).hint("`pliant servers --services` tells what services take")
            }
            MultiJobError::NotOurs { .. } => {
                Failure::input(error).hint("go on with it as the user who began it")
            }
        }
    }
}
