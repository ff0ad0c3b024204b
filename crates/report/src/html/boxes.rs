//! Box statistics of a campaign: for each platform kind and metric, a box for each workload and policy.

use std::collections::BTreeSet;

use super::CampaignTable;
use crate::quantile::Quartiles;

/// One figure: a metric on dedicated or non-dedicated platforms.
pub(super) struct Figure {
    pub(super) metric: String,
    pub(super) dedicated: bool,
    pub(super) workloads: Vec<String>,
    pub(super) policies: Vec<String>,
    /// By workload, then policy.
    pub(super) boxes: Vec<Vec<Option<Quartiles>>>,
}

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
}

/// Metrics in the order of the paper's figures; others follow by name.
const KNOWN: [(&str, &str, Unit, Option<f64>); 12] = [
    ("impacted_percent", "Jobs whose completion changed", Unit::Percent, None),
    ("reallocations_percent", "Moves over jobs", Unit::Percent, None),
    ("early_percent", "Changed jobs that ended earlier", Unit::Percent, Some(50.0)),
    ("relative_mean_response", "Relative mean response of the changed jobs", Unit::Number, Some(1.0)),
    ("mean_response_ratio", "Mean response ratio of the changed jobs", Unit::Number, Some(1.0)),
    ("mean_wait_s", "Mean wait", Unit::Seconds, None),
    ("mean_response_s", "Mean response", Unit::Seconds, None),
    ("mean_bounded_slowdown", "Mean bounded slowdown", Unit::Number, None),
    ("utilization", "Utilization", Unit::Share, None),
    ("makespan_s", "Makespan", Unit::Seconds, None),
    ("reallocations", "Moves", Unit::Number, None),
    ("jobs", "Jobs", Unit::Number, None),
];

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
    let mut title = stem.replace('_', " ");
    if let Some(first) = title.get(..1).map(str::to_uppercase) {
        title.replace_range(..1, &first);
    }
    Metric { title, unit, neutral: None }
}

/// The figures of a campaign, dedicated platforms first.
pub(super) fn figures(table: &CampaignTable) -> Vec<Figure> {
    let keys: BTreeSet<&str> =
        table.rows.iter().flat_map(|row| row.metrics.keys().map(String::as_str)).collect();
    let place = |key: &&str| KNOWN.iter().position(|(known, ..)| known == key).unwrap_or(KNOWN.len());
    let mut keys: Vec<&str> = keys.into_iter().collect();
    keys.sort_by_key(place);
    let mut figures = Vec::new();
    for dedicated in [true, false] {
        for key in &keys {
            let figure = figure(table, key, dedicated);
            if figure.boxes.iter().flatten().any(Option::is_some) {
                figures.push(figure);
            }
        }
    }
    figures
}

fn figure(table: &CampaignTable, key: &str, dedicated: bool) -> Figure {
    let rows: Vec<_> = table
        .rows
        .iter()
        .filter(|row| row.dedicated == dedicated)
        .filter_map(|row| Some((&row.workload, &row.policy, *row.metrics.get(key)?)))
        .collect();
    let workloads = in_order(rows.iter().map(|row| row.0));
    let policies = in_order(rows.iter().map(|row| row.1));
    let values = |workload: &String, policy: &String| {
        let mine = rows.iter().filter(|row| row.0 == workload && row.1 == policy);
        Quartiles::of(&mine.map(|row| row.2).collect::<Vec<f64>>())
    };
    let boxes =
        workloads.iter().map(|workload| policies.iter().map(|policy| values(workload, policy)).collect());
    let boxes = boxes.collect();
    Figure { metric: key.to_owned(), dedicated, workloads, policies, boxes }
}

/// Each name once, in the order of first appearance.
fn in_order<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.filter(|name| seen.insert(*name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::CampaignRow;
    use super::*;

    fn row(
        workload: &str,
        dedicated: bool,
        policy: &str,
        seed: u64,
        metric: &str,
        value: f64,
    ) -> CampaignRow {
        let metrics = BTreeMap::from([(metric.to_owned(), value)]);
        CampaignRow { workload: workload.into(), dedicated, policy: policy.into(), seed, metrics }
    }

    #[test]
    fn boxes_are_over_seeds_and_keep_the_order_of_the_rows() {
        let rows = vec![
            row("march", true, "reg", 0, "mean_wait_s", 10.0),
            row("march", true, "reg", 1, "mean_wait_s", 30.0),
            row("january", true, "can", 0, "mean_wait_s", 5.0),
            row("march", false, "reg", 0, "impacted_percent", 7.0),
        ];
        let found = figures(&CampaignTable { rows });
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].metric.as_str(), found[0].dedicated), ("mean_wait_s", true));
        assert_eq!(found[0].workloads, ["march", "january"]);
        assert_eq!(found[0].policies, ["reg", "can"]);
        assert_eq!(found[0].boxes[0][0].unwrap().median, 20.0);
        assert_eq!(found[0].boxes[0][0].unwrap().count, 2);
        assert_eq!(found[0].boxes[0][1], None);
        assert_eq!((found[1].metric.as_str(), found[1].dedicated), ("impacted_percent", false));
    }

    #[test]
    fn unknown_metrics_are_named_by_their_key() {
        let check = |key, title: &str, unit| {
            let found = metric(key);
            assert_eq!((found.title.as_str(), found.unit), (title, unit));
        };
        check("wall_time_s", "Wall time", Unit::Seconds);
        check("late_percent", "Late", Unit::Percent);
        check("estimations", "Estimations", Unit::Number);
        check("_s", "", Unit::Seconds);
        check("énergie", "énergie", Unit::Number);
    }
}
