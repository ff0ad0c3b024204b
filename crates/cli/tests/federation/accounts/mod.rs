//! Jobs under their users' accounts, on a host with the launcher: real accounts, which the test makes and removes, and a server that
//! runs as a user of its own.

mod emptying;
mod ends;
mod isolation;
mod limits;
mod mapping;
mod oar;
mod places;
mod ports;
pub(crate) mod site;
pub(crate) mod slurm;
mod slurm_kills;
mod slurm_queues;
mod tracer;
mod unit;
mod works;
