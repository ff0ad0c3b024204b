//! `cargo xtask benefit`: the benefit of moves of waiting jobs, or of sizes, on real clusters, compared with the
//! simulator's predictions.

use crate::step::{Failure, Step};

/// Gives the work of that many seeds, from that one on, to several federations at a time, all of it within so many seconds.
pub(crate) fn run(sizes: bool, rounds: u64, seed: u64, seconds: u64) -> Result<(), Failure> {
    let test =
        ["test", "--package", "pliant", "--test", "federation", "--", "--ignored", "--exact", "--nocapture"];
    let name = match sizes {
        true => "benefit::benchmark::bounded_slack_against_sizes_that_complete_first",
        false => "benefit::benchmark::moves_and_siblings_against_neither",
    };
    Step::cargo(&[&test[..], &[name]].concat())
        .env("PLIANT_BENEFIT", format!("{rounds} {seed} {seconds}"))
        .run()
}
