//! `cargo xtask lint`: every check that runs nothing of ours.

use crate::step::{Failure, Step, run_all};

/// Runs every check, so that one run shows all there is to repair.
pub(crate) fn run() -> Result<(), Failure> {
    let mut steps = vec![
        Step::cargo(&["fmt", "--all", "--check"]),
        Step::cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        Step::cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"),
    ];
    if Step::cargo(&["deny", "--version"]).succeeds() {
        steps.push(Step::cargo(&["deny", "check", "licenses", "bans", "sources"]));
    } else {
        eprintln!("skipped: licences and sources (no cargo-deny; `cargo install cargo-deny --locked`)");
    }
    run_all(&steps)
}
