//! The supervisor of one job: a process that survives the server. Single-threaded but for the two threads that copy
//! the job's output, and asleep unless something happens.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, PipeReader};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pliant_launcher::{FAILED_AS_ACCOUNT, REFUSED, UNAVAILABLE};
use pliant_staging::may_pass;
use pliant_wire::Outcome;
use rustix::fs::{Mode, fchmod};
use rustix::process::{getpid, set_child_subreaper, setsid};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::FOLDER_VARIABLE;
use super::account::{self, Signaller};
use super::allotted;
use super::cgroup::Cgroup;
use super::folder::{Folder, FolderError};
use super::group::ProcessGroup;
use super::job_folder::make_outputs;
use super::output::Copy;
use super::persistence::{ACCOUNT_TIMEOUT_MIN, AccountFailures, MayPass, complain, persistently};
use super::record::{Exit, Started};
use super::spec::RunSpec;
use super::survivors::boot_id;
use super::table::Process;
use super::watch::{Signals, Watch, Watched};

/// Where a job's program is looked for unless its environment says otherwise.
pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What says whose a process is, and where the files of that user are.
const USER_VARIABLES: [&str; 4] = ["HOME", "USER", "LOGNAME", "SHELL"];
/// How long to wait for the rest of the output once nothing of the job is left.
const OUTPUT_AT_MOST: Duration = Duration::from_secs(5);
/// A program that was just written may still be open for writing in a process about to `exec` something else.
const BUSY_TRIES: u32 = 50;
const BUSY_PERIOD: Duration = Duration::from_millis(20);

/// Why a supervisor did not run its job. How a job ended, or why it could not be started, is not an error but in
/// its [`Exit`].
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// Another supervisor has this job.
    #[error(transparent)]
    Locked(FolderError),
    /// The job was started before, and ran or was lost.
    #[error(transparent)]
    StartedBefore(FolderError),
    /// A file of the folder cannot be read or written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The system refuses to report signals.
    #[error("cannot listen to signals: {0}")]
    Signals(#[source] io::Error),
}

/// Runs the job of a folder, to its end. This is the whole of the process `pliant run-job`: it makes itself the
/// leader of a session, listens to signals and waits for any child, so it must have the process to itself.
///
/// # Errors
/// Nothing was started, or the record of its end could not be written.
pub fn supervise(dir: &Path) -> Result<(), SuperviseError> {
    let folder = Folder::at(dir)?;
    // Refused if we lead a group already, as when called from a shell: then the session stays as it is.
    let _ = setsid();
    // Best effort: without it, processes that leave the group are not found.
    let _ = set_child_subreaper(Some(getpid()));
    // Nothing can be recorded before the job is claimed: one that is cancelled until then was never started.
    let unless_cancelled = || !folder.is_cancel_asked();
    // Held until this process is gone.
    let lock = persistently(unless_cancelled, || take_lock(&folder))?;
    // A server that reads our process id may signal us, so we listen first; one that asked before then left a file, which we
    // look for afterwards.
    let mut signals = persistently(unless_cancelled, || Signals::listen().map_err(SuperviseError::Signals))?;
    let unless_cancelled = || !is_cancelled(&folder, &signals);
    persistently(unless_cancelled, || folder.note_supervisor(&lock, getpid()))?;
    let started = || Started {
        supervisor: getpid().as_raw_nonzero().get(),
        group: None,
        cgroup: None,
        leader_ticks: None,
        boot_id: boot_id(),
        started_unix_ms: unix_ms(),
    };
    let started = persistently(unless_cancelled, || {
        let started = started();
        if folder.claim(&started)? {
            return Ok(started);
        }
        Err(SuperviseError::StartedBefore(busy(&folder, "started.json")))
    })?;
    let exit = run(&folder, started, &mut signals);
    // So that what it left can be given back.
    folder.give_back();
    record(&folder, &exit)?;
    drop(lock);
    Ok(())
}

