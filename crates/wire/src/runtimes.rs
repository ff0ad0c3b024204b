//! What an agent has learned of runtimes.

use pliant_control::agent::RuntimeSummary;
use pliant_control::multi_job::Expectation;
use pliant_policy::runtimes::Level;

use super::field::*;
use super::table::message;
use super::{Malformed, bounds, proto};

/// What jobs have in common whose runtimes are known.
pub(super) const LEVEL: NamedValue<Level> = named("level of categories", Level::ALL);

message! {
    /// How long jobs run, and how far predictions of that were off.
    #[derive(Clone, PartialEq, Debug, Default)]
    proto::RuntimesReply <=> pub struct Runtimes {
        /// Of services, users and all.
        known: Vec<RuntimeSummary> = list(nested(), bounds::RUNTIMES_MAX),
        /// How many jobs were predicted before they ended.
        predicted: u64,
        /// How far that was off on average, without its sign, in thousandths of their mean runtime.
        error_thousandths: u64,
        /// For how many jobs the [`CALIBRATED`](pliant_control::agent::CALIBRATED) quantile was predicted before they ended.
        calibrated: u64,
        /// How many of them ran no longer than that.
        within: u64,
    } => (check: within_calibrated)
}

message! {
    proto::RuntimeOf <=> RuntimeSummary {
        level: LEVEL,
        name: optional(TEXT),
        jobs,
        mean_ms <=> mean: SPAN_MS,
        deviation_ms <=> deviation: SPAN_MS,
        median_ms <=> median: SPAN_MS,
        p95_ms <=> p95: SPAN_MS,
    }

    proto::ExpectedRuntime <=> Expectation {
        runtime_ms <=> runtime: SPAN_MS,
        level: LEVEL,
        jobs,
    }
}

/// Runtimes of which no more were within the quantile than it was predicted for.
fn within_calibrated(runtimes: Runtimes) -> Result<Runtimes, Malformed> {
    Ok(Runtimes { within: runtimes.within.min(runtimes.calibrated), ..runtimes })
}

/// What an agent expects of a service.
///
/// # Errors
///
/// [`Malformed`], with a path from [`proto::ExpectationReply`].
pub fn expectation_reply(reply: proto::ExpectationReply) -> Result<Option<Expectation>, Malformed> {
    optional(nested()).decode("expected", reply.expected)
}
