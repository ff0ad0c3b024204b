//! What was seen of a cluster, as lines of a file.

use std::collections::BTreeMap;

use pliant_control::listing::Listing;
use pliant_model::{Span, Time};
use serde::{Deserialize, Serialize};

/// A line of a recording.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Line {
    /// What it is a recording of.
    ClusterConfiguration {
        /// Between two backfill passes.
        interval: Span,
        /// What the local users did.
        load: String,
    },
    /// What a server would have seen.
    Listed(Listing),
    /// When each job really started, by its id.
    Began(BTreeMap<String, Time>),
}
