//! The instances of a multi-job, one after the other. One for which there may not be the time is not begun, and neither are those
//! after it: then the batch ends well, without a report of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use pliant_control::exact_text::ExactText;
use pliant_staging::FileName;
use pliant_wire::InstanceEnd;
use serde::{Deserialize, Serialize};

use super::TasksEnd;
use super::process::{OUTPUT_AT_MOST, ProcessEnd, TaskPlace, TaskProcess};
use crate::processes::inputs::Inputs;
use crate::processes::output::drain;
use crate::processes::streams::Streams;
use crate::processes::watch::Signals;

#[cfg(test)]
mod tests;

/// The file that says how long its longest instance took, in the job's folder.
const LONGEST: &str = "longest";
/// How much is kept of what an instance writes on standard output: the first bytes.
pub const OUTPUT_BYTES: usize = 16 << 10;
/// How much is kept of what a failed one writes on standard error: the last bytes.
const ERROR_BYTES: usize = 2 << 10;

/// A batch of instances.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BatchSpec {
    /// Seconds between TERM and KILL.
    pub grace_s: u64,
    /// The batch is to end within so many seconds, if it has to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_in_s: Option<u64>,
    /// Files that each instance finds in its folder; they are in the folder `inputs` beside the file that says all this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<FileName>,
    /// The instances, in order.
    pub runs: Vec<InstanceRun>,
    /// How much longer one takes on these processors than on those that runtimes of its service are learned for.
    #[serde(default = "unscaled", skip_serializing_if = "is_unscaled")]
    pub wider: f64,
    /// The folder of the user's own in which each runs; a folder of its own if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// The standard input of each, and where its standard error goes.
    #[serde(default, skip_serializing_if = "Streams::are_default")]
    pub streams: Streams,
}

/// An instance, ready to be run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct InstanceRun {
    /// Its number in the multi-job.
    pub number: u32,
    /// Program and arguments.
    pub program: Vec<String>,
    /// Its environment, on top of that of the job.
    pub env: BTreeMap<String, String>,
    /// Seconds after which it is ended.
    pub walltime_s: u64,
    /// What its arguments make of how long it takes.
    #[serde(default = "unscaled", skip_serializing_if = "is_unscaled")]
    pub scale: f64,
}

fn unscaled() -> f64 {
    1.0
}

fn is_unscaled(scale: &f64) -> bool {
    *scale == 1.0
}

/// How long the longest instance of a batch took for each unit of its service, on the processors that runtimes of that are
/// learned for, in milliseconds. None if the batch did not come to its end, or no instance ended well.
pub fn longest_of_batch(dir: &Path) -> Option<u64> {
    fs::read_to_string(dir.join(LONGEST)).ok()?.trim().parse().ok()
}

/// The longest time that an instance took for a unit of its service, in milliseconds.
#[derive(Default)]
pub(super) struct Longest(Option<f64>);

impl Longest {
    /// Counts one that has ended, on processors on which it takes that much longer than on those that runtimes are learned for.
    pub(super) fn add(&mut self, end: &InstanceEnd, wider: f64) {
        if end.is_success() {
            let unit = end.elapsed_ms as f64 / (end.scale * wider);
            let longest = self.0.unwrap_or(0.0).max(unit);
            self.0 = Some(longest).filter(|longest| longest.is_finite()).or(self.0);
        }
    }

    /// Writes it beside the file that says what is run, if any instance ended well.
    pub(super) fn write(&self, batch: &Path) -> io::Result<()> {
        match self.0 {
            // A conversion from a float that is too large gives the largest integer.
            Some(unit) => fs::write(batch.with_file_name(LONGEST), format!("{}\n", unit.ceil() as u64)),
            None => Ok(()),
        }
    }
}

