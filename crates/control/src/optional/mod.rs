//! Optional computations (paper 004): users who want a few mandatory requests for certain, and as many optional ones
//! as there is room for until a deadline.
//!
//! - [`explore`] is the client's dispatcher: it finds servers and keeps them supplied.
//! - [`server`] keeps the requests of one server: which run is decided by [`pliant_policy::optional`].
//!
//! Times are in milliseconds (`TimeMs`). The simulator drives both machines over a network without and with faults
//! (`pliant_sim::optional`).
//!
//! # How live daemons drive them
//!
//! *Server* (`pliant_daemon::server`). A server configured with `[optional] cores = N` has N cores beside its batch system and a
//! [`server::Journaled`] for them, on a thread and with a journal of its own. `Run` is carried out under a supervisor of
//! its own, `End` ends it as any job. A restarted server makes the machine again from snapshot and journal, asks the
//! folder of each request that ran what became of it, and tells `Ended`. Decisions follow each event at once.
//!
//! *Protocol* (`Server.Explore`). One stream for each client and server: submissions and cancellations are answered in
//! their turn by an [`server::Answer`], and every `Tell` comes between. A stream that breaks loses nothing: on another one
//! the client submits again what it has no end of.
//!
//! *Client* (`pliant_client`). The library's calls are the machine's commands: `discover(max)` is `Discover`,
//! `call_async` is `Submit`, `cancel` is `CancelOne`, `cancel_all` is `Cancel`, `recall` is `Recall`, `wait_any_until` waits for the next event or
//! for `WakeAt`, and `probe` repeats a submission. A server that it cannot reach for longer than its timeout is `Lost`.
//! The state of the machine is written after each event (it is small: what is on its way, and the numbers that were given
//! back), so that `explore` on the same folder resumes by `Event::Resumed`.

pub mod explore;
pub mod server;
