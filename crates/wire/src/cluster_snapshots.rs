//! Snapshots of the queues of servers, for reallocation.

use pliant_control::handoff::{Movable, ServerSnapshot};
use pliant_model::{Owner, Span};
use pliant_policy::batch::order::{
    Charge, JobPriority, PrioritySettings, Shares, UserPriority, UserUsage, Weights,
};
use pliant_policy::batch::{Dump, JobOnNodes, RunningJob, Start, Submission, Waiting};
use pliant_policy::nodes::{Amounts, Part};

use super::field::*;
use super::history::TUNER;
use super::resources::{MEBIBYTES, needed};
use super::table::message;
use super::types::AN_ESTIMATE;
use super::{Malformed, bounds, proto};

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
            on_nodes: list(nested(), bounds::QUEUE_MAX).exact(),
        },
        nodes: optional(nested()),
        movable: list(nested(), bounds::QUEUE_MAX).exact(),
        closed: optional(TEXT),
        drained: as_is(),
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

    proto::JobOnNodes <=> JobOnNodes {
        job: JOB_ID,
        on: list(nested(), bounds::QUEUE_MAX),
        resources: needed(),
    }

    proto::job_on_nodes::Part <=> Part {
        node,
        taken: Amounts {
            cores,
            memory_mib <=> memory: MEBIBYTES,
            gpus,
            scratch_mib <=> scratch: MEBIBYTES,
        },
    }

    proto::QueuedJob <=> Submission {
        job: JOB_ID,
        procs: PROCS,
        walltime_s <=> walltime: SCALED_WALLTIME,
        submitted <=> submit: TIME,
        owner: OWNER_IF_KNOWN,
        resources: needed(),
    }

    proto::QueuedJob <=> Start {
        job: JOB_ID,
        procs: PROCS,
        walltime_s <=> walltime: SCALED_WALLTIME,
        submitted <=> (): empty::<i64>(),
        owner <=> (): empty::<Option<u64>>(),
        resources <=> (): empty::<Option<proto::Resources>>(),
    }

    proto::Shares <=> Shares {
        since: TIME,
        users: list(nested(), bounds::QUEUE_MAX).exact(),
        running: list(nested(), bounds::QUEUE_MAX).exact(),
        priority: optional(nested()),
        by_operators: list(nested(), bounds::QUEUE_MAX).exact(),
    }

    proto::PrioritySettings <=> PrioritySettings {
        weights: Weights { age_weight <=> age: as_is(), size_weight <=> size: as_is(), fair_share_weight <=> fair_share: as_is() },
        age_max_s <=> age_max: PRIORITY_SPAN,
        half_life_s <=> half_life: optional(PRIORITY_SPAN),
        users: list(nested(), bounds::QUEUE_MAX).exact(),
        groups: list(SHARES, bounds::QUEUE_MAX).exact(),
    } => (check: is_ordered, fit: ordered)

    proto::UserPriority <=> UserPriority {
        owner: OWNER,
        shares: SHARES,
        group: optional(as_is()),
        bonus,
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

/// The maximal age of jobs and the half-life of usage.
const PRIORITY_SPAN: Number<i64, Span> = seconds(1..=*bounds::TIME_S.end());

/// The shares of a user or a group.
const SHARES: Number<u32, u32> = number("shares", 1..=u32::MAX);

/// Users are looked up by their order.
fn is_ordered(priority: PrioritySettings) -> Result<PrioritySettings, Malformed> {
    match priority.users.is_sorted_by(|one, next| one.owner < next.owner) {
        true => Ok(priority),
        false => Err(Malformed::new("users", "each user once, in order of `owner`", "another order")),
    }
}

#[cfg(test)]
fn ordered(mut priority: PrioritySettings) -> PrioritySettings {
    priority.users.sort_by_key(|user| user.owner);
    priority.users.dedup_by_key(|user| user.owner);
    priority
}

/// Whose a job is; unknown if its server does not say.
const OWNER_IF_KNOWN: AbsentIf<Number<u64, Owner>> = absent_means(Owner::UNKNOWN, OWNER);
