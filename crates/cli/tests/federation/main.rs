//! Whole federations of real daemons on the loopback address: what users see, what dies and comes back, what is
//! refused.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod harness;

mod basics;
mod copies;
mod explorations;
mod faults;
mod handing_over;
mod kill;
mod launches;
mod monitoring;
mod moves;
mod oar;
mod parts;
mod prediction;
mod renewed;
mod replay;
mod runtimes;
mod security;
mod slurm;
mod slurm_copies;
mod slurm_faults;
mod standby;
mod steps;
mod sweeps;
mod together;
mod transfers;
mod what_if;