fn take_lock(folder: &Folder) -> Result<File, SuperviseError> {
    match folder.inherited_lock()? {
        Some(lock) => Ok(lock),
        None => folder.lock()?.ok_or_else(|| SuperviseError::Locked(busy(folder, "lock"))),
    }
}

fn is_cancelled(folder: &Folder, signals: &Signals) -> bool {
    signals.is_terminated() || folder.is_cancel_asked()
}

impl MayPass for SuperviseError {
    fn may_pass(&self) -> bool {
        match self {
            SuperviseError::Locked(_) | SuperviseError::StartedBefore(_) => false,
            SuperviseError::Folder(error) => error.may_pass(),
            SuperviseError::Signals(error) => may_pass(error),
        }
    }
}

fn busy(folder: &Folder, name: &str) -> FolderError {
    let (action, reason) = match name {
        "lock" => ("lock", "another supervisor has this job"),
        _ => ("create", "this job was started before and is never started again"),
    };
    let source = io::Error::new(ErrorKind::AlreadyExists, reason);
    FolderError { path: folder.path().join(name), action, source }
}

/// Runs the job that was claimed.
fn run(folder: &Folder, started: Started, signals: &mut Signals) -> Exit {
    let mut exit = Exit {
        outcome: Outcome::NotStarted(String::new()),
        over_walltime: false,
        over_limit: None,
        cancelled: false,
        left: Vec::new(),
        started_unix_ms: started.started_unix_ms,
        ended_unix_ms: started.started_unix_ms,
        elapsed_ms: 0,
        cpu_s: 0.0,
        max_rss_kb: None,
        stdout_cut: false,
        stderr_cut: false,
    };
    let unless_cancelled = || !is_cancelled(folder, signals);
    let (mut failures, mut cgroup) = (AccountFailures::default(), None);
    let began = persistently(unless_cancelled, || {
        if is_cancelled(folder, signals) {
            return Err(NotStarted::lasting("cancelled before it was started"));
        }
        let spec = prepare(folder)?;
        if cgroup.is_none() {
            cgroup = made_cgroup(&spec)?;
        }
        let outputs = outputs(folder, &spec, &mut failures)?;
        // Its walltime begins when it is started, however long that was tried.
        let (begin, begin_unix_ms) = (Instant::now(), unix_ms());
        Ok((start(folder, &spec, cgroup.as_ref(), outputs)?, spec, begin, begin_unix_ms))
    });
    let (mut job, spec, begin, begin_unix_ms) = match began {
        Ok(began) => began,
        Err(NotStarted { reason, .. }) => {
            cgroup.iter().for_each(Cgroup::remove);
            exit.cancelled = is_cancelled(folder, signals);
            exit.outcome = Outcome::NotStarted(reason);
            return exit;
        }
    };
    let cgroup = cgroup.as_ref();
    // Needed only if we die, and then processes are found by their environment, too: the job goes on without.
    let started = Started { cgroup: cgroup.map(|cgroup| cgroup.folder().to_owned()), ..started };
    if let Err(error) = job.release(folder, &started, || !is_cancelled(folder, signals)) {
        complain(&error);
    }
    let account = spec.account.as_ref().map(Signaller::of);
    let watch = Watch { folder, spec: &spec, signals, group: job.group, cgroup, account, started_at: begin };
    let Watched { outcome, over_walltime, over_limit, cancelled, left, ended_at, cpu_s, max_rss_kb } =
        watch.run();
    cgroup.iter().for_each(|cgroup| cgroup.remove());
    let [stdout, stderr] = [job.stdout, job.stderr].map(|copy| copy.finish(OUTPUT_AT_MOST));
    let outcome = match (&spec.account, outcome) {
        (Some(_), Outcome::ExitCode(code))
            if [REFUSED, UNAVAILABLE, FAILED_AS_ACCOUNT].map(i32::from).contains(&code) =>
        {
            let refusal = stderr.take_refusal(&account::REFUSALS);
            refusal.map_or(Outcome::ExitCode(code), Outcome::NotStarted)
        }
        (_, outcome) => outcome,
    };
    Exit {
        outcome,
        over_walltime,
        over_limit,
        cancelled,
        left,
        started_unix_ms: begin_unix_ms,
        // Not below the start, if the clock was set back meanwhile.
        ended_unix_ms: unix_ms().saturating_sub(millis(ended_at.elapsed())).max(begin_unix_ms),
        elapsed_ms: millis(ended_at - begin),
        cpu_s,
        max_rss_kb,
        stdout_cut: stdout.was_cut,
        stderr_cut: stderr.was_cut,
    }
}

