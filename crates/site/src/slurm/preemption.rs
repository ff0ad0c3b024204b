//! Which partitions have jobs that Slurm stops for others: plans expect a job that runs to end by itself.

use std::collections::BTreeSet;

use super::hostlist;
use super::queue::nothing;
use super::settings::Settings;
use crate::batch_system::error::Unreadable;

const COMMAND: &str = "scontrol show partitions";

/// A partition, as far as it matters for preemption.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PartitionTier {
    name: String,
    is_default: bool,
    /// What is done to its jobs when others need their processors (`PreemptMode`): `OFF`, `REQUEUE`, `GANG,SUSPEND`.
    mode: String,
    /// Jobs of partitions with a higher one come first (`PriorityTier`).
    tier: u32,
    nodes: BTreeSet<String>,
}

/// Reads what `scontrol --oneliner show partitions` printed.
pub(super) fn read(printed: &str) -> Result<Vec<PartitionTier>, Unreadable> {
    let mut found = Vec::new();
    for line in printed.lines() {
        let settings = || line.split(' ').filter_map(|word| word.split_once('='));
        let setting = |key: &str| settings().find(|(name, _)| *name == key).map(|(_, value)| value);
        let Some(name) = setting("PartitionName") else { continue };
        let wrong = |key: &str, expected, value: &str| {
            Unreadable::new(COMMAND, &format!("{name}, {key}"), expected, value)
        };
        let mode = setting("PreemptMode").ok_or_else(|| wrong("PreemptMode", "a setting", "nothing"))?;
        let tier = setting("PriorityTier").unwrap_or("1");
        let nodes = setting("Nodes").filter(|list| !nothing(list)).and_then(hostlist::expand);
        found.push(PartitionTier {
            name: name.to_owned(),
            is_default: setting("Default") == Some("YES"),
            mode: mode.to_owned(),
            tier: tier.parse().map_err(|_| wrong("PriorityTier", "a number", tier))?,
            nodes: nodes.unwrap_or_default().into_iter().collect(),
        });
    }
    Ok(found)
}

/// The partitions of a server whose jobs can be stopped for jobs of partitions of a higher tier on the same nodes, each with what
/// is done to its jobs: `low (REQUEUE)`.
pub(super) fn stopped(partitions: &[PartitionTier], settings: &Settings) -> Vec<String> {
    let is_of_server = |one: &PartitionTier| match &settings.partition {
        Some(own) => one.name == *own,
        None => one.is_default,
    };
    let is_named = |one: &PartitionTier| settings.more_partitions.contains(&one.name);
    let yields = |one: &PartitionTier| {
        let is_before = |other: &&PartitionTier| other.tier > one.tier;
        let shares = |other: &PartitionTier| !other.nodes.is_disjoint(&one.nodes);
        one.mode != "OFF" && partitions.iter().filter(is_before).any(shares)
    };
    let own = partitions.iter().filter(|one| is_of_server(one) || is_named(one));
    own.filter(|one| yields(one)).map(|one| format!("{} ({})", one.name, one.mode)).collect()
}
