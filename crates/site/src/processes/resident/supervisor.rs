//! The supervisor of a resident process.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use pliant_calls::frame::{FrameError, FrameKind, Header, REASON_BYTES_MAX};
use pliant_calls::{ParameterType, decode};
use pliant_control::exact_text::ExactText;
use pliant_staging::SUBMITTED;
use pliant_wire::Outcome;
use pliant_wire::bounds::CALL_BYTES_MAX;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{getpid, set_child_subreaper, setsid};

use super::super::folder::{Folder, FolderError};
use super::super::persistence::complain;
use super::super::record::{Exit, Started};
use super::super::supervisor::unix_ms;
use super::super::survivors::boot_id;
use super::super::tasks::call::{ended_with, outcome_bytes, put_outcome};
use super::super::tasks::{CallSpec, TaskList};
use super::super::watch::Signals;
use super::process::{Process, complaint};
use super::{EndedCall, HandedCall, NewCall, RESIDENT, ResidentSpec};
use crate::call_values::{CallArguments, CallResults, Given, Returned};

/// How often it is looked whether a call was cancelled without a signal, and what its process uses.
const PERIOD: Duration = Duration::from_secs(1);

/// What a supervisor waits for.
pub(super) enum Event {
    /// The server has a call.
    Call(Box<HandedCall>),
    /// The server is gone.
    Closed,
    /// A process has answered, or has closed its standard output.
    Answer { process: u64, answer: Result<Option<(Header, Vec<u8>)>, FrameError> },
    /// A signal has come.
    Signal,
}

/// Runs a resident process, whose folder is `home`, until the server is gone. This is the whole of the process `pliant
/// run-resident`.
///
/// # Errors
/// What it is to run cannot be read, or signals cannot be listened to.
pub fn run_resident(home: &Path) -> io::Result<()> {
    let spec: ResidentSpec = serde_json::from_slice(&fs::read(home.join(RESIDENT))?)?;
    // A signal to the server's group, as from a terminal, is none to this process.
    let _ = setsid();
    let _ = set_child_subreaper(Some(getpid()));
    let mut signals = Signals::listen()?;
    let (sender, events) = mpsc::channel();
    let calls = sender.clone();
    thread::Builder::new().name("server".into()).spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            let call = match serde_json::from_str(&line) {
                Ok(call) => call,
                // The server waits for its end: without a supervisor it finds out that it was not begun.
                Err(error) => {
                    complain(&error);
                    break;
                }
            };
            if calls.send(Event::Call(call)).is_err() {
                return;
            }
        }
        let _ = calls.send(Event::Closed);
    })?;
    let woken = sender.clone();
    thread::Builder::new().name("signals".into()).spawn(move || {
        loop {
            signals.wait(Duration::from_secs(3600));
            if woken.send(Event::Signal).is_err() {
                return;
            }
        }
    })?;
    let waiting = VecDeque::new();
    Supervisor {
        spec,
        home: home.to_owned(),
        events,
        sender,
        waiting,
        closed: false,
        process: None,
        started: 0,
    }
    .run();
    Ok(())
}

struct Supervisor {
    spec: ResidentSpec,
    home: PathBuf,
    events: Receiver<Event>,
    sender: mpsc::Sender<Event>,
    waiting: VecDeque<HandedCall>,
    /// The server is gone.
    closed: bool,
    process: Option<Process>,
    /// How many processes were started.
    started: u64,
}

/// How a call ended.
struct CallEnd {
    results: Result<CallResults, String>,
    outcome: Outcome,
    over_walltime: bool,
    over_limit: Option<String>,
    cancelled: bool,
}

impl CallEnd {
    /// It failed without being ended.
    fn failed(reason: impl Into<String>, outcome: Outcome) -> CallEnd {
        let (over_walltime, over_limit, cancelled) = (false, None, false);
        CallEnd { results: Err(reason.into()), outcome, over_walltime, over_limit, cancelled }
    }
}

