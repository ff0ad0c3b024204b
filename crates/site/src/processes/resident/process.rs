//! A resident process: its pipes, and what it writes.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pliant_calls::frame::{self, FrameError, Header};
use pliant_wire::Outcome;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, waitid};

use super::super::FOLDER_VARIABLE;
use super::super::cgroup::Cgroup;
use super::super::group::ProcessGroup;
use super::super::supervisor::{PATH, spawn_in, why};
use super::super::table;
use super::ResidentSpec;
use super::supervisor::Event;

/// How often it is looked whether a process that was asked to end has ended.
const PERIOD: Duration = Duration::from_millis(5);
/// How many bytes of standard error are read at a time, and at most at the end of a call: as many as a pipe can hold. A process that
/// writes without end keeps nothing from going on.
const ERRORS_AT_A_TIME: u64 = 1 << 20;
/// How long what a process has started is killed: one that hangs in the kernel does not die.
const KILL_AT_MOST: Duration = Duration::from_secs(5);

/// The standard error of a process, which does not block, and the file in which so many more bytes of it are kept during a call.
struct Errors {
    pipe: ChildStderr,
    file: Option<(File, u64)>,
}

/// A resident process.
pub(super) struct Process {
    child: Child,
    pub(super) group: ProcessGroup,
    calls: Sender<Vec<u8>>,
    /// Has the next answer read. Without that nothing is read, so that a process which writes without end fills its pipe and no memory.
    answers: Sender<()>,
    /// The standard output of the process.
    stdout: OwnedFd,
    errors: Arc<Mutex<Errors>>,
    cgroup: Option<Cgroup>,
    /// Its number: answers of earlier processes have others.
    pub(super) number: u64,
}

impl Process {
    /// Starts one, as the leader of a process group in its own folder.
    pub(super) fn start(
        spec: &ResidentSpec,
        home: &Path,
        number: u64,
        events: &Sender<Event>,
    ) -> Result<Process, String> {
        let [program, arguments @ ..] = spec.program.as_slice() else { return Err("no program".to_owned()) };
        let cgroup = spec.limits.cgroup.as_ref().map(|base| {
            let name = format!("resident-{}-{number}", std::process::id());
            Cgroup::create(base, &name, &spec.limits)
        });
        let cgroup = cgroup.transpose().map_err(|error| format!("its cgroup cannot be made: {error}"))?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(home).process_group(0);
        command.env_clear().env("PATH", PATH).env("HOME", home).env("LANG", "C.UTF-8").envs(&spec.env);
        command.env(FOLDER_VARIABLE, home);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            spawn_in(cgroup.as_ref(), &mut command).map_err(|error| why(program, &spec.env, &error))?;
        let group = ProcessGroup::of(&child);
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(mut stdout), Some(stderr)) = pipes else { return Err("no pipes".to_owned()) };
        let (calls, to_write) = mpsc::channel();
        let (wanted, to_read) = mpsc::channel();
        let observed = match stdout.as_fd().try_clone_to_owned() {
            Ok(observed) => observed,
            Err(error) => {
                group.kill();
                let _ = child.wait();
                return Err(format!("no pipe: {error}"));
            }
        };
        let readable = rustix::io::ioctl_fionbio(&stderr, true).map_err(io::Error::from);
        let readable = readable.and_then(|()| stderr.as_fd().try_clone_to_owned());
        let errors = Arc::new(Mutex::new(Errors { pipe: stderr, file: None }));
        let (answers, kept) = (events.clone(), errors.clone());
        let started = of_thread("calls", move || write_calls(stdin, &to_write))
            .and_then(|()| {
                of_thread("answers", move || {
                    while to_read.recv().is_ok() {
                        let answer = frame::read(&mut stdout);
                        let is_last = !matches!(answer, Ok(Some(_)));
                        if answers.send(Event::Answer { process: number, answer }).is_err() || is_last {
                            return;
                        }
                    }
                })
            })
            .and(readable)
            .and_then(|readable| of_thread("errors", move || keep_errors(&readable, &kept)));
        let process =
            Process { child, group, calls, answers: wanted, stdout: observed, errors, cgroup, number };
        match started {
            Ok(()) => Ok(process),
            Err(error) => {
                process.end(Duration::ZERO);
                Err(format!("no thread: {error}"))
            }
        }
    }

    /// Sends it a call; what it writes to standard error goes to that file from now on.
    pub(super) fn call(&self, header: Header, payload: &[u8], errors: File, max_bytes: u64) {
        self.errors.lock().file = Some((errors, max_bytes));
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(payload);
        // If it has died its answers have ended.
        let _ = self.calls.send(bytes);
        let _ = self.answers.send(());
    }

    /// Whether it has written something, or closed its standard output, since its last answer. Between calls it is not to: what it
    /// wrote would be the answer to the next call, which may be another user's.
    pub(super) fn has_spoken(&self) -> bool {
        let mut polled = [PollFd::new(&self.stdout, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // An error says nothing about it.
        matches!(poll(&mut polled, Some(&now)), Ok(count) if count > 0)
    }

    /// The call is over.
    pub(super) fn called(&self) {
        let mut errors = self.errors.lock();
        // What it wrote before it answered is in the pipe.
        errors.keep(ERRORS_AT_A_TIME);
        errors.file = None;
    }

    /// What its limits say that it has exceeded, as far as the kernel held it to them.
    pub(super) fn exceeded(&self) -> Option<String> {
        self.cgroup.as_ref().and_then(Cgroup::exceeded)
    }

    /// Ends it and what it has started: TERM, and KILL after that time. How it ended.
    pub(super) fn end(mut self, grace: Duration) -> Outcome {
        let begun = Instant::now();
        if !grace.is_zero() && !self.group.is_over() {
            self.group.ask_to_end();
            while !self.group.is_over() && begun.elapsed() < grace {
                thread::sleep(PERIOD);
            }
        }
        self.group.kill();
        while !self.group.is_over() {
            thread::sleep(PERIOD);
        }
        let outcome = self.group.outcome().unwrap_or(Outcome::Signal(0));
        let _ = self.child.wait();
        kill_descendants();
        self.cgroup.iter().for_each(Cgroup::remove);
        outcome
    }

    /// Reaps what the process has started and left behind, and what has ended.
    pub(super) fn reap_orphans(&self) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        // Only if a child is gone does it take the process table to learn which.
        let Ok(Some(_)) = waitid(WaitId::All, options | WaitIdOptions::NOWAIT) else { return };
        for child in children().filter(|child| *child != self.group.leader()) {
            let _ = waitid(WaitId::Pid(child), options);
        }
    }

    /// Lets it end by itself within that time, since its standard input ends; then it is ended.
    pub(super) fn close(mut self, grace: Duration) -> Outcome {
        let begun = Instant::now();
        // Its writer ends, and with it the standard input of the process.
        self.calls = mpsc::channel().0;
        while !self.group.is_over() && begun.elapsed() < grace {
            thread::sleep(PERIOD);
        }
        self.end(Duration::ZERO)
    }
}

