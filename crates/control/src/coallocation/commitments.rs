//! Capacity of machines and links that is committed to launches, and that loads and measurements do not show yet.

use std::collections::BTreeMap;

use pliant_model::Time;

use super::links::ServerPair;
use crate::names::Name;

/// Committed capacity, on top of reported loads and measured bandwidths.
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct Commitments {
    /// The power of machines, in MFlop/s, by server and machine.
    pub(super) machines: BTreeMap<(Name, String), f64>,
    /// The traffic between servers.
    pub(super) flows: Vec<Flow>,
}

/// The traffic of two tasks between two servers.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Flow {
    /// The servers.
    pub(super) between: ServerPair,
    /// The bandwidth, in Mb/s.
    pub(super) mbps: f64,
    /// Since when both tasks run; none if they are about to.
    pub(super) since: Option<Time>,
}

impl Commitments {
    /// The committed power of a machine, in MFlop/s.
    pub(super) fn committed_mflops(&self, server: &Name, machine: &str) -> f64 {
        self.machines.get(&(server.clone(), machine.to_owned())).copied().unwrap_or(0.0)
    }
}

impl Flow {
    /// True if a measurement at `at` included this traffic: then it measured the remaining bandwidth.
    pub(super) fn is_in_measurement(&self, at: Time) -> bool {
        self.since.is_some_and(|since| since < at)
    }
}
