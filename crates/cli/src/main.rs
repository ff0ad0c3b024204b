//! The `pliant` command: one file per verb under `verbs/`. Exit codes: 0 done, 1 the system failed, 2 the
//! usage or the input was wrong; verbs that wait for jobs have two more (`docs/cli.md`).

mod application;
mod campaigns;
mod daemon;
mod failure;
mod federation;
mod input;
mod job;
mod job_files;
mod job_or_launch;
mod launch_text;
mod local;
mod measure;
mod name_options;
mod numbers;
mod output;
mod parameter_options;
mod progress;
mod read_ahead;
mod reallocation_keys;
mod refusals;
mod service_arguments;
mod submission_note;
mod table;
mod time_text;
mod verbs;
mod what_if_policy;
mod work;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use failure::Failure;
use output::Output;

const AFTER_HELP: &str = "\
Exit codes:
  0    done
  1    the system failed: a file cannot be read or written, no daemon answers
  2    the usage or the input is wrong
  3    a job that was waited for did not complete
  4    a job that was waited for had not ended when time was up
  130  ended by Ctrl-C

Progress is shown on a terminal only.
Errors go to standard error, results to standard output.";

/// A metascheduler for federations of clusters: places and tunes jobs, and replays workload logs under local and
/// federation-wide policies to show what each is worth.
#[derive(Parser)]
#[command(name = "pliant", version, after_help = AFTER_HELP, arg_required_else_help = true)]
struct Cli {
    /// Prints results for people (text) or for scripts (json).
    #[arg(long, global = true, value_enum, default_value_t = Output::Text, value_name = "FORM")]
    output: Output,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Submits work: a service of the federation, or a script.
    Submit(Box<verbs::submit::Arguments>),
    /// Shows all details of jobs.
    Status(verbs::status::Arguments),
    /// Lists jobs, the newest first.
    Queue(verbs::queue::Arguments),
    /// Explains why a job is at its server, or why it waits.
    Explain(verbs::explain::Arguments),
    /// Lists the waiting jobs that were moved to another server.
    Moves(verbs::moves::Arguments),
    /// Moves waiting jobs to servers that complete them earlier, or changes the reallocation policy.
    Reallocate(verbs::reallocate::Arguments),
    /// Replays the history of the federation under other policies, and compares them.
    WhatIf(verbs::what_if::Arguments),
    /// Runs mandatory requests of a service, and optional ones on free cores until a deadline.
    Explore(Box<verbs::explore::Arguments>),
    /// Runs a service with many different arguments, allocated to servers by statistics.
    Sweep(Box<verbs::sweep::Arguments>),
    /// Launches an application of communicating tasks on several clusters at once: all of its tasks or none.
    Launch(Box<verbs::launch::Arguments>),
    /// Lists launches, the newest first, or shows one.
    Launches(verbs::launches::Arguments),
    /// Adds tasks to a running launch.
    Spawn(Box<verbs::spawn::Arguments>),
    /// Lists the subjobs of launches at servers, and ends subjobs whose agent is gone.
    Subjobs(verbs::subjobs::Arguments),
    /// Lists the usage and fair share of the cores for explorations, by user.
    Users(verbs::users::Arguments),
    /// Waits until jobs have ended.
    Wait(verbs::wait::Arguments),
    /// Withdraws waiting jobs, ends running ones, and ends launches.
    Cancel(verbs::cancel::Arguments),
    /// Fetches the results of a job or a launch.
    Fetch(verbs::fetch::Arguments),
    /// Prints the standard output or error of a job.
    Logs(verbs::logs::Arguments),
    /// Lists the servers of the federation, their services and the accuracy of their estimates.
    Servers(verbs::servers::Arguments),
    /// Starts a whole federation on this machine.
    Up(verbs::up::Arguments),
    /// Stops the federation of `up` and its jobs.
    Down(verbs::down::Arguments),
    /// Runs an agent, which finds servers for clients.
    Agent(daemon::Options),
    /// Runs a server, which submits jobs to one cluster.
    Server(daemon::Options),
    /// Issues and revokes the certificates of a federation.
    Ca(verbs::ca::Arguments),
    /// Supervises one job; servers start it.
    #[command(hide = true)]
    RunJob(verbs::run_job::Arguments),
    /// Runs a batch of instances, or the tasks of a launch on one server; servers have jobs run it.
    #[command(hide = true)]
    RunTasks(verbs::run_tasks::Arguments),
    /// Computes something, for demonstrations.
    #[command(subcommand, hide = true)]
    Work(verbs::work::Work),
    /// Replays a workload on a cluster or a federation under chosen policies.
    Simulate(Box<verbs::simulate::Arguments>),
    /// Maps an application of communicating tasks onto the machines of a grid.
    Map(Box<verbs::map::Arguments>),
    /// Inspects, converts or generates workloads.
    #[command(subcommand)]
    Trace(Trace),
    /// Runs a matrix of simulations, in parallel and resumable.
    #[command(subcommand)]
    Campaign(Campaign),
    /// Writes an HTML report of a result folder or a campaign folder.
    Report(verbs::report::Arguments),
    /// Starts a federation, runs the jobs of two users on it, and replays the same day under other policies.
    Demo(verbs::demo::Arguments),
    /// Lists the policies.
    Policies,
}

