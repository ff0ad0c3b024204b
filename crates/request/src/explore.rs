//! The options of `pliant explore` that say what is run.

use std::time::Duration;

use clap::Args;
use pliant_client::ExplorationSpec;
use pliant_model::{Span, SpanMs};
use pliant_policy::optional::Reallocation;
use pliant_site::services::{DurationError, parse_duration};

use crate::RequestError;
use crate::executable_options::{ExecutableChoice, ExecutableOptions};
use crate::job_files::{Input, announced, input};
use crate::numbers::{timeout, whole};
use crate::parameter_options::REQUESTS_MAX;
use crate::runs::Runs;
use crate::submit_options::JobOptions;

/// The least gain for which a mandatory request is moved.
const LEAST_GAIN: SpanMs = SpanMs(100);
/// The options of an exploration.
#[derive(Args)]
pub struct ExploreOptions {
    /// A service of the federation that runs on one core; or with a slash in it the path of a script, as with --script.
    #[arg(value_name = "SERVICE", required_unless_present = "script")]
    service: Option<String>,
    #[command(flatten)]
    executable: ExecutableOptions,
    /// An input file, in the folder of every request under its own name or NAME; may be repeated.
    #[arg(long = "in", value_name = "[NAME=]FILE", value_parser = input)]
    inputs: Vec<Input>,
    /// The number of mandatory requests: so many of the first requests are completed, even after the deadline.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole(1..=REQUESTS_MAX))]
    pub min: u32,
    /// The largest number of requests [default: the number of combinations of values]. If no argument varies, requests
    /// differ in PLIANT_NUMBER only.
    #[arg(long, value_name = "N", value_parser = whole(1..=REQUESTS_MAX))]
    max: Option<u32>,
    /// The deadline of optional requests, as a length of time from now.
    #[arg(long, value_name = "TIME", value_parser = parse_duration as fn(&str) -> Result<Span, DurationError>)]
    pub deadline: Span,
    /// Submits N requests at once, mandatory ones included, and no more: the baseline of the paper, for servers with
    /// order = "fcfs".
    #[arg(long, value_name = "N", value_parser = whole(1..=REQUESTS_MAX))]
    legacy: Option<u32>,
    /// The period in which waiting mandatory requests are moved to servers that would complete them earlier [default:
    /// never].
    #[arg(long, value_name = "TIME", value_parser = parse_duration as fn(&str) -> Result<Span, DurationError>)]
    reallocate: Option<Span>,
    /// How long a server may be unreachable before others get its requests, and how long to wait for a first server.
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = timeout)]
    pub server_timeout: Duration,
}

impl ExploreOptions {
    /// The exploration; `note` gets what a user of Slurm may expect otherwise.
    ///
    /// # Errors
    ///
    /// If options contradict each other, or a file cannot be read.
    pub fn spec(&self, note: &mut dyn FnMut(&str)) -> Result<ExplorationSpec, RequestError> {
        let ExecutableChoice { executable, parameters, inputs } =
            self.executable.choice(self.service.as_deref(), JobOptions::default(), Runs::Requests, note)?;
        let most = match (self.max, parameters.combinations()) {
            (Some(max), Some(combinations)) if max > combinations => {
                let message = format!(
                    "--max: expected at most {combinations}, as many as there are combinations of values, found {max}"
                );
                return Err(
                    RequestError::input(message).hint("--vary says how requests differ from each other")
                );
            }
            (Some(max), _) => max,
            (None, Some(combinations)) => combinations,
            (None, None) => {
                let message = "expected --max N, --vary KEY=VALUES or --vary-file FILE, found none of them";
                return Err(RequestError::input(message).hint("one of them gives the number of requests"));
            }
        };
        if most < self.min {
            let expected =
                format!("--min: expected at most {most}, as many requests as there are, found {}", self.min);
            return Err(RequestError::input(expected).hint("--vary says how requests differ from each other"));
        }
        if let Some(guess) = self.legacy.filter(|guess| !(self.min..=most).contains(guess)) {
            let message =
                format!("--legacy: expected {} (--min) to {most} requests, found {guess}", self.min);
            return Err(
                RequestError::input(message).hint("a guess is of all requests, mandatory ones included")
            );
        }
        let inputs = announced("--in", &[inputs, self.inputs.clone()].concat())?;
        Ok(ExplorationSpec {
            executable,
            parameters,
            inputs,
            mandatory: self.min,
            most,
            deadline: SpanMs(self.deadline.0 * 1_000),
            legacy: self.legacy,
            reallocation: self
                .reallocate
                .map(|every| Reallocation { every: SpanMs(every.0.max(1) * 1_000), least_gain: LEAST_GAIN }),
            timeout: self.server_timeout,
        })
    }
}
