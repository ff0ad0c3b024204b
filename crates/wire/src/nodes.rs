//! The snapshot of a cluster with an external batch system, as a server shows it to agents.

use pliant_policy::nodes::{
    AdvanceReservation, AllocatedJob, ClusterSnapshot, KINDS_MAX, KindSet, Licence, Needs, Node, NodeKind,
    NodeShare, Pending, Reserve, Rules, Shape,
};

use super::field::*;
use super::resources::MEBIBYTES;
use super::table::message;
use super::{bounds, proto};

/// How many passes are planned at most.
const PASSES_MAX: u32 = 10_000;

/// The position of a kind of nodes.
const A_KIND: Number<u32, u8> =
    Number::new("the position of a kind of nodes", 0..=63, |kind| kind as u8, |kind| *kind as u32);

/// A set of kinds, as those that are not in it.
fn kind_set() -> impl FieldType<Wire = u64, Value = KindSet> {
    converted(as_is(), |excluded: u64| KindSet(!excluded), |kinds: &KindSet| !kinds.0)
}

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
        kinds: list(nested(), KINDS_MAX),
        licences: list(nested(), bounds::RESOURCE_NAMES_MAX),
        default_memory_mib <=> default_memory: MEBIBYTES,
        default_memory_per_node_mib <=> default_memory_per_node: MEBIBYTES,
        takes_all_memory,
        reserved: list(nested(), bounds::QUEUE_MAX),
        other_kinds <=> own_kinds: kind_set(),
    }

    proto::AdvanceReservation <=> AdvanceReservation {
        from: TIME,
        until: TIME,
        on: list(nested(), bounds::QUEUE_MAX),
        licences: list(nested(), bounds::RESOURCE_NAMES_MAX),
    }

    proto::NodeKind <=> NodeKind {
        features: list(text(bounds::NAME_BYTES_MAX), bounds::RESOURCE_NAMES_MAX),
        gpu_kind: unless_empty(text(bounds::NAME_BYTES_MAX)),
    }

    proto::Licence <=> Licence {
        name: text(bounds::NAME_BYTES_MAX),
        count,
    }

    proto::Needs <=> Needs {
        memory_per_core_mib <=> memory_per_core: MEBIBYTES,
        memory_max_mib <=> memory_max: optional(MEBIBYTES),
        memory_per_node_mib <=> memory_per_node: MEBIBYTES,
        gpus_per_core,
        gpus_per_node,
        gpus,
        scratch_per_node_mib <=> scratch_per_node: MEBIBYTES,
        cores_per_node_max <=> most_per_node: optional(PROCS),
        excluded_kinds <=> kinds: kind_set(),
        licences: list(nested(), bounds::RESOURCE_NAMES_MAX),
        scratch_size_mib <=> scratch_size: MEBIBYTES,
        cores_per_task: optional(PROCS),
    }

    proto::LicenceUnits <=> (u32, u32) (licence, count)

    proto::SnapshotNode <=> Node {
        name: text(bounds::NAME_BYTES_MAX),
        cores: PROCS_OR_NONE,
        up,
        taken: optional(PROCS_OR_NONE),
        memory_mib <=> memory: MEBIBYTES,
        gpus,
        scratch_mib <=> scratch: MEBIBYTES,
        kind: A_KIND,
    }

    proto::Holder <=> AllocatedJob {
        job: JOB_ID,
        cores: PROCS_OR_NONE,
        on: list(nested(), bounds::QUEUE_MAX),
        end: TIME,
        expected_end <=> expected: optional(TIME),
        needs: unless(Needs::NONE, nested()),
    }

    proto::holder::Share <=> NodeShare {
        node,
        cores: optional(PROCS_OR_NONE),
        gpus,
    }

    proto::PendingJob <=> Pending {
        job: JOB_ID,
        shape: Shape {
            cores: PROCS,
            nodes: optional(as_is()),
            per_node: PROCS,
            exclusive,
            needs: unless(Needs::NONE, nested()),
        },
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
        memory_in_parts,
        resources_by_node,
        scratch_by_size,
        published = false,
    }
}
