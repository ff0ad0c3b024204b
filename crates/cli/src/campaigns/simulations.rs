//! Campaigns of simulations: a table of means over the seeds.

use pliant_report::campaigns::{simulations_figure, simulations_page};
use pliant_sim::campaign::{Cell, SimulationResults, cells};
use serde_json::{Map, Value, json};

use super::warnings::nothing_ran;
use super::{View, Warnings};
use crate::failure::Failure;
use crate::table::{Table, decimals, terminal_width};

/// The widest table, in characters, also on a wider terminal.
const WIDTH: usize = 120;
/// The longest name in a table that would be wider.
const NAME: usize = 15;

/// A column of numbers.
struct Column {
    title: &'static str,
    metric: &'static str,
    factor: f64,
    decimals: usize,
    /// Columns of the largest number are left out first if the table is too wide; 0 stays.
    spare: u8,
}

const fn column(
    title: &'static str,
    metric: &'static str,
    factor: f64,
    decimals: usize,
    spare: u8,
) -> Column {
    Column { title, metric, factor, decimals, spare }
}

const COLUMNS: &[Column] = &[
    column("impacted %", "impacted_percent", 1.0, 1, 0),
    column("moves %", "reallocations_percent", 1.0, 1, 0),
    column("early %", "early_percent", 1.0, 1, 0),
    column("rel. response", "relative_mean_response", 1.0, 3, 0),
    column("earlier", "jobs_earlier", 1.0, 0, 2),
    column("gained h", "gained_s", 1.0 / 3600.0, 1, 4),
    column("makespan %", "makespan_gain_percent", 1.0, 2, 3),
    column("wait h", "mean_wait_s", 1.0 / 3600.0, 3, 1),
    column("response h", "mean_response_s", 1.0 / 3600.0, 3, 1),
    column("late %", "late_start_percent", 1.0, 1, 2),
    column("late h", "mean_late_start_s", 1.0 / 3600.0, 3, 2),
    column("util. %", "utilization", 100.0, 1, 5),
];

/// Of campaigns of optional computations.
const REQUESTS: &[Column] = &[
    column("users", "users", 1.0, 1, 2),
    column("unhappy", "unhappy_users", 1.0, 1, 0),
    column("unfairness", "unfairness", 1.0, 3, 0),
    column("useful unf.", "useful_unfairness", 1.0, 3, 3),
    column("completed", "completed_requests", 1.0, 0, 0),
    column("killed", "killed_requests", 1.0, 1, 1),
    column("wasted %", "wasted_percent", 1.0, 2, 1),
    column("mandatory s", "mean_mandatory_s", 1.0, 2, 2),
    column("stored", "stored_requests", 1.0, 0, 3),
];

/// The columns for what the cells are of.
fn columns(cells: &[Cell]) -> &'static [Column] {
    let requests = |cell: &Cell| cell.metrics.contains_key("unfairness");
    if cells.iter().any(requests) { REQUESTS } else { COLUMNS }
}

