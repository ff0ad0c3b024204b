//! One command of a task: printed, run from the workspace root, judged by its exit code.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// The variables that cargo sets for this program about its package. Build scripts that ask for these of their own, such as
/// that of `ring`, would be run again whenever a build from here follows one from a shell, and all that depends on them be
/// built again.
const OF_THIS_PACKAGE: &[&str] = &[
    "CARGO_MANIFEST_DIR",
    "CARGO_MANIFEST_LINKS",
    "CARGO_PKG_NAME",
    "CARGO_PKG_VERSION_MAJOR",
    "CARGO_PKG_VERSION_MINOR",
    "CARGO_PKG_VERSION_PATCH",
    "CARGO_PKG_VERSION_PRE",
];

/// A command to run.
pub(crate) struct Step {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
    removed: Vec<&'static str>,
    dir: Option<PathBuf>,
}

/// Why a task did not succeed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// A step ended with an exit code other than 0.
    Exit { step: String, code: u8 },
    /// A step was ended by a signal.
    Signal { step: String, signal: i32 },
    /// A step did not start.
    NotStarted { step: String, cause: String },
    /// The machine lacks what the task is about.
    Missing { what: &'static str, hint: &'static str },
    /// Tests ran without required files.
    Incomplete { files: usize },
    /// Crates or modules depend on each other where they must not (printed before).
    Structure { findings: usize },
    /// Claims of the papers without a test, or with a figure outside of its interval (printed before).
    Claims { rows: usize },
    /// What tests have noted, or a page, cannot be read.
    Unreadable { path: PathBuf, cause: String },
    /// A file of a package cannot be read or written.
    File { path: PathBuf, cause: String },
}

impl Step {
    /// A program with its arguments.
    pub(crate) fn new(program: impl Into<OsString>, arguments: &[&str]) -> Step {
        Step {
            program: program.into(),
            arguments: arguments.iter().map(OsString::from).collect(),
            environment: Vec::new(),
            removed: Vec::new(),
            dir: None,
        }
    }

    /// The cargo that runs this task, so that every step uses one toolchain.
    pub(crate) fn cargo(arguments: &[&str]) -> Step {
        let step = Step::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), arguments);
        OF_THIS_PACKAGE.iter().fold(step, |step, name| step.env_remove(name))
    }

    /// Sets a variable for the command.
    pub(crate) fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Step {
        self.environment.push((name, value.into()));
        self
    }

    /// Runs the command in a folder other than the workspace's.
    pub(crate) fn dir(mut self, dir: &Path) -> Step {
        self.dir = Some(dir.to_owned());
        self
    }

    /// Hides an inherited variable from the command.
    pub(crate) fn env_remove(mut self, name: &'static str) -> Step {
        self.removed.push(name);
        self
    }

    /// Prints the command and runs it; what it prints goes where ours goes.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        eprintln!("==> {}", self.shown());
        match self.command().status() {
            Ok(status) => self.judge(status),
            Err(error) => Err(Failure::NotStarted { step: self.shown(), cause: error.to_string() }),
        }
    }

    /// Whether the command runs and succeeds; nothing is printed.
    pub(crate) fn succeeds(&self) -> bool {
        let quiet = self.command().stdout(Stdio::null()).stderr(Stdio::null()).status();
        quiet.is_ok_and(|status| status.success())
    }

    /// What the command prints on standard output; none if it fails.
    pub(crate) fn output(&self) -> Option<String> {
        let output = self.command().stderr(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        // No step may wait for an answer: tasks also run without a terminal.
        command
            .args(&self.arguments)
            .current_dir(self.dir.as_deref().unwrap_or(workspace_root()))
            .stdin(Stdio::null());
        for name in &self.removed {
            command.env_remove(name);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    fn judge(&self, status: ExitStatus) -> Result<(), Failure> {
        let step = self.shown();
        match (status.code(), status.signal()) {
            (Some(0), _) => Ok(()),
            (Some(code), _) => Err(Failure::Exit { step, code: u8::try_from(code).unwrap_or(1) }),
            (None, signal) => Err(Failure::Signal { step, signal: signal.unwrap_or(0) }),
        }
    }

    /// The command as one would type it.
    fn shown(&self) -> String {
        let program = Path::new(&self.program).file_name().unwrap_or(&self.program);
        let set = self.environment.iter().map(|(name, value)| {
            let value = value.to_string_lossy();
            if value.contains(char::is_whitespace) {
                format!("{name}='{value}'")
            } else {
                format!("{name}={value}")
            }
        });
        let words = std::iter::once(program).chain(self.arguments.iter().map(OsString::as_os_str));
        set.chain(words.map(OsStr::to_string_lossy).map(String::from)).collect::<Vec<String>>().join(" ")
    }
}

/// Runs every step, also after one has failed. The first failure is the result; later ones are printed here.
pub(crate) fn run_all(steps: &[Step]) -> Result<(), Failure> {
    let mut first = Ok(());
    for step in steps {
        if let Err(failure) = step.run() {
            if first.is_err() {
                eprintln!("xtask: {failure}");
            }
            first = first.and(Err(failure));
        }
    }
    first
}

/// The directory of the workspace's `Cargo.toml`.
pub(crate) fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in a directory of the workspace")
}

/// The folder of cargo's builds.
pub(crate) fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace_root().join("target"), PathBuf::from)
}