/// Why a job was not started, for its owner.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
struct NotStarted {
    reason: String,
    may_pass: bool,
}

impl NotStarted {
    fn lasting(reason: impl Into<String>) -> NotStarted {
        NotStarted { reason: reason.into(), may_pass: false }
    }
}

impl MayPass for NotStarted {
    fn may_pass(&self) -> bool {
        self.may_pass
    }
}

impl From<FolderError> for NotStarted {
    fn from(error: FolderError) -> NotStarted {
        NotStarted { reason: error.public_message(), may_pass: error.may_pass() }
    }
}

/// Reads what to run and pins this process, and so its children, to the job's cores.
fn prepare(folder: &Folder) -> Result<RunSpec, NotStarted> {
    let spec = folder.read_spec(allotted::procs())?;
    spec.check().map_err(|fault| NotStarted::lasting(fault.to_string()))?;
    if let Some(cores) = &spec.cores {
        pin(cores).map_err(NotStarted::lasting)?;
    }
    Ok(spec)
}

fn pin(cores: &[u32]) -> Result<(), String> {
    let mut wanted = CpuSet::new();
    cores.iter().for_each(|&core| wanted.set(core as usize));
    // The system ignores cores that it does not have as long as one remains, hence the second look.
    let pinned = sched_setaffinity(None, &wanted).and_then(|()| sched_getaffinity(None));
    match pinned {
        Ok(found) if found == wanted => Ok(()),
        Ok(_) => {
            Err(format!("cannot be pinned to cores {cores:?}: this host lets us have only some of them"))
        }
        Err(error) => Err(format!("cannot be pinned to cores {cores:?}: {error}")),
    }
}

/// The cgroup of the job, if the server has one delegated to it.
fn made_cgroup(spec: &RunSpec) -> Result<Option<Cgroup>, NotStarted> {
    let Some(base) = &spec.limits.cgroup else { return Ok(None) };
    // Numbers of processes are used again.
    let name = format!("job-{}-{}", unix_ms(), getpid().as_raw_nonzero());
    let failed = |error: io::Error| NotStarted {
        reason: format!("its cgroup cannot be made: {error}"),
        may_pass: may_pass(&error),
    };
    Cgroup::create(base, &name, &spec.limits).map(Some).map_err(failed)
}

/// The files for what the job writes to its standard outputs: the account's, if it runs as one. What fails there does not pass once it
/// has failed for too long.
fn outputs(folder: &Folder, spec: &RunSpec, failures: &mut AccountFailures) -> Result<[File; 2], NotStarted> {
    let Some(account) = &spec.account else {
        return Ok([folder.create_output("stdout")?, folder.create_output("stderr")?]);
    };
    let made = make_outputs(account);
    if made.is_ok() {
        failures.over(folder.path());
    }
    made.map_err(|error| {
        let at_most = Duration::from_secs(spec.walltime_s).max(ACCOUNT_TIMEOUT_MIN);
        let fails_too_long = error.is_of_account() && failures.last_too_long(folder.path(), at_most);
        NotStarted { reason: error.public_message(), may_pass: error.may_pass() && !fails_too_long }
    })
}

