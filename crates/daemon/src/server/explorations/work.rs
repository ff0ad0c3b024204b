//! What a client asks a server to run as a request of an exploration, checked.

use std::collections::BTreeMap;

use pliant_control::names::User;
use pliant_control::reason::{Cause, Reason};
use pliant_model::{JobId, Procs, SpanMs, Time};
use pliant_site::services::Refusal;
use pliant_staging::FileSpec;
use pliant_wire::SubmittedWork;

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
    pub(super) service: &'a str,
    pub(super) inputs: &'a [FileSpec],
    pub(super) request: &'a str,
}

/// Checks what a client asks for.
pub(super) fn request_work(
    offer: &ServiceOffer,
    asked: &RequestContext<'_>,
    arguments: BTreeMap<String, String>,
) -> Result<RequestWork, Reason> {
    let RequestContext { user, service, inputs, request } = *asked;
    if service == PAUSE {
        return pause(&arguments).map(RequestWork::Pause);
    }
    let what = SubmittedWork::Service { name: service.to_owned(), arguments };
    let refused = |refusal: Refusal| refusal.cause().because(refusal.to_string());
    let PreparedWork { prepared, account, .. } = offer.prepare(&what, user, None).map_err(refused)?;
    prepared.check_inputs(inputs).map_err(refused)?;
    let on_one = prepared.work.request(JobId(0), Time::ZERO);
    let walltime = on_one.on(Procs(1), offer.info.speed).map(|walltimes| walltimes.at(Procs(1)));
    let walltime = walltime.ok_or_else(|| {
        let needed = prepared.work.procs.0;
        Cause::TooLarge.because(format!("expected a service for one core, found one for {needed}"))
    })?;
    let (owner, inputs, request) = (user.clone(), inputs.to_vec(), request.to_owned());
    let program = Box::new(Program {
        prepared,
        submitted: None,
        batch: None,
        inputs,
        shared: None,
        account: account.map(String::from),
        request,
    });
    Ok(RequestWork::Program { program, walltime, owner })
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
