//! `pliant campaign merge`: the folders of shards become the folder of the whole campaign.

use std::path::{Path, PathBuf};

use clap::Args;
use pliant_sim::campaign;
use serde_json::json;

use crate::campaigns::{Warnings, view};
use crate::failure::Failure;
use crate::output::Output;
use crate::table::counted;

/// How many missing runs are named one by one.
const NAMED: usize = 5;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The folder of the whole campaign.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The folders that `campaign run --shard` wrote.
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let dirs: Vec<&Path> = arguments.dirs.iter().map(PathBuf::as_path).collect();
    let merged = campaign::merge(&arguments.out, &dirs)?;
    let mut warnings = Warnings::default();
    warnings.damaged(&merged.damaged, "the run is missing unless another folder has it");
    view(&merged.results).warn(&mut warnings);
    let (name, there, planned) = (&merged.name, merged.present(), merged.planned);
    let dir = arguments.out.display().to_string();
    let value = json!({
        "campaign": name,
        "kind": merged.kind.name(),
        "out": dir,
        "runs": there,
        "planned": planned,
        "missing": merged.missing,
        "warnings": warnings.all(),
    });
    let text = || {
        let mut text =
            format!("campaign {name}: {there} of {} are in {dir}\n", counted(planned as u64, "run"));
        for key in merged.missing.iter().take(NAMED) {
            text.push_str(&format!("missing: {key}\n"));
        }
        if merged.missing.len() > NAMED {
            text.push_str(&format!("missing: {} more\n", merged.missing.len() - NAMED));
        }
        if !merged.missing.is_empty() {
            text.push_str(&format!("`pliant campaign run FILE.toml --out {dir}` runs what is missing\n"));
        }
        text
    };
    output.print("campaign-merge", text, value)
}
