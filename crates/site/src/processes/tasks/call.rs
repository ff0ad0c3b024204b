//! One call of a typed service: a command that gets the values as words and files and leaves its outputs in files or on standard
//! output. Calls of a resident process begin and end with the same steps ([`CallSpec::arguments`], [`write_outcome`]).

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use pliant_calls::frame::{self, FrameKind, Header, REASON_BYTES_MAX};
use pliant_calls::{Array, Parameter, ParameterType, ScalarType, Signature, VALUES_BYTES_MAX, Value, decode};
use pliant_control::exact_text::ExactText;
use pliant_staging::{FileName, open_file};
use pliant_wire::{CALL_ARGUMENTS, CALL_OUTCOME, Outcome};
use serde::{Deserialize, Serialize};

use super::TasksEnd;
use super::call_data::stored_value;
use super::process::{OUTPUT_AT_MOST, TaskPlace, TaskProcess};
use crate::call_values::{CallArguments, CallResults, Given, Returned};
use crate::processes::inputs::Inputs;
use crate::processes::output::drain;
use crate::processes::streams::Streams;
use crate::processes::watch::Signals;
use crate::word::Word;

/// How much of the standard error of a command is looked at for a reason: the last bytes.
const ERROR_BYTES: usize = 2 << 10;

/// How a command reads and writes a vector or a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParameterFormat {
    /// Its elements as they are in memory, little-endian, without anything between them.
    #[default]
    Raw,
    /// Its elements in decimal, separated by blanks and ends of lines.
    Text,
}

/// Where a command leaves an output.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputFrom {
    /// On standard output.
    Stdout,
    /// In a file of its work folder.
    File(FileName),
}

/// A call, ready to be carried out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CallSpec {
    /// The signature of the service.
    pub signature: String,
    /// The command, with its parameters open.
    pub program: Vec<Word>,
    /// Its environment, on top of that of the job.
    pub env: BTreeMap<String, Word>,
    /// How it reads and writes its parameters; raw if nothing is said.
    pub formats: BTreeMap<String, ParameterFormat>,
    /// Where it leaves its outputs; in the file of the name of the parameter if nothing is said.
    pub outputs: BTreeMap<String, OutputFrom>,
    /// The numbers with which its job was planned.
    pub numbers: BTreeMap<String, String>,
    /// The arguments; empty if they are in an input file.
    pub values: ExactText,
    /// The files of arguments that are at the server, by parameter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stored: BTreeMap<String, PathBuf>,
    /// The parameters whose values stay at the server, and whether they come back, too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kept: BTreeMap<String, bool>,
    /// The processors of the job.
    pub procs: u32,
    /// The walltime of the job in seconds.
    pub walltime_s: u64,
    /// Seconds between TERM and KILL.
    pub grace_s: u64,
}

impl CallSpec {
    /// Its arguments, read and checked, with the files that they name in the work folder; or why they are not what the service takes.
    pub(in crate::processes) fn arguments(&self, work: &Path) -> Result<CallArguments, String> {
        let signature: Signature = self.signature.parse().map_err(|error| format!("signature: {error}"))?;
        let from_file;
        let bytes = match self.values.is_empty() {
            false => self.values.as_bytes(),
            true => {
                let name = CALL_ARGUMENTS.parse().expect("it is the name of a file");
                from_file = read_file(work, &name, VALUES_BYTES_MAX)
                    .map_err(|error| format!("{CALL_ARGUMENTS}: {error}"))?;
                &from_file
            }
        };
        let mut values = decode(bytes).map_err(|error| format!("{CALL_ARGUMENTS}: {error}"))?;
        // Data that several parameters have are several values.
        let mut left = VALUES_BYTES_MAX.saturating_sub(bytes.len());
        for (name, file) in &self.stored {
            let at = signature.position(name).filter(|at| *at < values.len());
            let at =
                at.ok_or_else(|| format!("`{name}`: expected a parameter of the signature, found none"))?;
            values[at] = Some(stored_value(file, &mut left).map_err(|error| format!("`{name}`: {error}"))?);
        }
        let arguments = CallArguments::new(signature, values)?;
        arguments.check_files(work)?;
        for (parameter, given) in arguments.named() {
            // Its job was planned and checked with the numbers that the client stated.
            let stated = self.numbers.get(&parameter.name);
            let found = match given {
                Given::Value(value) if value.scalar().is_some() => value.word(),
                _ => None,
            };
            if let (Some(stated), Some(found)) = (stated, &found)
                && stated != found
            {
                return Err(format!(
                    "`{}`: expected {stated}, as it was submitted, found {found}",
                    parameter.name
                ));
            }
        }
        Ok(arguments)
    }

