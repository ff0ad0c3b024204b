//! What others have published, on runs that are small enough for a test: the claims of the papers (`cargo xtask claims` prints
//! their figures), the figures of other studies, and the schedules of other simulators.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "logs, campaigns and schedules are files"
)]

mod decisions;
mod literature;
mod oracle;
mod paper_000;
mod paper_001;
mod paper_002;
mod paper_003;
mod paper_004;
