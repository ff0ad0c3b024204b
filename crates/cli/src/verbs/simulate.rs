//! `pliant simulate`: one workload on one platform under one choice of policies.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{ArgGroup, Args};
use pliant_model::{Cluster, Platform, Run, Span};
use pliant_policy::mapping::Mapping;
use pliant_policy::reallocation::{Heuristic, Reallocation};
use pliant_policy::tuning::Tuner;
use pliant_report::html::{NamedRun, render_runs};
use pliant_report::{Summary, summarize, write_folder};
use pliant_sim::campaign::{Moldable, sim_jobs};
use pliant_sim::{Policies, Ties, simulate};
use pliant_trace::RepairReport;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::input::{self, Loaded, Repair, Request, repair_counts};
use crate::output::Output;
use crate::progress::{JobsOn, bar};
use crate::table::grouped;
use crate::verbs::report::write_page;
use crate::words::{self, Realloc};

#[derive(Args)]
#[command(group(ArgGroup::new("where").required(true).args(["procs", "platform"])))]
pub(crate) struct Arguments {
    /// The jobs: a log (.swf, .swf.gz, .gwf, Batsim .json) or a scenario (.toml).
    #[arg(long, value_name = "FILE")]
    workload: PathBuf,
    /// One cluster of that many processors.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    procs: Option<u32>,
    /// A federation: a platform file, or the name of a built-in platform.
    #[arg(long, value_name = "FILE.toml")]
    platform: Option<String>,
    /// The local batch policy of every cluster [default: the platform's, or cbf].
    #[arg(long, value_name = "NAME", value_parser = words::batch())]
    batch: Option<String>,
    /// What comes first among the events of one second: terminations or submissions.
    #[arg(long, value_name = "ORDER", value_parser = words::ties(), default_value = "finish-first")]
    ties: Ties,
    /// Which jobs may change their size.
    #[arg(long, value_name = "WHICH", value_parser = words::moldable(), default_value = "none")]
    moldable: Moldable,
    /// How servers size moldable jobs.
    #[arg(long, value_name = "NAME", value_parser = words::tuner(), default_value = "exact")]
    tuner: Tuner,
    /// How the agent chooses a cluster [default: mct; given with --procs].
    #[arg(long, value_name = "NAME", value_parser = words::mapping())]
    mapping: Option<Mapping>,
    /// How waiting jobs are moved between clusters.
    #[arg(long, value_name = "NAME", value_parser = words::realloc(), default_value = "none")]
    realloc: Realloc,
    /// In which order waiting jobs are taken up for reallocation.
    #[arg(long, value_name = "NAME", value_parser = words::heuristic(), default_value = "mct")]
    heuristic: Heuristic,
    /// Seconds between two reallocation events.
    #[arg(long, value_name = "S", default_value_t = 3600, value_parser = clap::value_parser!(i64).range(1..=1_000_000_000))]
    period: i64,
    /// Seconds that a move must gain at least (regular).
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(i64).range(0..=1_000_000_000))]
    threshold: i64,
    /// How many of the oldest jobs the heuristics other than mct look at.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    window: u32,
    /// Share of the jobs that come through the federation; the others are submitted straight to their cluster.
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = share)]
    dedicated_share: f64,
    /// Seed of job types, of locality and of policies that draw.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// What becomes of jobs that a log tells nonsense about: dropped or repaired (clean), or kept as far as
    /// possible (keep-bad).
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Repair::Clean)]
    repair: Repair,
    /// Makes every job that would need repair an error.
    #[arg(long)]
    strict: bool,
    /// Where the logs of a scenario are [default: PLIANT_TRACES, or beside the scenario].
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Writes jobs.csv, summary.json and the other result files there.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Writes report.html too.
    #[arg(long, requires = "out")]
    report: bool,
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| format!("expected a number, found `{text}`"))?;
    if share > 0.0 && share <= 1.0 {
        return Ok(share);
    }
    Err(format!("expected a share above 0 and at most 1, found {text}"))
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let begun = Instant::now();
    let loaded = input::load(&Request {
        workload: &arguments.workload,
        procs: arguments.procs,
        platform: arguments.platform.as_deref(),
        repairs: arguments.repair.options(arguments.strict),
        traces: arguments.traces.as_deref(),
    })?;
    let Loaded { platform, jobs, repairs } = loaded;
    let platform = under_batch(platform, arguments.batch.as_deref());
    let policies = arguments.policies();
    let jobs = sim_jobs(jobs, arguments.moldable, arguments.dedicated_share, arguments.seed);
    let progress = bar(jobs.len() as u64, "jobs");
    let run = simulate(&platform, jobs, &policies, &mut JobsOn::new(&progress)).map_err(Failure::input)?;
    progress.finish_and_clear();
    let mut summary = summarize(&run);
    summary.run = arguments.describe(&policies, &repairs);
    if let Some(dir) = &arguments.out {
        write(arguments, dir, &run, &summary)?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    output.print("simulate", || text(arguments, &summary, &repairs, seconds), &summary)
}

