//! What a request of an exploration runs, as it is kept with it from its acceptance on.

use std::collections::BTreeMap;

use pliant_control::names::User;
use pliant_control::optional::server::Process;
use pliant_control::reason::{Cause, Reason};
use pliant_model::{JobId, Procs, Span, SpanMs, Time};
use pliant_site::processes::RunSpec;
use pliant_site::services::Prepared;
use pliant_staging::FileSpec;
use pliant_wire::SubmittedWork;
use pliant_wire::bounds::OUTPUT_BYTES_MAX;
use serde::{Deserialize, Serialize};

use crate::config::ClusterFile;
use crate::server::offer::ServiceOffer;

/// The service that keeps a core for a while and does nothing: for trials, without processes.
pub(crate) const PAUSE: &str = "pause";
/// Its argument: for how many milliseconds.
const PAUSE_MS: &str = "ms";
/// The longest pause: a day.
const PAUSE_MS_MAX: i64 = 86_400_000;
/// Room for the notice that ends an output which was cut.
const NOTICE_BYTES: usize = 1_024;

/// What is run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Launch {
    /// Nothing, for so long.
    Pause(SpanMs),
    /// A program.
    Program(Box<Program>),
}

/// A program for one core.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Program {
    prepared: Prepared,
    walltime: Span,
    owner: User,
    /// Files that it finds in its folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) inputs: Vec<FileSpec>,
    /// Ties the log lines of an exploration together.
    request: String,
}

/// Who asks for a request, and what all of the exploration's have.
pub(super) struct RequestContext<'a> {
    pub(super) user: &'a User,
    pub(super) service: &'a str,
    pub(super) inputs: &'a [FileSpec],
    pub(super) request: &'a str,
}

/// Checks what a client asks for.
pub(super) fn launch(
    shop: &ServiceOffer,
    asked: &RequestContext<'_>,
    arguments: BTreeMap<String, String>,
) -> Result<Launch, Reason> {
    let RequestContext { user, service, inputs, request } = *asked;
    if service == PAUSE {
        return pause(&arguments).map(Launch::Pause);
    }
    let what = SubmittedWork::Service { name: service.to_owned(), arguments };
    let prepared = shop.prepare(&what, user, None);
    let prepared = prepared.map_err(|refusal| refusal.cause().because(refusal.to_string()))?.prepared;
    if let Some(name) = prepared.missing_input(inputs) {
        let why = format!("expected the input file {}, found none", name.as_str());
        return Err(Cause::Invalid.because(why));
    }
    if let Some((found, allowed)) = prepared.too_many_input_bytes(inputs) {
        let why = format!("expected at most {allowed} bytes of input, found {found}");
        return Err(Cause::Invalid.because(why));
    }
    let on_one = prepared.work.request(JobId(0), Time::ZERO);
    let walltime = on_one.on(Procs(1), shop.info.speed).map(|walltimes| walltimes.at(Procs(1)));
    let walltime = walltime.ok_or_else(|| {
        let needed = prepared.work.procs.0;
        Cause::TooLarge.because(format!("expected a service for one core, found one for {needed}"))
    })?;
    let (owner, inputs, request) = (user.clone(), inputs.to_vec(), request.to_owned());
    Ok(Launch::Program(Box::new(Program { prepared, walltime, owner, inputs, request })))
}

fn pause(arguments: &BTreeMap<String, String>) -> Result<SpanMs, Reason> {
    let refused = |found: String| {
        let expected = format!("expected `{PAUSE_MS}`, a number from 1 to {PAUSE_MS_MAX}, and nothing else");
        Cause::Invalid.because(format!("{expected}, found {found}"))
    };
    match arguments.iter().collect::<Vec<_>>()[..] {
        [(name, value)] if name == PAUSE_MS => {
            let ms = value.parse().ok().filter(|ms| (1..=PAUSE_MS_MAX).contains(ms));
            ms.map(SpanMs).ok_or_else(|| refused(format!("`{value}`")))
        }
        _ => Err(refused(format!("{} arguments", arguments.len()))),
    }
}

impl Program {
    /// How it is run on its core.
    pub(super) fn spec(&self, process: &Process, cluster: &ClusterFile, first_core: Option<u32>) -> RunSpec {
        let Program { prepared, walltime, owner, request, .. } = self;
        let mut env = prepared.variables(Procs(1), *walltime);
        let own = [
            ("PLIANT_OWNER", owner.to_string()),
            ("PLIANT_REQUEST", request.clone()),
            ("PLIANT_CORES", "1".to_owned()),
            ("PLIANT_EXPLORATION", process.key.exploration.to_string()),
            ("PLIANT_NUMBER", process.key.number.to_string()),
        ];
        env.extend(own.map(|(name, value)| (name.to_owned(), value)));
        let most = prepared.bounds.max_output_bytes.unwrap_or(u64::MAX);
        RunSpec {
            program: prepared.argv(Procs(1), *walltime),
            env,
            walltime_s: walltime.0.max(1) as u64,
            grace_s: u64::from(cluster.grace_s),
            cores: first_core.map(|first| vec![first + process.core]),
            cpu_share: cluster.cpu_share,
            max_output_bytes: most.min((OUTPUT_BYTES_MAX - NOTICE_BYTES) as u64),
        }
    }
}
