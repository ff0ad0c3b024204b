//! `pliant launch spawn`: adds tasks to a running launch, near the tasks that they communicate with.

use pliant_control::payload::Payload;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pliant_client::{ClientError, InputPaths, InputSender};
use pliant_control::coallocation::{
    LaunchId, LaunchRecord, LaunchState, SpawnSpec, SpawnedTask, TaskRecord, TaskSpec,
};
use pliant_control::names::Key;
use pliant_request::application;
use pliant_request::submit::drawn;
use pliant_trace::tig::Program;
use pliant_wire::TaskProgram;
use serde_json::json;

use crate::failure::Failure;
use crate::federation::{Access, Session, inform, interrupted};
use crate::job::NOT_COMPLETED;
use crate::job_files::{Input, announced, input};
use crate::launch_text::{described, mapping_of};
use crate::output::Output;
use crate::service_arguments::{argument, once_each};
use crate::table::counted;

/// The pause between two queries of the tasks.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

const USAGE: &str =
    "pliant launch spawn [OPTIONS] LAUNCH --name TASK --edge TASK=RQOC --service SERVICE [KEY=VALUE]...
       pliant launch spawn [OPTIONS] LAUNCH --name TASK --edge TASK=RQOC --script FILE [-- ARGUMENT...]
       pliant launch spawn [OPTIONS] LAUNCH --tasks FILE.toml";

#[derive(Args)]
#[command(override_usage = USAGE)]
pub(crate) struct Arguments {
    /// The launch, as `pliant launch list` lists it.
    #[arg(value_name = "LAUNCH")]
    launch: LaunchId,
    /// The arguments of the service.
    #[arg(value_name = "KEY=VALUE", value_parser = argument)]
    arguments: Vec<(String, String)>,
    /// Spawns all tasks of a file or none: tasks and edges as in an application (docs/reference/files/launch.md).
    #[arg(long, value_name = "FILE.toml", conflicts_with_all = ["name", "rcr", "edges", "service", "script", "inputs", "arguments", "script_arguments"])]
    tasks: Option<PathBuf>,
    /// The task's name, unique in the launch.
    #[arg(long, value_name = "TASK", required_unless_present = "tasks")]
    name: Option<String>,
    /// The relative computing requirement of the task.
    #[arg(long, value_name = "RCR", default_value_t = 1.0, value_parser = positive, allow_negative_numbers = true)]
    rcr: f64,
    /// A task that the new task communicates with, and the relative amount of traffic; may be repeated.
    #[arg(long = "edge", value_name = "TASK=RQOC", required_unless_present = "tasks", value_parser = edge)]
    edges: Vec<(String, f64)>,
    /// The service that the task runs.
    #[arg(long, value_name = "SERVICE", required_unless_present_any = ["script", "tasks"])]
    service: Option<String>,
    /// The script that the task runs, instead of a service.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["service", "arguments"])]
    script: Option<PathBuf>,
    /// The arguments of the script.
    #[arg(last = true, value_name = "ARGUMENT", conflicts_with = "service")]
    script_arguments: Vec<String>,
    /// An input file, in the task's folder under its own name or NAME; may be repeated.
    #[arg(long = "in", value_name = "[NAME=]FILE", value_parser = input)]
    inputs: Vec<Input>,
    /// The unique key of the task, 32 hexadecimal digits: the same command with the same key gives the same task, never
    /// a second one.
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
fn edge(text: &str) -> Result<(String, f64), String> {
    let (task, rqoc) = argument(text).map_err(|_| format!("expected TASK=RQOC, found `{text}`"))?;
    Ok((task, positive(&rqoc)?))
}

impl Arguments {
    /// The tasks, with the paths of their input files.
    fn spawned(&self) -> Result<(Vec<SpawnedTask>, InputPaths), Failure> {
        if let Some(path) = &self.tasks {
            return Ok(application::joining(path)?);
        }
        let runs = match (&self.service, &self.script) {
            (_, Some(path)) => {
                Program::Script { path: path.clone(), arguments: self.script_arguments.clone() }
            }
            (service, None) => {
                let name = service.clone().unwrap_or_default();
                Program::Service { name, arguments: once_each(&self.arguments)? }
            }
        };
        let program = application::program("--script", runs)?;
        let announced = announced("--in", &self.inputs)?;
        let paths = announced.iter().map(|(file, path)| (file.sha256, path.clone())).collect();
        let inputs = announced.into_iter().map(|(file, _)| file).collect();
        let payload = Payload::of(&TaskProgram { program, inputs });
        let task = TaskSpec { name: self.name.clone().unwrap_or_default(), rcr: self.rcr, payload };
        Ok((vec![SpawnedTask { task, neighbours: self.edges.clone() }], paths))
    }
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let (tasks, paths) = arguments.spawned()?;
    // The client signs.
    let (key, signed) = (arguments.key.unwrap_or_else(drawn), Payload::default());
    let spawn = SpawnSpec { key, tasks, signed };
    let names: Vec<&str> = spawn.tasks.iter().map(|spawned| spawned.task.name.as_str()).collect();
    let session = arguments.access.open()?;
    let launch = &arguments.launch;
    let wishes = spawn.tasks.iter().map(|spawned| &spawned.task);
    let sender = InputSender::new(&session.client, launch.key, wishes, &paths)?;
    session.run(session.client.spawn(launch, &spawn))?;
    let count = counted(names.len() as u64, "more task");
    inform(|| format!("{launch} has {count}, which wait for machines"));
    let settled = session.run_until_interrupted(settled(&session, launch, &names, sender));
    let goes_on = || {
        let hint = format!("`pliant launch list {launch}` shows their state");
        interrupted("interrupted; the tasks are spawned if they find machines", hint)
    };
    let record = settled.ok_or_else(goes_on)??;
    let is_one = |task: &&TaskRecord| names.contains(&task.name.as_str());
    let tasks: Vec<TaskRecord> = record.tasks.iter().filter(is_one).cloned().collect();
    let value = json!({ "task": names.first(), "tasks": names, "launch": described(&record) });
    output.print("launch-spawn", || mapping_of(&tasks), value)?;
    match tasks.iter().find_map(|task| Some((task, task.not_spawned.as_ref()?))) {
        Some((task, why)) => {
            let problem = match names.len() {
                1 => format!("`{}` is not spawned: {why}", task.name),
                _ => format!("none of them is spawned: {why}"),
            };
            Err(Failure::system(problem).hint("the launch continues without it").code(NOT_COMPLETED))
        }
        None => Ok(()),
    }
}

/// The launch, once the addresses of all tasks are known, or that they will not be spawned.
async fn settled(
    session: &Session,
    launch: &LaunchId,
    names: &[&str],
    mut sender: InputSender,
) -> Result<LaunchRecord, ClientError> {
    let is_settled =
        |task: &TaskRecord| task.address.is_some() || task.exit.is_some() || task.not_spawned.is_some();
    let are_settled = |record: &LaunchRecord| {
        let mut spawned = record.tasks.iter().filter(|task| names.contains(&task.name.as_str()));
        spawned.all(is_settled)
    };
    loop {
        match session.client.find_launch(launch).await {
            Ok(record) if record.state == LaunchState::Over || are_settled(&record) => return Ok(record),
            Ok(record) => sender.go_on(&record)?,
            Err(error) if error.may_pass() => {}
            Err(error) => return Err(error),
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
