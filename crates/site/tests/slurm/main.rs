//! The adapter on real Slurm clusters of the tests' own: its commands are carried out, its answers are true, and a controller
//! that is killed or hangs is only a delay. Skipped, with a note, where such clusters cannot be started.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod cluster;

mod accounts;
mod arrays;
mod jobs;
mod nodes;
mod resources;
mod silence;
mod unanswered;
mod withdrawn;
