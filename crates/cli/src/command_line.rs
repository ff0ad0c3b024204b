//! The command line: its verbs, which the help lists in groups.

use std::fmt::Write;

use clap::{Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use pliant_request::usage_error::usage_failure;

use crate::examples;
use crate::failure::Failure;
use crate::hints::equivalent;
use crate::output::Output;
use crate::usage_error::with_config_behind_verbs;
use crate::{daemon, verbs};

const AFTER_HELP: &str = "\
Exit codes:
  0    done
  1    the system failed: a file cannot be read or written, no daemon answers
  2    the usage or the input is wrong
  3    work that was waited for did not complete
  4    a job that was waited for had not ended when time was up
  130  ended by Ctrl-C

Progress is shown on a terminal only, that of campaigns everywhere. Errors go to standard error, results to standard output.";

/// A metascheduler for federations of clusters: it chooses the cluster, the processors and the walltime of jobs, and
/// simulates workload logs under other policies.
#[derive(Parser)]
#[command(name = "pliant", version, after_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct CommandLine {
    /// Prints results as text for people, or as one JSON document for scripts: text or json [default: text].
    #[arg(long, global = true, value_enum, default_value_t = Output::Text, value_name = "FORM",
        hide_default_value = true, hide_possible_values = true, help_heading = "Global options")]
    pub(crate) format: Output,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Submits a job: a service of the federation, or a script.
    Submit(Box<verbs::submit::Arguments>),
    /// Calls a typed service with values, and prints the values that come back.
    Call(Box<verbs::call::Arguments>),
    /// Runs a service with many different arguments, so that all servers end at about the same time.
    Sweep(Box<verbs::sweep::Arguments>),
    /// Runs mandatory requests of a service, and optional ones on free cores up to a deadline.
    Explore(Box<verbs::explore::Arguments>),
    /// Launches an application of communicating tasks on several clusters; lists launches.
    Launch(Box<verbs::launch::Arguments>),
    /// Lists jobs, the newest first, or moves of jobs between servers.
    #[command(visible_aliases = ["jobs", "ls", "ps"])]
    Queue(verbs::queue::Arguments),
    /// Shows all details of jobs.
    Status(verbs::status::Arguments),
    /// Explains why a job is at its server, or why it waits.
    Explain(verbs::explain::Arguments),
    /// Prints the standard output or error of a job.
    Logs(verbs::logs::Arguments),
    /// Waits until jobs have ended.
    Wait(verbs::wait::Arguments),
    /// Fetches the results of jobs and launches.
    Fetch(verbs::fetch::Arguments),
    /// Cancels jobs, launches, sweeps and explorations.
    #[command(visible_alias = "rm")]
    Cancel(verbs::cancel::Arguments),
    /// Submits again what was submitted as an earlier job.
    Resubmit(verbs::resubmit::Arguments),
    /// Serves web pages of the federation on this machine: clusters, jobs, submission.
    Web(verbs::web::Arguments),
    /// Creates and revokes tokens for programs that use the API of `web`.
    #[command(subcommand)]
    Token(verbs::token::Verb),
    /// Lists the servers of the federation, their services and the errors of their estimates.
    Servers(verbs::servers::Arguments),
    /// Lists each user's usage and fair share of the cores for explorations.
    Users(verbs::users::Arguments),
    /// Moves waiting jobs to servers that complete them earlier; shows or changes the reallocation policy.
    Reallocate(verbs::reallocate::Arguments),
    /// Drains servers, holds jobs, bans users and lists the audit trail; for operators.
    #[command(subcommand)]
    Admin(verbs::admin::Verb),
    /// Replays the history of the federation under other policies, and compares them.
    WhatIf(verbs::what_if::Arguments),
    /// Starts a federation, runs the jobs of two users, and replays them under other policies.
    Demo(verbs::demo::Arguments),
    /// Replays a workload on a cluster or a federation under chosen policies.
    Simulate(Box<verbs::simulate::Arguments>),
    /// Runs a matrix of simulations, in parallel and resumable.
    #[command(subcommand)]
    Campaign(Campaign),
    /// Inspects, converts or generates workloads.
    #[command(subcommand)]
    Trace(Trace),
    /// Maps an application of communicating tasks onto the machines of a grid.
    Map(Box<verbs::map::Arguments>),
    /// Writes an HTML report of a result folder or a campaign folder.
    Report(verbs::report::Arguments),
    /// Lists the policies.
    Policies,
    /// Starts a whole federation on this machine.
    Up(verbs::up::Arguments),
    /// Stops the federation that `up` started, and its jobs.
    Down(verbs::down::Arguments),
    /// Runs an agent, which finds servers for clients.
    Agent(daemon::Options),
    /// Runs a server, which submits jobs to one cluster.
    Server(verbs::server::Arguments),
    /// Issues and revokes the certificates of a federation.
    Ca(verbs::ca::Arguments),
    /// Prints the completions of a shell, for its startup file.
    Completions(verbs::completions::Arguments),
    /// Writes the manual pages into a folder; for packages.
    #[command(hide = true)]
    Manual(verbs::manual::Arguments),
    /// Supervises one job; servers start it.
    #[command(hide = true)]
    RunJob(verbs::run_job::Arguments),
    /// Runs a batch of instances, or the tasks of a launch on one server; servers have jobs run it.
    #[command(hide = true)]
    RunTasks(verbs::run_tasks::Arguments),
    /// Supervises the resident process of a service; servers start it.
    #[command(hide = true)]
    RunResident(verbs::run_resident::Arguments),
    /// Calls a function of a shared library; the supervisor of a service starts it.
    #[command(hide = true)]
    CallLibrary(verbs::call_library::Arguments),
    /// Reads and writes the files of one job as its account; servers start it through the launcher.
    #[command(hide = true)]
    JobFolder(verbs::job_folder::Arguments),
    /// Computes something, for demonstrations.
    #[command(subcommand, hide = true)]
    Work(verbs::work::Work),
}

