//! `cargo xtask python`: the Python package, built as a wheel, installed in an environment of its own, and tested there.
//! `cargo xtask snakemake`: the same for the Snakemake plugin, with Snakemake, and for the recipes of other workflow systems.

use std::path::{Path, PathBuf};

use crate::interpreters::{Interpreter, further};
use crate::logs::Logs;
use crate::machine;
use crate::step::{Failure, Step, target_folder, workspace_root};

/// How many made-up tables the tests of every `cargo xtask test` try; `cargo xtask python` tries as many as the tests say.
const EXAMPLES_OF_ALL_TESTS: &str = "500";

/// Why there is no interpreter for the tests.
const WITHOUT_VENV: Failure = Failure::Missing {
    what: "an interpreter of Python that makes environments",
    hint: "install Python 3.9 or later with the modules venv and ensurepip (Debian: python3-venv)",
};

/// What has built the command of a wheel, and dependencies of the library with it.
#[derive(Clone, Copy)]
enum BuiltWith {
    /// [`build_command`].
    Command,
    /// The tests of the workspace.
    Tests,
}

impl BuiltWith {
    /// The feature of the library with which it builds none of these dependencies again.
    fn feature(self) -> &'static str {
        match self {
            BuiltWith::Command => "built-with-command",
            BuiltWith::Tests => "built-with-tests",
        }
    }
}

/// The folder of the package.
fn package() -> PathBuf {
    workspace_root().join("crates/python")
}

/// Builds the package and runs its tests: all of them with one interpreter, by default `python3`, and a short form with one of each
/// further version that this machine has.
pub(crate) fn run(program: Option<&Path>) -> Result<(), Failure> {
    let python = match program {
        Some(program) => Interpreter::of(program).ok_or(WITHOUT_VENV)?,
        None => default_interpreter().ok_or(WITHOUT_VENV)?,
    };
    build_command()?;
    let logs = Logs::of_this_run();
    let wheel = test(&python, BuiltWith::Command, |tests| logs.given_to(tests))?;
    if program.is_some() {
        return Ok(());
    }
    further(&python).iter().try_for_each(|python| test_shortly(python, &wheel))
}

/// Builds the package, and tests the Snakemake plugin and the recipes with it.
pub(crate) fn run_snakemake() -> Result<(), Failure> {
    let hint = "install Python 3.11.4 or later with the module venv (Debian: python3-venv)";
    let python = default_interpreter().ok_or(Failure::Missing { what: "python3", hint })?;
    build_command()?;
    let plugin = workspace_root().join("integrations/snakemake-executor-plugin-pliant");
    let environment = Environment::new(&python, "snakemake")?;
    let wheel = environment.wheel(BuiltWith::Command)?;
    environment.install_wheel(&wheel, Some("executor"))?;
    environment.install(&[&format!("{}[test]", plugin.display())])?;
    environment.pytest(&plugin.join("tests")).run()?;
    let recipes = workspace_root().join("integrations/recipes");
    environment.install(&["--requirement", &shown(&recipes.join("requirements.txt"))])?;
    environment.pytest(&recipes.join("tests")).run()
}

/// The same after all other tests, with the command that these have built; no failure where Python is absent. `given` adds the variables of
/// a test run.
pub(crate) fn run_after_tests(given: impl Fn(Step) -> Step) -> Result<(), Failure> {
    let tests = |tests: Step| given(tests).env("PLIANT_EXAMPLES", EXAMPLES_OF_ALL_TESTS);
    match default_interpreter() {
        Some(python) => test(&python, BuiltWith::Tests, tests).map(|_| ()),
        None => {
            eprintln!("skipped: the Python package (no python3 with the module venv)");
            Ok(())
        }
    }
}

/// The `python3` of the search path, if it can make environments.
fn default_interpreter() -> Option<Interpreter> {
    Interpreter::of(&machine::find_program(&["python3"])?)
}

