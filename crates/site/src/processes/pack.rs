//! The instances of a multi-job, run one after the other by one job: the process `pliant run-pack FILE`, under the
//! supervisor of any job.
//!
//! Each instance runs in a folder of its own, in which there is nothing but the inputs of all of them, as the leader of a process group. Over its walltime the group gets
//! TERM, and KILL after the grace period; when its first process has ended, whatever is left of the group is killed. A
//! line of JSON on standard output ([`InstanceEnd`]) says what became of it, as soon as it has ended: so those that follow the
//! job's output know, and what was not said has not been run to its end, whatever became of the job. An instance for which
//! there may not be the time is not begun, and neither are those after it: then the pack ends well, without a word of them.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use pliant_staging::{FileName, SHARED};
use pliant_wire::{InstanceEnd, Outcome};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::{Deserialize, Serialize};

use super::inputs::Inputs;
use super::watch::Signals;

#[cfg(test)]
mod tests;

/// The file that says how long its longest instance took, there too.
const LONGEST: &str = "longest";
/// How much is kept of what an instance writes on standard output: the first bytes.
pub const OUTPUT_BYTES: usize = 16 << 10;
/// How much is kept of what a failed one writes on standard error: the last bytes.
const ERROR_BYTES: usize = 2 << 10;
/// The longest that nobody looks whether an instance is over its walltime.
const LOOK: Duration = Duration::from_secs(1);
/// How long to wait for the rest of the output once nothing of the instance is left.
const OUTPUT_AT_MOST: Duration = Duration::from_secs(2);

/// What to run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PackSpec {
    /// Seconds between TERM and KILL.
    pub grace_s: u64,
    /// The pack is to end within so many seconds, if it has to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_in_s: Option<u64>,
    /// Files that each instance finds in its folder; they are in the folder `inputs` beside the file that says all this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<FileName>,
    /// The instances, in order.
    pub runs: Vec<PackedRun>,
    /// How much longer one takes on these processors than on those that runtimes of its service are learned for.
    #[serde(default = "unscaled", skip_serializing_if = "is_unscaled")]
    pub wider: f64,
}

/// An instance, ready to be run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PackedRun {
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

/// Why a pack was not run to its end.
#[derive(Debug)]
pub enum PackError {
    /// A file cannot be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody wants it to end.
    Ended,
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PackError::Io { path, source } => write!(f, "{}: {source}", path.display()),
            PackError::Ended => write!(f, "ended before all of its instances were run"),
        }
    }
}

impl Error for PackError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            PackError::Io { source, .. } => Some(source),
            PackError::Ended => None,
        }
    }
}

/// Puts what to run into a job's folder.
pub fn pack_text(spec: &PackSpec) -> Vec<u8> {
    serde_json::to_vec(spec).expect("a pack is plain data with text keys")
}

/// How long the longest instance of a pack took for each unit of its service, on the processors that runtimes of that are learned
/// for, in milliseconds: what `run-pack` has written beside what it ran. None if it did not come to that, or none ended well.
pub fn longest_of_pack(dir: &Path) -> Option<u64> {
    fs::read_to_string(dir.join(LONGEST)).ok()?.trim().parse().ok()
}

/// Runs the instances of a file in folders below the present one, and says what became of each on `out`; in the end a file beside
/// that one says how long the longest took.
///
/// # Errors
/// The file cannot be read, nobody hears what became of them, or TERM has come.
pub fn run_pack(file: &Path, out: &mut impl Write) -> Result<(), PackError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| PackError::Io { path: path.clone(), source }
    };
    let text = fs::read(file).map_err(at(file))?;
    let pack: PackSpec = serde_json::from_slice(&text).map_err(io::Error::from).map_err(at(file))?;
    let here = std::env::current_dir().map_err(at(Path::new(".")))?;
    let mut signals = Signals::listen().map_err(at(Path::new("signals")))?;
    let inputs = Inputs::same(file.with_file_name(SHARED), &pack.inputs);
    let mut longest = Longest::default();
    pack.run(&here, &inputs, &mut signals, |ended| {
        longest.tell(&ended, pack.wider);
        let mut line = serde_json::to_vec(&ended).expect("plain data with text keys");
        line.push(b'\n');
        out.write_all(&line).and_then(|()| out.flush()).map_err(at(Path::new("standard output")))
    })?;
    if let Err(error) = longest.write(file) {
        // Nothing of the instances is lost for that.
        tracing::warn!(%error, "no walltimes are learned from this pack");
    }
    Ok(())
}

