//! `pliant report`: a result folder or a campaign folder as one HTML file that opens offline.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;
use pliant_report::html::{NamedRun, comparison_figure, render_campaign, render_comparison, render_runs};
use pliant_report::{CampaignRow, CampaignTable, Summary, read_folder};
use pliant_sim::campaign::{self, Kind, Record, Results};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::Output;
use crate::table::{counted, grouped};
use crate::verbs::campaign_warnings::Warnings;
use crate::verbs::{campaign_mapping, campaign_multi_job};

#[derive(Args)]
pub(crate) struct Arguments {
    /// A folder that `simulate`, `campaign run` or `campaign merge` wrote.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The page [default: report.html in DIR].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Writes the figure of a campaign with `compare_with` there, as an SVG file.
    #[arg(long, value_name = "FILE.svg")]
    figure: Option<PathBuf>,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let dir = &arguments.dir;
    type Told = fn(&Path, usize) -> Value;
    let other: Option<(String, Told)> = match Kind::of_folder(dir) {
        Kind::Mapping => Some((campaign_mapping::page(dir)?, campaign_mapping::told)),
        Kind::MultiJob => Some((campaign_multi_job::page(dir)?, campaign_multi_job::told)),
        Kind::Simulations => None,
    };
    arguments.check_figure(dir.join("campaign.json").is_file() && other.is_none())?;
    if let Some((page, told)) = other {
        let out = arguments.out.clone().unwrap_or_else(|| dir.join("report.html"));
        write_page(&out, &page)?;
        return output.print("report", || format!("wrote {}\n", out.display()), told(&out, page.len()));
    }
    let mut warnings = Warnings::default();
    let (kind, page) = if dir.join("campaign.json").is_file() {
        let results = campaign::read_results(dir)?;
        warnings.damaged(&results.damaged, "the page leaves the run out");
        warnings.refused(&results);
        if let Some(path) = &arguments.figure {
            write_figure(path, &results)?;
        }
        ("campaign", campaign_page(&results))
    } else if dir.join("summary.json").is_file() {
        ("run", run_page(dir)?)
    } else {
        return Err(no_results(dir));
    };
    let out = arguments.out.clone().unwrap_or_else(|| dir.join("report.html"));
    write_page(&out, &page)?;
    let value = json!({ "kind": kind, "page": out, "bytes": page.len(), "warnings": warnings.all() });
    output.print("report", || format!("wrote {}\n", out.display()), value)
}

impl Arguments {
    /// Only a campaign of simulations has the figure.
    fn check_figure(&self, is_campaign: bool) -> Result<(), Failure> {
        let Some(figure) = self.figure.as_ref().filter(|_| !is_campaign) else { return Ok(()) };
        let problem = format!(
            "{}: expected a folder of a campaign of simulations for --figure {}",
            self.dir.display(),
            figure.display()
        );
        Err(Failure::input(problem).hint("leave --figure out"))
    }
}

/// What is wrong with a folder without results: it is not there, is none, or holds something else.
fn no_results(dir: &Path) -> Failure {
    let failure = match std::fs::read_dir(dir) {
        Ok(_) => {
            let found = if dir.join("jobs.csv").is_file() {
                "jobs.csv without summary.json: the run did not end, or wrote other formats only"
            } else {
                "neither summary.json nor campaign.json"
            };
            Failure::input(format!("{}: expected a folder with results, found {found}", dir.display()))
        }
        Err(source) if source.kind() == ErrorKind::NotFound => {
            Failure::input(format!("{}: expected a folder with results, found no such folder", dir.display()))
        }
        Err(source) if source.kind() == ErrorKind::NotADirectory => {
            Failure::input(format!("{}: expected a folder with results, found a file", dir.display()))
        }
        Err(source) => Failure::io(dir, "read this folder", &source),
    };
    failure.hint("give a folder that `pliant simulate --out` or `pliant campaign run --out` wrote")
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
    render_runs(&name, &note(&folder.summary), &runs).map_err(Failure::input)
}

/// What the run was of: `log.swf.gz on 3 clusters, 1,344 processors`.
fn note(summary: &Summary) -> String {
    let procs = summary.clusters.iter().map(|cluster| u64::from(cluster.procs)).sum();
    let machine =
        format!("{}, {}", counted(summary.clusters.len() as u64, "cluster"), counted(procs, "processor"));
    match summary.run.get("workload").and_then(Value::as_str) {
        Some(workload) => format!("{workload} on {machine}"),
        None => machine,
    }
}

/// Writes the figure of a campaign whose policies are compared with others by name.
fn write_figure(path: &Path, results: &Results) -> Result<(), Failure> {
    if results.compare_with.is_empty() {
        let problem =
            format!("expected a campaign with `compare_with` for --figure, found `{}`", results.name);
        return Err(Failure::input(problem)
            .hint("leave --figure out, or name policies to compare with in the campaign"));
    }
    let figure = comparison_figure(&table(results), &results.compare_with);
    std::fs::write(path, figure).map_err(|source| Failure::io(path, "write this file", &source))
}

fn table(results: &Results) -> CampaignTable {
    CampaignTable { rows: results.runs.iter().map(|run| row(run, results)).collect() }
}

fn campaign_page(results: &Results) -> String {
    let note = format!(
        "{} of {}, compared with policy {} under the same seed.",
        grouped(results.runs.len() as u64),
        counted(results.planned as u64, "run"),
        results.reference
    );
    match results.compare_with.is_empty() {
        true => render_campaign(&results.name, &note, &table(results)),
        false => render_comparison(&results.name, &note, &table(results), &results.compare_with),
    }
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
