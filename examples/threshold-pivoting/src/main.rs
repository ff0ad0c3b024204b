//! Multiple threshold pivoting (paper 004, section 2): a sparse unsymmetric system is factorised with as many pivot
//! thresholds as there is time for, to see which of them costs how much accuracy and how much fill-in.
//!
//! - `solve` is the service: it factorises a system with one threshold and prints the outcome.
//! - `service` prints its description for a server's file.
//! - `plot` draws what an exploration found, as the paper's Figure 1 does.
//!
//! README.md has the commands that run all of it.

mod generate;
mod lu;
mod market;
mod matrix;
mod ordering;
mod plot;
mod points;
mod service;
mod solve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "threshold-pivoting", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Factorises a system with a pivot threshold, solves it, and prints the backward error.
    Solve(solve::Arguments),
    /// Prints the description of the service, for a server's file.
    Service,
    /// Draws the results of an exploration.
    Plot(plot::Arguments),
}

/// Messages for people; no program reads them.
type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Solve(arguments) => solve::run(&arguments),
        Verb::Service => service::run(),
        Verb::Plot(arguments) => plot::run(&arguments),
    };
    match done {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(2)
        }
    }
}
