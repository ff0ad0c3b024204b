//! Policies that differ by a number only, as `legacy-3`, `legacy-10` and so on: figures over that number, like figures 4 to 8
//! of paper 004, in which the other policies are levels.

use std::collections::BTreeSet;

use super::boxes::in_order;
use super::metric::{metric, position};
use super::{LineFigure, Series};
use crate::campaign_table::CampaignTable;
use crate::quantile::Quartiles;

/// So many policies make a family at least.
const MEMBERS_LEAST: usize = 4;

/// Policies of one name and different numbers.
pub(super) struct Family {
    name: String,
    /// Number and policy, by number.
    members: Vec<(f64, String)>,
}

/// The largest family of a campaign, if it has any.
pub(super) fn family(table: &CampaignTable) -> Option<Family> {
    let policies = in_order(table.rows.iter().map(|row| &row.policy));
    let parts = |policy: &String| {
        let (name, number) = policy.rsplit_once('-')?;
        let number: f64 = number.parse().ok()?;
        (number.is_finite() && !name.is_empty()).then(|| (name.to_owned(), number, policy.clone()))
    };
    let numbered: Vec<(String, f64, String)> = policies.iter().filter_map(parts).collect();
    let names = in_order(numbered.iter().map(|(name, ..)| name));
    let of = |name: String| {
        let own = numbered.iter().filter(|(of, ..)| *of == name);
        let mut members: Vec<(f64, String)> =
            own.map(|(_, number, policy)| (*number, policy.clone())).collect();
        members.sort_by(|a, b| a.0.total_cmp(&b.0));
        Family { name, members }
    };
    let families = names.into_iter().map(of).filter(|family| family.members.len() >= MEMBERS_LEAST);
    families.max_by_key(|family| family.members.len())
}

impl Family {
    /// What it is called.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The campaign without it.
    pub(super) fn others(&self, table: &CampaignTable) -> CampaignTable {
        let own: BTreeSet<&String> = self.members.iter().map(|(_, policy)| policy).collect();
        CampaignTable { rows: table.rows.iter().filter(|row| !own.contains(&row.policy)).cloned().collect() }
    }

    /// A figure for each workload and metric that is always shown; one that is 0 everywhere makes none.
    pub(super) fn figures(&self, table: &CampaignTable) -> Vec<LineFigure> {
        let keys: BTreeSet<&str> =
            table.rows.iter().flat_map(|row| row.metrics.keys().map(String::as_str)).collect();
        let mut keys: Vec<&str> = keys.into_iter().filter(|key| position(key).is_some()).collect();
        keys.sort_by_key(|key| position(key));
        let others = in_order(self.others(table).rows.iter().map(|row| &row.policy));
        let mut figures = Vec::new();
        for workload in in_order(table.rows.iter().map(|row| &row.workload)) {
            for key in &keys {
                let figure = self.figure(table, &workload, key, &others);
                let values = figure.series.iter().flat_map(|series| series.values.iter().flatten());
                if values.into_iter().any(|value| *value != 0.0) {
                    figures.push(figure);
                }
            }
        }
        figures
    }

    fn figure(&self, table: &CampaignTable, workload: &str, key: &str, others: &[String]) -> LineFigure {
        let quartiles = |policy: &str| {
            let own = table.rows.iter().filter(|row| row.workload == workload && row.policy == policy);
            Quartiles::of(&own.filter_map(|row| row.metrics.get(key).copied()).collect::<Vec<f64>>())
        };
        let own: Vec<Option<Quartiles>> = self.members.iter().map(|(_, policy)| quartiles(policy)).collect();
        let line = |what: &str, value: fn(&Quartiles) -> f64| Series {
            name: format!("{}: {what}", self.name),
            values: own.iter().map(|found| found.as_ref().map(value)).collect(),
        };
        let mut series = vec![
            line("first quartile", |found| found.q1),
            line("third quartile", |found| found.q3),
            line("median", |found| found.median),
        ];
        series.extend(others.iter().map(|policy| Series {
            name: format!("{policy}: median"),
            values: vec![quartiles(policy).map(|found| found.median); own.len()],
        }));
        let title = metric(key).title;
        LineFigure {
            title: format!("{title}, {workload}"),
            note: String::new(),
            x: format!("N of {}-N", self.name),
            y: title.to_lowercase(),
            points: self.members.iter().map(|(number, _)| number.to_string()).collect(),
            series,
            logarithmic: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::campaign_table::CampaignRow;

    fn row(workload: &str, policy: &str, seed: u64, unfairness: f64) -> CampaignRow {
        let metrics = BTreeMap::from([("unfairness".to_owned(), unfairness)]);
        CampaignRow {
            workload: workload.to_owned(),
            dedicated: true,
            policy: policy.to_owned(),
            seed,
            metrics,
        }
    }

    #[test]
    fn a_family_is_a_line_over_its_number_and_others_are_levels() {
        let mut rows = Vec::new();
        for (policy, unfairness) in
            [("legacy-10", 2.0), ("legacy-3", 1.0), ("legacy-200", 4.0), ("legacy-50", 3.0)]
        {
            rows.extend((1..=3).map(|seed| row("day", policy, seed, unfairness * seed as f64)));
        }
        rows.extend((1..=3).map(|seed| row("day", "virtual-time", seed, 0.5)));
        let table = CampaignTable { rows };
        let found = family(&table).unwrap();
        assert_eq!(found.name(), "legacy");
        let others = found.others(&table);
        assert!(others.rows.len() == 3 && others.rows.iter().all(|row| row.policy == "virtual-time"));
        let figures = found.figures(&table);
        assert_eq!(figures.len(), 1);
        let figure = &figures[0];
        assert_eq!(figure.points, ["3", "10", "50", "200"]);
        let values =
            |at: usize| figure.series[at].values.iter().map(|value| value.unwrap()).collect::<Vec<f64>>();
        assert_eq!(values(2), [2.0, 4.0, 6.0, 8.0], "medians");
        assert_eq!(values(0), [1.5, 3.0, 4.5, 6.0], "first quartiles");
        assert_eq!(values(3), [0.5; 4]);
    }

    #[test]
    fn few_numbers_make_no_family() {
        let rows = ["cbf-1", "cbf-2", "cbf-3", "easy"].map(|policy| row("day", policy, 1, 1.0));
        assert!(family(&CampaignTable { rows: rows.into() }).is_none());
    }
}
