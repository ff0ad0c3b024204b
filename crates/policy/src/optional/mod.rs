//! Optional computations: which requests of which users a server runs (paper 004, section 4.1.1; spec A.4.2).
//!
//! Users have a few *mandatory* requests, which have to be completed, and many *optional* ones, which improve
//! their results until a deadline. A server orders the requests it has by five rules:
//!
//! 1. mandatory before optional;
//! 2. started before not started, so that only a mandatory request ever ends a running optional one, which returns
//!    to the queue;
//! 3. mandatory ones as they came;
//! 4. optional ones by what their users have had on this server ([`Fairness`] says in which sense);
//! 5. by lot.
//!
//! The first of this order, as many as there are cores, are to run ([`Queue::decide`]). [`Order::Fcfs`] is the
//! baseline: one line, nothing is ever ended. Times are in milliseconds, as requests may take no longer than a second.
//!
//! Beyond the paper: several cores, weighted users, and a grace period in which a mandatory request waits for an
//! optional one that is about to complete, if that leaves it time enough before its deadline. Mandatory requests that wait may
//! be moved to better servers ([`reallocate`]), by what servers expect of themselves ([`Queue::prospect`]).
//!
//! Which server gets which request of a user is decided by the [`Dispatcher`].

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
