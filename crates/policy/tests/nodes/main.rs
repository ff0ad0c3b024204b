//! Tests of plans of external clusters: compared with conservative backfilling where nodes make no difference, with
//! what any plan must keep, and against what real Slurm clusters announced and did.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod expected;
mod golden;
mod properties;
mod reservations;
mod reserved;
mod resources;
mod restored;
mod scheduler;
mod situation;
mod sizes;
