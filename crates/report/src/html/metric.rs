//! What is known about the metrics of a campaign: their titles, units, and which way is better.

use super::number::{TimeUnit, decimals, fixed, percent};

/// What is known about a metric.
pub(super) struct Metric {
    pub(super) title: String,
    pub(super) unit: Unit,
    /// A value worth a line: no change, or as many early as late.
    pub(super) neutral: Option<f64>,
}

/// What a metric counts in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    Seconds,
    Percent,
    /// A share of one, shown as a percentage.
    Share,
    Number,
}

impl Unit {
    /// The word that `assets/boxes.js` knows.
    pub(super) fn word(self) -> &'static str {
        match self {
            Unit::Seconds => "s",
            Unit::Percent => "percent",
            Unit::Share => "share",
            Unit::Number => "",
        }
    }

    /// A value as text; times in the unit that fits `greatest`.
    pub(super) fn text(self, value: f64, greatest: f64) -> String {
        match self {
            Unit::Seconds => TimeUnit::of(greatest).text(value),
            Unit::Percent => format!("{} %", fixed(value, 1)),
            Unit::Share => percent(value),
            Unit::Number => decimals(value),
        }
    }
}

/// Metrics in the order of the paper's figures, which are always shown; others follow by name, folded away.
const KNOWN: [(&str, &str, Unit, Option<f64>); 14] = [
    ("impacted_percent", "Jobs whose completion changed", Unit::Percent, None),
    ("reallocations_percent", "Moves over jobs", Unit::Percent, None),
    ("early_percent", "Changed jobs that ended earlier", Unit::Percent, Some(50.0)),
    ("relative_mean_response", "Relative mean response of the changed jobs", Unit::Number, Some(1.0)),
    ("jobs_earlier", "Jobs that ended earlier", Unit::Number, None),
    ("gained_s", "Time gained by the jobs that ended earlier", Unit::Seconds, None),
    ("makespan_gain_percent", "Makespan gained", Unit::Percent, Some(0.0)),
    ("mean_wait_s", "Mean wait", Unit::Seconds, None),
    ("mean_response_s", "Mean response", Unit::Seconds, None),
    ("mean_bounded_slowdown", "Mean bounded slowdown", Unit::Number, None),
    ("utilization", "Utilization", Unit::Share, None),
    ("unhappy_users", "Unhappy users", Unit::Number, None),
    ("unfairness", "Unfairness", Unit::Number, None),
    ("completed_requests", "Completed requests", Unit::Number, None),
];

/// Metrics whose keys alone do not make a good title.
const TITLES: [(&str, &str); 11] = [
    ("early", "Changed jobs that ended earlier, counted"),
    ("idle_proc_s", "Idle processor time"),
    ("impacted", "Jobs whose completion changed, counted"),
    ("jobs_later", "Jobs that ended later"),
    ("jobs_moved", "Jobs moved"),
    ("lost_s", "Time lost by the jobs that ended later"),
    ("makespan_gain_s", "Makespan gained, in time"),
    ("managed_jobs", "Federated jobs"),
    ("managed_mean_response_s", "Mean response of the federated jobs"),
    ("mean_response_ratio", "Mean response ratio of the changed jobs"),
    ("reallocations", "Moves"),
];

/// The position of a metric among those that are always shown; none for the others.
pub(super) fn position(key: &str) -> Option<usize> {
    KNOWN.iter().position(|(known, ..)| *known == key)
}

/// Title and unit of a metric; an unknown one is named by its key and measured by its suffix.
pub(super) fn metric(key: &str) -> Metric {
    if let Some((_, title, unit, neutral)) = KNOWN.iter().find(|(known, ..)| *known == key) {
        return Metric { title: (*title).to_owned(), unit: *unit, neutral: *neutral };
    }
    let (stem, unit) = match key {
        _ if key.ends_with("_percent") => (&key[..key.len() - 8], Unit::Percent),
        _ if key.ends_with("_s") => (&key[..key.len() - 2], Unit::Seconds),
        _ => (key, Unit::Number),
    };
    let neutral = (key == "mean_response_ratio").then_some(1.0);
    let known = TITLES.iter().find(|(known, _)| *known == key).map(|(_, title)| (*title).to_owned());
    Metric { title: known.unwrap_or_else(|| title_of(stem)), unit, neutral }
}

/// `p95_bounded_slowdown` as "Bounded slowdown, 95th percentile".
fn title_of(stem: &str) -> String {
    let (base, end) = match stem.split_once('_') {
        Some(("max", base)) => (base, ", largest"),
        Some(("median", base)) => (base, ", median"),
        Some(("p90", base)) => (base, ", 90th percentile"),
        Some(("p95", base)) => (base, ", 95th percentile"),
        Some(("p99", base)) => (base, ", 99th percentile"),
        _ => (stem, ""),
    };
    let mut title = base.replace('_', " ") + end;
    if let Some(first) = title.get(..1).map(str::to_uppercase) {
        title.replace_range(..1, &first);
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_named_by_what_they_are_or_by_their_key() {
        let check = |key, title: &str, unit| {
            let found = metric(key);
            assert_eq!((found.title.as_str(), found.unit), (title, unit));
        };
        check("mean_wait_s", "Mean wait", Unit::Seconds);
        check("utilization", "Utilization", Unit::Share);
        check("idle_proc_s", "Idle processor time", Unit::Seconds);
        check("p95_bounded_slowdown", "Bounded slowdown, 95th percentile", Unit::Number);
        check("max_wait_s", "Wait, largest", Unit::Seconds);
        check("wall_time_s", "Wall time", Unit::Seconds);
        check("late_percent", "Late", Unit::Percent);
        check("estimations", "Estimations", Unit::Number);
        check("_s", "", Unit::Seconds);
        check("énergie", "énergie", Unit::Number);
    }

    #[test]
    fn values_have_their_unit() {
        let check = |unit: Unit, value, expected: &str| assert_eq!(unit.text(value, 7200.0), expected);
        check(Unit::Seconds, 1800.0, "0.50 h");
        check(Unit::Percent, 12.34, "12.3 %");
        check(Unit::Percent, -0.04, "0.0 %");
        check(Unit::Share, 0.5, "50.0 %");
        check(Unit::Number, 0.953, "0.95");
    }
}