impl Failure {
    /// The exit code of a failure, as a shell would choose it.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Exit { code, .. } => *code,
            Failure::Signal { signal, .. } => u8::try_from(128 + signal).unwrap_or(1),
            Failure::NotStarted { .. } => 127,
            Failure::Missing { .. }
            | Failure::Incomplete { .. }
            | Failure::Structure { .. }
            | Failure::Claims { .. }
            | Failure::Unreadable { .. }
            | Failure::File { .. } => 1,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Exit { step, code } => write!(f, "failed with exit code {code}: {step}"),
            Failure::Signal { step, signal } => write!(f, "ended by signal {signal}: {step}"),
            Failure::NotStarted { step, cause } => write!(f, "could not be started ({cause}): {step}"),
            Failure::Missing { what, hint } => write!(f, "expected {what}, found none; hint: {hint}"),
            Failure::Incomplete { files } => write!(
                f,
                "expected every file that tests read, found {files} absent (above); hint: complete the folders \
                 that PLIANT_TRACES and PLIANT_ORACLE name, or leave out --require-files"
            ),
            Failure::Claims { rows } => write!(
                f,
                "expected every claim to have figures within their intervals, found {rows} without (above); \
                 hint: docs/development/testing.md says how a test notes a figure"
            ),
            Failure::Structure { findings } => {
                write!(
                    f,
                    "expected no forbidden dependency and no circle of modules, found {findings} (above)"
                )
            }
            Failure::File { path, cause } => write!(f, "{}: {cause}", path.display()),
            Failure::Unreadable { path, cause } => {
                write!(f, "what tests have left out cannot be read ({cause}): {}", path.display())
            }
        }
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Step {
        Step::new("sh", &["-c", script])
    }

    #[test]
    fn exit_codes_propagate() {
        let code = |step: Step| step.run().map_err(|failure| failure.code());
        assert_eq!(code(shell("exit 0")), Ok(()));
        assert_eq!(code(shell("exit 101")), Err(101));
        assert_eq!(code(shell("kill -TERM $$")), Err(143));
        assert_eq!(code(Step::new("pliant-no-such-program", &[])), Err(127));
    }

    #[test]
    fn every_step_runs_and_the_first_failure_is_reported() {
        let directory = std::env::temp_dir().join(format!("xtask-steps-{}", std::process::id()));
        let mark = directory.to_string_lossy().into_owned();
        let steps = [shell("exit 3"), shell("exit 4"), shell("mkdir \"$MARK\"").env("MARK", mark)];
        assert_eq!(run_all(&steps).map_err(|failure| failure.code()), Err(3));
        assert!(std::fs::remove_dir(&directory).is_ok(), "the last step has run");
    }

    #[test]
    fn standard_input_is_empty() {
        assert!(shell("! read line").succeeds());
    }

    #[test]
    fn variables_are_set_removed_and_shown() {
        let step = shell("echo \"$A-${HOME-gone}\"").env("A", "one two").env_remove("HOME");
        assert_eq!(step.output().as_deref(), Some("one two-gone\n"));
        assert!(step.shown().starts_with("A='one two' sh -c "), "{}", step.shown());
    }
}
