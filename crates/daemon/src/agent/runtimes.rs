//! What the agent has learned of runtimes, for a caller that asks and for `/metrics`.

use pliant_control::access::Caller;
use pliant_control::agent::Agent;
use pliant_policy::runtimes::{Errors, Level};
use pliant_telemetry::names::{RUNTIME_ERROR_PERCENT, RUNTIME_WITHIN_PERCENT};
use pliant_wire::Runtimes;

/// What a caller may see: of users only themselves, unless they are an operator.
pub(super) fn known(agent: &mut Agent, caller: &Caller) -> Runtimes {
    let own = caller.user.to_string();
    let mut known = agent.runtimes();
    known.retain(|one| caller.operator || one.level != Level::User || one.name.as_ref() == Some(&own));
    let errors = agent.runtime_errors();
    let error_thousandths = error_share(&errors).map_or(0, |share| (1_000.0 * share).round() as u64);
    let quantile = agent.quantile_errors();
    Runtimes {
        known,
        predicted: errors.jobs,
        error_thousandths,
        calibrated: quantile.jobs,
        within: quantile.within,
    }
}

/// A job has ended, and what was predicted for it has been compared.
pub(super) fn observe(agent: &Agent) {
    if let Some(share) = error_share(&agent.runtime_errors()) {
        metrics::gauge!(RUNTIME_ERROR_PERCENT).set(100.0 * share);
    }
    let quantile = agent.quantile_errors();
    if quantile.jobs > 0 {
        metrics::gauge!(RUNTIME_WITHIN_PERCENT).set(100.0 * quantile.within as f64 / quantile.jobs as f64);
    }
}

/// The mean error without its sign, of the mean runtime; none of nothing.
fn error_share(errors: &Errors) -> Option<f64> {
    (errors.runtimes > 0).then(|| errors.absolute as f64 / errors.runtimes as f64)
}
