//! `pliant launch`: an application of communicating tasks on several clusters at once (paper 003): all of its machines are
//! reserved or none, and all of its tasks end when one fails.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use pliant_client::has_run;
use pliant_control::coallocation::{LaunchEnd, LaunchRecord, LaunchState};
use pliant_request::launch::LaunchOptions;
use tokio::sync::Notify;

use crate::failure::Failure;
use crate::federation::{Access, inform, interrupted};
use crate::job::NOT_COMPLETED;
use crate::launch_text::{self, mapping};
use crate::output::Output;
use crate::verbs::fetch;
use crate::verbs::fetch_launch::FetchedResults;
use crate::verbs::{launch_list, launch_spawn, launch_subjobs};

/// How long to wait until the agent has accepted the launch.
const ANSWER: Duration = Duration::from_secs(60);

const USAGE: &str = "pliant launch [OPTIONS] APP.toml
       pliant launch list [OPTIONS] [LAUNCH]
       pliant launch spawn [OPTIONS] LAUNCH ...
       pliant launch subjobs [OPTIONS]";

#[derive(Args)]
#[command(
    override_usage = USAGE,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Option<LaunchVerb>,
    #[command(flatten)]
    new: NewLaunch,
}

/// What is done with launches that exist.
#[derive(Subcommand)]
enum LaunchVerb {
    /// Lists your launches, the newest first, or shows one launch in detail.
    List(launch_list::Arguments),
    /// Adds tasks to a running launch.
    Spawn(Box<launch_spawn::Arguments>),
    /// Lists the subjobs of launches at servers, and ends subjobs whose agent does not come back.
    Subjobs(launch_subjobs::Arguments),
}

#[derive(Args)]
struct NewLaunch {
    #[command(flatten)]
    launch: LaunchOptions,
    /// Returns once the agent has the launch, which continues.
    #[arg(long, conflicts_with = "dry_run")]
    detach: bool,
    /// Fetches the results of the tasks when the launch is over, each into a folder of its name in DIR.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dry_run", "detach"])]
    out: Option<PathBuf>,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    match (&arguments.verb, &arguments.new.launch.application) {
        (Some(LaunchVerb::List(arguments)), _) => launch_list::run(output, arguments),
        (Some(LaunchVerb::Spawn(arguments)), _) => launch_spawn::run(output, arguments),
        (Some(LaunchVerb::Subjobs(arguments)), _) => launch_subjobs::run(output, arguments),
        (None, Some(file)) => match file.to_str() {
            // An option before the verb makes clap take the verb for the file.
            Some(verb @ ("list" | "spawn" | "subjobs")) if !file.exists() => {
                let expected =
                    format!("expected an application file, found the verb `{verb}` behind an option");
                Err(Failure::input(expected)
                    .hint(format!("options follow the verb: pliant launch {verb} ...")))
            }
            _ => launch(output, file, &arguments.new),
        },
        (None, None) => Err(Failure::input("expected an application file, found none")),
    }
}

