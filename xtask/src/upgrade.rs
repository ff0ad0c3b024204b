//! `cargo xtask upgrade`: the day of operation that begins with the daemons of an earlier commit.

use std::path::Path;

use crate::step::{Failure, Step, workspace_root};

/// The variable that names the earlier program to the test.
const EARLIER: &str = "PLIANT_EARLIER_BUILD";
/// The test.
const DAY: &str = "test(a_day_of_operation)";

/// Builds that commit in a worktree of its own, and runs the day from it to the present build.
pub(crate) fn run(commit: &str) -> Result<(), Failure> {
    let folder = workspace_root().join("target/earlier");
    let path = folder.to_string_lossy().into_owned();
    // One that was left behind would be of another commit.
    if folder.exists() {
        remove(&path)?;
    }
    Step::new("git", &["worktree", "prune"]).run()?;
    Step::new("git", &["worktree", "add", "--detach", &path, commit]).run()?;
    let outcome = from_build(&folder);
    outcome.and(remove(&path))
}

fn from_build(folder: &Path) -> Result<(), Failure> {
    let target = workspace_root().join("target/earlier-build");
    let build = Step::cargo(&["build", "--package", "pliant", "--bin", "pliant"]);
    build.dir(folder).env("CARGO_TARGET_DIR", &target).run()?;
    let test = Step::cargo(&["nextest", "run", "--workspace", "--filterset", DAY]);
    test.env(EARLIER, target.join("debug/pliant")).run()
}

fn remove(path: &str) -> Result<(), Failure> {
    Step::new("git", &["worktree", "remove", "--force", path]).run()
}
