//! The adapter on real Slurm clusters of the tests' own: what it asks is done, what it is told is so, and a controller
//! that is killed or hangs is only a delay. Left out, with a note, where such clusters cannot be had.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod cluster;

mod accounts;
mod arrays;
mod jobs;
mod nodes;
mod silence;
mod unanswered;
mod withdrawn;
