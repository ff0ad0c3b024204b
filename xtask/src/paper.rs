//! `cargo xtask paper-004 --live`: the scenarios of paper 004 on real daemons, at full length.

use crate::step::{Failure, Step};

/// Runs them. The simulation alone is a campaign: `pliant campaign run campaigns/paper-004.toml`.
pub(crate) fn run() -> Result<(), Failure> {
    // One after the other: each has the machine for itself.
    let tests = "explorations::paper::in_full::";
    let arguments = [
        "test",
        // All of it, as all other tests are built: with a choice of packages or targets dependencies have other features, and
        // everything is built again.
        "--workspace",
        "--",
        "--ignored",
        "--test-threads",
        "1",
        "--nocapture",
        tests,
    ];
    Step::cargo(&arguments).run()
}
