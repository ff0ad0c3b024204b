//! Which children an agent asks in a discovery, and in which order.
//!
//! Each child keeps a [`Summary`] with its parent: bounds on when work could complete on its servers. From it the agent bounds the
//! completion of a request there before it asks ([`BoundedRequest`]), asks the children with the best bounds first, and stops when no
//! other child could be among the best ([`Candidates`]). A child without a summary is asked in any case. The federation of a simulation
//! or of a reallocation cycle does the same with its clusters ([`crate::federation`]), by the same order of bounds ([`BoundOrder`]).
//!
//! With summaries that are right, the result is that of asking all children (there is a test). Summaries may be stale, lost or wrong:
//! then a discovery may miss a better server, and the bounds still decide nothing else, since servers check each submission.

mod bound_order;
mod candidates;
mod reports;
mod services;
mod similar;
mod summary;
#[cfg(test)]
mod tests;

pub use bound_order::BoundOrder;
pub use candidates::{Candidates, REFUSING_MAX};
pub use reports::{ReportRule, SummaryReports};
pub use services::{SERVICES_MAX, ServiceSet};
pub use summary::{BoundedRequest, ClusterBounds, GROUPS_MAX, Summary};
