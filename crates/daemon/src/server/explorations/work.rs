//! What a client asks a server to run as a request of an exploration, checked.

use std::collections::BTreeMap;

use pliant_control::job::Work;
use pliant_control::names::User;
use pliant_control::reason::{Cause, Reason};
use pliant_model::{JobId, Procs, SpanMs, Time};
use pliant_site::services::{Refusal, RunFolder};
use pliant_staging::FileSpec;
use pliant_wire::Executable;

use crate::server::execution::{Program, RequestWork};
use crate::server::offer::{PreparedWork, ServiceOffer};

/// The service that keeps a core for a while and does nothing: for trials, without processes.
pub(crate) const PAUSE: &str = "pause";
/// Its argument: for how many milliseconds.
const PAUSE_MS: &str = "ms";
/// The longest pause: a day.
const PAUSE_MS_MAX: i64 = 86_400_000;

/// Who asks for a request, and what all of the exploration's have.
pub(super) struct RequestContext<'a> {
    pub(super) user: &'a User,
    pub(super) executable: &'a Executable,
    /// The script among the files of the exploration, if they run one.
    pub(super) script: Option<&'a FileSpec>,
    pub(super) inputs: &'a [FileSpec],
    pub(super) request: &'a str,
}

/// Checks what a client asks for.
pub(super) fn request_work(
    offer: &ServiceOffer,
    asked: &RequestContext<'_>,
    arguments: BTreeMap<String, String>,
) -> Result<RequestWork, Reason> {
    let RequestContext { user, executable, script, inputs, request } = *asked;
    if is_pause(executable) {
        return pause(&arguments).map(RequestWork::Pause);
    }
    let refused = |refusal: Refusal| refusal.cause().because(refusal.to_string());
    let prepared = offer.prepare_run(executable, &arguments, (RunFolder::Work, user), None);
    let PreparedWork { prepared, account, .. } = prepared.map_err(refused)?;
    match executable {
        Executable::Service(_) => prepared.check_needs_no_job().map_err(refused)?,
        Executable::Script(script) if !needs_only_time(&script.work) => {
            return Err(Cause::Invalid.because(
                "expected a script that needs a core and time alone, found resources, a begin, a deadline, a nice value or a requeue",
            ));
        }
        Executable::Script(script)
            if script.folder.is_some() || script.stdin.is_some() || script.merge_output =>
        {
            return Err(Cause::Invalid.because(
                "expected a script in a folder of its own with outputs of its own, found a folder, a standard input or a merged output",
            ));
        }
        Executable::Script(_) => {}
    }
    prepared.check_inputs(inputs).map_err(refused)?;
    let on_one = prepared.work.request(JobId(0), Time::ZERO);
    // It gets a core, and no GPUs that its table may have sizes with.
    let walltimes = on_one.where_counted(Procs(1), offer.info.speed, false);
    let walltime = walltimes.map(|walltimes| walltimes.at(Procs(1)));
    let walltime = walltime.ok_or_else(|| {
        let needed = prepared.work.procs.0;
        Cause::TooLarge.because(format!("expected a program for one core, found one for {needed}"))
    })?;
    let (owner, inputs, request) = (user.clone(), inputs.to_vec(), request.to_owned());
    let program = Box::new(Program {
        prepared,
        submitted: None,
        script: script.cloned(),
        batch: None,
        inputs,
        shared: None,
        account: account.map(String::from),
        request,
    });
    Ok(RequestWork::Program { program, walltime, owner })
}

/// True if requests keep a core and do nothing.
pub(super) fn is_pause(executable: &Executable) -> bool {
    matches!(executable, Executable::Service(name) if name == PAUSE)
}

/// True if the work needs nothing but processors and time: requests wait in no queue that looks at the rest.
fn needs_only_time(Work { resources, begin, deadline, nice, requeue, .. }: &Work) -> bool {
    resources.is_none() && begin.is_none() && deadline.is_none() && *nice == 0 && *requeue == 0
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
