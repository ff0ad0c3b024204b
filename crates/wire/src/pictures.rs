//! Queues of servers, for an agent that looks for better places.

use pliant_control::handoff::{Movable, Picture};
use pliant_model::Owner;
use pliant_policy::batch::order::{Charge, Shares, UserUsage};
use pliant_policy::batch::{Dump, RunningJob, Start, Submission, Waiting};
#[cfg(test)]
use proptest::prelude::*;

use super::field::*;
use super::history::TUNER;
use super::table::{conversions, message};
use super::types::AN_ESTIMATE;
use super::{Malformed, bounds, proto};

message! {
    proto::Picture <=> Picture {
        info: required("a server"),
        tuner: TUNER,
        queue: Dump {
            running: list(nested(), bounds::QUEUE_MAX).exact(),
            placed: list(nested(), bounds::QUEUE_MAX).exact(),
            line: list(nested(), bounds::QUEUE_MAX).exact(),
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

    proto::Planned <=> Waiting {
        job: JOB_ID,
        plan: required(AN_ESTIMATE),
    }

    proto::InLine <=> Submission {
        job: JOB_ID,
        procs: PROCS,
        walltime_s <=> walltime: SCALED_WALLTIME,
        submitted <=> submit: TIME,
        owner: OWNER_IF_KNOWN,
    }

    proto::Shares <=> Shares {
        since: TIME,
        users: list(nested(), bounds::QUEUE_MAX).exact(),
        running: list(nested(), bounds::QUEUE_MAX).exact(),
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
        copies: list(NAME, bounds::SERVERS_MAX),
        avoids: list(NAME, bounds::SERVERS_MAX),
    }
}

/// Whose a job is; unknown if its server does not say.
const OWNER_IF_KNOWN: Unless<Number<u64, Owner>> = absent_means(Owner::UNKNOWN, OWNER);

/// By hand: the message is that of a job in the queue, of which the head has only the shape.
impl HasMessage for Start {
    type Message = proto::InLine;

    fn to_message(&self) -> proto::InLine {
        proto::InLine {
            job: self.job.0,
            procs: PROCS.encode(&self.procs),
            walltime_s: SCALED_WALLTIME.encode(&self.walltime),
            submitted: 0,
            owner: None,
        }
    }

    fn from_message(message: proto::InLine) -> Result<Start, Malformed> {
        Ok(Start {
            job: JOB_ID.decode("job", message.job)?,
            procs: PROCS.decode("procs", message.procs)?,
            walltime: SCALED_WALLTIME.decode("walltime_s", message.walltime_s)?,
        })
    }

    #[cfg(test)]
    fn strategy() -> BoxedStrategy<Start> {
        let drawn = (JOB_ID.strategy(), PROCS.strategy(), SCALED_WALLTIME.strategy());
        drawn.prop_map(|(job, procs, walltime)| Start { job, procs, walltime }).boxed()
    }
}

conversions! { proto::InLine <=> Start; }
