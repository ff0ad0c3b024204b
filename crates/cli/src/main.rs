//! The `pliant` command: one file per verb under `verbs/`. Exit codes: 0 done, 1 the system failed, 2 the
//! usage or the input was wrong; verbs that wait for jobs have two more (`docs/reference/exit-codes.md`).
#![warn(clippy::print_stderr, reason = "a closed standard error is no failure: `stderr_line!`")]

/// A line on standard error. `eprintln!` panics where standard error is closed.
macro_rules! stderr_line {
    ($($text:tt)*) => { $crate::output::write_error_line(format_args!($($text)*)) };
}

mod campaigns;
mod command_line;
mod daemon;
mod examples;
mod failure;
mod federation;
mod hints;
mod input;
mod job;
mod job_or_launch;
mod launch_text;
mod local;
mod measure;
mod name_options;
mod output;
mod progress;
mod read_ahead;
mod reallocation_keys;
mod refusals;
mod script_words;
mod table;
mod time_text;
mod typed_script;
mod usage_error;
mod verbs;
mod what_if_policy;
mod work;
mod work_folders;

use std::process::ExitCode;

use command_line::{Campaign, CommandLine, Trace, Verb};
use failure::Failure;
use output::Output;
// Options that the pages and the Python package read, too.
use pliant_request::{
    executable_options, job_files, numbers, resource_options, script_directives, service_arguments,
};

fn main() -> ExitCode {
    // Users never see a backtrace.
    std::panic::set_hook(Box::new(|panic| {
        stderr_line!("error: internal error, please report it with the command you ran: {panic}");
    }));
    let CommandLine { format, verb } = CommandLine::from_arguments();
    if let Verb::JobFolder(arguments) = &verb {
        return verbs::job_folder::run(arguments);
    }
    match run(format, verb) {
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
        Verb::Call(arguments) => verbs::call::run(output, &arguments),
        Verb::Status(arguments) => verbs::status::run(output, &arguments),
        Verb::Queue(arguments) => verbs::queue::run(output, &arguments),
        Verb::Explain(arguments) => verbs::explain::run(output, &arguments),
        Verb::Reallocate(arguments) => verbs::reallocate::run(output, &arguments),
        Verb::WhatIf(arguments) => verbs::what_if::run(output, &arguments),
        Verb::Explore(arguments) => verbs::explore::run(output, &arguments),
        Verb::Sweep(arguments) => verbs::sweep::run(output, &arguments),
        Verb::Launch(arguments) => verbs::launch::run(output, &arguments),
        Verb::Token(verb) => verbs::token::run(output, &verb),
        Verb::Web(arguments) => verbs::web::run(output, &arguments),
        Verb::Users(arguments) => verbs::users::run(output, &arguments),
        Verb::Wait(arguments) => verbs::wait::run(output, &arguments),
        Verb::Cancel(arguments) => verbs::cancel::run(output, &arguments),
        Verb::Resubmit(arguments) => verbs::resubmit::run(output, &arguments),
        Verb::Fetch(arguments) => verbs::fetch::run(output, &arguments),
        Verb::Logs(arguments) => verbs::logs::run(output, &arguments),
        Verb::Servers(arguments) => verbs::servers::run(output, &arguments),
        Verb::Up(arguments) => verbs::up::run(output, &arguments),
        Verb::Down(arguments) => verbs::down::run(output, &arguments),
        Verb::Agent(options) => verbs::agent::run(output, &options),
        Verb::Server(options) => verbs::server::run(output, &options),
        Verb::Admin(verb) => verbs::admin::run(output, &verb),
        Verb::Ca(arguments) => verbs::ca::run(output, &arguments),
        Verb::Completions(arguments) => verbs::completions::run(&arguments, command_line::command()),
        Verb::Manual(arguments) => verbs::manual::run(&arguments, command_line::command()),
        Verb::RunJob(arguments) => verbs::run_job::run(&arguments),
        Verb::CallLibrary(arguments) => verbs::call_library::run(&arguments),
        Verb::RunResident(arguments) => verbs::run_resident::run(&arguments),
        Verb::RunTasks(arguments) => verbs::run_tasks::run(&arguments),
        // It has an exit code of its own.
        Verb::JobFolder(_) => Ok(()),
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