#[derive(Subcommand)]
enum Trace {
    /// Shows the statistics of a workload and its defects.
    Info(verbs::trace_info::Arguments),
    /// Converts between workload formats, by their extensions.
    Convert(verbs::trace_convert::Arguments),
    /// Generates a workload.
    Generate(verbs::trace_generate::Arguments),
}

#[derive(Subcommand)]
enum Campaign {
    /// Runs a campaign, or what is left of it.
    Run(verbs::campaign_run::Arguments),
    /// Joins the folders of shards.
    Merge(verbs::campaign_merge::Arguments),
    /// Shows the results of a campaign folder as a table.
    Show(verbs::campaign_show::Arguments),
}

fn main() -> ExitCode {
    // Users never see a backtrace.
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("error: internal error, please report it with the command you ran: {panic}");
    }));
    let Cli { output, verb } = Cli::parse();
    match run(output, verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            ExitCode::from(failure.code)
        }
    }
}

fn run(output: Output, verb: Verb) -> Result<(), Failure> {
    match verb {
        Verb::Submit(arguments) => verbs::submit::run(output, &arguments),
        Verb::Status(arguments) => verbs::status::run(output, &arguments),
        Verb::Queue(arguments) => verbs::queue::run(output, &arguments),
        Verb::Explain(arguments) => verbs::explain::run(output, &arguments),
        Verb::Moves(arguments) => verbs::moves::run(output, &arguments),
        Verb::Reallocate(arguments) => verbs::reallocate::run(output, &arguments),
        Verb::WhatIf(arguments) => verbs::what_if::run(output, &arguments),
        Verb::Explore(arguments) => verbs::explore::run(output, &arguments),
        Verb::Sweep(arguments) => verbs::sweep::run(output, &arguments),
        Verb::Launch(arguments) => verbs::launch::run(output, &arguments),
        Verb::Launches(arguments) => verbs::launches::run(output, &arguments),
        Verb::Spawn(arguments) => verbs::spawn::run(output, &arguments),
        Verb::Subjobs(arguments) => verbs::subjobs::run(output, &arguments),
        Verb::Users(arguments) => verbs::users::run(output, &arguments),
        Verb::Wait(arguments) => verbs::wait::run(output, &arguments),
        Verb::Cancel(arguments) => verbs::cancel::run(output, &arguments),
        Verb::Fetch(arguments) => verbs::fetch::run(output, &arguments),
        Verb::Logs(arguments) => verbs::logs::run(output, &arguments),
        Verb::Servers(arguments) => verbs::servers::run(output, &arguments),
        Verb::Up(arguments) => verbs::up::run(output, &arguments),
        Verb::Down(arguments) => verbs::down::run(output, &arguments),
        Verb::Agent(options) => verbs::agent::run(&options),
        Verb::Server(options) => verbs::server::run(&options),
        Verb::Ca(arguments) => verbs::ca::run(output, &arguments),
        Verb::RunJob(arguments) => verbs::run_job::run(&arguments),
        Verb::RunTasks(arguments) => verbs::run_tasks::run(&arguments),
        Verb::Work(work) => verbs::work::run(output, &work),
        Verb::Simulate(arguments) => verbs::simulate::run(output, &arguments),
        Verb::Map(arguments) => verbs::map::run(output, &arguments),
        Verb::Trace(Trace::Info(arguments)) => verbs::trace_info::run(output, &arguments),
        Verb::Trace(Trace::Convert(arguments)) => verbs::trace_convert::run(output, &arguments),
        Verb::Trace(Trace::Generate(arguments)) => verbs::trace_generate::run(output, &arguments),
        Verb::Campaign(Campaign::Run(arguments)) => verbs::campaign_run::run(output, &arguments),
        Verb::Campaign(Campaign::Merge(arguments)) => verbs::campaign_merge::run(output, &arguments),
        Verb::Campaign(Campaign::Show(arguments)) => verbs::campaign_show::run(output, &arguments),
        Verb::Report(arguments) => verbs::report::run(output, &arguments),
        Verb::Demo(arguments) => verbs::demo::run(output, &arguments),
        Verb::Policies => verbs::policies::run(output),
    }
}
