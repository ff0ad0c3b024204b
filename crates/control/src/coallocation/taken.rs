//! What launches have of machines and links that does not show there yet.

use std::collections::BTreeMap;

use pliant_model::Time;

use super::links::Pair;
use crate::names::Name;

/// What is taken, beside what servers say and what is measured.
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct Taken {
    /// Power of machines, in MFlop/s, by server and machine.
    pub(super) machines: BTreeMap<(Name, String), f64>,
    /// Traffic between servers.
    pub(super) flows: Vec<Flow>,
}

/// What two tasks send each other between two servers.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Flow {
    /// The servers.
    pub(super) between: Pair,
    /// In Mb/s.
    pub(super) mbps: f64,
    /// Since when both of them run; none if they are about to.
    pub(super) since: Option<Time>,
}

impl Taken {
    /// Power of a machine, in MFlop/s.
    pub(super) fn of(&self, server: &Name, machine: &str) -> f64 {
        self.machines.get(&(server.clone(), machine.to_owned())).copied().unwrap_or(0.0)
    }
}

impl Flow {
    /// Whether a measure that was made then met it: then it was of what is left beside it.
    pub(super) fn was_met(&self, at: Time) -> bool {
        self.since.is_some_and(|since| since < at)
    }
}