    /// Carries the call out in the folder `here`, and leaves its outcome there.
    pub(super) fn run(
        &self,
        here: &Path,
        signals: &mut Signals,
        out: &mut impl Write,
    ) -> io::Result<TasksEnd> {
        let (outcome, end) = match self.carried_out(here, signals, out) {
            Ok(Some((values, end))) => (Ok(values), end),
            Ok(None) => return Ok(TasksEnd::Ended),
            Err((reason, end)) => (Err(reason), end),
        };
        if let Err(reason) = &outcome {
            eprintln_reason(reason);
        }
        write_outcome(here, outcome.as_ref().map_err(String::as_str))?.sync_all()?;
        Ok(end)
    }

    /// The results; none if the call is to end; or why it failed, and how it ended.
    fn carried_out(
        &self,
        here: &Path,
        signals: &mut Signals,
        out: &mut impl Write,
    ) -> Result<Option<(CallResults, TasksEnd)>, (String, TasksEnd)> {
        let failed = |reason: String| (reason, TasksEnd::Failed);
        let arguments = self.arguments(here).map_err(failed)?;
        let words = self.put_arguments(&arguments, here).map_err(failed)?;
        let word = |word: &Word| self.filled(word, &words);
        let program: Vec<String> = self.program.iter().map(word).collect::<Result<_, _>>().map_err(failed)?;
        let env = self.env.iter().map(|(name, text)| Ok((name.clone(), word(text)?)));
        let env: BTreeMap<String, String> = env.collect::<Result<_, String>>().map_err(failed)?;
        let place = TaskPlace::Existing { folder: here.to_owned(), programs: here.to_owned() };
        let inputs = Inputs::same(here.to_owned(), &[]);
        let started = TaskProcess::start((&program, &env), place, inputs, &Streams::default());
        let (mut process, stdout, stderr) = started.map_err(|error| failed(error.to_string()))?;
        let is_output = |from: &OutputFrom| *from == OutputFrom::Stdout;
        let stdout_max = if self.outputs.values().any(is_output) { VALUES_BYTES_MAX } else { 0 };
        let (stdout, stderr) = (kept(stdout, stdout_max, Tee::Out), kept(stderr, ERROR_BYTES, Tee::Error));
        while !process.is_over() {
            let wait = process.tick(signals.is_terminated(), Duration::from_secs(self.grace_s));
            signals.wait(wait);
        }
        let end = process.finish();
        let stdout = stdout.recv_timeout(OUTPUT_AT_MOST).unwrap_or_default();
        let stderr = stderr.recv_timeout(OUTPUT_AT_MOST).unwrap_or_default();
        if signals.is_terminated() {
            return Ok(None);
        }
        let _ = out.flush();
        match end.outcome {
            Outcome::ExitCode(0) => {}
            outcome => {
                let said = last_line(&stderr);
                return Err((
                    format!("the command ended with {}{said}", ended_with(&outcome)),
                    TasksEnd::Exited(outcome),
                ));
            }
        }
        let results = self.results(&arguments, here, &stdout);
        let kept = results.and_then(|results| self.keep(&arguments, results, here));
        let results = kept.map_err(failed)?;
        Ok(Some((results, TasksEnd::Succeeded)))
    }

    /// Writes vectors and matrices into files; what stands for each parameter in a word of the command.
    fn put_arguments(
        &self,
        arguments: &CallArguments,
        here: &Path,
    ) -> Result<BTreeMap<String, String>, String> {
        let mut words = BTreeMap::new();
        for (parameter, given) in arguments.named() {
            let name = &parameter.name;
            let word = match given {
                Given::Nothing => self.output_file(parameter)?.as_str().to_owned(),
                Given::File(file) => file.as_str().to_owned(),
                Given::Value(Value::Vector(elements) | Value::Matrix { elements, .. }) => {
                    let bytes = self.formatted(name, elements);
                    let put = new_file(&here.join(name)).and_then(|mut file| file.write_all(&bytes));
                    put.map_err(|error| format!("`{name}`: its file cannot be written: {error}"))?;
                    name.clone()
                }
                Given::Value(value) => value.word().unwrap_or_default(),
            };
            words.insert(name.clone(), word);
        }
        Ok(words)
    }

