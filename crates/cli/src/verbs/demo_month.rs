//! `pliant demo --simulate`: a generated month on a Grid'5000-like federation, without reallocation, under the four
//! reallocation policies of paper 000 and under the guard against starvation.

use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::ProgressBar;
use pliant_model::{Platform, Run};
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};
use pliant_report::html::{NamedRun, render_runs};
use pliant_report::{Comparison, Summary, compare, summarize};
use pliant_sim::campaign::{Moldable, sim_jobs};
use pliant_sim::{Policies, SimJob, simulate};
use pliant_trace::generate::{self, Month};
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::input;
use crate::name_options;
use crate::output::Output;
use crate::progress::{JobProgress, bar};
use crate::table::{Table, counted, decimals, grouped};
use crate::verbs::report::write_page;

/// Seed of the month's jobs, as in `campaigns/paper-000.toml`; `--seed` draws their types.
const WORKLOAD_SEED: u64 = 1;

/// The name of the page in its folder.
const PAGE: &str = "report.html";

/// The policies shown; the first is the reference.
const POLICIES: &[(&str, Option<(Algorithm, Heuristic)>)] = &[
    ("no reallocation", None),
    ("MCT-reg", Some((Algorithm::Regular, Heuristic::Mct))),
    ("MCT-can", Some((Algorithm::AllCancellation, Heuristic::Mct))),
    ("MinMin-reg", Some((Algorithm::Regular, Heuristic::MinMin))),
    ("MinMin-can", Some((Algorithm::AllCancellation, Heuristic::MinMin))),
    ("no-worse", Some((Algorithm::NoWorse, Heuristic::Mct))),
];

/// The options that belong to the month.
#[derive(Args)]
#[group(id = "simulated")]
pub(crate) struct Arguments {
    /// With --simulate: the seed of the speedup models of jobs.
    #[arg(long, value_name = "SEED", default_value_t = 1, requires = "simulate")]
    seed: u64,
    /// With --simulate: the month of paper 000 (Table 1) whose workload is generated.
    #[arg(long, value_name = "MONTH", value_parser = name_options::month(), default_value = "june", requires = "simulate")]
    month: &'static Month,
    /// With --simulate: the folder of report.html, the page with the charts.
    #[arg(long, value_name = "DIR", default_value = ".", requires = "simulate")]
    out: PathBuf,
}

/// A finished run of the demonstration.
struct FinishedRun {
    name: &'static str,
    run: Run,
    summary: Summary,
    comparison: Option<Comparison>,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let path = page_in(&arguments.out)?;
    let platform = input::platform("grid5000")?;
    let jobs = generate::grid5000(arguments.month, WORKLOAD_SEED).jobs;
    let jobs = sim_jobs(jobs, Moldable::Paper, 1.0, arguments.seed);
    let progress = bar((jobs.len() * POLICIES.len()) as u64, &format!("jobs of {} runs", POLICIES.len()));
    let shown = simulate_all(&platform, &jobs, arguments.seed, &progress)?;
    progress.finish_and_clear();
    let named: Vec<NamedRun<'_>> =
        shown.iter().map(|one| NamedRun { name: one.name, run: &one.run, summary: &one.summary }).collect();
    let title = format!("{} on three clusters", capitalized(arguments.month.name));
    let page =
        render_runs(&title, &note(jobs.len(), &platform, arguments.seed), &named).map_err(Failure::input)?;
    write_page(&path, &page)?;
    let text = || {
        format!(
            "{}\n\n{}\n{}\n\nCharts, to open in a browser: {}\n",
            note(jobs.len(), &platform, arguments.seed),
            table(&shown),
            findings(&shown),
            path.display()
        )
    };
    output.print("demo", text, value(&shown, arguments, &path))
}

/// The page's path in a folder, which is made if needed: before the simulation, as it may be impossible.
fn page_in(dir: &Path) -> Result<PathBuf, Failure> {
    if dir.is_file() {
        return Err(Failure::input(format!("{}: expected a folder, found a file", dir.display()))
            .hint("--out names the folder that report.html is written to"));
    }
    std::fs::create_dir_all(dir).map_err(|source| Failure::io(dir, "create this folder", &source))?;
    Ok(if dir == Path::new(".") { PathBuf::from(PAGE) } else { dir.join(PAGE) })
}