impl Supervisor {
    fn run(mut self) {
        let (idle, grace) = (Duration::from_secs(self.spec.idle_s), Duration::from_secs(self.spec.grace_s));
        let mut idle_since = Instant::now();
        while !self.closed {
            if let Some(handed) = self.waiting.pop_front() {
                let dir = handed.dir.clone();
                let ended = self.call(handed).unwrap_or_else(|error| {
                    complain(&error);
                    None
                });
                let ended = ended.unwrap_or(EndedCall { dir, exit: None, outcome: None });
                let mut out = io::stdout().lock();
                let mut line = serde_json::to_vec(&ended).unwrap_or_default();
                line.push(b'\n');
                // If the server is gone its pipe has ended, too.
                let _ = out.write_all(&line).and_then(|()| out.flush());
                idle_since = Instant::now();
                continue;
            }
            let left = self.process.as_ref().map(|_| idle.saturating_sub(idle_since.elapsed()));
            match self.next(left.unwrap_or(Duration::from_secs(3600))) {
                Some(Event::Signal) => {
                    self.process.iter().for_each(Process::reap_orphans);
                    self.replace_broken();
                }
                None if left.is_some() && idle_since.elapsed() >= idle => {
                    self.process.take().map(|process| process.close(grace));
                }
                _ => {}
            }
        }
        self.process.take().map(|process| process.close(grace));
    }

    /// Ends a process that has ended, or has written something without a call: it cannot be trusted with the next one.
    fn replace_broken(&mut self) {
        let is_broken = |process: &mut Process| process.group.is_over() || process.has_spoken();
        if let Some(process) = self.process.take_if(is_broken) {
            let what = if process.group.is_over() { "has ended" } else { "has written something" };
            complain(&io::Error::other(format!("the resident process {what} without a call")));
            process.end(Duration::from_secs(self.spec.grace_s));
        }
    }

    /// The next event within that time, but for those that are noted here.
    fn next(&mut self, within: Duration) -> Option<Event> {
        match self.events.recv_timeout(within) {
            Ok(Event::Call(call)) => {
                self.waiting.push_back(*call);
                None
            }
            Ok(Event::Closed) | Err(RecvTimeoutError::Disconnected) => {
                self.closed = true;
                None
            }
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
        }
    }