/// The longest time that an instance took for a unit of its service, in milliseconds.
#[derive(Default)]
struct Longest(Option<f64>);

impl Longest {
    /// One has ended, on processors on which it takes that much longer than on those that runtimes are learned for.
    fn tell(&mut self, end: &InstanceEnd, wider: f64) {
        if end.is_success() {
            let unit = end.elapsed_ms as f64 / (end.scale * wider);
            let longest = self.0.unwrap_or(0.0).max(unit);
            self.0 = Some(longest).filter(|longest| longest.is_finite()).or(self.0);
        }
    }

    /// Writes it beside what was run, if there is anything to tell.
    fn write(&self, pack: &Path) -> io::Result<()> {
        match self.0 {
            // A conversion from a float that is too large gives the largest integer.
            Some(unit) => fs::write(pack.with_file_name(LONGEST), format!("{}\n", unit.ceil() as u64)),
            None => Ok(()),
        }
    }
}

impl PackSpec {
    /// Runs the instances in folders below `here`, and tells of each when it has ended.
    fn run(
        &self,
        here: &Path,
        inputs: &Inputs<'_>,
        signals: &mut Signals,
        mut tell: impl FnMut(InstanceEnd) -> Result<(), PackError>,
    ) -> Result<(), PackError> {
        let begin = Instant::now();
        for (index, run) in self.runs.iter().enumerate() {
            if signals.is_terminated() {
                return Err(PackError::Ended);
            }
            // The first one always: it has all the time that there is.
            if index > 0 && !self.has_time_for(run, begin.elapsed()) {
                break;
            }
            let folder = here.join(run.number.to_string());
            let ended = Instance { run, folder: &folder, inputs, grace_s: self.grace_s }.run(signals);
            inputs.take_from(&folder);
            tell(ended?)?;
            // It goes if the instance has left nothing in it.
            let _ = fs::remove_dir(&folder);
        }
        Ok(())
    }

    /// Whether an instance would be ended in time if it were over its walltime.
    fn has_time_for(&self, run: &PackedRun, elapsed: Duration) -> bool {
        let needed = Duration::from_secs(run.walltime_s.saturating_add(self.grace_s));
        self.ends_in_s
            .is_none_or(|ends_in_s| elapsed.saturating_add(needed) <= Duration::from_secs(ends_in_s))
    }
}

/// An instance at work.
struct Instance<'a> {
    run: &'a PackedRun,
    folder: &'a Path,
    inputs: &'a Inputs<'a>,
    grace_s: u64,
}

