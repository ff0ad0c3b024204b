//! The page of a campaign: box plots like figures 6 to 13 of paper 000, each with its numbers.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::boxes::{Figure, figures, in_order};
use super::metric::{Metric, metric, position};
use super::number::{count, counted};
use super::table::Table;
use super::{campaign_summary, families, page};
use crate::campaign_table::CampaignTable;
use crate::quantile::Quartiles;

/// A figure of more boxes than this takes the whole width of the page.
const BOXES_NARROW: usize = 16;

/// Writes the page.
pub(super) fn render(title: &str, note: &str, table: &CampaignTable) -> String {
    // What runs through very many policies is read off figures of its own.
    let family = families::family(table);
    let whole = table;
    let others = family.as_ref().map(|family| family.others(table));
    let table = others.as_ref().unwrap_or(table);
    let figures = figures(table);
    let seeds: BTreeSet<u64> = table.rows.iter().map(|row| row.seed).collect();
    let mut body = campaign_summary::section(table);
    if let Some(family) = &family {
        let _ = writeln!(
            body,
            "<section><h2>Over N of <i>{}-N</i></h2>\n<p class=\"quiet\">Medians and quartiles over the seeds; other \
             policies do not depend on it. Each figure has its numbers below it.</p></section>\n<div class=\"figures\">",
            page::escape(family.name())
        );
        family.figures(whole).iter().for_each(|figure| body.push_str(&super::figures::figure(figure)));
        body.push_str("</div>\n");
    }
    if figures.is_empty() {
        body.push_str("<section><p class=\"quiet\">There is no metric to show.</p></section>\n");
    } else {
        let _ = writeln!(
            body,
            "<section><h2>Spread over the seeds</h2>\n<p class=\"quiet\">{}, {}. A box spans the quartiles over the \
             seeds, with the median as a line and the mean as a diamond; whiskers reach to the least and the greatest \
             value. Quantiles are interpolated linearly. Each figure has its numbers below it.</p>\
             <div class=\"legend\" id=\"policies\"></div></section>",
            counted(table.rows.len() as u64, "run"),
            counted(seeds.len() as u64, "seed")
        );
    }
    let kinds = table.has_kinds();
    for dedicated in [true, false] {
        part(&mut body, &figures, dedicated, kinds);
    }
    let data: Vec<Value> = figures.iter().map(figure_data).collect();
    let policies = in_order(table.rows.iter().map(|row| &row.policy));
    page::page(title, note, &body, &json!({"kind": "campaign", "figures": data, "policies": policies}))
}

/// The figures of one kind of platform: the main metrics, then the others folded away.
fn part(body: &mut String, figures: &[Figure], dedicated: bool, kinds: bool) {
    let mine = figures.iter().enumerate().filter(|(_, figure)| figure.dedicated == dedicated);
    let (main, more): (Vec<_>, Vec<_>) = mine.partition(|(_, figure)| position(&figure.metric).is_some());
    let heading = if dedicated { "Dedicated platform" } else { "Non-dedicated platform" };
    if kinds && (!main.is_empty() || !more.is_empty()) {
        let _ = writeln!(body, "<h2 class=\"part\">{heading}</h2>");
    }
    grid(body, &main, kinds);
    if !more.is_empty() {
        let metrics = counted(more.len() as u64, "more metric");
        let _ = writeln!(
            body,
            "<details class=\"more\"><summary>{metrics}{}</summary>",
            if kinds { format!(", {}", heading.to_lowercase()) } else { String::new() }
        );
        grid(body, &more, kinds);
        body.push_str("</details>\n");
    }
}

fn grid(body: &mut String, figures: &[(usize, &Figure)], kinds: bool) {
    body.push_str("<div class=\"figures\">\n");
    for (index, figure) in figures {
        section(body, *index, figure, kinds);
    }
    body.push_str("</div>\n");
}

fn section(body: &mut String, index: usize, figure: &Figure, kinds: bool) {
    let known = metric(&figure.metric);
    let title = page::escape(&known.title);
    let kind = match (kinds, figure.dedicated) {
        (false, _) => "",
        (true, true) => "dedicated",
        (true, false) => "non-dedicated",
    };
    let of_kind = if kinds { format!(", {kind}") } else { String::new() };
    let wide = if figure.workloads.len() * figure.policies.len() > BOXES_NARROW { " wide" } else { "" };
    let _ = writeln!(
        body,
        "<section class=\"figure{wide}\"><h3>{title} <small>{kind}</small></h3>\n<div class=\"chart\"><canvas \
         data-figure=\"{index}\" role=\"img\" aria-label=\"Box plot: {title}{of_kind}; the numbers follow as a table\">\
         </canvas></div>\n<details><summary>Numbers</summary>{}</details></section>",
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
    let text = |value: f64| known.unit.text(value, greatest);
    for (workload, boxes) in figure.workloads.iter().zip(&figure.boxes) {
        for (policy, found) in figure.policies.iter().zip(boxes) {
            if let Some(Quartiles { count: runs, min, q1, median, q3, max, mean }) = *found {
                let mut values = vec![count(runs)];
                values.extend([min, q1, median, q3, max, mean].map(text));
                table.row(&format!("{workload}, {policy}"), values);
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
