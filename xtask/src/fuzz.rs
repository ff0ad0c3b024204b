//! `cargo xtask fuzz`: the parsers of external files against the fuzzer, for a bounded time.

use crate::machine;
use crate::step::{Failure, Step, run_all};

/// One per format that users hand us, and what the set-user-id launcher reads; each is a target of the crate `fuzz`.
const TARGETS: &[&str] = &["swf", "gwf", "mapping_toml", "mapping_dot", "launcher"];

/// Runs each target for that many seconds; building them comes on top.
pub(crate) fn run(seconds: u32) -> Result<(), Failure> {
    if !Step::cargo(&["fuzz", "--version"]).succeeds() {
        return Err(Failure::Missing { what: "cargo-fuzz", hint: "cargo install cargo-fuzz --locked" });
    }
    if !machine::has_nightly() {
        return Err(Failure::Missing {
            what: "a nightly toolchain",
            hint: "rustup toolchain install nightly --profile minimal",
        });
    }
    let steps: Vec<Step> = TARGETS.iter().map(|target| step(target, seconds)).collect();
    run_all(&steps)
}

/// The fuzzer's instrumentation exists in nightly compilers only; the variables would lead it back to the
/// toolchain that runs this task.
fn step(target: &str, seconds: u32) -> Step {
    let limit = format!("-max_total_time={seconds}");
    Step::new("rustup", &["run", "nightly", "cargo", "fuzz", "run", target, "--", &limit])
        .env_remove("CARGO")
        .env_remove("RUSTUP_TOOLCHAIN")
}
