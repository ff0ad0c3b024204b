//! The account's side: the process `pliant job-folder DIR`, which carries out one call in a folder of the account.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use pliant_staging::{
    FileName, FileSpec, StagingError, WORK, open_result, put_script, put_tasks, receive_inputs,
    receive_shared, sum_up,
};

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use super::call::{CALL_BYTES_MAX, Call, Failed, GateCall, Reply, line, read_line};
use super::started_elsewhere::last_line;
use super::{emptying, leftovers, outputs};
use crate::processes::{
    FileUsage, FolderError, PROGRAM_PATH, RunSpec, SpecError, StartGate, Streams, ask_end, find,
    longest_of_batch, no_such_folder, program_in, task_ends, task_ends_length, why_not_started,
};

/// The longest script or list of tasks.
const TEXT_BYTES_MAX: u64 = 64 << 20;

/// Carries out the call on standard input, and answers on standard output. One that is to become a job's program does not come back.
///
/// # Errors
/// There is no call, it cannot be answered, or the program cannot be started.
pub fn serve_call(folder: &Path) -> io::Result<()> {
    // From here on other processes of the account, jobs among them, cannot attach to this one, which is in no cgroup of a job. If the
    // account cannot read the program, that holds from its first moment. Becoming a program ends it.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let mut input = BufReader::new(io::stdin().lock());
    let call = read_line(&mut input, CALL_BYTES_MAX)?;
    // Without looking for the ends of lines.
    let mut output = File::from(rustix::stdio::stdout().try_clone_to_owned()?);
    let reply = match call {
        Call::Start { program, env, place, streams } => {
            drop(input);
            return Err(started(folder, &program, &env, place.as_deref(), &streams));
        }
        Call::Put { specs, script, tasks, inputs, shared } => write_specs(folder, &specs)
            .and_then(|()| put(folder, &mut input, [script, tasks], &inputs, &shared))
            .map(|()| Reply::Put),
        Call::Outputs => match outputs::created(folder) {
            Ok(files) => return outputs::send(&output, &files),
            Err(error) => Err(error),
        },
        Call::Results { task, limits } => {
            within(folder, task.as_ref()).and_then(|dir| sum_up(&dir, limits)).map(Reply::Results)
        }
        Call::Open { task, name, offset } => {
            match within(folder, task.as_ref()).and_then(|dir| open_result(&dir, &name, offset)) {
                Ok(mut file) => {
                    output.write_all(&line(&Reply::Content))?;
                    io::copy(&mut file, &mut output)?;
                    return output.flush();
                }
                Err(error) => Err(error),
            }
        }
        Call::Longest => Ok(Reply::Longest(longest_of_batch(folder))),
        Call::Empty => emptying::empty(folder, None).map(|()| Reply::Done),
        Call::KeepOutputs { most } => emptying::empty(folder, Some(most)).map(|()| Reply::Done),
        Call::Usage { most, files_of, memory_of } => FileUsage::of(folder, most)
            .and_then(|usage| usage.with_deleted(files_of, folder)?.with_memory_of_account(memory_of))
            .map(Reply::Usage)
            .map_err(|why| of_io(folder)(io::Error::other(why))),
        Call::EndSurvivors { marks } => Ok(Reply::Ended { killed: marks.kill() }),
        Call::RemoveLeftovers { meter } => {
            leftovers::remove_own(meter).map(|()| Reply::Done).map_err(of_io(folder))
        }
        Call::Find => find(folder).map(|found| Reply::Found(found.into())).map_err(of_folder),
        Call::AskEnd => ask_end(folder).map(|()| Reply::Done).map_err(of_folder),
        Call::LastLine { file } => Ok(Reply::LastLine(last_line(&folder.join(file.as_str())))),
        Call::TaskEnds { unless } => task_ends_unless(folder, unless),
        Call::Gate(call) => at_gate(folder, call),
    };
    let reply = reply.unwrap_or_else(|error| Reply::Failed(Failed::from(error)));
    output.write_all(&line(&reply))?;
    output.flush()
}

/// The job's folder, or that of a task of it.
fn within(folder: &Path, task: Option<&FileName>) -> Result<PathBuf, StagingError> {
    let Some(task) = task else { return Ok(folder.to_owned()) };
    let dir = folder.join(WORK).join(task.as_str());
    match std::fs::symlink_metadata(&dir) {
        Ok(found) if found.is_dir() => Ok(dir),
        Ok(_) => Err(StagingError::NotAFile { name: task.as_str().to_owned() }),
        Err(_) => Err(StagingError::NoResult { name: task.as_str().to_owned() }),
    }
}

fn of_folder(error: FolderError) -> StagingError {
    StagingError::Io { path: error.path, source: error.source }
}