/// A started job.
struct Job {
    group: ProcessGroup,
    /// What the launcher waits for before it becomes the job's program, if that runs as an account.
    input: Option<(ChildStdin, Vec<u8>)>,
    stdout: Copy,
    stderr: Copy,
}

impl Job {
    /// Records the job's process group, and lets one that runs as an account begin.
    fn release(
        &mut self,
        folder: &Folder,
        started: &Started,
        unless_cancelled: impl Fn() -> bool,
    ) -> Result<(), FolderError> {
        let group = self.group.leader().as_raw_nonzero().get();
        let mut started = Started { group: Some(group), ..started.clone() };
        let Some((stdin, input)) = self.input.take() else {
            // Needed only if we die, and then processes are found by their environment, too: the job goes on without.
            return folder.complete_claim(&started);
        };
        // The launcher has no environment that says whose it is: nothing is begun that a server could not find.
        started.leader_ticks = Process::read(group).map(|process| process.since_ticks);
        persistently(unless_cancelled, || folder.complete_claim(&started))?;
        account::write(stdin, input).map_err(|source| FolderError {
            path: folder.path().to_owned(),
            action: "start the job of",
            source,
        })
    }
}

/// Starts the job in a process group of its own.
fn start(
    folder: &Folder,
    spec: &RunSpec,
    cgroup: Option<&Cgroup>,
    [stdout_file, stderr_file]: [File; 2],
) -> Result<Job, NotStarted> {
    // Checked: there is a program.
    let [program, arguments @ ..] = spec.program.as_slice() else {
        return Err(NotStarted::lasting("no program"));
    };
    let (mut command, program) = match &spec.account {
        Some(account) => (account::command(account), "the launcher"),
        None => (own_command(folder, spec, program, arguments)?, program.as_str()),
    };
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // What becomes the program of an account merges its outputs itself.
    let merged = (spec.streams.merge_output && spec.account.is_none()).then(|| merged_output(&mut command));
    let merged = merged.transpose().map_err(|error| NotStarted::lasting(format!("no pipe: {error}")))?;
    let failed =
        |error: io::Error| NotStarted { reason: why(program, &spec.env, &error), may_pass: may_pass(&error) };
    let mut child = spawn_in(cgroup, &mut command).map_err(failed)?;
    let input = spec.account.as_ref().and_then(|run| Some((child.stdin.take()?, account::input(spec, run))));
    // The end of the pipe into which only the job writes.
    drop(command);
    let max_bytes = spec.max_output_bytes;
    // A job of an account could not open /dev/stdout and /dev/stderr otherwise: the pipes are this user's. Only processes that may look
    // into its descriptors get there.
    let opened = |pipe: BorrowedFd<'_>| match spec.account {
        Some(_) => fchmod(pipe, Mode::RUSR | Mode::WUSR | Mode::WOTH).map_err(io::Error::from),
        None => Ok(()),
    };
    let (stdout, stderr) = match (merged, child.stdout.take(), child.stderr.take()) {
        (Some(both), ..) => {
            let nothing = Copy::start(io::empty(), stderr_file, max_bytes);
            (Copy::start(both, stdout_file, max_bytes), nothing)
        }
        (None, Some(stdout), Some(stderr)) => (
            opened(stdout.as_fd()).and_then(|()| Copy::start(stdout, stdout_file, max_bytes)),
            opened(stderr.as_fd()).and_then(|()| Copy::start(stderr, stderr_file, max_bytes)),
        ),
        _ => return Err(NotStarted::lasting("no pipes")),
    };
    let group = ProcessGroup::of(&child);
    match (stdout, stderr) {
        (Ok(stdout), Ok(stderr)) => Ok(Job { group, input, stdout, stderr }),
        (Err(error), _) | (_, Err(error)) => {
            // The launcher ends when there will be no input.
            drop(input);
            group.kill();
            let _ = child.wait();
            // It may have done something: it is not started again, whatever the reason.
            Err(NotStarted::lasting(format!("cannot copy its output: {error}")))
        }
    }
}

