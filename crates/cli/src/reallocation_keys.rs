//! How waiting jobs are moved, key by key: the same words for what an agent is to do and for what it might have done.

use pliant_model::Span;
use pliant_policy::reallocation::Reallocation;

use crate::failure::Failure;

/// Changes one of the parameters; false if the key names none.
pub(crate) fn set(policy: &mut Reallocation, key: &str, value: &str) -> Result<bool, Failure> {
    match key {
        "algorithm" => policy.algorithm = value.parse().map_err(Failure::input)?,
        "heuristic" => policy.heuristic = value.parse().map_err(Failure::input)?,
        "period" => policy.period = span(key, value, 1)?,
        "threshold" => policy.threshold = span(key, value, 0)?,
        "window" => {
            let wrong = || {
                Failure::input(format!("window: expected a number of jobs of at least 1, found `{value}`"))
            };
            policy.window = value.parse().ok().filter(|window| *window > 0).ok_or_else(wrong)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// A length of time of at least so many seconds. None at all is `0`, with or without a unit.
pub(crate) fn span(key: &str, value: &str, least: i64) -> Result<Span, Failure> {
    let found = match value {
        "0" | "0s" => Ok(Span(0)),
        _ => pliant_site::services::parse_duration(value),
    };
    let wrong = || Failure::input(format!("{key}: expected a time like 30s, 5m or 1h, found `{value}`"));
    found.ok().filter(|found| found.0 >= least).ok_or_else(wrong)
}
