//! `pliant spawn`: one more task for a launch that runs, placed near those that it talks to.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pliant_control::coallocation::{LaunchId, LaunchRecord, LaunchState, Spawn, TaskRecord, Wish};
use pliant_control::names::Key;
use pliant_live::client::{ClientError, InputPaths, InputSender};
use pliant_live::wire::TaskProgram;
use pliant_trace::tig::Program;
use serde_json::json;

use crate::application::program;
use crate::failure::Failure;
use crate::federation::{Access, Session, interrupted, tell};
use crate::job::NOT_COMPLETED;
use crate::launched::{described, mapping_of};
use crate::output::Output;
use crate::verbs::submit::{Input, announced, argument, drawn, input, once_each};

/// The pause between two looks at the task.
const LOOK: Duration = Duration::from_millis(500);

const USAGE: &str =
    "pliant spawn [OPTIONS] LAUNCH --name TASK --talks TASK=RQOC --service SERVICE [KEY=VALUE]...
       pliant spawn [OPTIONS] LAUNCH --name TASK --talks TASK=RQOC --script FILE [-- ARGUMENT...]";

#[derive(Args)]
#[command(override_usage = USAGE)]
pub(crate) struct Arguments {
    /// The launch, as `pliant launches` lists it.
    #[arg(value_name = "LAUNCH")]
    launch: LaunchId,
    /// The service's arguments.
    #[arg(value_name = "KEY=VALUE", value_parser = argument)]
    arguments: Vec<(String, String)>,
    /// The task's name, unique in the launch.
    #[arg(long, value_name = "TASK")]
    name: String,
    /// What it needs of its machine, relative to the other tasks.
    #[arg(long, value_name = "RCR", default_value_t = 1.0, value_parser = positive, allow_negative_numbers = true)]
    rcr: f64,
    /// A task that it talks to, and how much; may be repeated.
    #[arg(long, value_name = "TASK=RQOC", required = true, value_parser = talk)]
    talks: Vec<(String, f64)>,
    /// The service that it runs.
    #[arg(long, value_name = "SERVICE", required_unless_present = "script")]
    service: Option<String>,
    /// The script that it runs, in place of a service.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["service", "arguments"])]
    script: Option<PathBuf>,
    /// What the script is started with.
    #[arg(last = true, value_name = "ARGUMENT", conflicts_with = "service")]
    script_arguments: Vec<String>,
    /// An input file, under its own name or another, where the task runs; may be repeated.
    #[arg(long = "in", value_name = "[NAME=]FILE", value_parser = input)]
    inputs: Vec<Input>,
    /// Makes the task unique: the same command again with this key gives the same task, never a second one.
    /// 32 hexadecimal digits.
    #[arg(long, value_name = "HEX")]
    key: Option<Key>,
    #[command(flatten)]
    access: Access,
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite());
    number.ok_or_else(|| "expected a number above 0".to_owned())
}

/// `TASK=RQOC`.
fn talk(text: &str) -> Result<(String, f64), String> {
    let (task, rqoc) = argument(text).map_err(|_| format!("expected TASK=RQOC, found `{text}`"))?;
    Ok((task, positive(&rqoc)?))
}

impl Arguments {
    /// The task, and where its input files are.
    fn spawn(&self) -> Result<(Spawn, InputPaths), Failure> {
        let runs = match (&self.service, &self.script) {
            (_, Some(path)) => {
                Program::Script { path: path.clone(), arguments: self.script_arguments.clone() }
            }
            (service, None) => {
                let name = service.clone().unwrap_or_default();
                Program::Service { name, arguments: once_each(&self.arguments)? }
            }
        };
        let program = program("--script", runs)?;
        let announced = announced("--in", &self.inputs)?;
        let paths = announced.iter().map(|(file, path)| (file.sha256, path.clone())).collect();
        let inputs = announced.into_iter().map(|(file, _)| file).collect();
        let launch = TaskProgram { program, inputs }.note();
        let task = Wish { name: self.name.clone(), rcr: self.rcr, launch };
        let spawn = Spawn { key: self.key.map_or_else(drawn, Ok)?, task, talks: self.talks.clone() };
        Ok((spawn, paths))
    }
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let (spawn, paths) = arguments.spawn()?;
    let session = arguments.access.open()?;
    let (launch, name) = (&arguments.launch, &arguments.name);
    let sender = InputSender::new(&session.client, launch.key, [&spawn.task], &paths)?;
    session.run(session.client.spawn(launch, &spawn))?;
    tell(|| format!("{launch} has the task `{name}`; it gets its machine"));
    let settled = session.run_until_interrupted(settled(&session, launch, name, sender));
    let goes_on = || {
        let hint = format!("`pliant launches {launch}` shows what becomes of it");
        interrupted("interrupted; the task is spawned all the same, if it finds a machine", hint)
    };
    let record = settled.ok_or_else(goes_on)??;
    let task = record.tasks.iter().find(|task| task.name == *name);
    let text = || task.map_or_else(String::new, mapping_of);
    output.print("spawn", text, json!({ "task": name, "launch": described(&record) }))?;
    match task.and_then(|task| task.not_spawned.as_ref()) {
        Some(why) => {
            let problem = format!("`{name}` is not spawned: {why}");
            Err(Failure::system(problem).hint("the launch goes on without it").code(NOT_COMPLETED))
        }
        None => Ok(()),
    }
}

/// The launch, once it is known where the task listens, or that it never will.
async fn settled(
    session: &Session,
    launch: &LaunchId,
    name: &str,
    mut sender: InputSender,
) -> Result<LaunchRecord, ClientError> {
    let is_settled = |task: &TaskRecord| {
        task.name == name && (task.address.is_some() || task.exit.is_some() || task.not_spawned.is_some())
    };
    loop {
        match session.client.find_launch(launch).await {
            Ok(record) if record.state == LaunchState::Over || record.tasks.iter().any(is_settled) => {
                return Ok(record);
            }
            Ok(record) => sender.go_on(&record)?,
            Err(error) if error.may_pass() => {}
            Err(error) => return Err(error),
        }
        tokio::time::sleep(LOOK).await;
    }
}