/// Has the program write both outputs into one pipe, which is read here.
fn merged_output(command: &mut Command) -> io::Result<PipeReader> {
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    Ok(reader)
}

/// The command of a job that runs as this user.
fn own_command(
    folder: &Folder,
    spec: &RunSpec,
    program: &str,
    arguments: &[String],
) -> Result<Command, NotStarted> {
    let work = folder.work();
    if !work.is_dir() {
        return Err(NotStarted::lasting("there is no work folder"));
    }
    let place = spec.folder.as_ref().unwrap_or(&work);
    if !place.is_dir() {
        return Err(NotStarted::lasting(no_such_folder(place)));
    }
    let mut command = Command::new(program_in(spec.folder.as_deref(), &work, program));
    command.args(arguments).current_dir(place).process_group(0);
    command.env_clear().env("PATH", PATH).env("HOME", &work).env("LANG", "C.UTF-8");
    if spec.keeps_user {
        let own = |name: &'static str| std::env::var_os(name).map(|value| (name, value));
        command.envs(USER_VARIABLES.into_iter().filter_map(own));
    }
    command.envs(allotted::variables()).envs(&spec.env);
    let stdin = spec.streams.open_stdin(place);
    let stdin =
        stdin.map_err(|error| NotStarted { may_pass: may_pass(&error), reason: error.to_string() })?;
    command.env(FOLDER_VARIABLE, folder.path()).stdin(stdin);
    Ok(command)
}

/// The program of a job that runs in a folder of its user's own, if it runs in one: a relative path is one from the work folder all
/// the same.
pub(crate) fn program_in(place: Option<&Path>, work: &Path, program: &str) -> PathBuf {
    match place {
        Some(_) if program.contains('/') => work.join(program),
        _ => program.into(),
    }
}

/// Why a job cannot run in a folder of its user's own.
pub(crate) fn no_such_folder(place: &Path) -> String {
    format!("{}: there is no such folder on the cluster", place.display())
}

/// Starts a program in a cgroup: it is in there from its first instruction on.
pub(super) fn spawn_in(cgroup: Option<&Cgroup>, command: &mut Command) -> io::Result<Child> {
    let Some(cgroup) = cgroup else { return spawn(command) };
    // Of a kind that is not taken for the program's.
    let failed =
        |error: io::Error| io::Error::other(format!("the cgroup of the job cannot be entered: {error}"));
    cgroup.enter().map_err(failed)?;
    let spawned = spawn(command);
    match (cgroup.leave(), spawned) {
        (Ok(()), spawned) => spawned,
        (Err(error), Ok(mut child)) => {
            // A supervisor must not end with its job.
            let _ = child.kill();
            let _ = child.wait();
            Err(error)
        }
        (Err(_), failed) => failed,
    }
}

/// Starts a program, as soon as it is not being written any more.
pub(super) fn spawn(command: &mut Command) -> io::Result<Child> {
    let mut tries = 0;
    loop {
        match command.spawn() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy && tries < BUSY_TRIES => {
                tries += 1;
                thread::sleep(BUSY_PERIOD);
            }
            result => return result,
        }
    }
}

/// A reason that its owner can do something about.
pub(crate) fn why(program: &str, env: &BTreeMap<String, String>, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound if program.contains('/') => format!(
            "`{program}`: no such program (or the interpreter that its first line names is missing, or the program \
             is for another system)"
        ),
        ErrorKind::NotFound => {
            let path = env.get("PATH").map_or(PATH, String::as_str);
            format!("`{program}`: no such program in PATH ({path})")
        }
        ErrorKind::PermissionDenied => format!("`{program}`: not executable: {error}"),
        _ => format!("`{program}`: {error}"),
    }
}

/// Writes the record, waiting for disk space if that is what is missing.
fn record(folder: &Folder, exit: &Exit) -> Result<(), FolderError> {
    persistently(|| true, || folder.write_exit(exit))
}

pub(super) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
