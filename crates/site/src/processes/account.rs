//! How a supervisor starts and signals a job that runs as an account of its own: through the launcher.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pliant_launcher::Signal;

use super::FOLDER_VARIABLE;
use super::job_folder;
use super::spec::RunSpec;
use super::table::Process;
use crate::accounts::{AccountRun, Launcher, LauncherError, STDERR_PREFIX};

/// Where the program of a job is looked for unless its environment says otherwise.
pub(crate) const PROGRAM_PATH: &str = super::supervisor::PATH;
/// How the line begins in which the process that becomes a job's program says why it cannot.
pub const NOT_STARTED_PREFIX: &str = "pliant job-folder: ";
/// What the first line of standard error begins with if a program was not started.
pub(super) const REFUSALS: [&str; 2] = [STDERR_PREFIX, NOT_STARTED_PREFIX];

/// How often a signal is sent that cannot be sent.
const TRIES: u32 = 10;
/// For how long. One call takes a few milliseconds.
const TRIED_WITHIN: Duration = Duration::from_secs(1);

/// The command that starts a job's program as its account once it is given [`input`].
pub(super) fn command(account: &AccountRun) -> Command {
    let mut command = account.launcher().command();
    command.stdin(Stdio::piped());
    command
}

/// What the launcher, and the process that becomes the program, read on their standard input.
pub(super) fn input(spec: &RunSpec, account: &AccountRun) -> Vec<u8> {
    let mut env = spec.env.clone();
    env.insert(FOLDER_VARIABLE.to_owned(), account.folder.to_string_lossy().into_owned());
    let command = account.pliant(job_folder::arguments(&account.folder));
    let launcher = account.launcher();
    let folder: &Path = &account.folder;
    let request = launcher.run_request(command, Vec::new(), folder, account.processes_max);
    let mut input = request.encode();
    input.extend(job_folder::start_call(spec, env));
    input
}

/// Writes the input, on a thread: what runs as the account may be stopped by it, and read nothing.
pub(super) fn write(mut stdin: ChildStdin, input: Vec<u8>) -> std::io::Result<()> {
    // One that reads no more has said why.
    let write = move || drop(stdin.write_all(&input));
    thread::Builder::new().name("input".into()).stack_size(128 * 1024).spawn(write).map(drop)
}

/// How many reasons are written to the log why the processes of a job cannot be signalled.
const REASONS_MAX: usize = 8;

/// Signals processes of an account.
pub(super) struct Signaller {
    launcher: Launcher,
    /// The reasons that are in the log.
    reasons: RefCell<BTreeSet<String>>,
}

/// Whether processes were signalled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Signalled {
    /// All of them that are still there.
    All,
    /// Not all at the moment.
    NotNow,
    /// Not all, and trying again will not help.
    Refused,
}

impl Signaller {
    /// The signaller of the processes of a job.
    pub(super) fn of(account: &AccountRun) -> Signaller {
        Signaller { launcher: account.launcher(), reasons: RefCell::default() }
    }

    /// Asks the group of that leader to end. False if it has to be tried again.
    pub(super) fn ask_to_end(&self, leader: i32) -> bool {
        let leads = Process::read(leader).is_some_and(|process| process.group == leader);
        // Before that it is the launcher, and there is no group yet. A stopped process would not notice, so it is continued.
        let is_sent = |signal| self.send(signal, vec![-leader]) == Signalled::All;
        leads && is_sent(Signal::Term) && is_sent(Signal::Cont)
    }

    /// Kills the group of that leader.
    pub(super) fn kill_group(&self, leader: i32) -> Signalled {
        self.send(Signal::Kill, vec![-leader])
    }

    /// Signals processes. What fails is tried again at once: a job can end a process that runs as its account.
    pub(super) fn send(&self, signal: Signal, processes: Vec<i32>) -> Signalled {
        match repeated(LauncherError::may_pass, || self.launcher.signal(signal, processes.clone())) {
            Ok(()) => Signalled::All,
            Err(error) => {
                self.complain(error.to_string());
                if error.may_pass() { Signalled::NotNow } else { Signalled::Refused }
            }
        }
    }

    /// Writes each of the first few reasons to the log once: a job can cause any number of failures.
    fn complain(&self, reason: String) {
        let mut reasons = self.reasons.borrow_mut();
        if reasons.len() < REASONS_MAX && !reasons.contains(&reason) {
            let _ = writeln!(std::io::stderr(), "error: cannot signal the job: {reason}");
            reasons.insert(reason);
        }
    }
}

/// Does something that may fail at once again: at most [`TRIES`] times, and not once it has taken [`TRIED_WITHIN`].
fn repeated<E>(may_pass: impl Fn(&E) -> bool, mut act: impl FnMut() -> Result<(), E>) -> Result<(), E> {
    let begun = Instant::now();
    let mut tries = 1;
    loop {
        match act() {
            Err(error) if may_pass(&error) && tries < TRIES && begun.elapsed() < TRIED_WITHIN => tries += 1,
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_tried_again_a_few_times() {
        let check = |failures: u32, passes: bool, expected: (bool, u32)| {
            let mut calls = 0;
            let done = repeated(
                |_| passes,
                || {
                    calls += 1;
                    if calls > failures { Ok(()) } else { Err(()) }
                },
            );
            assert_eq!((done.is_ok(), calls), expected, "{failures} {passes}");
        };
        check(0, true, (true, 1));
        check(TRIES - 1, true, (true, TRIES));
        check(TRIES, true, (false, TRIES));
        check(1, false, (false, 1));
    }

    #[test]
    fn what_takes_long_is_not_tried_again() {
        let mut calls = 0;
        let done = repeated(
            |()| true,
            || {
                calls += 1;
                thread::sleep(TRIED_WITHIN);
                Err(())
            },
        );
        assert_eq!((done, calls), (Err(()), 1));
    }
}
