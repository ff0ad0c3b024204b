//! `pliant trace info`: the statistics of a workload, and its defects.

use std::path::PathBuf;

use clap::Args;
use pliant_trace::{Info, Quantiles, RepairReport, info, load};
use serde_json::json;

use crate::failure::Failure;
use crate::input::{Repair, load_options, repair_facts};
use crate::output::Output;
use crate::table::{Table, counted, grouped};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Logs (.swf, .swf.gz, .gwf), Batsim workloads (.json) or workload files (.toml).
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What to do with invalid jobs of a log (docs/reference/files/repairs.md).
    #[arg(long, value_name = "RULE", value_enum, default_value_t = Repair::Clean)]
    repair: Repair,
    /// Ends with an error at the first job that would be repaired or dropped.
    #[arg(long)]
    strict: bool,
    /// The folder of the logs of a workload file [default: $PLIANT_TRACES, or the folder of the file].
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let options = load_options(arguments.repair.options(arguments.strict), arguments.traces.as_deref());
    let mut facts: Vec<(Info, RepairReport)> = Vec::with_capacity(arguments.files.len());
    for file in &arguments.files {
        let workload = load(file, &options)?;
        facts.push((info(&workload), workload.report));
    }
    let text = || facts.iter().map(|(info, repairs)| describe(info, repairs)).collect::<Vec<_>>().join("\n");
    let value = json!({ "files": facts.iter().map(|(info, _)| info).collect::<Vec<_>>() });
    output.print("trace-info", text, value)
}

fn describe(info: &Info, repairs: &RepairReport) -> String {
    let mut text = format!("{}\n", info.name);
    let mut line = |name: &str, value: String| text.push_str(&format!("  {name:<14}{value}\n"));
    line("jobs", format!("{} of {} read", grouped(info.jobs), grouped(info.jobs_read)));
    for (heading, fact) in repair_facts(repairs, info.extra_columns) {
        line(heading, fact);
    }
    if let Some(procs) = info.max_procs {
        line("processors", grouped(procs.unsigned_abs()));
    }
    if info.larger_than_machine > 0 {
        line("too large", counted(info.larger_than_machine, "job"));
    }
    line("days", format!("{:.1}", info.span_s as f64 / 86_400.0));
    if let Some(load) = info.load {
        line("offered load", format!("{:.1} %, on processors of speed 1.0", 100.0 * load));
    }
    line("sequential", counted(info.sequential, "job"));
    line(
        "from",
        format!(
            "{}, {}, {}, {}",
            counted(info.users as u64, "user"),
            counted(info.groups as u64, "group"),
            counted(info.executables as u64, "application"),
            counted(info.partitions as u64, "partition")
        ),
    );
    let mut table = Table::new(1, &["", "min", "25 %", "median", "75 %", "95 %", "max", "mean"]);
    let mut row = |name: &str, spread: &Quantiles, digits: usize| {
        let Quantiles { min, q25, median, q75, p95, max, mean } = *spread;
        let values = [min, q25, median, q75, p95, max].map(|value| format!("{value:.digits$}"));
        let mut cells = vec![format!("  {name}")];
        cells.extend(values);
        cells.push(format!("{mean:.1}"));
        table.row(cells);
    };
    row("processors", &info.procs, 0);
    row("runtime s", &info.runtime_s, 0);
    row("walltime s", &info.walltime_s, 0);
    row("walltime / runtime", &info.overestimate, 1);
    text.push_str(&table.render());
    text
}