    fn formatted(&self, name: &str, elements: &Array) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.formats.get(name).copied().unwrap_or_default() {
            ParameterFormat::Raw => elements.write_le(&mut bytes),
            ParameterFormat::Text => {
                elements.for_each_text(|text| {
                    bytes.extend_from_slice(text.as_bytes());
                    bytes.push(b'\n');
                });
            }
        }
        bytes
    }

    /// A word of the command with its parameters. A text must not become an option.
    fn filled(&self, word: &Word, words: &BTreeMap<String, String>) -> Result<String, String> {
        let value = |name: &str| words.get(name).map_or("", String::as_str);
        let opens = word.opened_by(|name| value(name).is_empty());
        if let Some(name) =
            opens.filter(|name| value(name).starts_with('-') && !self.numbers.contains_key(*name))
        {
            return Err(format!("`{name}`: expected no leading `-`, found `{}`", value(name).escape_debug()));
        }
        Ok(word.filled(value))
    }

    fn output_file(&self, parameter: &Parameter) -> Result<FileName, String> {
        match self.outputs.get(&parameter.name) {
            Some(OutputFrom::File(name)) => Ok(name.clone()),
            Some(OutputFrom::Stdout) | None => {
                parameter.name.parse().map_err(|error| format!("`{}`: {error}", parameter.name))
            }
        }
    }

    /// What the command has left, as values.
    fn results(&self, arguments: &CallArguments, here: &Path, stdout: &[u8]) -> Result<CallResults, String> {
        let result = |(parameter, _): (&Parameter, Given<'_>)| {
            if !parameter.direction.is_output() {
                return Ok(None);
            }
            let wrong = |why: String| format!("`{}`: {why}", parameter.name);
            let name = self.output_file(parameter)?;
            if parameter.kind == ParameterType::File {
                return Ok(Some(Returned::File(name)));
            }
            let sizes = arguments.sizes(parameter)?;
            let from_file;
            let bytes = match self.outputs.get(&parameter.name) {
                Some(OutputFrom::Stdout) => stdout,
                _ => {
                    from_file = read_file(here, &name, VALUES_BYTES_MAX).map_err(|error| {
                        wrong(format!("expected the file {name}, found none that can be read: {error}"))
                    })?;
                    &from_file
                }
            };
            let format = self.formats.get(&parameter.name).copied().unwrap_or_default();
            let value = read_output(&parameter.kind, &sizes, format, bytes).map_err(wrong)?;
            Ok(Some(Returned::Value(value)))
        };
        let returned = arguments.named().map(result).collect::<Result<_, String>>()?;
        arguments.results(here, returned)
    }
}

/// The value that these bytes are.
fn read_output(
    kind: &ParameterType,
    sizes: &[u64],
    format: ParameterFormat,
    bytes: &[u8],
) -> Result<Value, String> {
    let text = || std::str::from_utf8(bytes).map_err(|_| "expected UTF-8, found other bytes".to_owned());
    match kind {
        ParameterType::Scalar(scalar) => {
            let text = text()?.trim();
            let shown = || text.chars().take(40).flat_map(char::escape_debug).collect::<String>();
            let array = Array::parse(*scalar, [text].into_iter())
                .ok_or_else(|| format!("expected {}, found `{}`", scalar.name(), shown()))?;
            array.first().ok_or_else(|| format!("expected {}, found nothing", scalar.name()))
        }
        ParameterType::String { .. } => {
            let text = text()?;
            Ok(Value::String(text.strip_suffix('\n').unwrap_or(text).to_owned()))
        }
        ParameterType::File => Err("expected a file".to_owned()),
        ParameterType::Vector { of, .. } => Ok(Value::Vector(read_elements(*of, format, bytes)?)),
        ParameterType::Matrix { of, .. } => {
            let elements = read_elements(*of, format, bytes)?;
            let (rows, columns) = (sizes.first().copied().unwrap_or(0), sizes.get(1).copied().unwrap_or(0));
            match rows.checked_mul(columns) == Some(elements.len() as u64) {
                true => Ok(Value::Matrix { rows, columns, elements }),
                false => Err(format!("expected {rows} times {columns} elements, found {}", elements.len())),
            }
        }
    }
}

