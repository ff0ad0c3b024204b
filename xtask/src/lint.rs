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
        steps.push(Step::cargo(&["deny", "check", "--hide-inclusion-graph", "licenses", "bans", "sources"]));
        // The database of advisories is a git repository outside the package registries.
        if Step::cargo(&["deny", "fetch", "db"]).succeeds() {
            steps.push(Step::cargo(&["deny", "check", "advisories"]));
        } else {
            eprintln!("skipped: advisories (their database on github.com is out of reach)");
        }
    } else {
        eprintln!(
            "skipped: licences, sources and advisories (no cargo-deny; `cargo install cargo-deny --locked`)"
        );
    }
    let commands = run_all(&steps);
    let structure = crate::structure::run();
    commands.and(structure)
}
