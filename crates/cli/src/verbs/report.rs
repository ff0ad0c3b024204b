//! `pliant report`: a result folder or a campaign folder as one HTML file that opens offline.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;
use pliant_report::html::{NamedRun, render_runs};
use pliant_report::{Summary, read_folder};
use pliant_sim::campaign;
use serde_json::{Value, json};

use crate::campaigns::{Warnings, view};
use crate::failure::Failure;
use crate::output::Output;
use crate::table::counted;

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
    let Arguments { dir, out, figure } = arguments;
    let mut warnings = Warnings::default();
    let (kind, page) = if dir.join("campaign.json").is_file() {
        let contents = campaign::read_folder(dir)?;
        let view = view(&contents.results);
        warnings.damaged(&contents.damaged, "the page leaves the run out");
        warnings.missing(&contents);
        view.warn(&mut warnings);
        if let Some(path) = figure {
            write_page(path, &view.figure()?)?;
        }
        (contents.kind.name(), view.page())
    } else if let Some(figure) = figure {
        let (dir, figure) = (dir.display(), figure.display());
        let problem = format!("{dir}: expected a folder of a campaign of simulations for --figure {figure}");
        return Err(Failure::input(problem).hint("leave --figure out"));
    } else if dir.join("summary.json").is_file() {
        ("run", run_page(dir)?)
    } else {
        return Err(no_results(dir));
    };
    let out = out.clone().unwrap_or_else(|| dir.join("report.html"));
    write_page(&out, &page)?;
    let value = json!({ "kind": kind, "page": out, "bytes": page.len(), "warnings": warnings.all() });
    output.print("report", || format!("wrote {}\n", out.display()), value)
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
