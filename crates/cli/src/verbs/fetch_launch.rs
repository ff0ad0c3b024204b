//! Fetches the results of the tasks of a launch, each into a folder of its name.

use std::path::Path;

use pliant_client::ClientError;
use pliant_control::coallocation::{LaunchEnd, LaunchId, LaunchRecord, LaunchState};
use pliant_control::names::Name;
use pliant_wire::{JobResults, LaunchTask};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::federation::{Session, none_failed};
use crate::progress::bar;
use crate::table::{Table, counted, grouped};
use crate::verbs::fetch;

/// Fetches the results of a launch that is over.
///
/// # Errors
///
/// If no task ran, or the launch is not over.
pub(super) fn of(session: &Session, id: &LaunchId, out: &Path) -> Result<FetchedLaunch, Failure> {
    let record = session.run(session.client.find_launch(id))?;
    if has_run(&record) {
        return Ok(into(session, &record, out));
    }
    Err(match &record.end {
        Some(end) if record.state == LaunchState::Over => {
            Failure::input(format!("{id}: {end}; no task ran, so there is nothing to fetch"))
        }
        _ => {
            let state = record.state.word();
            Failure::input(format!("{id} is {state}: what its tasks left is there once it is over"))
                .hint(format!("`pliant launch list {id}` shows its state"))
        }
    })
}

/// True if a launch is over and its tasks ran.
pub(super) fn has_run(record: &LaunchRecord) -> bool {
    let ran = |end: &LaunchEnd| {
        !matches!(end, LaunchEnd::Mapped | LaunchEnd::NotMapped(_) | LaunchEnd::NotReserved(_))
    };
    record.state == LaunchState::Over && record.end.as_ref().is_some_and(ran)
}

/// The fetched results of a launch.
#[derive(Default)]
pub(super) struct FetchedLaunch {
    /// The tasks, with their servers.
    tasks: Vec<(String, Name, JobResults)>,
    /// Why other results are missing.
    errors: Vec<ClientError>,
}

/// Fetches the results of all tasks of a launch that is over. A server that is down does not hold up the others.
pub(super) fn into(session: &Session, record: &LaunchRecord, folder: &Path) -> FetchedLaunch {
    let mut left = FetchedLaunch::default();
    let mut silent: Vec<&Name> = Vec::new();
    for task in record.tasks.iter().filter(|task| task.not_spawned.is_none()) {
        let Some((server, _)) = task.allocation.as_ref().filter(|(server, _)| !silent.contains(&server))
        else {
            continue;
        };
        let of = LaunchTask { launch: record.id.clone(), task: task.name.clone() };
        match session.run(of_task(session, server, &of, &folder.join(&task.name))) {
            Ok(results) => {
                fetch::warn(&of, &results);
                left.tasks.push((task.name.clone(), server.clone(), results));
            }
            // A task that never started has no results.
            Err(error) if error.is_missing() => eprintln!("warning: {error}"),
            Err(error) => {
                if error.may_pass() {
                    silent.push(server);
                }
                left.errors.push(error);
            }
        }
    }
    left
}

async fn of_task(
    session: &Session,
    server: &Name,
    of: &LaunchTask,
    folder: &Path,
) -> Result<JobResults, ClientError> {
    let client = &session.client;
    let results = client.task_results(server, of).await?;
    let bar = bar(results.files.iter().map(|file| file.size).sum(), "bytes");
    for file in &results.files {
        if let Err(error) = client.fetch_of_task(server, of, file, folder).await {
            bar.finish_and_clear();
            return Err(error);
        }
        bar.inc(file.size);
    }
    bar.finish_and_clear();
    Ok(results)
}

impl FetchedLaunch {
    /// An error if something is missing.
    pub(super) fn complete(self) -> Result<(), Failure> {
        none_failed(self.errors)
    }

    /// Puts it into a document for scripts.
    pub(super) fn describe(&self, out: &Path, document: &mut Value) {
        let task = |(task, server, results): &(String, Name, JobResults)| {
            let mut value = json!({ "task": task, "server": server });
            fetch::describe(results, &mut value);
            value
        };
        document["dir"] = json!(out);
        document["fetched"] = self.tasks.iter().map(task).collect();
    }

    pub(super) fn table(&self) -> String {
        let mut table = Table::new(2, &["task", "file", "bytes"]);
        for (task, _, results) in &self.tasks {
            for file in &results.files {
                table.row(vec![task.clone(), file.name.to_string(), grouped(file.size)]);
            }
        }
        table.render()
    }

    /// The number of files, for people.
    pub(super) fn summary(&self, out: &Path) -> String {
        let files: usize = self.tasks.iter().map(|(.., results)| results.files.len()).sum();
        let tasks = counted(self.tasks.len() as u64, "task");
        format!("{} of {tasks} in {}", counted(files as u64, "file"), out.display())
    }
}
