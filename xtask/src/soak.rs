//! `cargo xtask soak`: fault schedules of the federation's machines, and of explorations, many more than the tests run.

use crate::step::{Failure, Step};

/// Runs the schedules of that many seeds, from that seed on: four of each.
pub(crate) fn run(seeds: u64, from: u64) -> Result<(), Failure> {
    let numbers = [seeds.to_string(), from.to_string()];
    let [seeds, from] = [&numbers[0], &numbers[1]];
    let program = ["run", "--profile", "test", "--package", "pliant-sim", "--example", "soak", "--"];
    Step::cargo(&[&program[..], &[seeds, from]].concat()).run()
}
