//! What an agent has learned of runtimes.

use pliant_control::agent::RuntimeOf;
use pliant_control::multi_job::Expectation;
use pliant_policy::runtimes::Level;

use super::{Malformed, bounds, proto, read, write};

/// How long jobs run, and how far predictions of that were off.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Runtimes {
    /// Of services, users and all.
    pub known: Vec<RuntimeOf>,
    /// How many jobs were predicted before they ended.
    pub predicted: u64,
    /// How far that was off on average, without its sign, in thousandths of their mean runtime.
    pub error_thousandths: u64,
    /// For how many jobs the [`CALIBRATED`](pliant_control::agent::CALIBRATED) quantile was predicted before they ended.
    pub calibrated: u64,
    /// How many of them ran no longer than that.
    pub within: u64,
}

impl From<&Runtimes> for proto::RuntimesReply {
    fn from(runtimes: &Runtimes) -> proto::RuntimesReply {
        let Runtimes { known, predicted, error_thousandths, calibrated, within } = runtimes;
        proto::RuntimesReply {
            known: write::list(known, bounds::RUNTIMES_MAX),
            predicted: *predicted,
            error_thousandths: *error_thousandths,
            calibrated: *calibrated,
            within: *within,
        }
    }
}

impl TryFrom<proto::RuntimesReply> for Runtimes {
    type Error = Malformed;
    fn try_from(message: proto::RuntimesReply) -> Result<Runtimes, Malformed> {
        let proto::RuntimesReply { known, predicted, error_thousandths, calibrated, within } = message;
        let known = read::list("known", known, bounds::RUNTIMES_MAX, RuntimeOf::try_from)?;
        Ok(Runtimes { known, predicted, error_thousandths, calibrated, within: within.min(calibrated) })
    }
}

impl From<&RuntimeOf> for proto::RuntimeOf {
    fn from(one: &RuntimeOf) -> proto::RuntimeOf {
        let RuntimeOf { level, name, jobs, mean, deviation, median, p95 } = one;
        proto::RuntimeOf {
            level: level.name().to_owned(),
            name: name.as_deref().map(|name| write::text(name, bounds::TEXT_BYTES_MAX)),
            jobs: *jobs,
            mean_ms: write::span_ms(*mean),
            deviation_ms: write::span_ms(*deviation),
            median_ms: write::span_ms(*median),
            p95_ms: write::span_ms(*p95),
        }
    }
}

impl TryFrom<proto::RuntimeOf> for RuntimeOf {
    type Error = Malformed;
    fn try_from(message: proto::RuntimeOf) -> Result<RuntimeOf, Malformed> {
        Ok(RuntimeOf {
            level: level("level", &message.level)?,
            name: read::optional_text("name", message.name)?,
            jobs: message.jobs,
            mean: read::span_ms("mean_ms", message.mean_ms)?,
            deviation: read::span_ms("deviation_ms", message.deviation_ms)?,
            median: read::span_ms("median_ms", message.median_ms)?,
            p95: read::span_ms("p95_ms", message.p95_ms)?,
        })
    }
}

impl From<&Expectation> for proto::ExpectedRuntime {
    fn from(expected: &Expectation) -> proto::ExpectedRuntime {
        let Expectation { runtime, level, jobs } = expected;
        proto::ExpectedRuntime {
            level: level.name().to_owned(),
            jobs: *jobs,
            runtime_ms: write::span_ms(*runtime),
        }
    }
}

impl TryFrom<proto::ExpectedRuntime> for Expectation {
    type Error = Malformed;
    fn try_from(message: proto::ExpectedRuntime) -> Result<Expectation, Malformed> {
        Ok(Expectation {
            runtime: read::span_ms("runtime_ms", message.runtime_ms)?,
            level: level("level", &message.level)?,
            jobs: message.jobs,
        })
    }
}

/// What an agent expects of a service.
///
/// # Errors
///
/// [`Malformed`], with a path from [`proto::ExpectationReply`].
pub fn expectation_reply(reply: proto::ExpectationReply) -> Result<Option<Expectation>, Malformed> {
    expectation("expected", reply.expected)
}

/// An expectation in a field that may be left out.
pub(super) fn expectation(
    field: &str,
    message: Option<proto::ExpectedRuntime>,
) -> Result<Option<Expectation>, Malformed> {
    message.map(Expectation::try_from).transpose().map_err(|malformed| malformed.under(field))
}

pub(super) fn level(field: &str, found: &str) -> Result<Level, Malformed> {
    found.parse::<Level>().map_err(|error| Malformed::text(field, error.what, &error.found))
}
