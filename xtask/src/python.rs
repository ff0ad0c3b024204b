//! `cargo xtask python`: the Python package, built as a wheel, installed in an environment of its own, and tested there.
//! `cargo xtask snakemake`: the same for the Snakemake plugin, with Snakemake, and for the recipes of other workflow systems.

use std::path::{Path, PathBuf};

use crate::machine;
use crate::step::{Failure, Step, target_folder, workspace_root};

/// How many made-up tables the tests of every `cargo xtask test` try; `cargo xtask python` tries as many as the tests say.
const EXAMPLES_OF_ALL_TESTS: &str = "500";

/// The folder of the package.
fn package() -> PathBuf {
    workspace_root().join("crates/python")
}

/// Builds the package and runs its tests.
pub(crate) fn run() -> Result<(), Failure> {
    let hint = "install Python 3.9 or later with the module venv (Debian: python3-venv)";
    let python = machine::find_program(&["python3"]).ok_or(Failure::Missing { what: "python3", hint })?;
    Step::cargo(&["build", "--package", "pliant", "--bin", "pliant", "--features", "parquet"]).run()?;
    test(&python, None)
}

/// Builds the package, and tests the Snakemake plugin and the recipes with it.
pub(crate) fn run_snakemake() -> Result<(), Failure> {
    let hint = "install Python 3.11.4 or later with the module venv (Debian: python3-venv)";
    let python = machine::find_program(&["python3"]).ok_or(Failure::Missing { what: "python3", hint })?;
    Step::cargo(&["build", "--package", "pliant", "--bin", "pliant", "--features", "parquet"]).run()?;
    let plugin = workspace_root().join("integrations/snakemake-executor-plugin-pliant");
    let environment = Environment::with_package(&python, "snakemake", "executor")?;
    environment.install(&format!("{}[test]", plugin.display()))?;
    environment.pytest(&plugin.join("tests")).run()?;
    let recipes = workspace_root().join("integrations/recipes");
    environment.pip(&["install", "--requirement", &shown(&recipes.join("requirements.txt"))]).run()?;
    environment.pytest(&recipes.join("tests")).run()
}

/// The same after all other tests, with the command that these have built; no failure where Python is absent.
pub(crate) fn run_after_tests() -> Result<(), Failure> {
    match machine::find_program(&["python3"]) {
        Some(python) if Step::new(&python, &["-c", "import venv, ensurepip"]).succeeds() => {
            test(&python, Some(EXAMPLES_OF_ALL_TESTS))
        }
        _ => {
            eprintln!("skipped: the Python package (no python3 with the module venv)");
            Ok(())
        }
    }
}

/// Tests the package with the command in the folder of builds.
fn test(python: &Path, examples: Option<&str>) -> Result<(), Failure> {
    let environment = Environment::with_package(python, "python", "test")?;
    let tests = environment.pytest(&package().join("tests"));
    match examples {
        Some(examples) => tests.env("PLIANT_EXAMPLES", examples).run(),
        None => tests.run(),
    }
}

/// An environment of Python in the folder of builds.
struct Environment {
    folder: PathBuf,
    python: PathBuf,
}

impl Environment {
    /// A new environment with the package as a wheel, and with the packages of one of its extras.
    fn with_package(python: &Path, name: &str, extra: &str) -> Result<Environment, Failure> {
        let folder = target_folder().join(name);
        let (inside, wheels) = (folder.join("environment"), folder.join("wheels"));
        // What an earlier wheel has left would be found, too.
        if let Err(cause) = std::fs::remove_dir_all(&wheels)
            && cause.kind() != std::io::ErrorKind::NotFound
        {
            return Err(Failure::File { path: wheels, cause: cause.to_string() });
        }
        Step::new(python, &["-m", "venv", "--clear", &shown(&inside)]).run()?;
        let environment = Environment { folder, python: inside.join("bin/python") };
        let wheel = ["wheel", "--no-deps", "--wheel-dir", &shown(&wheels), &shown(&package())];
        environment
            .pip(&wheel)
            .env("CARGO_TARGET_DIR", target_folder())
            .env("PLIANT_PROFILE", "dev")
            .env("PLIANT_COMMAND", target_folder().join("debug/pliant"))
            .run()?;
        environment.install(&format!("pliant[{extra}] @ file://{}", shown(&wheel_in(&wheels)?)))?;
        Ok(environment)
    }

    fn install(&self, what: &str) -> Result<(), Failure> {
        self.pip(&["install", what]).run()
    }

    fn pip(&self, arguments: &[&str]) -> Step {
        let begin = ["-m", "pip", "--disable-pip-version-check", "--quiet"];
        Step::new(&self.python, &[&begin, arguments].concat())
    }

    /// The tests of a folder, from a folder without the sources, and with the variables of a user.
    fn pytest(&self, tests: &Path) -> Step {
        let tests = Step::new(&self.python, &["-m", "pytest", "-q", "-p", "no:cacheprovider", &shown(tests)]);
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