impl Instance<'_> {
    fn run(&self, signals: &mut Signals) -> Result<InstanceEnd, PackError> {
        let begin = Instant::now();
        let mut child = match self.start() {
            Ok(child) => child,
            Err(error) => return Ok(self.end(Outcome::NotStarted(error.to_string()), false, begin, None)),
        };
        let output = child.stdout.take().map(|pipe| Kept::start(pipe, OUTPUT_BYTES, false));
        let error = child.stderr.take().map(|pipe| Kept::start(pipe, ERROR_BYTES, true));
        let leader = Pid::from_child(&child);
        let over_walltime = self.watch(leader, begin, signals);
        // The leader is a zombie, and so the group's id is still its own.
        let _ = kill_process_group(leader, Signal::KILL);
        let status = child.wait();
        if signals.is_terminated() {
            return Err(PackError::Ended);
        }
        let written = (Kept::finish(output), Kept::finish(error));
        Ok(self.end(outcome(status), over_walltime, begin, Some(written)))
    }

    fn start(&self) -> io::Result<Child> {
        let made = DirBuilder::new().mode(0o700).create(self.folder);
        if let Err(error) = made
            && error.kind() != ErrorKind::AlreadyExists
        {
            return Err(error);
        }
        self.inputs.give_to(self.folder)?;
        let [program, arguments @ ..] = self.run.program.as_slice() else {
            return Err(io::Error::new(ErrorKind::InvalidInput, "no program"));
        };
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.folder).process_group(0);
        command.env("HOME", self.folder).envs(&self.run.env);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let named = |error: io::Error| io::Error::new(error.kind(), format!("`{program}`: {error}"));
        command.spawn().map_err(named)
    }

    /// Waits until the leader has ended, and sees to it that it does in time; true if it was over its walltime.
    fn watch(&self, leader: Pid, begin: Instant, signals: &mut Signals) -> bool {
        let deadline = begin.checked_add(Duration::from_secs(self.run.walltime_s));
        let mut ending: Option<(bool, Option<Instant>)> = None;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while !matches!(waitid(WaitId::Pid(leader), options), Ok(Some(_)) | Err(_)) {
            let now = Instant::now();
            let mut wait = LOOK;
            match ending {
                None => {
                    let is_over = deadline.is_some_and(|deadline| now >= deadline);
                    if is_over || signals.is_terminated() {
                        let _ = kill_process_group(leader, Signal::TERM);
                        let _ = kill_process_group(leader, Signal::CONT);
                        let is_over = is_over && !signals.is_terminated();
                        ending = Some((is_over, now.checked_add(Duration::from_secs(self.grace_s))));
                    } else if let Some(deadline) = deadline {
                        wait = wait.min(deadline - now);
                    }
                }
                Some((_, Some(at))) if now >= at => {
                    let _ = kill_process_group(leader, Signal::KILL);
                }
                Some((_, Some(at))) => wait = wait.min(at - now),
                Some((_, None)) => {}
            }
            signals.wait(wait);
        }
        ending.is_some_and(|(is_over, _)| is_over)
    }

    fn end(
        &self,
        outcome: Outcome,
        over_walltime: bool,
        begin: Instant,
        written: Option<(Written, Written)>,
    ) -> InstanceEnd {
        let (output, error) = written.unwrap_or_default();
        let mut end = InstanceEnd {
            instance: self.run.number,
            outcome,
            over_walltime,
            elapsed_ms: u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX),
            scale: self.run.scale,
            output: String::from_utf8_lossy(&output.bytes).into_owned(),
            output_cut: output.was_cut,
            error: String::new(),
        };
        if !end.is_success() {
            end.error = String::from_utf8_lossy(&error.bytes).into_owned();
        }
        end
    }
}

/// How a process ended that was waited for.
pub(super) fn outcome(status: io::Result<ExitStatus>) -> Outcome {
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => Outcome::ExitCode(code),
            (None, signal) => Outcome::Signal(signal.unwrap_or(0)),
        },
        Err(error) => Outcome::NotStarted(error.to_string()),
    }
}

/// What was kept of an output.
#[derive(Default)]
struct Written {
    bytes: Vec<u8>,
    was_cut: bool,
}

/// An output that is read.
struct Kept(Receiver<Written>);

impl Kept {
    /// Reads all of a pipe and keeps so many bytes of it: the last ones or the first ones.
    fn start(mut pipe: impl Read + Send + 'static, most: usize, last: bool) -> Kept {
        let (sender, kept) = mpsc::channel();
        let read = move || {
            let mut written = Written::default();
            let mut buffer = [0; 4096];
            loop {
                let count = match pipe.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => count,
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(_) => break,
                };
                let room = if last { count } else { count.min(most - written.bytes.len()) };
                written.bytes.extend_from_slice(&buffer[..room]);
                let excess = written.bytes.len().saturating_sub(most);
                written.bytes.drain(..excess);
                written.was_cut |= room < count || excess > 0;
            }
            // Nobody listens any more if the wait was over.
            let _ = sender.send(written);
        };
        // Without a thread nothing is kept, and whoever writes much is told by a broken pipe.
        let _ = thread::Builder::new().name("output".into()).stack_size(128 * 1024).spawn(read);
        Kept(kept)
    }

    fn finish(kept: Option<Kept>) -> Written {
        let lost = Written { bytes: Vec::new(), was_cut: true };
        kept.map_or_else(Written::default, |kept| kept.0.recv_timeout(OUTPUT_AT_MOST).unwrap_or(lost))
    }
}
