//! Jobs under their users' accounts, on a host with the launcher: real accounts, which the test makes and removes, and a server that
//! runs as a user of its own.

mod isolation;
mod limits;
mod places;
mod site;
mod slurm;
mod slurm_kills;
mod unit;
mod works;
