//! Several programs that one job runs: the process `pliant run-tasks FILE`, under the supervisor of any job.
//!
//! It runs the instances of a batch one after the other ([`BatchSpec`]), or the tasks of a subjob all at once ([`SubjobSpec`]).
//! Each runs in a folder of its own below the job's work folder, as the leader of a process group; when its first process has
//! ended, what is left of the group is killed. A line of JSON on standard output says how it ended, as soon as it has. Asked to
//! end, the process sends TERM to all groups, KILL after the grace period, and reports nothing of those that end by that: they
//! did not by themselves.

mod batch;
pub(super) mod call;
mod call_data;
mod port;
mod process;
mod subjob;

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use pliant_staging::{SHARED, TASKS};
use pliant_wire::Outcome;
use serde::{Deserialize, Serialize};

use super::watch::Signals;

pub use batch::{BatchSpec, InstanceRun, OUTPUT_BYTES, longest_of_batch};
pub use call::{CallSpec, OutputFrom, ParameterFormat};
pub use call_data::KEPT;
pub use subjob::{ADDRESS_VARIABLE, SubjobSpec, TaskEnd, TaskInput, TaskRun, task_ends, task_ends_length};

/// The programs that a job runs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskList {
    /// Instances of a multi-job, one after the other.
    Batch(BatchSpec),
    /// Tasks of a launch, all at once.
    Subjob(SubjobSpec),
    /// A call of a typed service.
    Call(Box<CallSpec>),
}

/// How the programs of a list ended, all together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TasksEnd {
    /// All that were begun have ended; of a subjob, each reported success.
    Succeeded,
    /// A task of a subjob did not report success.
    Failed,
    /// The command of a call ended so, without success.
    Exited(Outcome),
    /// They were asked to end before they had.
    Ended,
}

impl TaskList {
    /// Its text, as it stands in the file of a job.
    pub fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a list of tasks is plain data with text keys")
    }

    /// The one in a job's folder.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn of(dir: &Path) -> io::Result<TaskList> {
        Ok(serde_json::from_slice(&fs::read(dir.join(TASKS))?)?)
    }
}

/// Runs the programs of a file in folders below the present one, and reports on `out` how each ended.
///
/// # Errors
/// The file cannot be read, or a report cannot be written.
pub fn run_tasks(file: &Path, out: &mut impl Write) -> io::Result<TasksEnd> {
    let list = fs::read(file).and_then(|text| Ok(serde_json::from_slice(&text)?)).map_err(at(file))?;
    let here = std::env::current_dir().map_err(at(Path::new(".")))?;
    let shared = file.with_file_name(SHARED);
    let mut signals = Signals::listen().map_err(at(Path::new("signals")))?;
    match list {
        TaskList::Batch(batch) => {
            let mut longest = batch::Longest::default();
            let end = batch.run(&here, &shared, &mut signals, |ended| {
                longest.add(&ended, batch.wider);
                report(out, &ended)
            })?;
            if let Err(error) = longest.write(file) {
                // Nothing of the instances is lost for that.
                tracing::warn!(%error, "no walltimes are learned from this batch");
            }
            Ok(end)
        }
        TaskList::Subjob(subjob) => subjob.run(&here, &shared, &mut signals, |ended| report(out, ended)),
        TaskList::Call(call) => call.run(&here, &mut signals, out),
    }
}

fn report(out: &mut impl Write, ended: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(ended)?;
    line.push(b'\n');
    out.write_all(&line).and_then(|()| out.flush()).map_err(at(Path::new("standard output")))
}

/// Names what an error is about.
fn at(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