impl Arguments {
    fn policies(&self) -> Policies {
        let usual = if self.procs.is_some() { Mapping::Given } else { Mapping::Mct };
        let reallocation = self.realloc.0.map(|algorithm| Reallocation {
            period: Span(self.period),
            threshold: Span(self.threshold),
            window: self.window as usize,
            ..Reallocation::new(algorithm, self.heuristic)
        });
        Policies {
            tuner: self.tuner,
            mapping: self.mapping.unwrap_or(usual),
            reallocation,
            ties: self.ties,
            seed: self.seed,
            ..Policies::default()
        }
    }

    /// What `summary.json` tells about the run beside its results.
    fn describe(&self, policies: &Policies, repairs: &RepairReport) -> BTreeMap<String, Value> {
        let mut about = BTreeMap::new();
        let mut add = |name: &str, value: Value| about.insert(name.to_owned(), value);
        add("workload", json!(self.workload.file_name().map(|name| name.to_string_lossy())));
        add("moldable", json!(self.moldable.name()));
        add("tuner", json!(policies.tuner.name()));
        add("mapping", json!(policies.mapping.name()));
        add("dedicated_share", json!(self.dedicated_share));
        add("seed", json!(self.seed));
        add("repairs", json!(repair_counts(repairs)));
        add("realloc", json!(self.realloc.0.map_or("none", |algorithm| algorithm.name())));
        if let Some(policy) = &policies.reallocation {
            add("heuristic", json!(policy.heuristic.name()));
            add("period_s", json!(policy.period.0));
            add("threshold_s", json!(policy.threshold.0));
            add("window", json!(policy.window));
        }
        about
    }
}

/// The same clusters under another batch policy, if one is given.
fn under_batch(platform: Platform, batch: Option<&str>) -> Platform {
    let Some(batch) = batch else { return platform };
    let under = |cluster: &Cluster| Cluster { batch: batch.to_owned(), ..cluster.clone() };
    Platform::new(platform.clusters().iter().map(under).collect())
        .expect("a platform stays valid when only batch policies change")
}

fn write(arguments: &Arguments, dir: &Path, run: &Run, summary: &Summary) -> Result<(), Failure> {
    write_folder(dir, run, summary)?;
    if arguments.report {
        let name = arguments.workload.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let runs = [NamedRun { name: &name, run, summary }];
        let page = render_runs(&name, "", &runs).map_err(Failure::input)?;
        write_page(&dir.join("report.html"), &page)?;
    }
    Ok(())
}

fn text(arguments: &Arguments, summary: &Summary, repairs: &RepairReport, seconds: f64) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| text.push_str(&format!("{name:<16}{value}\n"));
    line("jobs", grouped(summary.jobs));
    if summary.refused > 0 {
        line("refused", format!("{} (larger than the clusters, see refused.csv)", grouped(summary.refused)));
    }
    for (repair, count) in &repairs.counts {
        line("repaired", format!("{} ({})", grouped(*count), repair.describe()));
    }
    line("makespan", format!("{} s", grouped(summary.makespan_s.unsigned_abs())));
    line("mean wait", format!("{:.1} s", summary.mean_wait_s));
    line("mean response", format!("{:.1} s", summary.mean_response_s));
    line("utilization", format!("{:.1} %", 100.0 * summary.utilization));
    line("reallocations", grouped(summary.reallocations));
    line("time taken", format!("{seconds:.2} s"));
    if let Some(dir) = &arguments.out {
        line("results", dir.display().to_string());
    }
    text
}