#[derive(Subcommand)]
pub(crate) enum Trace {
    /// Shows the statistics of a workload and its defects.
    Info(verbs::trace_info::Arguments),
    /// Converts between workload formats, by their extensions.
    Convert(verbs::trace_convert::Arguments),
    /// Generates a workload.
    Generate(verbs::trace_generate::Arguments),
}

#[derive(Subcommand)]
pub(crate) enum Campaign {
    /// Runs a campaign, or resumes it.
    Run(verbs::campaign_run::Arguments),
    /// Joins the folders of shards.
    Merge(verbs::campaign_merge::Arguments),
    /// Shows the results of a campaign folder as a table.
    Show(verbs::campaign_show::Arguments),
}

/// Verbs that are listed together.
struct Group {
    heading: &'static str,
    verbs: &'static [&'static str],
    /// The verb whose example stands for the group.
    example: &'static str,
}

const GROUPS: [Group; 4] = [
    Group {
        heading: "Work",
        verbs: &[
            "submit", "call", "sweep", "explore", "launch", "queue", "status", "explain", "logs", "wait",
            "fetch", "cancel", "resubmit",
        ],
        example: "submit",
    },
    Group {
        heading: "Federation",
        verbs: &["web", "token", "servers", "users", "reallocate", "admin", "what-if"],
        example: "servers",
    },
    Group {
        heading: "Simulation",
        verbs: &["demo", "simulate", "campaign", "trace", "map", "report", "policies"],
        example: "simulate",
    },
    Group {
        heading: "Administration",
        verbs: &["up", "down", "agent", "server", "ca", "completions"],
        example: "up",
    },
];

impl CommandLine {
    /// Parses the arguments of this process. Prints help, the version or an error, and exits, if there is nothing to run.
    pub(crate) fn from_arguments() -> CommandLine {
        let arguments = with_config_behind_verbs(&command(), std::env::args_os());
        let parsed = command().try_get_matches_from(&arguments).and_then(|mut matches| {
            CommandLine::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command()))
        });
        let usage = |error: &clap::Error| usage_failure(&command(), &arguments, error).map(Failure::from);
        let failure = |error: &clap::Error| equivalent(error).or_else(|| usage(error));
        parsed.unwrap_or_else(|error| match failure(&error) {
            Some(failure) => {
                failure.print();
                std::process::exit(failure.code.into());
            }
            None => error.exit(),
        })
    }
}

/// The command, with its verbs in groups and an example for each.
pub(crate) fn command() -> Command {
    let command = examples::added(CommandLine::command());
    let template = help_template(&command);
    command.help_template(template)
}

fn help_template(command: &Command) -> String {
    let (header, literal) = (command.get_styles().get_header(), command.get_styles().get_literal());
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    let width = GROUPS.iter().flat_map(|group| group.verbs).map(|verb| verb.len()).max().unwrap_or(0);
    for Group { heading, verbs, example } in &GROUPS {
        let _ = writeln!(text, "\n{header}{heading}:{header:#}");
        for verb in *verbs {
            let Some(verb) = command.find_subcommand(verb) else { continue };
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            let aliases: Vec<&str> = verb.get_visible_aliases().collect();
            let aliases =
                if aliases.is_empty() { String::new() } else { format!(" [also: {}]", aliases.join(", ")) };
            let name = verb.get_name();
            let _ = writeln!(text, "  {literal}{name:width$}{literal:#}  {about}{aliases}");
        }
        let example = examples::of(example).unwrap_or_default();
        let _ = writeln!(text, "  {:width$}  e.g. {literal}{example}{literal:#}", "");
    }
    let _ = writeln!(text, "\n{header}Options:{header:#}");
    text + "{options}\n\n`pliant VERB --help` describes a verb.{after-help}"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_visible_verb_is_in_one_group() {
        let command = CommandLine::command();
        let visible = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let visible: BTreeSet<&str> = visible.map(Command::get_name).collect();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|group| group.verbs).copied().collect();
        assert_eq!(grouped.iter().copied().collect::<BTreeSet<&str>>(), visible);
        assert_eq!(grouped.len(), visible.len(), "a verb is in two groups");
    }

    #[test]
    fn the_command_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn aliases_name_the_same_verb() {
        for (alias, verb) in [("jobs", "queue"), ("ls", "queue"), ("ps", "queue"), ("rm", "cancel")] {
            let found = command().find_subcommand(alias).map(|found| found.get_name().to_owned());
            assert_eq!(found.as_deref(), Some(verb));
        }
    }
}