    /// Carries out a call, unless it was begun before or the server is gone.
    fn call(&mut self, handed: HandedCall) -> Result<Option<EndedCall>, FolderError> {
        let HandedCall { dir, new } = handed;
        let folder = if new.is_some() { Folder::make_for_call(&dir)? } else { Folder::at(&dir)? };
        let Some(lock) = folder.lock()? else { return Ok(None) };
        folder.note_supervisor(&lock, getpid())?;
        // From here on a new server sees that the folder has a supervisor.
        if is_server_gone() {
            self.closed = true;
            return Ok(None);
        }
        let begin = Instant::now();
        let spec = match new {
            None => TaskList::of(&dir),
            Some(NewCall { call, submitted }) => {
                keep_submitted(&folder, submitted.as_deref())?;
                Ok(TaskList::Call(Box::new(call)))
            }
        };
        let is_cancelled = folder.is_cancel_asked();
        let start = if is_cancelled { Err(String::new()) } else { self.present_process() };
        let started = Started {
            supervisor: getpid().as_raw_nonzero().get(),
            group: start.as_ref().ok().map(|group| group.leader().as_raw_nonzero().get()),
            cgroup: None,
            leader_ticks: None,
            boot_id: boot_id(),
            started_unix_ms: unix_ms(),
        };
        if !folder.claim_call(&started)? {
            return Ok(None);
        }
        let end = match (spec, start) {
            _ if is_cancelled => {
                let outcome = Outcome::NotStarted("cancelled before it was started".to_owned());
                CallEnd { cancelled: true, ..CallEnd::failed("cancelled before it was started", outcome) }
            }
            (Ok(TaskList::Call(spec)), Ok(_)) => self.carried_out(&folder, &spec, begin),
            (Ok(_), Err(why)) => CallEnd::failed(why.clone(), Outcome::NotStarted(why)),
            (Ok(_), _) => CallEnd::failed("no call", Outcome::NotStarted("no call".to_owned())),
            (Err(error), _) => CallEnd::failed(error.to_string(), Outcome::NotStarted(error.to_string())),
        };
        let results = end.results.as_ref().map_err(String::as_str);
        let mut outcome = end.outcome;
        let bytes = outcome_bytes(results);
        let written = bytes.and_then(|bytes| put_outcome(&folder.work(), &bytes).map(|_| bytes));
        let bytes = written.inspect_err(|error| {
            // Without its results it has not succeeded.
            complain(error);
            outcome = Outcome::NotStarted(format!("its outcome cannot be written: {error}"));
        });
        let exit = Exit {
            outcome,
            over_walltime: end.over_walltime,
            over_limit: end.over_limit,
            cancelled: end.cancelled,
            left: Vec::new(),
            started_unix_ms: started.started_unix_ms,
            ended_unix_ms: unix_ms().max(started.started_unix_ms),
            elapsed_ms: u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX),
            cpu_s: 0.0,
            max_rss_kb: None,
            stdout_cut: false,
            stderr_cut: false,
        };
        folder.write_call_exit(&exit)?;
        let short = bytes.ok().filter(|bytes| bytes.len() <= CALL_BYTES_MAX);
        Ok(Some(EndedCall { dir, exit: Some(exit), outcome: short.map(ExactText::from) }))
    }

    /// The group of the process, which is started if there is none.
    fn present_process(&mut self) -> Result<super::super::group::ProcessGroup, String> {
        self.replace_broken();
        if self.process.is_none() {
            self.started += 1;
            self.process = Some(Process::start(&self.spec, &self.home, self.started, &self.sender)?);
        }
        Ok(self.process.as_ref().expect("it was started").group)
    }

    fn carried_out(&mut self, folder: &Folder, spec: &CallSpec, begin: Instant) -> CallEnd {
        let failed = |why: String| CallEnd::failed(why, Outcome::ExitCode(1));
        let arguments = match spec.arguments(&folder.work()) {
            Ok(arguments) => arguments,
            Err(why) => return failed(why),
        };
        let sent = arguments.encode_with_paths(&folder.work());
        let outputs = ["stdout", "stderr"].map(|name| folder.create_output(name));
        let (sent, errors) = match (sent, outputs) {
            (Ok(sent), [Ok(_), Ok(errors)]) => (sent, errors),
            (Err(why), _) => return failed(why),
            (_, [Err(error), _] | [_, Err(error)]) => return failed(error.public_message()),
        };
        let header = Header {
            kind: FrameKind::Call,
            length: sent.len() as u64,
            procs: spec.procs,
            walltime_s: u32::try_from(spec.walltime_s).unwrap_or(u32::MAX),
        };
        if let Some(process) = &self.process {
            process.call(header, &sent, errors, self.spec.max_output_bytes);
        }
        let deadline = begin.checked_add(Duration::from_secs(spec.walltime_s));
        let grace = Duration::from_secs(self.spec.grace_s);
        let end = loop {
            let left = deadline.map_or(PERIOD, |deadline| deadline.saturating_duration_since(Instant::now()));
            let event = self.next(left.min(PERIOD));
            let Some(process) = &self.process else { break failed("no process".to_owned()) };
            match event {
                Some(Event::Answer { process: number, answer }) if number == process.number => {
                    break self.answered(answer, spec, &arguments, &folder.work());
                }
                _ => {}
            }
            let exceeded = process.exceeded();
            let is_over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            let is_cancelled = folder.is_cancel_asked();
            if !is_over && !is_cancelled && exceeded.is_none() {
                continue;
            }
            let outcome = self.process.take().map_or(Outcome::Signal(0), |process| process.end(grace));
            let why = match (&exceeded, is_cancelled) {
                (_, true) => "the call was cancelled".to_owned(),
                (Some(what), false) => format!("the resident process has exceeded a limit: {what}"),
                (None, false) => "the call has exceeded its walltime".to_owned(),
            };
            let over_limit = exceeded.filter(|_| !is_cancelled);
            let over_walltime = !is_cancelled && over_limit.is_none();
            break CallEnd { results: Err(why), outcome, over_walltime, over_limit, cancelled: is_cancelled };
        };
        if let Some(process) = &self.process {
            process.called();
        }
        end
    }

    /// What an answer is.
    fn answered(
        &mut self,
        answer: Result<Option<(Header, Vec<u8>)>, FrameError>,
        spec: &CallSpec,
        arguments: &CallArguments,
        work: &Path,
    ) -> CallEnd {
        let failed = |why: String| CallEnd::failed(why, Outcome::ExitCode(1));
        let grace = Duration::from_secs(self.spec.grace_s);
        match answer {
            Ok(Some((Header { kind: FrameKind::Result, .. }, payload))) => {
                let kept = match results(&payload, arguments, work) {
                    Ok(results) => match spec.keep(arguments, results, work) {
                        Ok(results) => Ok(results),
                        Err(why) => return failed(why),
                    },
                    Err(why) => Err(why),
                };
                match kept {
                    Ok(results) => {
                        CallEnd { results: Ok(results), ..CallEnd::failed("", Outcome::ExitCode(0)) }
                    }
                    Err(why) => failed(format!("the results of the resident process: {why}")),
                }
            }
            Ok(Some((Header { kind: FrameKind::Failure, .. }, payload))) => {
                let reason =
                    String::from_utf8_lossy(&payload[..payload.len().min(REASON_BYTES_MAX)]).into_owned();
                failed(if reason.trim().is_empty() {
                    "the service has reported a failure".to_owned()
                } else {
                    reason
                })
            }
            Ok(Some(_)) => {
                self.process.take().map(|process| process.end(grace));
                failed("the resident process has answered with a call".to_owned())
            }
            Ok(None) => {
                let outcome = self.process.take().map_or(Outcome::Signal(0), |process| process.end(grace));
                let why = format!("the resident process ended with {} during the call", ended_with(&outcome));
                CallEnd::failed(
                    why,
                    if outcome == Outcome::ExitCode(0) { Outcome::ExitCode(1) } else { outcome },
                )
            }
            Err(error) => {
                let is_broken = matches!(error, FrameError::Io(_));
                let outcome = self.process.take().map_or(Outcome::Signal(0), |process| process.end(grace));
                match is_broken {
                    true => {
                        let why = format!(
                            "the resident process ended with {} during the call",
                            ended_with(&outcome)
                        );
                        CallEnd::failed(
                            why,
                            if outcome == Outcome::ExitCode(0) { Outcome::ExitCode(1) } else { outcome },
                        )
                    }
                    false => failed(complaint(&error)),
                }
            }
        }
    }
}

