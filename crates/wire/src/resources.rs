//! What jobs need besides processors.

use std::sync::Arc;

use pliant_model::{BatchOptions, Constraint, GpuCount, Gpus, Mebibytes, Memory, Resources, WORD_BYTES_MAX};

use super::field::*;
use super::table::{message, one_of};
use super::{Malformed, bounds, proto};

/// An amount of memory or disk space.
pub(super) const MEBIBYTES: Number<u32, Mebibytes> =
    Number::new("an amount in MiB", 0..=u32::MAX, Mebibytes, |amount| amount.0);
/// How many of something, of which there is at least one.
const COUNT: Number<u32, u32> = up_to("a number", u32::MAX);
/// The name of a feature, a kind of GPU or a licence.
pub(super) const RESOURCE_NAME: Text = word("the name of a resource", WORD_BYTES_MAX);

one_of! {
    proto::Memory { amount: proto::memory::Amount } <=> Memory {
        PerProcMib <=> PerProc(MEBIBYTES),
        TotalMib <=> Total(MEBIBYTES),
    } => (expected: "an amount of memory")

    proto::GpuCount { count: proto::gpu_count::Count } <=> GpuCount {
        PerProc <=> PerProc(COUNT),
        Total <=> Total(COUNT),
    } => (expected: "a number of GPUs")

    proto::Constraint { features: proto::constraint::Features } <=> Constraint {
        All(proto::constraint::Words) <=> All(words: list(RESOURCE_NAME.exact(), bounds::RESOURCE_NAMES_MAX).exact()),
        Any(proto::constraint::Words) <=> Any(words: list(RESOURCE_NAME.exact(), bounds::RESOURCE_NAMES_MAX).exact()),
    } => (expected: "features")
}

message! {
    proto::Gpus <=> Gpus {
        count: required("a number of GPUs"),
        kind: unless_empty(RESOURCE_NAME.exact()),
    }

    proto::BatchOptions <=> BatchOptions {
        partitions: list(RESOURCE_NAME.exact(), bounds::RESOURCE_NAMES_MAX),
        account: unless_empty(RESOURCE_NAME.exact()),
        qos: unless_empty(RESOURCE_NAME.exact()),
    }

    proto::Resources <=> Resources {
        memory: optional(nested()),
        gpus: optional(nested()),
        scratch_mib <=> scratch: MEBIBYTES,
        nodes: optional(COUNT),
        procs_per_node: optional(PROCS),
        procs_per_task: optional(PROCS),
        exclusive,
        constraint: optional(nested()),
        licences: map(RESOURCE_NAME.exact(), COUNT, bounds::RESOURCE_NAMES_MAX),
        batch: unless(BatchOptions::default(), nested()),
    } => (check: in_domain, fit: crate::tests::fit::resources)
}

/// What a job needs besides processors, if it needs something.
pub(super) fn needed() -> Optional<Converted<NestedMessage<Resources>, Arc<Resources>>> {
    optional(converted(nested(), Arc::new, |resources: &Arc<Resources>| Resources::clone(resources)))
}

/// The same, if it can be.
fn in_domain(resources: Resources) -> Result<Resources, Malformed> {
    match resources.check() {
        Ok(()) => Ok(resources),
        Err(error) => Err(Malformed::new(error.field(), error.expected(), error.found())),
    }
}
