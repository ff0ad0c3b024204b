//! Optional computations: which requests of which users a server runs (paper 004, section 4.1.1).
//!
//! Users have a few *mandatory* requests, which must be completed, and many *optional* ones, which improve their
//! results until a deadline. A server orders its requests by five rules:
//!
//! 1. mandatory before optional;
//! 2. started before waiting, so that only a mandatory request ends a running optional one, which is requeued;
//! 3. mandatory requests in order of arrival;
//! 4. optional requests by the usage of their users on this server ([`Fairness`] defines it);
//! 5. at random.
//!
//! The first requests of this order, as many as there are cores, run ([`Queue::decide`]). [`Order::Fcfs`] is the
//! baseline: order of arrival, no run is ended. Times are in milliseconds, since requests may be shorter than a second.
//!
//! Beyond the paper: several cores, weighted users, and a grace period in which a mandatory request waits for an
//! optional one that is about to complete, if its deadline permits. Waiting mandatory requests may move to better servers
//! ([`reallocate`]) by the servers' forecasts ([`Queue::prospect`]).
//!
//! The [`Dispatcher`] decides which server gets which request of a user.

mod accounts;
mod dispatcher;
mod queue;
mod reallocation;
#[cfg(test)]
mod tests;

pub use accounts::Fairness;
pub use dispatcher::{
    Dispatch, Dispatcher, NextMandatory, ObsoleteRequest, Offer, Placed, Plan, Prospects, RunElsewhere,
    draw_servers,
};
pub use queue::{
    Cancelled, Decision, Kind, Order, Prospect, Queue, Request, RequestId, RunOutcome, Running, Share,
    UserId, unfairness,
};
pub use reallocation::{Move, Reallocation, Waiting, reallocate};
