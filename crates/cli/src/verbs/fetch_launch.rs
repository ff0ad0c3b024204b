//! Fetches the results of the tasks of a launch, each into a folder of its name.

use std::path::Path;

use indicatif::ProgressBar;
use pliant_client::{FetchStep, FetchedLaunch, has_run};
use pliant_control::coallocation::{LaunchId, LaunchRecord, LaunchState};
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
pub(super) fn of(session: &Session, id: &LaunchId, out: &Path) -> Result<FetchedResults, Failure> {
    let record = session.run(session.client.find_launch(id))?;
    if has_run(&record) {
        return Ok(FetchedResults::of(session, &record, out));
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

/// The fetched results of a launch.
pub(super) struct FetchedResults(FetchedLaunch);

impl FetchedResults {
    /// Fetches the results of all tasks of a launch that is over, with a bar for each task.
    pub(super) fn of(session: &Session, record: &LaunchRecord, folder: &Path) -> FetchedResults {
        let mut shown: Option<ProgressBar> = None;
        let report = |step| match step {
            FetchStep::Begin(bytes) => shown = Some(bar(bytes, "bytes")),
            FetchStep::Bytes(bytes) => shown.iter().for_each(|bar| bar.inc(bytes)),
            FetchStep::End => shown.iter().for_each(ProgressBar::finish_and_clear),
        };
        let fetched = session.run(session.client.fetch_launch(record, folder, report));
        fetched.tasks.iter().for_each(|(of, _, results)| fetch::warn(of, results));
        fetched.not_started.iter().for_each(|error| stderr_line!("warning: {error}"));
        FetchedResults(fetched)
    }

    /// An error if something is missing.
    pub(super) fn complete(self) -> Result<(), Failure> {
        none_failed(self.0.errors)
    }

    /// Puts it into a document for scripts.
    pub(super) fn describe(&self, out: &Path, document: &mut Value) {
        let task = |(task, server, results): &(LaunchTask, Name, JobResults)| {
            let mut value = json!({ "task": task.task, "server": server });
            fetch::describe(results, &mut value);
            value
        };
        document["dir"] = json!(out);
        document["fetched"] = self.0.tasks.iter().map(task).collect();
    }

    pub(super) fn table(&self) -> String {
        let mut table = Table::new(2, &["task", "file", "bytes"]);
        for (task, _, results) in &self.0.tasks {
            for file in &results.files {
                table.row(vec![task.task.clone(), file.name.to_string(), grouped(file.size)]);
            }
        }
        table.render()
    }

    /// The number of files, for people.
    pub(super) fn summary(&self, out: &Path) -> String {
        let files: usize = self.0.tasks.iter().map(|(.., results)| results.files.len()).sum();
        let tasks = counted(self.0.tasks.len() as u64, "task");
        format!("{} of {tasks} in {}", counted(files as u64, "file"), out.display())
    }
}
