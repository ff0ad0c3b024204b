//! Whole federations of real daemons on the loopback address: what users see, what dies and comes back, what is
//! refused.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod harness;
#[path = "../support/schemas.rs"]
mod schemas;

mod accounts;
mod administration;
mod basics;
mod benefit;
mod centre_scripts;
mod certificates;
mod changed_cluster;
mod day;
mod directives;
mod displaced;
mod documents;
mod explorations;
mod faults;
mod handoff_calls;
mod in_place;
mod job_folders;
mod kill;
mod launches;
mod lost_journals;
mod monitoring;
mod moves;
mod new_journals;
mod oar;
mod prediction;
mod priorities;
mod renewed_signatures;
mod replanning;
mod replay;
mod requeues;
mod resources;
mod restored;
mod retention;
mod runtimes;
mod schedules;
mod script_bytes;
mod security;
mod siblings;
mod slurm;
mod slurm_faults;
mod slurm_resources;
mod slurm_siblings;
mod slurm_standby;
mod standby;
mod steps;
mod stolen_key;
mod subjobs;
mod sweeps;
mod transfers;
mod web;
mod what_if;
