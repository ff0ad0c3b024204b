//! The live federation: sockets, certificates, journals, processes. The only crate that touches the outside;
//! decisions are made in `pliant-control` and `pliant-policy`.

pub mod agent;
mod calling;
pub mod client;
mod commands;
pub mod config;
pub mod daemon;
pub mod gate;
pub mod identity;
pub mod journal;
pub mod oar;
pub mod processes;
pub mod server;
pub mod services;
pub mod slurm;
pub mod staging;
pub mod telemetry;
mod together;
mod uplink;
pub mod wire;