fn read_elements(of: ScalarType, format: ParameterFormat, bytes: &[u8]) -> Result<Array, String> {
    match format {
        ParameterFormat::Raw if !(bytes.len() as u64).is_multiple_of(of.bytes()) => {
            Err(format!("expected a multiple of {} bytes, found {}", of.bytes(), bytes.len()))
        }
        ParameterFormat::Raw => Ok(Array::read_le(of, bytes)),
        ParameterFormat::Text => {
            let text =
                std::str::from_utf8(bytes).map_err(|_| "expected numbers, found other bytes".to_owned())?;
            Array::parse(of, text.split_ascii_whitespace())
                .ok_or_else(|| format!("expected numbers of type {}, found another text", of.name()))
        }
    }
}

/// Reads a file that is not longer than that, through no link and without waiting for what a command may have put in its place.
pub(in crate::processes) fn read_file(folder: &Path, name: &FileName, most: usize) -> io::Result<Vec<u8>> {
    let opened = open_file(folder, name).map_err(io::Error::other)?;
    let file = opened.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    read_at_most(file, most)
}

/// The content of a file that is not longer than that.
pub(super) fn read_at_most(file: File, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    match bytes.len() > most {
        true => Err(io::Error::other(format!("it has more than {most} bytes"))),
        false => Ok(bytes),
    }
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Leaves the outcome of a call in its work folder: its results, or why it failed. The caller syncs the file if it must survive a
/// failure of the host.
pub(in crate::processes) fn write_outcome(
    work: &Path,
    outcome: Result<&CallResults, &str>,
) -> io::Result<File> {
    put_outcome(work, &outcome_bytes(outcome)?)
}

/// The outcome of a call: its results, or why it failed.
pub(in crate::processes) fn outcome_bytes(outcome: Result<&CallResults, &str>) -> io::Result<Vec<u8>> {
    let encoded = outcome.map(CallResults::encode);
    let (kind, payload) = match encoded {
        Ok(Ok(bytes)) => (FrameKind::Result, bytes),
        Ok(Err(reason)) => (FrameKind::Failure, reason_bytes(&reason)),
        Err(reason) => (FrameKind::Failure, reason_bytes(reason)),
    };
    let mut bytes = Vec::with_capacity(frame::HEADER_BYTES + payload.len());
    frame::write(&mut bytes, Header::answer(kind, payload.len()), &payload)?;
    Ok(bytes)
}

/// Leaves the outcome of a call in its work folder.
pub(in crate::processes) fn put_outcome(work: &Path, bytes: &[u8]) -> io::Result<File> {
    let path = work.join(CALL_OUTCOME);
    let mut file = match new_file(&path) {
        // The command may have left something of that name.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(&path)?;
            new_file(&path)?
        }
        made => made?,
    };
    file.write_all(bytes)?;
    Ok(file)
}

fn reason_bytes(reason: &str) -> Vec<u8> {
    reason.as_bytes()[..reason.floor_char_boundary(REASON_BYTES_MAX)].to_vec()
}

/// How a process ended, behind "ended with".
pub(in crate::processes) fn ended_with(outcome: &Outcome) -> String {
    match outcome {
        Outcome::ExitCode(code) => format!("exit code {code}"),
        Outcome::Signal(signal) => format!("signal {signal}"),
        Outcome::NotStarted(why) => format!("nothing: {why}"),
    }
}

fn last_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.map_or_else(String::new, |line| format!(": {}", line.trim().escape_debug()))
}

/// For the user, who reads the standard error of the job.
fn eprintln_reason(reason: &str) {
    let _ = writeln!(io::stderr(), "error: {reason}");
}

/// Where an output goes besides.
#[derive(Clone, Copy)]
enum Tee {
    Out,
    Error,
}

/// Reads all of a pipe into an output of this process, and keeps so many bytes of it: the first of standard output, the last of
/// standard error.
fn kept(pipe: impl Read + Send + 'static, most: usize, tee: Tee) -> Receiver<Vec<u8>> {
    let (sender, kept) = mpsc::channel();
    let read = move || {
        let mut bytes = Vec::new();
        let _ = drain(pipe, |piece| {
            let (left, fits) = (most - bytes.len().min(most), piece.len());
            match tee {
                // An output is no text for the file of the job's standard output.
                Tee::Out if most > 0 => bytes.extend_from_slice(&piece[..fits.min(left)]),
                Tee::Out => _ = io::stdout().write_all(piece),
                Tee::Error => {
                    let _ = io::stderr().write_all(piece);
                    bytes.extend_from_slice(piece);
                    let excess = bytes.len().saturating_sub(most);
                    bytes.drain(..excess);
                }
            }
        });
        // The wait may be over.
        let _ = sender.send(bytes);
    };
    let _ = thread::Builder::new().name("output".into()).stack_size(128 * 1024).spawn(read);
    kept
}
