//! Agents, servers and clients of a federation as state machines without input or output (paper 000, section 3.1 and Figure
//! 1; paper 004, section 4.2).
//!
//! Each machine takes an event and returns commands: `on(now, event) -> commands`. The live daemons carry the commands out
//! over sockets, files and processes; the simulator over a simulated network and simulated processes. No machine reads a
//! clock, so a replayed journal of events gives the same commands ([`replay`]).
//!
//! - [`agent`] finds servers: a query goes down the hierarchy, estimation vectors come up, and each level keeps the best.
//! - [`server`] stands in front of one cluster: it estimates, admits, and keeps the jobs it admitted.
//! - [`batch`] is the batch system behind a server; [`batch::embedded`] is Pliant's own, [`batch::external`] the snapshot
//!   of an external one.
//! - [`local`] has the local jobs of a cluster, for replays.
//! - [`handoff`] moves a waiting job from one server to another, as agents propose.
//! - [`optional`] adds paper 004: a server's queue of mandatory and optional requests, and a client's dispatcher.
//! - [`multi_job`] adds paper 002: a client that spreads very many instances of a service over servers.
//! - [`coallocation`] adds paper 003: an application whose tasks run on several clusters at once, or not at all.
//! - [`audit`] is the record of who did what.
//! - [`signed`] is what users and servers sign, and what must match.
//! - [`client`] takes one submission through discovery and admission to a job or a definite failure.

pub mod access;
pub mod agent;
pub mod audit;
pub mod batch;
pub mod client;
pub mod coallocation;
pub mod environment;
pub mod estimation_vector;
pub mod exact_text;
pub mod explain;
pub mod handoff;
pub mod handoff_chain;
pub mod job;
pub mod listing;
pub mod local;
pub mod masters;
pub mod multi_job;
pub mod names;
pub mod optional;
pub mod payload;
pub mod priority_file;
pub mod reason;
pub mod replay;
pub mod runtime_sample;
pub mod server;
pub mod server_info;
pub mod shared_folder;
pub mod signed;

/// True if a number is 0: serialization then omits the field.
pub fn is_zero(number: &u32) -> bool {
    *number == 0
}
