//! Snapshots of the queues of servers, for reallocation.

use pliant_control::handoff::{Movable, ServerSnapshot};
use pliant_model::Owner;
use pliant_policy::batch::order::{Charge, JobPriority, Shares, UserUsage};
use pliant_policy::batch::{Dump, RunningJob, Start, Submission, Waiting};

use super::field::*;
use super::history::TUNER;
use super::table::message;
use super::types::AN_ESTIMATE;
use super::{bounds, proto};

message! {
    proto::ServerSnapshot <=> ServerSnapshot {
        info: required("a server"),
        tuner: TUNER,
        queue: Dump {
            running: list(nested(), bounds::QUEUE_MAX).exact(),
            planned: list(nested(), bounds::QUEUE_MAX).exact(),
            queued: list(nested(), bounds::QUEUE_MAX).exact(),
            head: optional(nested()),
            shares: optional(nested()),
        },
        nodes: optional(nested()),
        movable: list(nested(), bounds::QUEUE_MAX).exact(),
        closed: optional(TEXT),
    }

    proto::RunningJob <=> RunningJob {
        job: JOB_ID,
        procs: PROCS,
        end: TIME,
    }

    proto::PlannedJob <=> Waiting {
        job: JOB_ID,
        plan: required(AN_ESTIMATE),
    }

    proto::QueuedJob <=> Submission {
        job: JOB_ID,
        procs: PROCS,
        walltime_s <=> walltime: SCALED_WALLTIME,
        submitted <=> submit: TIME,
        owner: OWNER_IF_KNOWN,
    }

    proto::QueuedJob <=> Start {
        job: JOB_ID,
        procs: PROCS,
        walltime_s <=> walltime: SCALED_WALLTIME,
        submitted <=> (): empty::<i64>(),
        owner <=> (): empty::<Option<u64>>(),
    }

    proto::Shares <=> Shares {
        since: TIME,
        users: list(nested(), bounds::QUEUE_MAX).exact(),
        running: list(nested(), bounds::QUEUE_MAX).exact(),
        by_operators: list(nested(), bounds::QUEUE_MAX).exact(),
    }

    proto::JobPriority <=> JobPriority {
        job: JOB_ID,
        priority: as_is(),
    }

    proto::UserUsage <=> UserUsage {
        owner: OWNER,
        used,
        hour,
    }

    proto::Charge <=> Charge {
        job: JOB_ID,
        owner: OWNER,
        procs: PROCS,
        start: TIME,
    }

    proto::Movable <=> Movable {
        number,
        job: HANDLE,
        key: KEY,
        work: required("the work"),
        submitted: TIME,
        owner: OWNER_IF_KNOWN,
        moves,
        siblings: list(NAME, bounds::SERVERS_MAX),
        avoids: list(NAME, bounds::SERVERS_MAX),
    }
}

/// Whose a job is; unknown if its server does not say.
const OWNER_IF_KNOWN: AbsentIf<Number<u64, Owner>> = absent_means(Owner::UNKNOWN, OWNER);
