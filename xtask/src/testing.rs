//! `cargo xtask test`: every test of the workspace, with what they need found or installed first.

use crate::browser;
use crate::logs;
use crate::step::{Failure, Step, run_all, workspace_root};

/// Runs the documentation's tests, then all others, so that the runner's summary closes the output.
pub(crate) fn run() -> Result<(), Failure> {
    let nextest = prepare_nextest();
    browser::prepare();
    let from = std::env::current_dir().unwrap_or_else(|_| workspace_root().to_owned());
    let logs = logs::find(std::env::var_os(logs::VARIABLE), &from, workspace_root());
    eprintln!("{logs}");
    let runner: &[&str] = match nextest {
        true => &["nextest", "run", "--workspace"],
        false => &["test", "--workspace", "--tests", "--no-fail-fast"],
    };
    // Tests run in the directory of their crate, where a relative path would lead elsewhere.
    let with_logs = |arguments| match logs.count {
        0 => Step::cargo(arguments),
        _ => Step::cargo(arguments).env(logs::VARIABLE, &logs.directory),
    };
    run_all(&[with_logs(&["test", "--doc", "--workspace", "--no-fail-fast"]), with_logs(runner)])
}

/// Whether `cargo nextest` is there, installing it if it is not.
fn prepare_nextest() -> bool {
    let present = Step::cargo(&["nextest", "--version"]);
    if present.succeeds() {
        return true;
    }
    let installed = Step::cargo(&["install", "cargo-nextest", "--locked"]).run();
    if let Err(failure) = &installed {
        eprintln!("xtask: {failure}");
    }
    let usable = installed.is_ok() && present.succeeds();
    if !usable {
        eprintln!("without cargo-nextest: the tests run under `cargo test`");
    }
    usable
}
