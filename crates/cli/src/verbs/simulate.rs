//! `pliant simulate`: one workload on one platform under one choice of policies.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args};
use indicatif::ProgressBar;
use pliant_config::read;
use pliant_model::{Platform, Run, Span};
use pliant_policy::batch::order::{Aging, LocalPolicyChange, PrioritySettings};
use pliant_policy::mapping::Mapping;
use pliant_policy::reallocation::Heuristic;
use pliant_policy::runtimes::predicted::Basis;
use pliant_policy::tuning::Tuner;
use pliant_report::html::{NamedRun, render_runs};
use pliant_report::{FileFormat, RESULT_FILES, Summary, prepare_folder, summarize, write_formats};
use pliant_sim::campaign::Moldable;
use pliant_sim::{
    OptionError, Policies, PriorityError, PriorityOfLog, RunOptions, StreamError, Ties, limits, simulate,
    simulate_stream,
};
use pliant_trace::{LogStreamError, RepairReport, is_same_file};

use crate::daemon::wrong_file;
use crate::failure::Failure;
use crate::input::{self, Jobs, Repair, Request, repair_facts};
use crate::name_options::{self, ReallocationChoice};
use crate::numbers::{duration, whole};
use crate::output::Output;
use crate::progress::{JobProgress, bar};
use crate::read_ahead::read_ahead;
use crate::refusals::Refusals;
use crate::table::{grouped, grouped_tenths};
use crate::verbs::report::write_page;

#[derive(Args)]
#[command(group(ArgGroup::new("where").required(true).args(["procs", "platform"])))]
pub(crate) struct Arguments {
    /// The jobs: a log (.swf, .swf.gz, .gwf, Batsim .json) or a workload file (.toml).
    #[arg(long, value_name = "FILE")]
    workload: PathBuf,
    /// One cluster of that many processors.
    #[arg(long, value_name = "N", value_parser = whole(1..=u32::MAX), allow_negative_numbers = true)]
    procs: Option<u32>,
    /// A federation: a platform file, or the name of a built-in platform.
    #[arg(long, value_name = "FILE.toml")]
    platform: Option<String>,
    /// The local batch policy of every cluster; a queue order of the platform is kept. `pliant policies` explains the names
    /// [default: the platform's, or cbf].
    #[arg(long, value_name = "NAME", value_parser = name_options::batch())]
    batch: Option<String>,
    /// The order in which clusters serve waiting jobs, with --batch easy, fcfs or backfill. `pliant policies` explains the names
    /// [default: the platform's, or first-come]
    #[arg(long, value_name = "NAME", value_parser = name_options::order())]
    order: Option<String>,
    /// The wait after which a job goes before all others: none, or a time like 24h [default: 7d]
    #[arg(long, value_name = "TIME", value_parser = name_options::aging())]
    aging: Option<Aging>,
    /// A file with the table of priorities: weights, shares and classes of --order multifactor or fair-share. Users are numbers, as
    /// in the log.
    #[arg(long, value_name = "FILE.toml")]
    priority: Option<PathBuf>,
    /// Which events of the same second come first: terminations or submissions.
    #[arg(long, value_name = "ORDER", value_parser = name_options::ties(), default_value = "finish-first")]
    ties: Ties,
    /// Which jobs are moldable.
    #[arg(long, value_name = "JOBS", value_parser = name_options::moldable(), default_value = "none")]
    moldable: Moldable,
    /// The tuner of moldable jobs, with parameters as in `price(price=2)`. `pliant policies` explains the names
    /// [default: slack].
    #[arg(long, value_name = "NAME", value_parser = name_options::tuner())]
    tuner: Option<Tuner>,
    /// With --tuner slack: how much later than the earliest a job may complete, relative to its response
    /// [default: 0.5].
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    slack: Option<f64>,
    /// With --tuner slack: the least size of a job. 0.5 is half of an equal share of the cluster [default: 0.5].
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    share: Option<f64>,
    /// The mapping of jobs to clusters [default: mct; given with --procs].
    #[arg(long, value_name = "NAME", value_parser = name_options::mapping())]
    mapping: Option<Mapping>,
    /// The reallocation algorithm of waiting jobs.
    #[arg(long, value_name = "NAME", value_parser = name_options::realloc(), default_value = "none")]
    realloc: ReallocationChoice,
    /// The heuristic that orders waiting jobs for reallocation [default: mct].
    #[arg(long, value_name = "NAME", value_parser = name_options::heuristic())]
    heuristic: Option<Heuristic>,
    /// The time between two reallocation cycles [default: 1h].
    #[arg(long, value_name = "TIME", value_parser = duration(limits::PERIOD_S))]
    period: Option<i64>,
    /// The least gain for which --realloc regular moves a job [default: 1m].
    #[arg(long, value_name = "TIME", value_parser = duration(limits::THRESHOLD_S))]
    threshold: Option<i64>,
    /// How many of the oldest jobs heuristics other than mct consider [default: 20].
    #[arg(long, value_name = "N", value_parser = whole(limits::WINDOW), allow_negative_numbers = true)]
    window: Option<u32>,
    /// The runtimes that clusters plan by: those that users ask for, predictions (the mean of the user's last two jobs), or the
    /// real ones.
    #[arg(long, value_name = "BASIS", value_parser = name_options::basis(), default_value = "walltimes")]
    plan_by: Basis,
    /// The share of jobs that are submitted to the federation; the others go to their own cluster.
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = share, allow_negative_numbers = true)]
    dedicated_share: f64,
    /// Seed of job types, of locality and of policies that draw.
    #[arg(long, value_name = "SEED", default_value_t = 1, value_parser = whole(0..=u64::MAX))]
    #[arg(allow_negative_numbers = true)]
    seed: u64,
    /// What to do with invalid jobs of a log: drop or repair them (clean), or keep them if possible (keep-bad).
    #[arg(long, value_name = "RULE", value_enum, default_value_t = Repair::Clean)]
    repair: Repair,
    /// Ends with an error at the first job that would be repaired or dropped.
    #[arg(long)]
    strict: bool,
    /// The folder of the logs of a workload file [default: $PLIANT_TRACES, or the folder of the file].
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Writes jobs.csv, summary.json and the other result files to DIR.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The result files to write [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "out", value_parser = formats())]
    files: Option<Vec<FileFormat>>,
    /// Writes report.html, too.
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

