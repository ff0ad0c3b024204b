//! `pliant resubmit`: submits again what was submitted as an earlier job.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use pliant_client::SubmitOrder;
use pliant_control::job::JobRecord;
use pliant_control::names::{Handle, Name};
use pliant_request::job_files::{Input, announced, input};
use pliant_request::submit::drawn;
use pliant_staging::{FileName, FileSpec};
use pliant_wire::SubmittedJob;
use serde_json::json;

use crate::failure::Failure;
use crate::federation::{Access, Session, inform, interrupted};
use crate::job::{described, promise};

use crate::output::Output;
use crate::table::counted;
use crate::time_text::now;
use crate::verbs::submit::submit;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The ID of the job, which may have ended.
    #[arg(value_name = "JOB")]
    job: Handle,
    /// An input file to send in the place of the one of that name; may be repeated.
    #[arg(long = "in", value_name = "[NAME=]FILE", value_parser = input)]
    inputs: Vec<Input>,
    /// Submits to this server only [default: the one that the user chose for the job, if any].
    #[arg(long, value_name = "NAME")]
    server: Option<Name>,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let given = announced("--in", &arguments.inputs)?;
    let session = arguments.access.open()?;
    let handle = &arguments.job;
    let record = session.run(session.client.job(handle))?;
    let SubmittedJob { what, inputs, pinned } = session.run(session.client.submitted(handle))?;
    let folder = tempfile::tempdir();
    let folder =
        folder.map_err(|error| Failure::system(format!("cannot make a folder for input files: {error}")))?;
    let inputs = files(&session, &record, (&inputs, given), folder.path())?;
    let only = arguments.server.clone().or_else(|| pinned.then(|| record.server().clone()));
    let order = SubmitOrder { inputs, only, ..SubmitOrder::new(drawn(), what) };
    let accepted = submit(&session, &order, None)?;
    inform(|| promise(&accepted, now()));
    let mut value = described(&accepted);
    value["key"] = json!(order.key);
    output.print("submit", || format!("{}\n", accepted.handle), value)
}

/// The input files: those that are given, and for the others those of the job.
fn files(
    session: &Session,
    record: &JobRecord,
    (submitted, given): (&[FileSpec], Vec<(FileSpec, PathBuf)>),
    folder: &std::path::Path,
) -> Result<Vec<(FileSpec, PathBuf)>, Failure> {
    let mut given: BTreeMap<FileName, (FileSpec, PathBuf)> =
        given.into_iter().map(|(file, path)| (file.name.clone(), (file, path))).collect();
    let is_kept = |file: &&FileSpec| !given.contains_key(&file.name);
    let wanted: Vec<FileSpec> = submitted.iter().filter(is_kept).cloned().collect();
    if let Some(name) = given.keys().find(|name| !submitted.iter().any(|file| file.name == **name)) {
        let problem =
            format!("--in: expected the name of an input file of {}, found {}", record.handle, name.as_str());
        return Err(Failure::input(problem).hint("`--in NAME=FILE` sends a file under another name"));
    }
    if !wanted.is_empty() {
        inform(|| format!("fetching {} of {}", counted(wanted.len() as u64, "input file"), record.handle));
    }
    let fetched = session.run_until_interrupted(session.client.fetch_inputs(record, &wanted, folder));
    let fetched = fetched
        .ok_or_else(|| interrupted("interrupted; nothing was submitted", "run the same command to submit"))?;
    let mut fetched: BTreeMap<FileName, (FileSpec, PathBuf)> =
        fetched?.into_iter().map(|(file, path)| (file.name.clone(), (file, path))).collect();
    // In the order in which they were submitted.
    Ok(submitted
        .iter()
        .filter_map(|file| given.remove(&file.name).or_else(|| fetched.remove(&file.name)))
        .collect())
}
