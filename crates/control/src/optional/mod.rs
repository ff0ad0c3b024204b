//! Optional computations (paper 004): users who want a few mandatory requests for certain, and as many optional ones
//! as there is room for until a deadline.
//!
//! - [`explore`] is the client's dispatcher: it finds servers and keeps them supplied.
//! - [`server`] keeps the requests of one server: which run is decided by [`pliant_policy::optional`].
//!
//! Times are in milliseconds (`TimeMs`). The simulator drives both machines over a network without and with faults
//! (`pliant_sim::optional`).
//!
//! # How live daemons are to drive them
//!
//! *Server.* A server configured with `[optional] cores = N` sets N of its processors apart from its batch system and
//! holds a [`server::Requests`] beside its [`crate::server::Server`]. The thread that owns the two tells each its own
//! events, both kinds in one journal (a second variant of the journaled entry), carries `Run` out under a supervisor of its
//! own with the core as its affinity, and `End` as it ends any process. A restarted server makes the machine again
//! from snapshot and journal, asks the folder of each request that ran what became of it, and tells `Ended`. After every
//! batch of events it tells `Due` if [`server::Requests::next_due`] has come.
//!
//! *Protocol.* Three calls, `Submit`, `Cancel` and `CancelAll`, each with the exploration's key and answered by an
//! [`server::Answer`]; and a stream on which a client that gives its exploration's key is told of every `Tell`. A broken
//! stream loses nothing: on reconnecting the client submits again what it has no answer for.
//!
//! *Client.* The library's calls are the machine's commands: `discover(service, max)` is `Discover`,
//! `call_async(server, arguments, optional)` is `Submit`, `cancel` is `CancelOne`, `cancel_all` is `Cancel`,
//! `wait_any_until(timeout)` waits for the next event or for `WakeAt`, `wait_all` for `Done`, and `probe` repeats a
//! submission. The library sends a submission until it is answered; a server that it cannot reach for longer than its
//! patience is `Lost`. The state of the machine is written after each event (it is small: what is on its way, and the
//! numbers that were given back), so that `explore` on the same folder resumes by `Event::Resumed`.

pub mod explore;
pub mod server;