/// The results in an answer, with the names of files in the work folder: no path that the process returns is looked at.
fn results(payload: &[u8], arguments: &CallArguments, work: &Path) -> Result<CallResults, String> {
    let values = decode(payload).map_err(|error| error.to_string())?;
    let mut returned: Vec<Option<Returned>> =
        values.into_iter().map(|value| value.map(Returned::Value)).collect();
    for ((parameter, given), returned) in arguments.named().zip(&mut returned) {
        if parameter.kind != ParameterType::File || !parameter.direction.is_output() {
            continue;
        }
        let name = match given {
            Given::File(name) => Ok(name.clone()),
            _ => parameter.name.parse().map_err(|error| format!("`{}`: {error}", parameter.name)),
        };
        *returned = Some(Returned::File(name?));
    }
    arguments.results(work, returned)
}

/// Keeps what was submitted in the folder of a call that is not begun.
fn keep_submitted(folder: &Folder, submitted: Option<&str>) -> Result<(), FolderError> {
    let Some(submitted) = submitted else { return Ok(()) };
    folder.write_new(SUBMITTED, submitted.as_bytes())
}

/// Whether the server has closed its end of our standard input.
fn is_server_gone() -> bool {
    let stdin = io::stdin();
    let mut polled = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut polled, Some(&now)), Ok(count) if count > 0)
        && polled[0].revents().contains(PollFlags::HUP)
}