fn launch(output: Output, file: &Path, arguments: &NewLaunch) -> Result<(), Failure> {
    if let Some(out) = &arguments.out {
        fetch::is_folder(out)?;
    }
    let (request, inputs) = arguments.launch.request(file)?;
    let session = arguments.access.open()?;
    let stops = Cell::new(false);
    let needs = request.dry_run.then(|| launch_text::needs(&request.application));
    let mut printed = LaunchPrinter { output, needs, ..LaunchPrinter::default() };
    let show = |record: &LaunchRecord| {
        printed.print_changes(record);
        // The reader may be gone. The launch continues.
        match printed.failed.is_some() || (arguments.detach && !stops.get()) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let first = Notify::new();
    let stop = async {
        // If signals cannot be caught, Ctrl-C ends the process at once as usual, and the launch continues.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        stops.set(true);
        first.notify_one();
        inform(|| "ending the launch; press Ctrl-C again to leave without waiting".to_owned());
    };
    let followed = session.run(async {
        let again = async {
            first.notified().await;
            // As above.
            let _ = tokio::signal::ctrl_c().await;
        };
        tokio::select! {
            followed = session.client.launch(&request, &inputs, ANSWER, stop, show) => Some(followed),
            () = again => None,
        }
    });
    let key = request.key;
    let Some(followed) = followed else {
        let hint = format!("`pliant launch list` shows its outcome; its key is {key}");
        return Err(interrupted("interrupted twice; the launch may not be over yet", hint));
    };
    let record = followed.map_err(|error| {
        let may_pass = error.may_pass();
        let failure = Failure::from(error);
        let again = format!("launch again with --key {key}, which gives the same launch, never a second one");
        if may_pass { failure.hint(again) } else { failure }
    })?;
    if let Some(failure) = printed.failed {
        return Err(failure);
    }
    let mut value = launch_text::described(&record);
    let mut fetched = Ok(());
    if let Some(out) = arguments.out.as_ref().filter(|_| has_run(&record)) {
        let left = FetchedResults::of(&session, &record, out);
        left.describe(out, &mut value);
        inform(|| left.summary(out));
        fetched = left.complete();
    }
    if output == Output::Json {
        output.print("launch", String::new, value)?;
    }
    match (outcome(&record, stops.get()), fetched) {
        (Err(failure), Err(unfetched)) => {
            unfetched.warn();
            Err(failure)
        }
        (outcome, fetched) => outcome.and(fetched),
    }
}

/// What has been printed of a launch.
#[derive(Default)]
struct LaunchPrinter {
    output: Output,
    state: Option<LaunchState>,
    id: bool,
    mapping: bool,
    /// What tasks need, if they are only mapped.
    needs: Option<BTreeMap<String, f64>>,
    /// Why no more can be.
    failed: Option<Failure>,
}

impl LaunchPrinter {
    /// Prints changes: the launch ID at once, and the machines of tasks once they are committed.
    fn print_changes(&mut self, record: &LaunchRecord) {
        if self.state != Some(record.state) {
            self.state = Some(record.state);
            inform(|| format!("{}: {}", record.id, state(record)));
        }
        if self.output == Output::Json {
            return;
        }
        let mut text = String::new();
        if !self.id {
            text = format!("{}\n", record.id);
            self.id = true;
        }
        let ran = matches!(record.end, Some(LaunchEnd::Mapped | LaunchEnd::Completed));
        if !self.mapping && (ran || record.state == LaunchState::Running) {
            text.push_str(&match &self.needs {
                Some(needs) => launch_text::trial(record, needs),
                None => mapping(record),
            });
            self.mapping = true;
        }
        if !text.is_empty() {
            self.failed = Output::Text.print("launch", || text, ()).err();
        }
    }
}

fn state(record: &LaunchRecord) -> String {
    match &record.end {
        Some(end) => format!("{}: {end}", record.state.word()),
        None => record.state.word().to_owned(),
    }
}

/// The end of a launch as an exit code.
fn outcome(record: &LaunchRecord, stopped: bool) -> Result<(), Failure> {
    let id = &record.id;
    match &record.end {
        None | Some(LaunchEnd::Completed | LaunchEnd::Mapped) => Ok(()),
        Some(LaunchEnd::Cancelled) if stopped => {
            Err(interrupted(format!("interrupted: {id} is cancelled"), "no task runs any more"))
        }
        Some(end) => {
            let failure = Failure::system(format!("{id}: {end}")).code(NOT_COMPLETED);
            Err(match end {
                LaunchEnd::NotMapped(_) => failure.hint("`pliant servers` lists the connected servers"),
                LaunchEnd::NotReserved(_) => {
                    failure.hint(format!("`pliant launch list {id}` shows where its tasks were to run"))
                }
                _ => failure.hint(format!("`pliant launch list {id}` shows how its tasks ended")),
            })
        }
    }
}