fn formats() -> impl TypedValueParser<Value = FileFormat> {
    let read = |word: String| FileFormat::from_name(&word).ok_or("expected a format of result files");
    PossibleValuesParser::new(FileFormat::ALL.iter().map(|format| format.name())).try_map(read)
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let begun = Instant::now();
    let is_one_cluster = arguments.procs.is_some();
    arguments.options(PrioritySettings::default()).policies(is_one_cluster).map_err(wrong_option)?;
    arguments.check_out()?;
    let platform = input::platform_of(arguments.procs, arguments.platform.as_deref())?;
    let platform = arguments.local_policy().made_to(&platform).map_err(|unknown| {
        Failure::input(unknown)
            .hint("`pliant policies` lists batch policies and queue orders; easy, fcfs and backfill serve every order")
    })?;
    let workload = Request {
        workload: &arguments.workload,
        platform: &platform,
        repairs: arguments.repair.options(arguments.strict),
        traces: arguments.traces.as_deref(),
    };
    let jobs = workload.open()?;
    if let Some(dir) = &arguments.out {
        prepare_folder(dir)?;
    }
    let options = arguments.options(arguments.priority(&platform)?);
    let policies = options.policies(is_one_cluster).map_err(wrong_option)?;
    let (run, repairs) = arguments.simulate(&workload, jobs, (&options, &policies))?;
    let refusals = Refusals::of(&run);
    let moldable = arguments.moldable != Moldable::None;
    if let Some(impossible) = refusals.impossible(&run, &arguments.location(), moldable) {
        return Err(impossible);
    }
    if let Some(warning) = refusals.warning(&run) {
        stderr_line!("warning: {warning}");
    }
    let mut summary = summarize(&run);
    let file = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let (name, priority) = (file(&arguments.workload), arguments.priority.as_deref().and_then(file));
    summary.run = options.describe(&policies, &repairs, name.as_deref(), priority.as_deref());
    if let Some(dir) = &arguments.out {
        arguments.write(dir, &run, &summary)?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    output.print("simulate", || text(arguments, &summary, &refusals, &repairs, seconds), &summary)
}

/// An option that would be ignored, or is wrong.
fn wrong_option(error: OptionError) -> Failure {
    let (problem, hint) = error.explain(|option| format!("--{option}"));
    let failure = Failure::input(problem);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

impl Arguments {
    /// The options of the run.
    fn options(&self, priority: PrioritySettings) -> RunOptions {
        RunOptions {
            local: self.local_policy(),
            ties: self.ties,
            moldable: self.moldable,
            tuner: self.tuner,
            slack: self.slack,
            share: self.share,
            mapping: self.mapping,
            realloc: self.realloc.0,
            heuristic: self.heuristic,
            period: self.period.map(Span),
            threshold: self.threshold.map(Span),
            window: self.window,
            plan_by: self.plan_by,
            dedicated_share: self.dedicated_share,
            seed: self.seed,
            priority,
            // Moves cost memory, and only these files list each of them.
            keep_moves: self.report || self.out.is_some() && self.formats().contains(&FileFormat::Csv),
        }
    }

    /// What is changed of the local policies of the platform's clusters.
    fn local_policy(&self) -> LocalPolicyChange {
        LocalPolicyChange { batch: self.batch.clone(), order: self.order.clone(), aging: self.aging }
    }

    /// A new run removes what an earlier one left in its folder, which may be what it is to read.
    fn check_out(&self) -> Result<(), Failure> {
        let Some(dir) = &self.out else { return Ok(()) };
        if !RESULT_FILES.iter().any(|name| is_same_file(&self.workload, &dir.join(name))) {
            return Ok(());
        }
        let problem = format!(
            "{}: expected a workload outside {}, found one that the results would replace",
            self.workload.display(),
            dir.display()
        );
        Err(Failure::input(problem).hint("give another --out"))
    }

    /// Where the platform was given, for errors.
    fn location(&self) -> String {
        match (&self.platform, self.procs) {
            (Some(name), _) if name.ends_with(".toml") => format!("{name}: `procs`"),
            (Some(name), _) => format!("--platform {name}"),
            (None, procs) => format!("--procs {}", procs.unwrap_or_default()),
        }
    }

    fn formats(&self) -> &[FileFormat] {
        self.files.as_deref().unwrap_or(FileFormat::ALL)
    }

    /// Simulates the workload while it is read, if it is one that can be; a log out of order is loaded and
    /// sorted first.
    fn simulate(
        &self,
        workload: &Request<'_>,
        jobs: Jobs,
        (options, policies): (&RunOptions, &Policies),
    ) -> Result<(Run, RepairReport), Failure> {
        let mut drawn = options.jobs();
        match jobs {
            Jobs::Stream(mut stream) => {
                let progress = bar_of_unknown(stream.expected_jobs());
                let ended = read_ahead(stream.by_ref(), |jobs| {
                    let taken = jobs.map(|job| job.map(|job| drawn.take(job)));
                    simulate_stream(workload.platform, taken, policies, &mut JobProgress::new(&progress))
                });
                progress.finish_and_clear();
                match ended {
                    Ok(run) => Ok((run, stream.report())),
                    Err(StreamError::Source(LogStreamError::OutOfOrder)) => {
                        drop(stream);
                        self.simulate(workload, workload.load()?, (options, policies))
                    }
                    Err(StreamError::Source(LogStreamError::Failed(error))) => Err(error.into()),
                    Err(StreamError::Sim(error)) => Err(Failure::input(error)),
                }
            }
            Jobs::Loaded(jobs, repairs) => {
                let progress = bar(jobs.len() as u64, "jobs");
                let taken = jobs.into_iter().map(|job| drawn.take(job));
                let run = simulate(workload.platform, taken, policies, &mut JobProgress::new(&progress));
                progress.finish_and_clear();
                Ok((run.map_err(Failure::input)?, repairs))
            }
        }
    }

    /// What queue orders by usage are set by.
    fn priority(&self, platform: &Platform) -> Result<PrioritySettings, Failure> {
        let Some(path) = &self.priority else { return Ok(PrioritySettings::default()) };
        let (file, _): (PriorityOfLog, _) =
            read(path, "expected a table [priority] alone").map_err(wrong_file)?;
        file.settings(platform).map_err(|error| match error {
            PriorityError::NoOrder => {
                let problem =
                    "expected a cluster with the order multifactor or fair-share with --priority, found none";
                Failure::input(problem).hint("give the order: --batch easy --order multifactor")
            }
            PriorityError::Value { key, problem } => {
                Failure::input(format!("{}: {key}: {problem}", path.display()))
            }
        })
    }

    fn write(&self, dir: &Path, run: &Run, summary: &Summary) -> Result<(), Failure> {
        write_formats(dir, run, summary, self.formats())?;
        if self.report {
            let name = self.workload.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let runs = [NamedRun { name: &name, run, summary }];
            let page = render_runs(&name, "", &runs).map_err(Failure::input)?;
            write_page(&dir.join("report.html"), &page)?;
        }
        Ok(())
    }
}

/// A bar of jobs, with their number if the log's header has it.
fn bar_of_unknown(promised: Option<u64>) -> ProgressBar {
    let progress = bar(promised.unwrap_or(0), "jobs");
    if promised.is_none() {
        progress.unset_length();
    }
    progress
}

fn text(
    arguments: &Arguments,
    summary: &Summary,
    refusals: &Refusals,
    repairs: &RepairReport,
    seconds: f64,
) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| text.push_str(&format!("{name:<16}{value}\n"));
    line("jobs", grouped(summary.jobs));
    if refusals.total() > 0 {
        let listed = arguments.out.is_some() && arguments.formats().contains(&FileFormat::Csv);
        let location = if listed { "; see refused.csv" } else { "" };
        line("refused", format!("{} ({}{location})", grouped(refusals.total()), refusals.reasons()));
    }
    for (heading, fact) in repair_facts(repairs, repairs.extra_columns) {
        line(heading, fact);
    }
    line("makespan", format!("{} s", grouped(summary.makespan_s.unsigned_abs())));
    line("mean wait", format!("{} s", grouped_tenths(summary.mean_wait_s)));
    line("mean response", format!("{} s", grouped_tenths(summary.mean_response_s)));
    line("utilization", format!("{:.1} %", 100.0 * summary.utilization));
    line("reallocations", grouped(summary.reallocations));
    line("time taken", format!("{seconds:.2} s"));
    if let Some(dir) = &arguments.out {
        line("results", dir.display().to_string());
    }
    text
}