fn simulate_all(
    platform: &Platform,
    jobs: &[SimJob],
    seed: u64,
    progress: &ProgressBar,
) -> Result<Vec<FinishedRun>, Failure> {
    let simulate_one = |&(name, reallocation): &(&'static str, Option<(Algorithm, Heuristic)>)| {
        let reallocation = reallocation.map(|(algorithm, heuristic)| Reallocation::new(algorithm, heuristic));
        let policies = Policies { reallocation, seed, ..Policies::default() };
        let run =
            simulate(platform, jobs, &policies, &mut JobProgress::new(progress)).map_err(Failure::input)?;
        let summary = summarize(&run);
        Ok(FinishedRun { name, run, summary, comparison: None })
    };
    let mut shown: Vec<FinishedRun> =
        POLICIES.par_iter().map(simulate_one).collect::<Result<_, Failure>>()?;
    if let Some((reference, variants)) = shown.split_first_mut() {
        for one in variants {
            one.comparison = Some(compare(&one.run, &reference.run).map_err(Failure::input)?);
        }
    }
    Ok(shown)
}

fn note(jobs: usize, platform: &Platform, seed: u64) -> String {
    let clusters: Vec<String> = platform
        .clusters()
        .iter()
        .map(|one| format!("{} ({} processors, speed {})", one.name, one.procs, one.speed.get()))
        .collect();
    format!(
        "{} on {}; moldable as in paper 000, each sent where it completes first, seed {seed}.",
        counted(jobs as u64, "generated job"),
        clusters.join(", ")
    )
}

fn table(shown: &[FinishedRun]) -> String {
    let mut table = Table::new(
        1,
        &[
            "policy",
            "jobs moved",
            "moves %",
            "impacted %",
            "early %",
            "rel. response",
            "mean response h",
            "mean wait h",
        ],
    );
    for one in shown {
        let comparison = one.comparison.as_ref();
        table.row(vec![
            one.name.to_owned(),
            grouped(one.summary.jobs_moved),
            decimals(comparison.map(|it| it.reallocations_percent), 1),
            decimals(comparison.map(|it| it.impacted_percent), 1),
            decimals(comparison.and_then(|it| it.early_percent), 1),
            decimals(comparison.and_then(|it| it.relative_mean_response), 3),
            decimals(Some(one.summary.mean_response_s / 3600.0), 2),
            decimals(Some(one.summary.mean_wait_s / 3600.0), 2),
        ]);
    }
    table.render()
}

/// What the table shows, in two sentences.
fn findings(shown: &[FinishedRun]) -> String {
    let [reference, variants @ ..] = shown else { return String::new() };
    let response = |one: &&FinishedRun| one.summary.mean_response_s;
    let Some(best) = variants.iter().min_by(|a, b| response(a).total_cmp(&response(b))) else {
        return String::new();
    };
    let change = 100.0 * (1.0 - best.summary.mean_response_s / reference.summary.mean_response_s);
    let first = if change > 0.0 {
        format!(
            "{} does best here: the mean response falls by {change:.1} %, from {:.2} h to {:.2} h, for {}.",
            best.name,
            reference.summary.mean_response_s / 3600.0,
            best.summary.mean_response_s / 3600.0,
            counted(best.summary.reallocations, "move"),
        )
    } else {
        "Reallocation does not help here: no policy lowers the mean response.".to_owned()
    };
    let late = variants
        .iter()
        .filter_map(|one| Some((one.name, 100.0 - one.comparison.as_ref()?.early_percent?)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    match late {
        Some((name, late)) => format!(
            "{first}\nNot everyone gains: of the jobs whose end changes, up to {late:.0} % ({name}) end later than without."
        ),
        None => first,
    }
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn value(shown: &[FinishedRun], arguments: &Arguments, page: &Path) -> Value {
    let row = |one: &FinishedRun| json!({ "policy": one.name, "summary": one.summary, "comparison": one.comparison });
    json!({
        "month": arguments.month.name,
        "seed": arguments.seed,
        "page": page,
        "runs": shown.iter().map(row).collect::<Vec<_>>(),
    })
}
