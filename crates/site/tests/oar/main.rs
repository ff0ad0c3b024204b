//! The OAR adapter on a real cluster: jobs and their ends, the size that OAR chooses, withdrawals and their races, and
//! what comes of a server or a database that does not answer.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod cluster;
mod jobs;
mod silence;
mod withdrawn;
