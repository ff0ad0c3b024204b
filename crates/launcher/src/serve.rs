//! From a call of the launcher to what it does.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Rlimit, getrlimit, kill_process, kill_process_group, setrlimit, setsid,
};

use crate::account::{self, Account};
use crate::c_library::Entry;
use crate::config::Config;
use crate::error::{Error, REFUSED};
use crate::folder::{self, JobFolder};
use crate::privileges;
use crate::protected;
use crate::request::{Action, Request, Signal};
use crate::subordinates::Mapper;

/// `PATH` of a program whose request has none.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// How long before the start of a program the launcher's file may have been read: longer than a slow name service or a folder that is mounted takes.
const AGE_MAX: Duration = Duration::from_secs(30);
/// `SHELL` of an account that has none.
const SHELL: &str = "/bin/sh";

/// The launcher: does what its caller asks for on standard input, if the file at `config` allows it.
///
/// A refusal is one line on standard error, and nowhere else: the caller is a daemon with a log of its own.
pub fn launch(config: &Path) -> ExitCode {
    // A panic would be a defect. Its message must not be written with root's rights either. One message is beyond this: the standard library
    // says itself that memory has run out, in fixed words with a number, and ends the process.
    std::panic::set_hook(Box::new(|panic| {
        refuse(panic);
        std::process::exit(REFUSED.into());
    }));
    match serve(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            refuse(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

/// Writes why nothing was done, with the rights of the real user: what standard error is was the caller's choice.
fn refuse(reason: &dyn std::fmt::Display) {
    if privileges::give_up().is_ok() {
        let line = format!("pliant-launcher: {reason}\n");
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

fn serve(path: &Path) -> Result<(), Error> {
    let caller = privileges::prepare()?;
    load(path, caller)?;
    let request = privileges::as_caller(request)?;
    let request = request.map_err(|why| Error::lasting(format!("no request on standard input: {why}")))?;
    // From here on a terminal of the caller stops nothing either.
    setsid().map_err(Error::system(
        "begin a session (the caller must not make the launcher the leader of a process group)",
    ))?;
    privileges::hide_from_caller()?;
    // Again: a caller can take as long as it likes for its request, and begin it before an account is banned.
    let read = Instant::now();
    let config = load(path, caller)?;
    // A job that starts processes again and again is stopped before it is ended.
    let ends = matches!(request.action, Action::Signal { .. });
    let account = privileges::with_enough(|| Account::allowed(&request.account, &config, caller, ends))?;
    match request.action {
        Action::Check => Ok(()),
        Action::MakeFolder { folder } => {
            let folder = JobFolder::allowed(&folder, &config, caller)?;
            check_age(read)?;
            folder.make(&account)
        }
        Action::Run { program, environment, folder, processes_max } => {
            check_program(&program, &config)?;
            check_environment(&environment)?;
            become_in(&folder, processes_max, (&account, &config))?;
            check_age(read)?;
            Err(run(&program, environment, &account).of_account())
        }
        Action::RunWithSubordinates { program, folder } => {
            check_program(&program, &config)?;
            let mapper = Mapper::start(&account, &config, caller)?;
            become_in(&folder, None, (&account, &config))?;
            check_age(read)?;
            mapper.enter().map_err(Error::of_account)?;
            Err(run(&program, Vec::new(), &account).of_account())
        }
        Action::Signal { signal, processes } => {
            let targets = processes.into_iter().map(Target::of).collect::<Result<Vec<Target>, Error>>()?;
            privileges::become_signaller(&account)?;
            check_age(read)?;
            send(signal, &targets)
        }
    }
}

/// Becomes the account for good, within its limits and in a folder.
fn become_in(
    folder: &Path,
    processes_max: Option<u64>,
    (account, config): (&Account, &Config),
) -> Result<(), Error> {
    privileges::become_account(account)?;
    set_limits(processes_max).map_err(Error::of_account)?;
    if config.no_new_privs {
        privileges::forbid_new_privileges()?;
    }
    folder::enter(folder).map_err(Error::of_account)
}

/// The launcher's file, if it allows calls by that user.
fn load(path: &Path, caller: u32) -> Result<Config, Error> {
    let config = Config::load(path)?;
    if account::caller(&config)? == caller {
        return Ok(config);
    }
    let expected = format!("a call by the user {:?} (`caller` in the file)", config.caller);
    Err(Error::refused("caller", caller, expected))
}

/// Fails if the file was read too long ago: a caller that owns the cgroup of the launcher can freeze it.
fn check_age(read: Instant) -> Result<(), Error> {
    let age = read.elapsed();
    if age <= AGE_MAX {
        return Ok(());
    }
    Err(Error::passing(format!(
        "it was ready {age:?} after the launcher's file was read (at most {AGE_MAX:?})"
    )))
}

/// Reads the request from standard input, and nothing behind it.
fn request() -> io::Result<Request> {
    Request::read(File::from(rustix::stdio::stdin().try_clone_to_owned()?))
}

fn check_program(program: &[OsString], config: &Config) -> Result<(), Error> {
    let name = program.first().map_or(OsStr::new(""), OsString::as_os_str);
    // Bytes are compared: `Path` takes several spellings for equal.
    if !config.programs.iter().any(|program| program.as_os_str() == name) {
        let expected = format!("one of `programs` of the launcher's file ({:?})", config.programs);
        return Err(Error::refused("program", name, expected));
    }
    protected::open(Path::new(name), FileType::RegularFile, 0).map(drop)
}

/// Variables by which the C library or a shell loads or runs something else, or reads its input in another way. Programs have the account's rights
/// alone, so this is a second line of defence: it keeps a program that the file names to what it is there for.
fn check_environment(environment: &[(OsString, OsString)]) -> Result<(), Error> {
    const STARTS: [&str; 4] = ["LD_", "MALLOC_", "BASH_FUNC_", "RESOLV_"];
    #[rustfmt::skip]
    const NAMES: [&str; 15] = [
        "GLIBC_TUNABLES", "GCONV_PATH", "GETCONF_DIR", "LOCPATH", "NLSPATH", "NIS_PATH", "HOSTALIASES", "LOCALDOMAIN",
        "RES_OPTIONS", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "IFS", "PS4",
    ];
    let is_refused = |(name, value): &&(OsString, OsString)| {
        let bytes = name.as_bytes();
        STARTS.iter().any(|start| bytes.starts_with(start.as_bytes()))
            || NAMES.iter().any(|refused| bytes == refused.as_bytes())
            || value.as_bytes().starts_with(b"() {")
    };
    let expected = "no variable that loads or runs another program; a job can set it itself";
    match environment.iter().find(is_refused) {
        None => Ok(()),
        Some((name, _)) => Err(Error::refused("environment", name, expected)),
    }
}

/// Sets resource limits, as the account: those of the caller can only become lower. No core is dumped.
fn set_limits(processes_max: Option<u64>) -> Result<(), Error> {
    let processes = processes_max.map(|most| (Resource::Nproc, most));
    for (resource, most) in processes.into_iter().chain([(Resource::Core, 0)]) {
        let value = Some(getrlimit(resource).maximum.map_or(most, |maximum| maximum.min(most)));
        setrlimit(resource, Rlimit { current: value, maximum: value })
            .map_err(Error::system(format!("set the limit {resource:?}")))?;
    }
    Ok(())
}

/// Runs a program in place of this one. Comes back only if that cannot be.
fn run(program: &[OsString], environment: Vec<(OsString, OsString)>, account: &Account) -> Error {
    let Entry { name, home, shell, .. } = &account.entry;
    let name = OsStr::from_bytes(name.to_bytes());
    let shell = if shell.is_empty() { OsStr::new(SHELL) } else { shell };
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]).env_clear();
    command.env("PATH", PATH).env("HOME", home).env("SHELL", shell);
    command.env("USER", name).env("LOGNAME", name).envs(environment);
    let cause = command.exec();
    Error::system(format!("run {:?}", program[0]))(cause)
}

/// A process, or the process group of that id.
struct Target {
    id: Pid,
    is_group: bool,
}

impl Target {
    /// None of 0, 1 and -1, which stand for more than one process or for the first one.
    fn of(number: i32) -> Result<Target, Error> {
        let id = number.checked_abs().filter(|id| *id > 1).and_then(Pid::from_raw);
        let expected = "a process above 1 or a process group below -1";
        let id = id.ok_or_else(|| Error::refused("processes", number, expected))?;
        Ok(Target { id, is_group: number < 0 })
    }
}

/// Signals every target. One that has ended is fine, and one that belongs to somebody else keeps the others from nothing.
fn send(signal: Signal, targets: &[Target]) -> Result<(), Error> {
    let signal = match signal {
        Signal::Term => rustix::process::Signal::TERM,
        Signal::Kill => rustix::process::Signal::KILL,
        Signal::Stop => rustix::process::Signal::STOP,
        Signal::Cont => rustix::process::Signal::CONT,
    };
    let mut first_failure = Ok(());
    for &Target { id, is_group } in targets {
        let sent = if is_group { kill_process_group(id, signal) } else { kill_process(id, signal) };
        if let Err(cause) = sent
            && cause != Errno::SRCH
        {
            let failed = Error::system(format!("signal {}", id.as_raw_nonzero()))(cause);
            first_failure = first_failure.and(Err(failed));
        }
    }
    first_failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables() {
        let check = |name: &str, value: &str, allowed: bool| {
            assert_eq!(check_environment(&[(name.into(), value.into())]).is_ok(), allowed, "{name}");
        };
        for name in [
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "LD_AUDIT",
            "GLIBC_TUNABLES",
            "MALLOC_CHECK_",
            "BASH_ENV",
            "ENV",
            "IFS",
            "BASH_FUNC_ls%%",
        ] {
            check(name, "x", false);
        }
        for name in ["PATH", "HOME", "PLIANT_JOB", "OMP_NUM_THREADS", "ENVIRONMENT", "SLURM_CONF"] {
            check(name, "x", true);
        }
        check("X", "() { :; }; id", false);
    }

    #[test]
    fn processes() {
        let check = |number: i32, allowed: bool| assert_eq!(Target::of(number).is_ok(), allowed, "{number}");
        for number in [0, 1, -1, i32::MIN] {
            check(number, false);
        }
        for number in [2, -2, i32::MAX, -i32::MAX] {
            check(number, true);
        }
    }
}