/// What distinguishes cells: title and text.
type CellLabel = (&'static str, fn(&Cell) -> String);

const WORDS: [CellLabel; 6] = [
    ("workload", |cell| cell.workload.clone()),
    ("platform", |cell| cell.platform.clone()),
    ("moldable", |cell| cell.moldable.clone()),
    ("share", |cell| format!("{:.2}", cell.dedicated_share)),
    ("policy", |cell| cell.policy.clone()),
    ("seeds", |cell| cell.seeds.to_string()),
];

impl View for SimulationResults {
    /// Fails if the platforms take no job at all.
    fn check(&self) -> Result<(), Failure> {
        if !nothing_ran(self) {
            return Ok(());
        }
        let problem = format!(
            "campaign {}: expected a platform that some job fits, found every job of every run refused",
            self.name
        );
        Err(Failure::input(problem).hint(
            "give larger clusters, or let jobs shrink with moldable = [\"paper\"]; begin anew in another folder",
        ))
    }

    fn warn(&self, warnings: &mut Warnings) {
        warnings.refused(self);
    }

    fn caption(&self) -> String {
        format!("means over the seeds, compared with policy {}", self.reference)
    }

    fn text(&self) -> String {
        describe(&cells(self))
    }

    fn value(&self) -> Value {
        let cells: Vec<Value> = cells(self).iter().map(cell_value).collect();
        json!({ "reference": self.reference, "cells": cells })
    }

    fn page(&self) -> String {
        simulations_page(self)
    }

    fn figure(&self) -> Result<String, Failure> {
        simulations_figure(self).ok_or_else(|| {
            let problem =
                format!("expected a campaign with `compare_with` for --figure, found `{}`", self.name);
            Failure::input(problem)
                .hint("leave --figure out, or name policies to compare with in the campaign")
        })
    }
}

/// What all cells have in common, the table, and what is not in it.
fn describe(cells: &[Cell]) -> String {
    let differs = |text: fn(&Cell) -> String| cells.windows(2).any(|pair| text(&pair[0]) != text(&pair[1]));
    let (words, common): (Vec<CellLabel>, Vec<CellLabel>) =
        WORDS.into_iter().partition(|(title, text)| *title == "policy" || differs(*text));
    let has = |column: &Column| cells.iter().any(|cell| cell.metrics.contains_key(column.metric));
    let is_zero = |column: &Column| {
        cells.iter().filter_map(|cell| cell.metrics.get(column.metric)).all(|spread| spread.mean == 0.0)
    };
    let (zero, columns): (Vec<&Column>, Vec<&Column>) =
        columns(cells).iter().filter(|column| has(column)).partition(|column| is_zero(column));
    let words_of = |cell| common.iter().map(move |(title, text)| format!("{title} {}", text(cell)));
    let zeros = zero.iter().map(|column| format!("{} 0", column.title));
    let common: Vec<String> = cells.first().into_iter().flat_map(words_of).chain(zeros).collect();
    let (table, left_out) = fitting(cells, &words, &columns);
    let mut text = format!("in all rows: {}\n\n{table}", common.join(", "));
    if common.is_empty() {
        text = format!("\n{table}");
    }
    if !left_out.is_empty() {
        text.push_str(&format!("\nnot shown, as the table is too wide: {}", left_out.join(", ")));
    }
    text.push_str("\nevery metric, with its least and largest value: --format json\n");
    text
}

/// The table with as many columns as there is room for, and the titles of the others.
fn fitting(cells: &[Cell], words: &[CellLabel], all: &[&Column]) -> (String, Vec<&'static str>) {
    let most = terminal_width().unwrap_or(WIDTH).min(WIDTH);
    let last = all.iter().map(|column| column.spare).max().unwrap_or(0);
    for spare in (0..=last).rev() {
        let (shown, left_out): (Vec<&Column>, Vec<&Column>) =
            all.iter().partition(|column| column.spare <= spare);
        let table = table(cells, words, &shown, usize::MAX);
        if table.width() <= most {
            return (table.render(), left_out.iter().map(|column| column.title).collect());
        }
    }
    let (shown, left_out): (Vec<&Column>, Vec<&Column>) = all.iter().partition(|column| column.spare == 0);
    (table(cells, words, &shown, NAME).render(), left_out.iter().map(|column| column.title).collect())
}

fn table(cells: &[Cell], words: &[CellLabel], columns: &[&Column], name: usize) -> Table {
    let titles = words.iter().map(|(title, _)| *title).chain(columns.iter().map(|column| column.title));
    let mut table = Table::new(words.len(), &titles.collect::<Vec<_>>());
    for cell in cells {
        let words = words.iter().map(|(_, text)| shortened(text(cell), name));
        let numbers = columns.iter().map(|column| {
            let mean = cell.metrics.get(column.metric).map(|spread| spread.mean * column.factor);
            decimals(mean, column.decimals)
        });
        table.row(words.chain(numbers).collect());
    }
    table
}

/// A name of at most `most` characters, without its middle if it is longer.
fn shortened(name: String, most: usize) -> String {
    let length = name.chars().count();
    if length <= most {
        return name;
    }
    let (head, tail) = ((most - 1).div_ceil(2), (most - 1) / 2);
    name.chars().take(head).chain(['…']).chain(name.chars().skip(length - tail)).collect()
}

fn cell_value(cell: &Cell) -> Value {
    let metrics: Map<String, Value> = cell
        .metrics
        .iter()
        .map(|(name, spread)| {
            let spread =
                json!({ "runs": spread.runs, "min": spread.min, "mean": spread.mean, "max": spread.max });
            (name.clone(), spread)
        })
        .collect();
    json!({
        "workload": cell.workload,
        "platform": cell.platform,
        "moldable": cell.moldable,
        "dedicated_share": cell.dedicated_share,
        "policy": cell.policy,
        "seeds": cell.seeds,
        "metrics": metrics,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use pliant_sim::campaign::Spread;

    /// The width of the longest line, in characters.
    fn width(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    /// Cells of two workloads and policies with every metric, their names this long.
    fn cells(length: usize) -> Vec<Cell> {
        let name = |letter: &str, end: &str| letter.repeat(length - 1) + end;
        let mean = 123.4;
        let spread = Spread { runs: 1, min: mean, mean, max: mean };
        let metrics: BTreeMap<String, Spread> =
            COLUMNS.iter().map(|column| (column.metric.to_owned(), spread)).collect();
        let cell = |end: &str, share| Cell {
            workload: name("w", end),
            platform: name("p", end),
            moldable: if end == "1" { "none".to_owned() } else { "paper".to_owned() },
            dedicated_share: share,
            policy: name("q", end),
            seeds: share as usize,
            metrics: metrics.clone(),
        };
        vec![cell("1", 1.0), cell("2", 10.0)]
    }

    #[test]
    fn tables_fit_and_say_what_they_leave_out() {
        let check = |cells: &[Cell], left_out: &str| {
            let text = describe(cells);
            assert!(width(&text) <= WIDTH, "{text}");
            let found =
                text.lines().find_map(|line| line.strip_prefix("not shown, as the table is too wide: "));
            assert_eq!(found.unwrap_or_default(), left_out, "{text}");
            text
        };
        let one = &cells(8)[..1];
        assert!(
            check(one, "util. %")
                .contains("in all rows: workload wwwwwww1, platform ppppppp1, moldable none")
        );
        check(&cells(2), "earlier, gained h, makespan %, late %, late h, util. %");
        let text =
            check(&cells(64), "earlier, gained h, makespan %, wait h, response h, late %, late h, util. %");
        assert!(text.contains("wwwwwww…wwwwww1 ") && text.contains("wwwwwww…wwwwww2 "), "{text}");
    }

    #[test]
    fn long_names_lose_their_middle() {
        let check = |name: &str, expected: &str| assert_eq!(shortened(name.to_owned(), 7), expected);
        check("", "");
        check("seventh", "seventh");
        check("abcdefgh", "abc…fgh");
        check("äöüß-äöüß", "äöü…öüß");
    }
}