impl BatchSpec {
    /// Runs the instances in folders below `here`, with the inputs in `shared`, and reports each when it has ended.
    pub(super) fn run(
        &self,
        here: &Path,
        shared: &Path,
        signals: &mut Signals,
        mut report: impl FnMut(InstanceEnd) -> io::Result<()>,
    ) -> io::Result<TasksEnd> {
        let begin = Instant::now();
        for (index, run) in self.runs.iter().enumerate() {
            if signals.is_terminated() {
                return Ok(TasksEnd::Ended);
            }
            // The first one always: it has all the time that there is.
            if index > 0 && !self.has_time_for(run, begin.elapsed()) {
                break;
            }
            let (place, own) = match &self.folder {
                Some(folder) => {
                    (TaskPlace::Existing { folder: folder.clone(), programs: here.to_owned() }, None)
                }
                None => {
                    let own = here.join(run.number.to_string());
                    (TaskPlace::New(own.clone()), Some(own))
                }
            };
            let Some(ended) = self.run_one(run, place, shared, signals) else { return Ok(TasksEnd::Ended) };
            report(ended)?;
            // It goes if the instance has left nothing in it.
            own.map(fs::remove_dir);
        }
        Ok(TasksEnd::Succeeded)
    }

    /// Whether an instance would be ended in time if it were over its walltime.
    fn has_time_for(&self, run: &InstanceRun, elapsed: Duration) -> bool {
        let needed = Duration::from_secs(run.walltime_s.saturating_add(self.grace_s));
        self.ends_in_s
            .is_none_or(|ends_in_s| elapsed.saturating_add(needed) <= Duration::from_secs(ends_in_s))
    }

    /// How an instance ended by itself or by its walltime; none if the batch is to end.
    fn run_one(
        &self,
        run: &InstanceRun,
        place: TaskPlace,
        shared: &Path,
        signals: &mut Signals,
    ) -> Option<InstanceEnd> {
        let inputs = Inputs::same(shared.to_owned(), &self.inputs);
        let started = TaskProcess::start((&run.program, &run.env), place, inputs, &self.streams);
        let (process, stdout, stderr) = match started {
            Ok(started) => started,
            Err(error) => {
                return Some(run.end(ProcessEnd::not_started(&error), Kept::default(), Kept::default()));
            }
        };
        let output = Kept::read(stdout, OUTPUT_BYTES, false);
        let error = Kept::read(stderr, ERROR_BYTES, true);
        let mut process = process.with_walltime(Duration::from_secs(run.walltime_s));
        while !process.is_over() {
            let wait = process.tick(signals.is_terminated(), Duration::from_secs(self.grace_s));
            signals.wait(wait);
        }
        let end = process.finish();
        (!signals.is_terminated()).then(|| run.end(end, Kept::finish(&output), Kept::finish(&error)))
    }
}

impl InstanceRun {
    fn end(&self, end: ProcessEnd, output: Kept, error: Kept) -> InstanceEnd {
        let ProcessEnd { outcome, elapsed_ms, over_walltime } = end;
        let mut end = InstanceEnd {
            instance: self.number,
            outcome,
            over_walltime,
            elapsed_ms,
            scale: self.scale,
            output: output.bytes.into(),
            output_cut: output.was_cut,
            error: ExactText::default(),
        };
        if !end.is_success() {
            end.error = error.bytes.into();
        }
        end
    }
}

/// What is kept of an output.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    was_cut: bool,
}

impl Kept {
    /// Reads all of a pipe and keeps so many bytes of it: the last ones or the first ones.
    fn read(pipe: impl Read + Send + 'static, most: usize, last: bool) -> Receiver<Kept> {
        let (sender, kept) = mpsc::channel();
        let read = move || {
            let mut written = Kept::default();
            // What cannot be read is missing.
            let _ = drain(pipe, |piece| written.take(piece, most, last));
            // The wait may be over.
            let _ = sender.send(written);
        };
        // Without a thread nothing is kept, and a program that writes much gets a broken pipe.
        let _ = thread::Builder::new().name("output".into()).stack_size(128 * 1024).spawn(read);
        kept
    }

    fn take(&mut self, piece: &[u8], most: usize, last: bool) {
        let fitting = if last { piece.len() } else { piece.len().min(most - self.bytes.len()) };
        self.bytes.extend_from_slice(&piece[..fitting]);
        let excess = self.bytes.len().saturating_sub(most);
        self.bytes.drain(..excess);
        self.was_cut |= fitting < piece.len() || excess > 0;
    }

    fn finish(kept: &Receiver<Kept>) -> Kept {
        kept.recv_timeout(OUTPUT_AT_MOST).unwrap_or(Kept { bytes: Vec::new(), was_cut: true })
    }
}
