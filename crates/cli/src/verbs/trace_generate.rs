//! `pliant trace generate`: a seeded workload as a file.

use std::path::PathBuf;

use clap::Args;
use pliant_model::{Platform, Procs};
use pliant_sim::campaign::{Generator, Recipe};
use pliant_trace::generate::{Month, offered_load};
use serde_json::json;

use crate::failure::Failure;
use crate::input;
use crate::output::Output;
use crate::table::grouped;
use crate::words;

/// Processors of the machine that a workload for one machine is made for, if nothing is said (paper 001).
const PROCS: u32 = 128;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The generator (docs/workloads.md).
    #[arg(value_name = "KIND", value_parser = words::generator())]
    kind: Generator,
    /// The seed: the same seed gives the same jobs.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// The file to write: .swf, .swf.gz or .gwf.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The platform that the jobs are for [default: the generator's own, or --procs].
    #[arg(long, value_name = "FILE.toml", conflicts_with = "procs")]
    platform: Option<String>,
    /// Processors of the machine that the jobs are for.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    procs: Option<u32>,
    /// Month of paper 000, Table 1 (grid5000).
    #[arg(long, value_name = "MONTH", value_parser = words::month())]
    month: Option<&'static Month>,
    /// How many jobs (lublin, uniform, gaussian, federation).
    #[arg(long, value_name = "N")]
    jobs: Option<u32>,
    /// Over how many days (federation).
    #[arg(long, value_name = "D")]
    days: Option<f64>,
    /// Offered load: work as a share of the platform, 0.7 for 70 %.
    #[arg(long, value_name = "X")]
    load: Option<f64>,
    /// Longest request in seconds (uniform, gaussian).
    #[arg(long, value_name = "S")]
    walltime_max: Option<i64>,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let recipe = Recipe {
        generator: arguments.kind,
        month: arguments.month,
        jobs: arguments.jobs,
        days: arguments.days,
        load: arguments.load,
        walltime_max_s: arguments.walltime_max,
    };
    recipe
        .check()
        .map_err(|problem| Failure::input(problem).hint("pliant trace generate --help lists the options"))?;
    let platform = arguments.platform()?;
    let workload = recipe.generate(&platform, arguments.seed);
    workload.write(&arguments.out)?;
    let load = offered_load(&workload.jobs, platform.total_procs());
    let days = workload.last_submit().0 as f64 / 86_400.0;
    let value = json!({
        "kind": arguments.kind.name(),
        "seed": arguments.seed,
        "jobs": workload.jobs.len(),
        "procs": platform.total_procs(),
        "load": load,
        "span_s": workload.last_submit().0,
        "out": arguments.out,
    });
    let text = || {
        format!(
            "wrote {} jobs over {days:.1} days, load {:.1} % of {} processors, to {}\n",
            grouped(workload.jobs.len() as u64),
            100.0 * load,
            grouped(platform.total_procs()),
            arguments.out.display()
        )
    };
    output.print("trace-generate", text, value)
}

impl Arguments {
    fn platform(&self) -> Result<Platform, Failure> {
        match (&self.platform, self.procs, self.kind.platform()) {
            (Some(word), ..) => input::platform(word),
            (None, None, Some(word)) => input::platform(word),
            (None, procs, _) => {
                Platform::single(Procs(procs.unwrap_or(PROCS)), "cbf").map_err(Failure::input)
            }
        }
    }
}
