//! `pliant trace generate`: a seeded workload as a file.

use std::path::PathBuf;

use clap::Args;
use pliant_model::{Platform, Procs};
use pliant_sim::campaign::{Generator, LONGEST_RANGE_S, ParameterError, Recipe};
use pliant_trace::generate::{DAYS_MAX, JOBS_MAX, LOAD_MAX, Month};
use pliant_trace::written_format;
use serde_json::json;

use crate::failure::Failure;
use crate::input;
use crate::name_options;
use crate::numbers::{duration, whole};
use crate::output::Output;
use crate::table::counted;

/// Processors of the machine that a workload for one machine is made for, if nothing is said (paper 001).
const PROCS: u32 = 128;

/// A load is worth a warning if it misses the one asked for by this share.
const MISSED: f64 = 0.05;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The generator (docs/reference/files/generators.md).
    #[arg(value_name = "KIND", value_parser = name_options::generator())]
    kind: Generator,
    /// The seed: the same seed gives the same jobs.
    #[arg(long, value_name = "SEED", default_value_t = 1, value_parser = whole(0..=u64::MAX), allow_negative_numbers = true)]
    seed: u64,
    /// The file to write: .swf, .swf.gz, .gwf or .gwf.gz.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The platform that the jobs are for [default: the generator's own, or --procs].
    #[arg(long, value_name = "FILE.toml", conflicts_with = "procs")]
    platform: Option<String>,
    /// Processors of the machine that the jobs are for.
    #[arg(long, value_name = "N", value_parser = whole(1..=u32::MAX), allow_negative_numbers = true)]
    procs: Option<u32>,
    /// Kind grid5000: the month of paper 000 (Table 1) whose numbers of jobs are generated.
    #[arg(long, value_name = "MONTH", value_parser = name_options::month())]
    month: Option<&'static Month>,
    /// Kinds lublin, uniform, gaussian and federation: the number of jobs.
    #[arg(long, value_name = "N", value_parser = whole(1..=JOBS_MAX), allow_negative_numbers = true)]
    jobs: Option<u32>,
    /// Kind federation: the number of days over which jobs arrive.
    #[arg(long, value_name = "D", value_parser = above_zero(DAYS_MAX), allow_negative_numbers = true)]
    days: Option<f64>,
    /// The offered load: the work of the jobs as a share of the platform's capacity, 0.7 for 70 %.
    #[arg(long, value_name = "X", value_parser = above_zero(LOAD_MAX), allow_negative_numbers = true)]
    load: Option<f64>,
    /// Kinds uniform and gaussian: the longest requested walltime.
    #[arg(long, value_name = "TIME", value_parser = duration(LONGEST_RANGE_S))]
    walltime_max: Option<i64>,
}

/// Reads a number above 0.
fn above_zero(most: f64) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync {
    move |text| {
        let number = text.parse().ok().filter(|number| *number > 0.0 && *number <= most);
        number.ok_or_else(|| format!("expected a number above 0 and at most {most}, found `{text}`"))
    }
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
    recipe.check().map_err(misfit)?;
    written_format(&arguments.out)?;
    let platform = arguments.platform()?;
    let workload = recipe.generate(&platform, arguments.seed);
    workload.write(&arguments.out)?;
    let load = recipe.offered_load(&workload, &platform);
    if let Some(asked) = arguments.load.filter(|asked| (load / asked - 1.0).abs() > MISSED) {
        stderr_line!(
            "warning: the load is {:.1} %, not the {:.1} % asked for: jobs cannot be long or short enough",
            100.0 * load,
            100.0 * asked
        );
    }
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
            "wrote {} over {days:.1} days, load {:.1} % of {}{}, to {}\n",
            counted(workload.jobs.len() as u64, "job"),
            100.0 * load,
            counted(platform.total_procs(), "processor"),
            if platform.capacity() == platform.total_procs() as f64 { "" } else { " at their speeds" },
            arguments.out.display()
        )
    };
    output.print("trace-generate", text, value)
}

/// What a generator cannot be given, in the words of options.
fn misfit(misfit: ParameterError) -> Failure {
    let option = match misfit.key {
        "generate" => "KIND".to_owned(),
        "walltime_max_s" => "--walltime-max".to_owned(),
        key => format!("--{key}"),
    };
    let problem = misfit.problem.replace("walltime_max_s", "walltime-max");
    Failure::input(format!("{option}: {problem}")).hint("pliant trace generate --help lists the options")
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
