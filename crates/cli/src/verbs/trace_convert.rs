//! `pliant trace convert`: a workload in another format, the formats told by the names of the files.

use std::path::PathBuf;

use clap::Args;
use pliant_trace::load;
use serde_json::json;

use crate::failure::Failure;
use crate::input::{Repair, load_options, repair_counts};
use crate::output::Output;
use crate::table::grouped;

#[derive(Args)]
pub(crate) struct Arguments {
    /// A log (.swf, .swf.gz, .gwf), a Batsim workload (.json) or a scenario (.toml).
    #[arg(value_name = "IN")]
    from: PathBuf,
    /// The file to write: .swf, .swf.gz or .gwf.
    #[arg(value_name = "OUT")]
    to: PathBuf,
    /// What becomes of jobs that a log tells nonsense about.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Repair::Clean)]
    repair: Repair,
    /// Makes every job that would need repair an error.
    #[arg(long)]
    strict: bool,
    /// Where the logs of a scenario are [default: PLIANT_TRACES, or beside the scenario].
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let options = load_options(arguments.repair.options(arguments.strict), arguments.traces.as_deref());
    let workload = load(&arguments.from, &options)?;
    workload.write(&arguments.to)?;
    let value = json!({
        "jobs_read": workload.report.read,
        "jobs": workload.jobs.len(),
        "repairs": repair_counts(&workload.report),
        "out": arguments.to,
    });
    let text = || {
        let mut text =
            format!("wrote {} of {} jobs", grouped(workload.report.kept), grouped(workload.report.read));
        for (repair, count) in &workload.report.counts {
            text.push_str(&format!("\n  {} ({})", grouped(*count), repair.describe()));
        }
        text.push_str(&format!("\nto {}\n", arguments.to.display()));
        text
    };
    output.print("trace-convert", text, value)
}
