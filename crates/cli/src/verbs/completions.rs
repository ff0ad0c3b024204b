//! `pliant completions`: the completions of a shell.

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::failure::Failure;
use crate::output;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments, mut command: Command) -> Result<(), Failure> {
    let mut text = Vec::new();
    generate(arguments.shell, &mut command, "pliant", &mut text);
    output::print_bytes(&text)
}
