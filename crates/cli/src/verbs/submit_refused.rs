//! Errors of submissions that no server takes: whether it may work later, and what to do.

use pliant_client::{ClientError, SubmitOrder};
use pliant_control::job::Work;
use pliant_control::names::Name;
use pliant_control::reason::Cause;
use pliant_wire::{ServerStatus, SubmittedWork};

use pliant_request::submit::{is_file, script_hint as script};

use crate::failure::Failure;
use crate::federation::Session;

/// The failure of a submission that no server takes, after `answers` servers have answered an agent.
pub(super) fn refused(
    session: &Session,
    order: &SubmitOrder,
    error: ClientError,
    answers: Option<usize>,
) -> Failure {
    match (answers, &order.only) {
        // The reason why no agent answers says more.
        (None, _) => match session.run(session.client.servers()) {
            Err(absent) => absent.into(),
            Ok(_) => error.into(),
        },
        (Some(0), Some(server)) => match session.run(session.client.servers()) {
            Err(absent) => absent.into(),
            Ok(federation) => silent(server, &federation.servers),
        },
        _ if error.causes().contains(&Cause::NotConnected) => {
            Failure::system(error).hint("`pliant servers` shows when the servers are up again")
        }
        _ if passes(error.causes()) => {
            Failure::system(error).hint("try again later, or for longer with --server-timeout")
        }
        _ if error.is_input() && error.hint().is_none() => {
            let hint = hint(order, error.causes());
            let failure = Failure::input(error);
            match hint {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        }
        _ => error.into(),
    }
}

/// The failure if the only server did not answer.
fn silent(server: &Name, servers: &[ServerStatus]) -> Failure {
    if servers.iter().any(|known| known.info.name == *server) {
        return Failure::system(format!("--server: {server} is down or does not answer"))
            .hint("`pliant servers` shows when it is up; without --server another server takes the job");
    }
    let known: Vec<&str> = servers.iter().map(|known| known.info.name.as_str()).collect();
    let known = if known.is_empty() { "it has none".to_owned() } else { known.join(", ") };
    Failure::input(format!("--server: expected a server of the federation ({known}), found `{server}`"))
        .hint("`pliant servers` lists them")
}

/// True if there are reasons and all are temporary.
fn passes(causes: &[Cause]) -> bool {
    !causes.is_empty() && causes.iter().all(|cause| cause.may_pass())
}

/// What to do about a refusal by every server.
fn hint(order: &SubmitOrder, causes: &[Cause]) -> Option<String> {
    match &order.what {
        SubmittedWork::Service { name, .. } if causes.contains(&Cause::NotOffered) && is_file(name) => {
            Some(script(name))
        }
        _ if causes.contains(&Cause::TooLarge) => {
            Some("`pliant servers` lists the servers and their processors".to_owned())
        }
        _ if causes.contains(&Cause::Deadline) => {
            Some("submit it with a later --deadline, or for more processors".to_owned())
        }
        _ if causes.contains(&Cause::NoAccount) => {
            Some("ask the operator of a server for an account, or for a line in its [accounts]".to_owned())
        }
        SubmittedWork::Script(script)
            if causes.contains(&Cause::Resources) && names_options(&script.work) =>
        {
            let hint = "leave out --partition, --account and --qos; --ignore-sbatch=account,partition,qos ignores them in #SBATCH lines";
            Some(hint.to_owned())
        }
        SubmittedWork::Service { .. } => {
            Some("`pliant servers --services` lists the services and what they take".to_owned())
        }
        SubmittedWork::Script { .. } | SubmittedWork::Batch(_) | SubmittedWork::Call(_) => None,
    }
}

/// Whether work says something to a batch system that a server may not allow.
fn names_options(work: &Work) -> bool {
    work.resources.as_ref().is_some_and(|resources| !resources.batch.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_refusals_differ_from_others() {
        assert!(passes(&[Cause::NoAnswer]) && passes(&[Cause::NoAnswer, Cause::Unreachable, Cause::Busy]));
        assert!(!passes(&[Cause::TooLarge]) && !passes(&[Cause::TooLarge, Cause::NoAnswer]));
        assert!(!passes(&[]), "there is no reason");
    }
}
