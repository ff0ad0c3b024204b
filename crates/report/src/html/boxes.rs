//! Box statistics of a campaign: for each platform kind and metric, a box for each workload and policy.

use std::collections::BTreeSet;

use super::metric::position;
use crate::campaign_table::CampaignTable;
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

/// A figure of more boxes than this cannot be read.
const BOXES_MOST: usize = 150;

impl Figure {
    /// The figure, or one for each workload if it has too many boxes.
    fn in_parts(self) -> Vec<Figure> {
        if self.workloads.len() * self.policies.len() <= BOXES_MOST {
            return vec![self];
        }
        let Figure { metric, dedicated, workloads, policies, boxes } = self;
        let part = |(workload, boxes)| Figure {
            metric: metric.clone(),
            dedicated,
            workloads: vec![workload],
            policies: policies.clone(),
            boxes: vec![boxes],
        };
        workloads.into_iter().zip(boxes).map(part).collect()
    }
}

/// The figures of a campaign, dedicated platforms first. A metric that is 0 in every run makes none.
pub(super) fn figures(table: &CampaignTable) -> Vec<Figure> {
    let keys: BTreeSet<&str> =
        table.rows.iter().flat_map(|row| row.metrics.keys().map(String::as_str)).collect();
    let mut keys: Vec<&str> = keys.into_iter().collect();
    keys.sort_by_key(|key| position(key).unwrap_or(usize::MAX));
    let mut figures = Vec::new();
    for dedicated in [true, false] {
        for key in &keys {
            let figure = figure(table, key, dedicated);
            if figure.boxes.iter().flatten().flatten().any(|found| found.min != 0.0 || found.max != 0.0) {
                figures.extend(figure.in_parts());
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
pub(super) fn in_order<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.filter(|name| seen.insert(*name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::campaign_table::CampaignRow;

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
    fn a_figure_of_too_many_boxes_is_one_for_each_workload() {
        let rows = |policies: usize| {
            let each = |workload| {
                (0..policies).map(move |one| row(workload, true, &format!("p{one}"), 1, "wait_s", 1.0))
            };
            CampaignTable { rows: ["june", "may", "march"].into_iter().flat_map(each).collect() }
        };
        let workloads = |policies| -> Vec<Vec<String>> {
            figures(&rows(policies)).into_iter().map(|figure| figure.workloads).collect()
        };
        assert_eq!(workloads(50), [["june", "may", "march"]]);
        assert_eq!(workloads(51), [["june"], ["may"], ["march"]]);
        assert_eq!(figures(&rows(51))[2].boxes[0].len(), 51);
    }

    #[test]
    fn a_metric_that_is_always_zero_has_no_figure() {
        let rows = vec![
            row("march", true, "reg", 0, "refused", 0.0),
            row("march", true, "can", 0, "refused", 0.0),
            row("march", false, "reg", 0, "refused", 0.0),
            row("march", false, "can", 0, "refused", 1.0),
        ];
        let found = figures(&CampaignTable { rows });
        assert_eq!(found.iter().map(|figure| figure.dedicated).collect::<Vec<_>>(), [false]);
    }
}
