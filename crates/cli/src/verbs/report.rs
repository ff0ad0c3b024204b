//! `pliant report`: a result folder or a campaign folder as one HTML file that opens offline.

use std::path::{Path, PathBuf};

use clap::Args;
use pliant_report::html::{CampaignRow, CampaignTable, NamedRun, render_campaign, render_runs};
use pliant_report::read_folder;
use pliant_sim::campaign::{self, Record, Results};
use serde_json::json;

use crate::failure::Failure;
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Arguments {
    /// A folder that `simulate`, `campaign run` or `campaign merge` wrote.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The page [default: report.html in DIR].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let dir = &arguments.dir;
    let (kind, page) = if dir.join("campaign.json").is_file() {
        let results = campaign::read_results(dir)?;
        ("campaign", campaign_page(&results))
    } else if dir.join("summary.json").is_file() {
        ("run", run_page(dir)?)
    } else {
        let problem =
            format!("{}: expected summary.json or campaign.json in it, found neither", dir.display());
        return Err(Failure::input(problem)
            .hint("give a folder that `pliant simulate --out` or `pliant campaign run` wrote"));
    };
    let out = arguments.out.clone().unwrap_or_else(|| dir.join("report.html"));
    write_page(&out, &page)?;
    let value = json!({ "kind": kind, "page": out, "bytes": page.len() });
    output.print("report", || format!("wrote {}\n", out.display()), value)
}

/// Writes a page.
pub(crate) fn write_page(path: &Path, page: &str) -> Result<(), Failure> {
    std::fs::write(path, page).map_err(|source| Failure::io(path, "write this file", &source))
}

fn run_page(dir: &Path) -> Result<String, Failure> {
    let folder = read_folder(dir)?;
    let name =
        dir.file_name().map_or_else(|| dir.display().to_string(), |name| name.to_string_lossy().into_owned());
    let runs = [NamedRun { name: &name, run: &folder.run, summary: &folder.summary }];
    render_runs(&name, "", &runs).map_err(Failure::input)
}

fn campaign_page(results: &Results) -> String {
    let rows = results.runs.iter().map(|run| row(run, results)).collect();
    let note = format!(
        "{} of {} runs, compared with policy {} under the same seed.",
        results.runs.len(),
        results.planned,
        results.reference
    );
    render_campaign(&results.name, &note, &CampaignTable { rows })
}

/// A row of the page, which knows workloads and two kinds of platforms only: what else varies is put into
/// the workload's name.
fn row(run: &Record, results: &Results) -> CampaignRow {
    let varies = |differs: fn(&Record, &Record) -> bool| results.runs.iter().any(|other| differs(run, other));
    let mut workload = run.workload.clone();
    if varies(|run, other| run.workload == other.workload && run.platform != other.platform) {
        workload.push_str(&format!(" on {}", run.platform));
    }
    if varies(|run, other| run.moldable != other.moldable) {
        workload.push_str(&format!(", moldable {}", run.moldable));
    }
    if varies(|run, other| {
        run.dedicated_share < 1.0
            && other.dedicated_share < 1.0
            && run.dedicated_share != other.dedicated_share
    }) {
        workload.push_str(&format!(", share {}", run.dedicated_share));
    }
    CampaignRow {
        workload,
        dedicated: run.dedicated_share >= 1.0,
        policy: run.policy.clone(),
        seed: run.seed,
        metrics: run.metrics.clone(),
    }
}