/// Builds the command, and its dependencies with the features that the library needs, too.
fn build_command() -> Result<(), Failure> {
    let packages = ["--package", "pliant", "--package", "pliant-python", "--features", "pliant/parquet"];
    Step::cargo(&[&["build", "--bin", "pliant"], packages.as_slice()].concat()).run()
}

/// Tests the package with the command in the folder of builds: its wheel. `given` adds variables of the tests.
fn test(
    python: &Interpreter,
    built_with: BuiltWith,
    given: impl Fn(Step) -> Step,
) -> Result<PathBuf, Failure> {
    let environment = Environment::new(python, "python")?;
    let wheel = environment.wheel(built_with)?;
    environment.install_wheel(&wheel, Some("test"))?;
    given(environment.pytest(&package().join("tests"))).run()?;
    Ok(wheel)
}

/// Tests that the wheel, which is for all versions, works with this one.
fn test_shortly(python: &Interpreter, wheel: &Path) -> Result<(), Failure> {
    let environment = Environment::new(python, &format!("python-{}", python.name()))?;
    environment.install_wheel(wheel, None)?;
    environment.install(&["pytest", "pytest-timeout"])?;
    environment.pytest(&package().join("tests/test_every_version.py")).run()
}

/// An environment of Python in the folder of builds.
struct Environment {
    folder: PathBuf,
    python: PathBuf,
}

impl Environment {
    /// A new environment of an interpreter.
    fn new(python: &Interpreter, name: &str) -> Result<Environment, Failure> {
        let folder = target_folder().join(name);
        let inside = folder.join("environment");
        Step::new(&python.program, &["-m", "venv", "--clear", &shown(&inside)]).run()?;
        Ok(Environment { folder, python: inside.join("bin/python") })
    }

    /// The package as a wheel, for all versions of Python, with the command in the folder of builds.
    fn wheel(&self, built_with: BuiltWith) -> Result<PathBuf, Failure> {
        let wheels = self.folder.join("wheels");
        // What an earlier wheel has left would be found, too.
        if let Err(cause) = std::fs::remove_dir_all(&wheels)
            && cause.kind() != std::io::ErrorKind::NotFound
        {
            return Err(Failure::File { path: wheels, cause: cause.to_string() });
        }
        self.pip(&["wheel", "--no-deps", "--wheel-dir", &shown(&wheels), &shown(&package())])
            .env("CARGO_TARGET_DIR", target_folder())
            .env("PLIANT_PROFILE", "dev")
            .env("PLIANT_FEATURES", built_with.feature())
            .env("PLIANT_COMMAND", target_folder().join("debug/pliant"))
            .run()?;
        wheel_in(&wheels)
    }

    /// Installs the wheel with the packages of one of its extras.
    fn install_wheel(&self, wheel: &Path, extra: Option<&str>) -> Result<(), Failure> {
        let extra = extra.map_or_else(String::new, |extra| format!("[{extra}]"));
        self.install(&[&format!("pliant{extra} @ file://{}", shown(wheel))])
    }

    fn install(&self, what: &[&str]) -> Result<(), Failure> {
        self.pip(&[&["install"], what].concat()).run()
    }

    fn pip(&self, arguments: &[&str]) -> Step {
        let begin = ["-m", "pip", "--disable-pip-version-check", "--quiet"];
        Step::new(&self.python, &[&begin, arguments].concat())
    }

    /// These tests, from a folder without the sources, and with the variables of a user.
    fn pytest(&self, tests: &Path) -> Step {
        let words = ["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", &shown(tests)];
        let tests = Step::new(&self.python, &words);
        tests.dir(&self.folder).env("PYTHONDONTWRITEBYTECODE", "1")
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The only wheel in a folder.
fn wheel_in(folder: &Path) -> Result<PathBuf, Failure> {
    let failed = |cause: String| Failure::File { path: folder.to_owned(), cause };
    let entries = std::fs::read_dir(folder).map_err(|error| failed(error.to_string()))?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "whl");
    paths.find(is_wheel).ok_or_else(|| failed("expected a wheel, found none".to_owned()))
}
