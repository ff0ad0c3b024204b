//! What an agent has learned of runtimes.

use pliant_control::agent::RuntimeOf;
use pliant_policy::runtimes::Level;

use super::super::super::Runtimes;
use super::*;

pub(in super::super) fn runtimes() -> impl Strategy<Value = Runtimes> {
    let level = select(Level::ALL);
    let one = (level, option::of("[a-z]{1,9}"), any::<u64>(), span_ms(), span_ms(), span_ms(), span_ms());
    let one = one.prop_map(|(level, name, jobs, mean, deviation, median, p95)| RuntimeOf {
        level,
        name,
        jobs,
        mean,
        deviation,
        median,
        p95,
    });
    let counts = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
    (vec(one, 0..4), counts).prop_map(|(known, (predicted, error_thousandths, some, others))| Runtimes {
        known,
        predicted,
        error_thousandths,
        calibrated: some.max(others),
        within: some.min(others),
    })
}
