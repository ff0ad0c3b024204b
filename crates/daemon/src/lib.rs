//! The daemons of a federation: agents ([`agent`]) and servers ([`server`]). Each runs its machine of `pliant-control` in the same
//! [`host`], which recovers it, journals what it is notified of, and carries out what it decides.

pub mod agent;
mod audit;
pub mod backup;
mod call_log;
mod calling;
pub mod config;
mod denials;
pub mod gate;
pub mod host;
pub mod monitoring;
pub mod server;
mod signatures;
#[cfg(test)]
mod test_job;
mod uplink;
