//! Estimation vectors: a server's estimate for a request, as it comes up the hierarchy of agents (paper 004, section 4.2;
//! the estimation vectors of GridRPC middleware).

use pliant_model::{Estimate, Procs, Speed};
use pliant_policy::completion::{Offer, merge_offers};
use serde::{Deserialize, Serialize};

use crate::names::Name;

/// A server's answer to a discovery query.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EstimationVector {
    /// The server.
    pub server: Name,
    /// The server's address, `host:port`.
    pub address: String,
    /// The lower rank comes first among equal completions. Operators set it; 0 by default.
    pub rank: u32,
    /// The best number of processors with its walltime and start: together the ECT.
    pub estimate: Estimate,
    /// Speed of its processors.
    pub speed: Speed,
    /// The number of its processors.
    pub procs: Procs,
    /// The number of free processors now.
    pub free: Procs,
    /// The number of waiting jobs.
    pub queue_length: u32,
    /// The partition of its batch system that the estimate is of, if the request names partitions or several are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
}

impl EstimationVector {
    /// The fields that decide the order.
    pub(crate) fn offer(&self) -> Offer<&Name> {
        Offer { rank: self.rank, server: &self.server, estimate: self.estimate }
    }
}

/// Keeps the `best` most preferred vectors, in order of preference ([`merge_offers`]). An agent passes these up, and a
/// client tries servers in this order.
pub fn keep_best(vectors: &mut Vec<EstimationVector>, best: usize) {
    let offers: Vec<Offer<&Name>> = vectors.iter().map(EstimationVector::offer).collect();
    *vectors = merge_offers(&offers, best).into_iter().map(|at| vectors[at].clone()).collect();
}
