//! Agents, servers and clients of a federation as state machines without input or output (paper 000, section
//! 3.1 and Figure 1; paper 004, section 4.2).
//!
//! Each machine is told what happened and answers with what is to be done: `on(now, event) -> commands`. The
//! live daemons carry the commands out over sockets, files and processes; the simulator over a simulated
//! network and simulated processes. Nothing here reads a clock, so a journal of events, told again, gives the
//! same commands ([`replay`]).
//!
//! - [`agent`] finds servers: a question goes down the tree, estimation vectors come up and are cut to the best.
//! - [`server`] stands in front of one cluster: it estimates, admits, and keeps the jobs it admitted.
//! - [`batch`] is the batch system behind a server; [`batch::embedded`] is Pliant's own, [`batch::external`] the snapshot of an external one.
//! - [`local`] is what is kept of the jobs of local users, for replays.
//! - [`handoff`] is how a waiting job goes from one server to another; agents propose it.
//! - [`optional`] is what paper 004 adds: a server's queue of mandatory and optional requests, and a client's dispatcher.
//! - [`multi_job`] is what paper 002 adds: a client that spreads very many instances of a service over servers.
//! - [`coallocation`] is what paper 003 adds: an application of tasks that run on several clusters at once, or not at all.
//! - [`client`] takes one submission through discovery and admission to a handle, or to a clear end.

pub mod access;
pub mod agent;
pub mod batch;
pub mod client;
pub mod coallocation;
pub mod explain;
pub mod handoff;
pub mod job;
pub mod listing;
pub mod local;
pub mod multi_job;
pub mod names;
pub mod optional;
pub mod payload;
pub mod reason;
pub mod replay;
pub mod runtime_sample;
pub mod server;
pub mod server_info;
pub mod vector;

/// Whether a number is left out where data is written.
pub fn is_zero(number: &u32) -> bool {
    *number == 0
}
