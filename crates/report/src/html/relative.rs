//! The page of a campaign whose policies are compared with others by name: ratios of means, log by log.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::campaign_summary;
use super::number::{count, counted};
use super::page::{escape, still_page};
use super::relative_figure::{Panel, panels};
use super::table::Table;
use crate::campaign_table::CampaignTable;
use crate::relative::{Relative, WORKLOADS_MIN, relative};

/// The metrics that are compared: key, title.
const METRICS: [(&str, &str); 2] =
    [("mean_response_s", "Mean response"), ("mean_bounded_slowdown", "Mean bounded slowdown")];

/// Writes the page.
pub(super) fn render(
    title: &str,
    note: &str,
    table: &CampaignTable,
    compare_with: &BTreeMap<String, Vec<String>>,
) -> String {
    let mut body = String::new();
    for (key, metric) in METRICS {
        let found = relative(table, compare_with, key);
        let _ = writeln!(
            body,
            "<section><h2>{metric} relative to other policies</h2>\n<p class=\"quiet\">Below 1 is better. Months of one log \
             are taken together: geometric means of the ratios of months, each of means over the seeds, with 95 % intervals \
             by a bootstrap of the months where there are {WORKLOADS_MIN} or more. <i>Worst</i> is the greatest ratio of a \
             single workload.</p>\n{}",
            panels(metric, &of_bases(&found))
        );
        let _ =
            writeln!(body, "<details open><summary>Numbers</summary>{}</details></section>", numbers(&found));
    }
    let workloads = counted(table.rows.len() as u64, "run");
    let _ = writeln!(
        body,
        "<details><summary>Summary of all policies, {workloads}</summary>{}</details>",
        campaign_summary::section(table)
    );
    still_page(title, note, &body)
}

/// The figure of the mean response as a file.
pub(super) fn figure_file(table: &CampaignTable, compare_with: &BTreeMap<String, Vec<String>>) -> String {
    let (key, metric) = METRICS[0];
    let mut file = panels(metric, &of_bases(&relative(table, compare_with, key)));
    let opening = "<svg ";
    if let Some(rest) = file.strip_prefix(opening) {
        file = format!("{opening}xmlns=\"http://www.w3.org/2000/svg\" {rest}\n");
    }
    file
}

/// A panel for each policy that others are divided by.
fn of_bases(found: &[Relative]) -> Vec<Panel<'_>> {
    let mut panels: Vec<Panel<'_>> = Vec::new();
    for one in found {
        match panels.iter_mut().find(|panel| panel.base == one.base) {
            Some(panel) => panel.ratios.push(one),
            None => panels.push(Panel { base: &one.base, ratios: vec![one] }),
        }
    }
    panels
}

fn numbers(found: &[Relative]) -> String {
    let mut table = Table::new(&[
        ("Log", ""),
        ("Workloads", "How many the ratio is the geometric mean of"),
        ("Ratio", "Geometric mean over the workloads"),
        ("95 % interval", ""),
        ("Worst", "The greatest ratio of a single workload"),
        ("Mean", "Mean over the workloads"),
        ("Mean of the other", "The same of the policy that it is divided by"),
    ]);
    for pair in found.chunk_by(|one, other| (&one.base, &one.policy) == (&other.base, &other.policy)) {
        table.group(&format!("{} relative to {}", pair[0].policy, pair[0].base));
        for one in pair {
            let interval = one.interval.map_or(String::new(), |(low, high)| format!("{low:.2} to {high:.2}"));
            let ratio = |value: f64| format!("{value:.2}");
            let values = [
                count(one.workloads as u64),
                ratio(one.ratio),
                interval,
                ratio(one.worst),
                whole(one.mean),
                whole(one.base_mean),
            ];
            table.row(&one.log, values);
        }
    }
    table.html()
}

/// A mean with as many decimals as it has use for.
fn whole(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { count(value.round() as u64) }
}

/// What a ratio says when the pointer rests on it.
pub(super) fn tip(one: &Relative) -> String {
    let interval = one.interval.map_or(String::new(), |(low, high)| format!(" [{low:.2}, {high:.2}]"));
    escape(&format!("{}, {} / {}: {:.2}{interval}", one.log, one.policy, one.base, one.ratio))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign_table::CampaignRow;

    fn table() -> (CampaignTable, BTreeMap<String, Vec<String>>) {
        let mut rows = Vec::new();
        for month in 1..=6 {
            for (policy, value) in [("asked", 100.0), ("exact", 200.0), ("slack", 50.0)] {
                let metrics = METRICS.iter().map(|(key, _)| ((*key).to_owned(), value)).collect();
                let workload = format!("a<b-1996-{month:02}");
                rows.push(CampaignRow {
                    workload,
                    dedicated: true,
                    policy: policy.to_owned(),
                    seed: 1,
                    metrics,
                });
            }
        }
        let others = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let compare_with = BTreeMap::from([
            ("exact".to_owned(), others(&["asked"])),
            ("slack".to_owned(), others(&["asked", "exact"])),
        ]);
        (CampaignTable { rows }, compare_with)
    }

    #[test]
    fn the_page_has_every_ratio_in_a_figure_and_in_a_table() {
        let (table, compare_with) = table();
        let page = render("Sizes", "", &table, &compare_with);
        assert_eq!(page.matches("<svg ").count(), METRICS.len());
        assert_eq!(page.matches("<circle").count(), METRICS.len() * 3, "a dot for each ratio");
        for (pair, ratio) in [("exact / asked", "2.00"), ("slack / asked", "0.50"), ("slack / exact", "0.25")]
        {
            assert!(page.contains(&format!("a&lt;b, {pair}: {ratio} [{ratio}, {ratio}]")), "{pair}");
        }
        assert!(page.contains("slack relative to exact") && page.contains("0.25 to 0.25"));
        assert!(!page.contains("NaN") && !page.contains("a<b"));
    }

    #[test]
    fn the_file_is_the_figure_of_the_mean_response() {
        let (table, compare_with) = table();
        let file = comparison(&table, &compare_with);
        assert!(file.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" ") && file.ends_with("</svg>\n"));
        assert_eq!(file.matches("<circle").count(), 3);
    }

    fn comparison(table: &CampaignTable, compare_with: &BTreeMap<String, Vec<String>>) -> String {
        crate::html::comparison_figure(table, compare_with)
    }
}
