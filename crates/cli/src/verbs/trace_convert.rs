//! `pliant trace convert`: converts a workload; the names of the files say the formats.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use pliant_trace::{OmittedField, Workload, is_same_file, load, omitted_fields, written_format};
use serde_json::json;

use crate::failure::Failure;
use crate::input::{Repair, load_options};
use crate::output::Output;
use crate::table::{counted, grouped};

#[derive(Args)]
pub(crate) struct Arguments {
    /// A log (.swf, .gwf), a Batsim workload (.json) or a workload file (.toml), each also as .gz.
    #[arg(value_name = "IN")]
    from: PathBuf,
    /// The file to write: .swf, .swf.gz, .gwf or .gwf.gz.
    #[arg(value_name = "OUT")]
    to: PathBuf,
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
    written_format(&arguments.to)?;
    if is_same_file(&arguments.from, &arguments.to) {
        let path = arguments.to.display();
        let problem = format!("{path}: expected another file than the one that is read, found the same");
        return Err(Failure::input(problem)
            .hint("give OUT another name: a converted log holds less than the one it came from"));
    }
    let options = load_options(arguments.repair.options(arguments.strict), arguments.traces.as_deref());
    let workload = load(&arguments.from, &options)?;
    let omitted_fields = omitted_fields(&arguments.from)?;
    workload.write(&arguments.to)?;
    let value = json!({
        "jobs_read": workload.report.read,
        "jobs": workload.jobs.len(),
        "repairs": workload.report.by_word(),
        "left_out": omitted_fields.iter().map(|one| (one.what, one.jobs)).collect::<BTreeMap<_, _>>(),
        "out": arguments.to,
    });
    output.print("trace-convert", || text(arguments, &workload, &omitted_fields), value)
}

fn text(arguments: &Arguments, workload: &Workload, omitted_fields: &[OmittedField]) -> String {
    let report = &workload.report;
    let mut text = format!("wrote {} of {}\n", grouped(report.kept), counted(report.read, "job"));
    for (repair, count) in &report.counts {
        text.push_str(&format!("  {} ({})\n", grouped(*count), repair.describe()));
    }
    if report.extra_columns > 0 {
        text.push_str(&format!("  {} (extra columns left out)\n", grouped(report.extra_columns)));
    }
    text.push_str(&format!("to {}\n", arguments.to.display()));
    for OmittedField { what, jobs } in omitted_fields {
        let jobs = jobs.map_or_else(String::new, |jobs| format!(", known of {}", counted(jobs, "job")));
        text.push_str(&format!("left out: {what}{jobs}\n"));
    }
    text
}
