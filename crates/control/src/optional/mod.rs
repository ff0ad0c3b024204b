//! Optional computations (paper 004): a user has a few mandatory requests, which have to be completed, and as many optional
//! ones as free cores can run until a deadline.
//!
//! - [`explore`] is the client's dispatcher: it finds servers and keeps their cores supplied.
//! - [`server`] queues the requests of one server; [`pliant_policy::optional`] decides which run.
//!
//! Times are in milliseconds (`TimeMs`). The simulator drives both machines over a network with and without faults
//! (`pliant_sim::optional`).
//!
//! # How live daemons drive them
//!
//! *Server* (`pliant_daemon::server`). A server configured with `[optional] cores = N` has N cores apart from its batch
//! system and a [`server::Journaled`] for them, on a thread and with a journal of its own. Each `Run` gets a supervisor of
//! its own, and `End` ends it like any job. A restarted server restores the machine from snapshot and journal, reads the
//! outcome of each started request from its folder, and sends `Ended`. Decisions follow each event at once.
//!
//! *Protocol* (`Server.Explore`). One stream for each client and server: submissions and cancellations are answered in
//! order by an [`server::Answer`], with status updates (`ReportState`) in between. A broken stream loses nothing: on a new
//! one the client submits its open requests again.
//!
//! *Client* (`pliant_client`). The library's calls are the machine's commands: `discover(max)` is `Discover`, `call_async`
//! is `Submit`, `cancel` is `CancelOne`, `cancel_all` is `Cancel`, `recall` is `Recall`, `wait_any_until` waits for the
//! next event or for `WakeAt`, and `probe` repeats a submission. A server that it cannot reach within its timeout is
//! `Lost`. The machine's state is written after each event (it is small: the open requests, and the numbers to give out
//! again), so that `explore` on the same folder resumes by `Event::Resumed`.

pub mod explore;
pub mod server;
