//! Estimation vectors: what a server would give a request now, as it comes up the tree of agents (paper 004,
//! section 4.2; the estimation vectors of GridRPC middleware).

use pliant_model::{Estimate, Procs, Speed};
use pliant_policy::completion::{Offer, merge_offers};
use serde::{Deserialize, Serialize};

use crate::names::Name;

/// One server's answer to a question.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EstimationVector {
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

impl EstimationVector {
    /// What decides between vectors.
    fn offer(&self) -> Offer<&Name> {
        Offer { rank: self.rank, server: &self.server, estimate: self.estimate }
    }
}

/// Keeps the `best` most preferred vectors, the most preferred first ([`merge_offers`]): what an agent passes up, and the
/// order in which a client goes through them.
pub fn cut(vectors: &mut Vec<EstimationVector>, best: usize) {
    let offers: Vec<Offer<&Name>> = vectors.iter().map(EstimationVector::offer).collect();
    *vectors = merge_offers(&offers, best).into_iter().map(|at| vectors[at].clone()).collect();
}
