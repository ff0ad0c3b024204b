//! The page of a campaign: box plots like figures 6 to 13 of paper 000, each with its numbers.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::boxes::{Figure, Metric, Unit, figures, metric};
use super::number::{TimeUnit, count, decimals, percent};
use super::tables::Table;
use super::{CampaignTable, page};
use crate::quantile::Quartiles;

/// Writes the page.
pub(super) fn render(title: &str, note: &str, table: &CampaignTable) -> String {
    let figures = figures(table);
    let mut body = String::new();
    let seeds: BTreeSet<u64> = table.rows.iter().map(|row| row.seed).collect();
    let _ = writeln!(
        body,
        "<section><p>{} runs, {} seeds. A box spans the quartiles over the seeds, with the median as a line and the \
         mean as a diamond; whiskers reach to the least and the greatest value. Quantiles are interpolated linearly.</p>\
         <div class=\"legend\" id=\"policies\"></div></section>",
        count(table.rows.len() as u64),
        count(seeds.len() as u64)
    );
    if figures.is_empty() {
        body.push_str("<section><p class=\"quiet\">There is no metric to show.</p></section>\n");
    }
    for dedicated in [true, false] {
        let mine = figures.iter().enumerate().filter(|(_, figure)| figure.dedicated == dedicated);
        let mut heading = Some(if dedicated { "Dedicated platform" } else { "Non-dedicated platform" });
        for (index, figure) in mine {
            if let Some(heading) = heading.take() {
                let _ = writeln!(body, "<h2 class=\"part\">{heading}</h2>");
            }
            section(&mut body, index, figure);
        }
    }
    let data: Vec<Value> = figures.iter().map(figure_data).collect();
    page::page(title, note, &body, &json!({"kind": "campaign", "figures": data}))
}

fn section(body: &mut String, index: usize, figure: &Figure) {
    let known = metric(&figure.metric);
    let title = page::escape(&known.title);
    let kind = if figure.dedicated { "dedicated" } else { "non-dedicated" };
    let _ = writeln!(
        body,
        "<section class=\"figure\"><h3>{title} <small>{kind}</small></h3>\n<div class=\"chart\"><canvas data-figure=\"{index}\" \
         role=\"img\" aria-label=\"Box plot: {title}, {kind}\"></canvas></div>\n<details><summary>Numbers</summary>{}</details></section>",
        numbers(figure, &known)
    );
}

fn numbers(figure: &Figure, known: &Metric) -> String {
    let mut table = Table::new(&[
        ("Workload, policy", ""),
        ("Runs", "Seeds"),
        ("Least", ""),
        ("First quartile", ""),
        ("Median", ""),
        ("Third quartile", ""),
        ("Greatest", ""),
        ("Mean", ""),
    ]);
    let greatest = figure.boxes.iter().flatten().flatten().fold(0.0, |most, found| f64::max(most, found.max));
    let unit = TimeUnit::of(greatest);
    let text = |value: f64| match known.unit {
        Unit::Seconds => unit.text(value),
        Unit::Percent => format!("{value:.1} %"),
        Unit::Share => percent(value),
        Unit::Number => decimals(value),
    };
    for (workload, boxes) in figure.workloads.iter().zip(&figure.boxes) {
        for (policy, found) in figure.policies.iter().zip(boxes) {
            if let Some(Quartiles { count: runs, min, q1, median, q3, max, mean }) = *found {
                let mut values = vec![count(runs)];
                values.extend([min, q1, median, q3, max, mean].map(text));
                table.row(&format!("{workload}, {policy}"), &values);
            }
        }
    }
    table.html()
}

fn figure_data(figure: &Figure) -> Value {
    let known = metric(&figure.metric);
    json!({
        "unit": known.unit.word(),
        "neutral": known.neutral,
        "title": known.title,
        "workloads": figure.workloads,
        "policies": figure.policies,
        "boxes": figure.boxes,
    })
}
