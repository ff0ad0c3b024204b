//! Whole federations of real daemons on the loopback address: what users see, what dies and comes back, what is
//! refused.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod harness;

mod basics;
mod faults;
mod kill;
mod monitoring;
mod moves;
mod prediction;
mod renewed;
mod replay;
mod security;
mod slurm;
mod standby;
mod together;
mod transfers;
