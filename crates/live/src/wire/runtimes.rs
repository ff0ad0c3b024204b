//! What an agent has learned of runtimes.

use pliant_control::agent::RuntimeOf;
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
}

impl From<&Runtimes> for proto::RuntimesReply {
    fn from(runtimes: &Runtimes) -> proto::RuntimesReply {
        let Runtimes { known, predicted, error_thousandths } = runtimes;
        proto::RuntimesReply {
            known: write::list(known, bounds::RUNTIMES_MAX),
            predicted: *predicted,
            error_thousandths: *error_thousandths,
        }
    }
}

impl TryFrom<proto::RuntimesReply> for Runtimes {
    type Error = Malformed;
    fn try_from(message: proto::RuntimesReply) -> Result<Runtimes, Malformed> {
        let proto::RuntimesReply { known, predicted, error_thousandths } = message;
        let known = read::list("known", known, bounds::RUNTIMES_MAX, RuntimeOf::try_from)?;
        Ok(Runtimes { known, predicted, error_thousandths })
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
        let level = message.level.parse::<Level>();
        Ok(RuntimeOf {
            level: level.map_err(|error| Malformed::text("level", error.what, &error.found))?,
            name: read::optional_text("name", message.name)?,
            jobs: message.jobs,
            mean: read::span_ms("mean_ms", message.mean_ms)?,
            deviation: read::span_ms("deviation_ms", message.deviation_ms)?,
            median: read::span_ms("median_ms", message.median_ms)?,
            p95: read::span_ms("p95_ms", message.p95_ms)?,
        })
    }
}