fn of_io(folder: &Path) -> impl Fn(io::Error) -> StagingError {
    let path = folder.to_owned();
    move |source| StagingError::Io { path: path.clone(), source }
}

fn write_specs(folder: &Path, specs: &[(Option<u32>, RunSpec)]) -> Result<(), StagingError> {
    for (procs, spec) in specs {
        let written = match procs {
            Some(procs) => spec.write_sized(folder, *procs),
            None => spec.write(folder),
        };
        written.map_err(|error| match error {
            SpecError::Folder(error) => of_folder(error),
            error @ SpecError::Fault(_) => of_io(folder)(io::Error::other(error.to_string())),
        })?;
    }
    Ok(())
}

fn task_ends_unless(folder: &Path, unless: u64) -> Result<Reply, StagingError> {
    let length = task_ends_length(folder);
    let ends = (length != unless).then(|| task_ends(folder).map_err(of_io(folder))).transpose()?;
    Ok(Reply::TaskEnds(length, ends))
}

fn at_gate(folder: &Path, call: GateCall) -> Result<Reply, StagingError> {
    let gate = StartGate::at(folder);
    let done = match call {
        GateCall::Create(reservation) => gate.create(reservation.as_ref()).map(|()| Reply::Done),
        GateCall::Decide(permit) => gate.decide(permit).map(Reply::Decided),
        GateCall::HasArrived => Ok(Reply::Arrived(gate.has_arrived())),
        GateCall::Addresses => gate.addresses().map(Reply::Addresses),
    };
    done.map_err(of_io(folder))
}

fn put(
    folder: &Path,
    input: &mut impl BufRead,
    [script, tasks]: [Option<u64>; 2],
    inputs: &[FileSpec],
    shared: &[FileSpec],
) -> Result<(), StagingError> {
    if let Some(bytes) = script {
        put_script(folder, &text(folder, input, bytes)?)?;
    }
    if let Some(bytes) = tasks {
        put_tasks(folder, &text(folder, input, bytes)?)?;
    }
    receive_inputs(folder, inputs, input)?;
    match shared {
        [] => Ok(()),
        shared => receive_shared(folder, shared, input),
    }
}

fn text(folder: &Path, input: &mut impl Read, bytes: u64) -> Result<Vec<u8>, StagingError> {
    let failed = |source| StagingError::Io { path: folder.to_owned(), source };
    let mut text = Vec::new();
    input.take(bytes.min(TEXT_BYTES_MAX)).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 == bytes {
        return Ok(text);
    }
    let why = format!("expected a text of {bytes} bytes, found {}", text.len());
    Err(failed(io::Error::new(ErrorKind::UnexpectedEof, why)))
}

/// Becomes a program in the work folder, or in another one. Comes back only if that cannot be.
fn started(
    folder: &Path,
    program: &[String],
    env: &BTreeMap<String, String>,
    place: Option<&Path>,
    streams: &Streams,
) -> io::Error {
    let [name, arguments @ ..] = program else {
        return io::Error::new(ErrorKind::InvalidInput, "no program");
    };
    let work = folder.join(WORK);
    if let Err(error) = std::env::set_current_dir(place.unwrap_or(&work)) {
        let why = match place {
            Some(place) if error.kind() == ErrorKind::NotFound => no_such_folder(place),
            Some(place) => format!("{}: {error}", place.display()),
            None => format!("the work folder: {error}"),
        };
        return io::Error::new(error.kind(), why);
    }
    let stdin = streams.open_stdin(Path::new("."));
    if let Err(error) = stdin.and_then(|file| Ok(rustix::stdio::dup2_stdin(file.as_fd())?)) {
        return error;
    }
    let own_stderr = match streams.merge_output.then(merge_output).transpose() {
        Ok(own_stderr) => own_stderr,
        Err(error) => return error,
    };
    let mut command = Command::new(program_in(place, &work, name));
    // What the launcher says of the account comes first: HOME, USER, LOGNAME and SHELL.
    command.args(arguments).env("PATH", PROGRAM_PATH).env("LANG", "C.UTF-8").envs(env);
    let error = command.exec();
    // The supervisor looks for the reason there. If that cannot be, it finds it in standard output.
    let _ = own_stderr.map(|own| rustix::stdio::dup2_stderr(own.as_fd()));
    io::Error::new(error.kind(), why_not_started(name, env, &error))
}

/// Has standard error go where standard output goes. Returns where it went before.
fn merge_output() -> io::Result<OwnedFd> {
    let own = rustix::stdio::stderr().try_clone_to_owned()?;
    rustix::stdio::dup2_stderr(rustix::stdio::stdout())?;
    Ok(own)
}
