//! The real application of paper 003 (section 5.4): a film is rendered and encoded by fourteen tasks that run together and
//! communicate over TCP. A source describes the frames, five workers render them, a stage makes groups of pictures, two workers
//! encode these, and a sink writes the film.
//!
//! Each task is this program, whose environment says which task it is and where its neighbours listen ([`place`]).
//! README.md has the commands that run all of it.

mod allowed;
mod compare;
mod farm;
mod film;
mod lans;
mod launched;
mod link;
mod local;
mod place;
mod stages;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "render-encode", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Is the task that the environment names: PLIANT_TASK, PLIANT_ADDRESS and PLIANT_PEERS.
    Task(film::Film),
    /// Runs all tasks on this machine, without a federation.
    Local(film::Film),
    /// Writes the application for `pliant launch`.
    Application(launched::Application),
    /// Makes the film on a federation of three LANs whose links are slow, mapped in three ways.
    Compare(compare::Compare),
}

/// Messages for people; no program reads them.
type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Task(film) => place::Place::from_environment().and_then(|place| stages::run(&place, &film)),
        Verb::Local(film) => local::run(&film),
        Verb::Application(application) => {
            launched::write(&application).map(|app| println!("{}", app.display()))
        }
        Verb::Compare(compare) => compare::run(&compare),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let task = std::env::var(place::TASK).map(|task| format!("{task}: ")).unwrap_or_default();
            eprintln!("error: {task}{failure}");
            ExitCode::from(2)
        }
    }
}
