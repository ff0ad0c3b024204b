//! `pliant servers --runtimes`: how long jobs run, by those that have ended.

use pliant_control::agent::{CALIBRATED, RuntimeSummary};
use pliant_model::SpanMs;
use pliant_policy::runtimes::Level;
use pliant_wire::Runtimes;
use serde_json::{Value, json};

use crate::table::{Table, counted, grouped};

pub(super) fn value(runtimes: &Runtimes) -> Value {
    let one = |one: &RuntimeSummary| {
        json!({
            "level": word(one.level),
            "name": one.name,
            "jobs": one.jobs,
            "mean_ms": one.mean,
            "deviation_ms": one.deviation,
            "median_ms": one.median,
            "p95_ms": one.p95,
        })
    };
    json!({
        "known": runtimes.known.iter().map(one).collect::<Vec<Value>>(),
        "predicted": runtimes.predicted,
        "error_percent": error(runtimes),
        "quantile": CALIBRATED,
        "calibrated": runtimes.calibrated,
        "within_percent": within(runtimes),
    })
}

pub(super) fn text(runtimes: &Runtimes) -> String {
    if runtimes.known.is_empty() {
        return "No job has ended well yet.\n".to_owned();
    }
    let mut table =
        Table::new(2, &["runtimes of", "", "jobs", "mean s", "deviation s", "median s", "95 % s"]);
    for RuntimeSummary { level, name, jobs, mean, deviation, median, p95 } in &runtimes.known {
        let times = [mean, deviation, median, p95].map(seconds);
        let row = [word(*level).to_owned(), name.clone().unwrap_or_default(), grouped(*jobs)];
        table.row(row.into_iter().chain(times).collect());
    }
    let error = error(runtimes).map_or_else(String::new, |error| {
        format!(
            "Predicted before they ended: {}, off by {error} % of their mean runtime on average.\n",
            counted(runtimes.predicted, "job")
        )
    });
    let within = within(runtimes).map_or_else(String::new, |within| {
        let (jobs, right) = (counted(runtimes.calibrated, "job"), 100.0 * CALIBRATED);
        format!(
            "Within the predicted {CALIBRATED} quantile: {within} % of {jobs}; {right} % if that is right.\n"
        )
    });
    format!("On the fewest processors that a job takes, at speed 1.\n{}{error}{within}", table.render())
}

fn seconds(span: &SpanMs) -> String {
    let seconds = span.0 as f64 / 1_000.0;
    if span.0 < 10_000 { format!("{seconds:.3}") } else { format!("{seconds:.1}") }
}

fn error(runtimes: &Runtimes) -> Option<f64> {
    (runtimes.predicted > 0).then_some(runtimes.error_thousandths as f64 / 10.0)
}

/// The share of jobs that ran no longer than predicted by the quantile, to a tenth of a percent.
fn within(runtimes: &Runtimes) -> Option<f64> {
    let thousandths = || (1_000.0 * runtimes.within as f64 / runtimes.calibrated as f64).round();
    (runtimes.calibrated > 0).then(|| thousandths() / 10.0)
}

/// What the federation calls what logs call executables.
fn word(level: Level) -> &'static str {
    match level {
        Level::Executable => "service",
        other => other.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_are_listed_in_seconds_with_prediction_errors() {
        let of = |level, name: &str, jobs| RuntimeSummary {
            level,
            name: Some(name.to_owned()).filter(|name| !name.is_empty()),
            jobs,
            mean: SpanMs(1_234),
            deviation: SpanMs(50),
            median: SpanMs(1_000),
            p95: SpanMs(62_000),
        };
        let known =
            vec![of(Level::Executable, "pi", 1_234), of(Level::User, "ann", 7), of(Level::All, "", 1_241)];
        let runtimes =
            Runtimes { known, predicted: 1_240, error_thousandths: 385, calibrated: 1_000, within: 784 };
        let expected = "\
On the fewest processors that a job takes, at speed 1.
runtimes of        jobs  mean s  deviation s  median s  95 % s
service      pi   1,234   1.234        0.050     1.000    62.0
user         ann      7   1.234        0.050     1.000    62.0
all               1,241   1.234        0.050     1.000    62.0
Predicted before they ended: 1,240 jobs, off by 38.5 % of their mean runtime on average.
Within the predicted 0.8 quantile: 78.4 % of 1,000 jobs; 80 % if that is right.
";
        assert_eq!(text(&runtimes), expected);
        assert_eq!(value(&runtimes)["known"][0]["level"], "service");
        assert_eq!(text(&Runtimes::default()), "No job has ended well yet.\n");
        assert_eq!(value(&runtimes)["within_percent"], 78.4);
        assert_eq!(value(&Runtimes::default())["error_percent"], Value::Null);
        assert_eq!(value(&Runtimes::default())["within_percent"], Value::Null);
    }
}
