//! The records of launches.

use pliant_control::coallocation::{LaunchEnd, LaunchRecord, LaunchState, OpenSubjob, TaskRecord};
use pliant_control::names::Name;

use super::super::field::*;
use super::super::proto::{self, launch_reply::Answer};
use super::super::table::{enumeration, message, one_of};
use super::super::{Malformed, bounds};
use super::A_LAUNCH;

message! {
    /// A query for launches.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    proto::LaunchesRequest <=> pub struct LaunchesQuery {
        /// The launches of all users.
        all: bool,
        /// At most so many.
        limit: u32 = up_to("a number of launches", bounds::JOBS_MAX as u32).exact().or(bounds::JOBS_DEFAULT),
    }
}

/// Launches, newest first.
#[derive(Clone, PartialEq, Debug)]
pub struct LaunchesPage(pub Vec<LaunchRecord>);

message! {
    proto::LaunchesReply <=> LaunchesPage(launches: list(nested(), bounds::JOBS_MAX))

    proto::Launch <=> LaunchRecord {
        id: required(A_LAUNCH),
        owner: USER,
        name: text(bounds::NAME_BYTES_MAX),
        submitted: TIME,
        state: enumeration(),
        end: optional(nested()),
        tasks: list(nested(), bounds::TASKS_MAX),
        unacknowledged: list(NAME, bounds::SERVERS_MAX),
        open_subjobs: list(nested(), bounds::TASKS_MAX),
    }

    proto::OpenSubjob <=> OpenSubjob {
        server: NAME,
        procs: PROCS,
        walltime_s <=> walltime: WALLTIME,
        committed: optional(TIME),
    }

    proto::LaunchedTask <=> TaskRecord {
        name: TASK_NAME,
        allocation: join(allocation_fields, allocation) => (server: unless_empty(NAME), machine: text(bounds::NAME_BYTES_MAX)),
        affinity: optional(number("a number", bounds::AFFINITY)),
        address: unless_empty(ADDRESS),
        exit: optional(nested()),
        not_spawned: optional(TEXT),
    }
}

enumeration! {
    proto::launch::State <=> LaunchState: "the state of a launch, from 1 to 5" {
        Mapping,
        Reserving,
        Running,
        Ending,
        Over,
    }
}

one_of! {
    proto::launch::End { how: proto::launch::end::How } <=> LaunchEnd {
        Completed(FLAG) <=> Completed,
        Mapped(FLAG) <=> Mapped,
        NotMapped <=> NotMapped(TEXT),
        NotReserved <=> NotReserved(TEXT),
        Cancelled(FLAG) <=> Cancelled,
        Failed <=> Failed(TEXT),
    }
}

/// The server and the machine of a task, both empty if it has none.
fn allocation_fields(allocation: &Option<(Name, String)>) -> (Option<Name>, String) {
    allocation.clone().map_or_else(Default::default, |(server, machine)| (Some(server), machine))
}

fn allocation((server, machine): (Option<Name>, String)) -> Result<Option<(Name, String)>, Malformed> {
    Ok(server.map(|server| (server, machine)))
}

/// The record of a launch, or why it is not accepted.
pub fn launch_reply(answer: &Result<LaunchRecord, String>) -> proto::LaunchReply {
    let answer = match answer {
        Ok(record) => Answer::Launch(record.into()),
        Err(why) => Answer::Refused(TEXT.encode(why)),
    };
    proto::LaunchReply { answer: Some(answer) }
}

/// The record or the refusal of a reply.
///
/// # Errors
///
/// [`Malformed`], with a path from [`proto::LaunchReply`].
pub fn launch_answer(reply: proto::LaunchReply) -> Result<Result<LaunchRecord, String>, Malformed> {
    match reply.answer {
        Some(Answer::Launch(launch)) => {
            LaunchRecord::try_from(launch).map(Ok).map_err(|malformed| malformed.under("launch"))
        }
        Some(Answer::Refused(why)) => Ok(Err(TEXT.decode("refused", why)?)),
        None => Err(Malformed::missing("", "a launch or a refusal")),
    }
}
