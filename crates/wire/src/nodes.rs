//! The snapshot of a cluster with an external batch system, as a server shows it to agents.

use pliant_model::Mebibytes;
use pliant_policy::nodes::{
    AllocatedJob, ClusterSnapshot, Needs, Node, NodeShare, Pending, Reserve, Rules, Shape,
};

use super::field::*;
use super::table::message;
use super::{bounds, proto};

/// How many passes are planned at most.
const PASSES_MAX: u32 = 10_000;

/// A setting of a batch system.
fn setting() -> Number<i64, pliant_model::Span> {
    seconds(0..=*bounds::TIME_S.end())
}

message! {
    proto::ClusterSnapshot <=> ClusterSnapshot {
        nodes: list(nested(), bounds::QUEUE_MAX),
        running: list(nested(), bounds::QUEUE_MAX),
        pending: list(nested(), bounds::QUEUE_MAX),
        rules: required("how the batch system plans"),
        kinds = Vec::new(),
        licences = Vec::new(),
        default_memory = Mebibytes::ZERO,
    }

    proto::SnapshotNode <=> Node {
        name: text(bounds::NAME_BYTES_MAX),
        cores: PROCS_OR_NONE,
        up,
        taken: optional(PROCS_OR_NONE),
        memory = Mebibytes::ZERO,
        gpus = 0,
        scratch = Mebibytes::ZERO,
        kind = 0,
    }

    proto::Holder <=> AllocatedJob {
        job: JOB_ID,
        cores: PROCS_OR_NONE,
        on: list(nested(), bounds::QUEUE_MAX),
        end: TIME,
        expected_end <=> expected: optional(TIME),
        needs = Needs::NONE,
    }

    proto::holder::Share <=> NodeShare {
        node,
        cores: optional(PROCS_OR_NONE),
        gpus = 0,
    }

    proto::PendingJob <=> Pending {
        job: JOB_ID,
        shape: Shape { cores: PROCS, nodes: optional(as_is()), per_node: PROCS, exclusive, needs = Needs::NONE },
        walltime_s <=> walltime: SCALED_WALLTIME,
        expected_s <=> expected: optional(SCALED_WALLTIME),
        begin: optional(TIME),
        blocked,
        published = None,
    }

    proto::PlanRules <=> Rules {
        resolution_s <=> resolution: setting(),
        window_s <=> window: setting(),
        strict_holes,
        reserve: named("a kind of reservation", Reserve::ALL),
        whole_nodes,
        walltime_unit_s <=> walltime_unit: setting(),
        grace_s <=> grace: setting(),
        pause_s <=> pause: setting(),
        interval_s <=> interval: setting(),
        passes: number("a number of passes", 0..=PASSES_MAX),
        published = false,
    }
}
