//! `pliant campaign show`: the results of a campaign as tables.

use std::path::PathBuf;

use clap::Args;
use pliant_sim::campaign;
use serde_json::json;

use crate::campaigns::{Warnings, joined, view};
use crate::failure::Failure;
use crate::output::Output;
use crate::table::counted;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The folder that `campaign run` or `campaign merge` wrote.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let contents = campaign::read_folder(&arguments.dir)?;
    let view = view(&contents.results);
    let mut warnings = Warnings::default();
    warnings.damaged(&contents.damaged, "`pliant campaign run` simulates the run again");
    warnings.missing(&contents);
    view.warn(&mut warnings);
    let (name, present, planned) = (&contents.name, contents.present(), contents.planned);
    let value = json!({
        "campaign": name,
        "kind": contents.kind.name(),
        "runs": present,
        "planned": planned,
        "warnings": warnings.all(),
    });
    let text = || {
        let planned = counted(planned as u64, "run");
        format!("campaign {name}: {present} of {planned}, {}\n{}", view.caption(), view.text())
    };
    output.print("campaign-show", text, joined(value, view.value()))
}
