//! Local batch policies.

/// Names of the registered local batch policies, in the order in which they are listed to users.
pub fn names() -> Vec<&'static str> {
    vec!["fcfs", "cbf", "easy", "h1", "h2", "h3", "backfill"]
}
