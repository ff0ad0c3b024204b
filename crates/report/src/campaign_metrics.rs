//! The metrics of a run of a campaign, as named numbers.

use std::collections::BTreeMap;

use pliant_model::{ExplorationRun, PlannedJob, Run};
use serde::Serialize;
use serde_json::Value;

use crate::{compare, compare_with_plans, gained_before, summarize, summarize_exploration};

/// The metrics of a run; of the run against its reference, if it has one; and against the plans that its jobs had when they were
/// submitted, if these are known.
///
/// # Errors
///
/// If the runs are not of one workload: a sentence.
pub fn measure_run(
    run: &Run,
    reference: Option<&Run>,
    plans: Option<&[PlannedJob]>,
) -> Result<BTreeMap<String, f64>, String> {
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
    if let Some(plans) = plans {
        add(&mut metrics, &compare_with_plans(run, plans))?;
    }
    Ok(metrics)
}

/// The metrics of a run of optional computations.
///
/// # Errors
///
/// None at present: the type is that of [`measure_run`].
pub fn measure_exploration(run: &ExplorationRun) -> Result<BTreeMap<String, f64>, String> {
    let mut metrics = BTreeMap::new();
    add(&mut metrics, &summarize_exploration(run))?;
    Ok(metrics)
}

/// Adds the numbers of an object; what is no number is not a metric.
fn add(metrics: &mut BTreeMap<String, f64>, value: &impl Serialize) -> Result<(), String> {
    let value = serde_json::to_value(value).map_err(|error| error.to_string())?;
    let Value::Object(keys) = value else { return Ok(()) };
    metrics.extend(keys.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?))));
    Ok(())
}
