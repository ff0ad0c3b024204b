//! What a run of a campaign was worth, as named numbers: everything that `pliant-report` measures.

use std::collections::BTreeMap;

use pliant_model::Run;
use pliant_report::{compare, compare_with_plans, gained_before, summarize, summarize_exploration};
use pliant_sim::campaign::Measured;
use serde::Serialize;
use serde_json::Value;

/// The metrics of a run, and of the run against its reference if it has one.
pub(crate) fn measure(measured: Measured<'_>) -> Result<BTreeMap<String, f64>, String> {
    match measured {
        Measured::Jobs { run, reference, plans } => {
            let mut metrics = measure_jobs(run, reference)?;
            if let Some(plans) = plans {
                add(&mut metrics, &compare_with_plans(run, plans))?;
            }
            Ok(metrics)
        }
        Measured::Requests(run) => {
            let mut metrics = BTreeMap::new();
            add(&mut metrics, &summarize_exploration(run))?;
            Ok(metrics)
        }
    }
}

fn measure_jobs(run: &Run, reference: Option<&Run>) -> Result<BTreeMap<String, f64>, String> {
    let mut metrics = BTreeMap::new();
    let summary = summarize(run);
    add(&mut metrics, &summary)?;
    if let Some(reference) = reference {
        add(&mut metrics, &compare(run, reference).map_err(|error| error.to_string())?)?;
        let gained = gained_before(run, reference).map_err(|error| error.to_string())?;
        add(&mut metrics, &gained)?;
        let before = summary.makespan_s + gained.makespan_gain_s;
        if before > 0 {
            let percent = 100.0 * gained.makespan_gain_s as f64 / before as f64;
            metrics.insert("makespan_gain_percent".to_owned(), percent);
        }
    }
    Ok(metrics)
}

/// Adds the numbers of an object; what is no number is not a metric.
fn add(metrics: &mut BTreeMap<String, f64>, value: &impl Serialize) -> Result<(), String> {
    let value = serde_json::to_value(value).map_err(|error| error.to_string())?;
    let Value::Object(keys) = value else { return Ok(()) };
    metrics.extend(keys.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?))));
    Ok(())
}
