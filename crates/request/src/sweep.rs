//! The options of `pliant sweep` that say what is run.

use std::time::Duration;

use clap::Args;
use pliant_client::SweepSpec;
use pliant_control::multi_job::RETRIES_MAX;
use pliant_policy::allocation::Strategy;

use crate::RequestError;
use crate::executable_options::{ExecutableChoice, ExecutableOptions};
use crate::job_files::{Input, announced, input};
use crate::numbers::{timeout, whole};
use crate::parameter_options::REQUESTS_MAX;
use crate::registries::strategy;
use crate::runs::Runs;
use crate::submit_options::SizeOptions;

/// How many times a failed instance is run again if no option says it.
pub const RETRIES: u8 = 2;

/// The options of a sweep. The command that has them has an option `resume`, too, and needs no service with it.
#[derive(Args)]
pub struct SweepOptions {
    /// A service of the federation, which `pliant servers --services` lists; or with a slash in it the path of a script, as
    /// with --script.
    #[arg(value_name = "SERVICE", required_unless_present_any = ["resume", "script"])]
    service: Option<String>,
    #[command(flatten)]
    executable: ExecutableOptions,
    #[command(flatten)]
    size: SizeOptions,
    /// A read-only input file, in the folder of every instance under its own name or NAME; may be repeated. Each server
    /// gets it once.
    #[arg(long = "in", value_name = "[NAME=]FILE", value_parser = input)]
    inputs: Vec<Input>,
    /// How instances are allocated to servers.
    #[arg(long, value_name = "STRATEGY", value_parser = strategy(), default_value = "statistics")]
    allocate: Strategy,
    /// Allocates all instances once, at the start, and does not move them later.
    #[arg(long)]
    allocate_once: bool,
    /// How many times a failed instance is run again.
    #[arg(long, value_name = "N", default_value_t = RETRIES, value_parser = whole(0..=RETRIES_MAX))]
    retries: u8,
    /// Runs at most N instances at a time [default: any number].
    #[arg(long, value_name = "N", value_parser = whole(1..=REQUESTS_MAX))]
    at_once: Option<u32>,
    /// How long to wait for a server that takes instances.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = timeout)]
    pub server_timeout: Duration,
}

impl SweepOptions {
    /// The sweep; `note` gets what a user of Slurm may expect otherwise.
    ///
    /// # Errors
    ///
    /// If options contradict each other, or a file cannot be read.
    pub fn spec(&self, note: &mut dyn FnMut(&str)) -> Result<SweepSpec, RequestError> {
        let ExecutableChoice { executable, parameters, inputs } =
            self.executable.choice(self.service.as_deref(), self.size.of_job(), Runs::Instances, note)?;
        match parameters.combinations() {
            Some(1..=REQUESTS_MAX) => {}
            Some(_) => {
                let problem = format!("expected at most {REQUESTS_MAX} instances, found more");
                return Err(RequestError::input(problem));
            }
            None => {
                let message = "expected --vary KEY=VALUES or --vary-file FILE, found neither";
                return Err(RequestError::input(message).hint("one of them lists the instances"));
            }
        }
        let inputs = announced("--in", &[inputs, self.inputs.clone()].concat())?;
        Ok(SweepSpec {
            executable,
            parameters,
            inputs,
            strategy: self.allocate,
            once: self.allocate_once,
            retries: self.retries,
            at_once: self.at_once,
            only: None,
            timeout: self.server_timeout,
        })
    }
}