/// The children of this process.
fn children() -> impl Iterator<Item = Pid> {
    let own = getpid().as_raw_nonzero().get();
    table::all().into_iter().filter(move |process| process.parent == own).filter_map(|process| process.id())
}

/// Kills what a process that has ended had started, also in other process groups and sessions: this process is the parent of all
/// that lost theirs, and has no other children.
fn kill_descendants() {
    let begun = Instant::now();
    while begun.elapsed() < KILL_AT_MOST {
        let left: Vec<Pid> = children().collect();
        if left.is_empty() {
            return;
        }
        for child in left {
            // A child keeps its id until it is waited for.
            let _ = kill_process(child, Signal::KILL);
            let _ = waitid(WaitId::Pid(child), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
        thread::sleep(PERIOD);
    }
}

fn of_thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).stack_size(256 * 1024).spawn(run).map(drop)
}

fn write_calls(mut stdin: ChildStdin, calls: &mpsc::Receiver<Vec<u8>>) {
    while let Ok(bytes) = calls.recv() {
        if stdin.write_all(&bytes).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

/// Keeps what a process writes to standard error, until that ends.
fn keep_errors(readable: &OwnedFd, errors: &Mutex<Errors>) {
    loop {
        let mut polled = [PollFd::new(readable, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        if errors.lock().keep(ERRORS_AT_A_TIME) {
            return;
        }
    }
}

impl Errors {
    /// Reads what is there, and no more than so many bytes: it is kept during a call, up to a limit, and dropped between calls. True
    /// at its end.
    fn keep(&mut self, at_most: u64) -> bool {
        let (mut buffer, mut taken) = ([0; 4096], 0);
        while taken < at_most {
            match self.pipe.read(&mut buffer) {
                Ok(0) => return true,
                Ok(count) => {
                    taken += count as u64;
                    self.write(&buffer[..count]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            }
        }
        false
    }

    fn write(&mut self, piece: &[u8]) {
        let Some((file, left)) = self.file.as_mut() else { return };
        let kept = piece.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
        *left -= kept as u64;
        // What cannot be written is missing.
        let _ = file.write_all(&piece[..kept]);
        if kept < piece.len() {
            let _ = file.write_all(b"\n[pliant: further output was dropped]\n");
            self.file = None;
        }
    }
}

/// Why an answer is none, for the owner of the call.
pub(super) fn complaint(error: &FrameError) -> String {
    format!("the resident process has written something else than an answer: {error}")
}
