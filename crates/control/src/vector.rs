//! Estimation vectors: what a server would give a request now, as it comes up the tree of agents (paper 004,
//! section 4.2; the estimation vectors of GridRPC middleware).

use std::collections::BTreeSet;

use pliant_model::{Estimate, Procs, Speed};
use pliant_policy::mapping::earliest_first;
use serde::{Deserialize, Serialize};

use crate::names::Name;

/// One server's answer to a question.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Vector {
    /// The server.
    pub server: Name,
    /// Where clients reach it, `host:port`.
    pub address: String,
    /// Decides between equal completions: the lower first. Given by the federation's operators; 0 if not.
    pub rank: u32,
    /// Best number of processors, its walltime, and the start: with them the ECT.
    pub estimate: Estimate,
    /// Speed of its processors.
    pub speed: Speed,
    /// How many it has.
    pub procs: Procs,
    /// How many of them are free now.
    pub free: Procs,
    /// How many jobs wait.
    pub queue_length: u32,
}

impl Vector {
    /// What decides between vectors: see [`earliest_first`].
    fn offer(&self) -> ((u32, &Name), Estimate) {
        ((self.rank, &self.server), self.estimate)
    }
}

/// Sorts by completion (MCT), ties by rank and then by name, and keeps the `best` first ones: what an agent passes
/// up.
pub fn cut(vectors: &mut Vec<Vector>, best: usize) {
    vectors.sort_by(|a, b| earliest_first(&a.offer(), &b.offer()));
    // A server that has just moved from one agent to another may have answered through both.
    let mut seen = BTreeSet::new();
    vectors.retain(|vector| seen.insert(vector.server.clone()));
    vectors.truncate(best.max(1));
}
