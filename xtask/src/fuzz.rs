//! `cargo xtask fuzz`: the parsers of external files, listings and messages against the fuzzer, for a bounded time.

use crate::machine;
use crate::step::{Failure, Step, run_all, workspace_root};

/// A target of the crate `fuzz`.
struct Target {
    name: &'static str,
    /// A folder of inputs to begin with.
    seeds: Option<&'static str>,
}

/// What Slurm and OAR printed.
const SLURM: Option<&str> = Some("crates/site/src/slurm/tests/captured");
const OAR: Option<&str> = Some("crates/site/src/oar/tests/captured");

/// One for each format that users hand us, for what the set-user-id launcher reads, for the listings of batch systems, and for
/// the messages of the protocol; and one for the functions that C calls.
const TARGETS: &[Target] = &[
    Target { name: "swf", seeds: None },
    Target { name: "gwf", seeds: None },
    Target { name: "mapping_toml", seeds: None },
    Target { name: "mapping_dot", seeds: None },
    Target { name: "launcher", seeds: None },
    Target { name: "slurm_queue", seeds: SLURM },
    Target { name: "slurm_nodes", seeds: SLURM },
    Target { name: "slurm_accounts", seeds: SLURM },
    Target { name: "oar_jobs", seeds: OAR },
    Target { name: "oar_resources", seeds: OAR },
    Target { name: "wire", seeds: None },
    Target { name: "gridrpc", seeds: None },
];

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
    // The first folder of inputs, where the fuzzer keeps what it finds, must be there.
    for Target { name, .. } in TARGETS {
        let path = workspace_root().join("fuzz/corpus").join(name);
        std::fs::create_dir_all(&path)
            .map_err(|error| Failure::File { path: path.clone(), cause: error.to_string() })?;
    }
    let steps: Vec<Step> = TARGETS.iter().map(|target| step(target, seconds)).collect();
    run_all(&steps)
}

/// The fuzzer's instrumentation exists in nightly compilers only; the variables would lead it back to the
/// toolchain that runs this task.
fn step(target: &Target, seconds: u32) -> Step {
    let Target { name, seeds } = target;
    let limit = format!("-max_total_time={seconds}");
    let found = format!("fuzz/corpus/{name}");
    let mut arguments = vec!["run", "nightly", "cargo", "fuzz", "run", *name, found.as_str()];
    arguments.extend(seeds);
    arguments.extend(["--", &limit]);
    Step::new("rustup", &arguments).env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN")
}
