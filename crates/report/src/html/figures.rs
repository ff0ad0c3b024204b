//! A page of figures and tables that need no script: what campaigns of other kinds than simulations are shown as.

use std::fmt::Write as _;

use super::lines::{self, svg};
use super::number::counted;
use super::page::{escape, still_page};
use super::table::Table;

/// A table of more rows is folded away.
const ROWS_OPEN: usize = 40;

/// A part of the page.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Section {
    /// Its title.
    pub title: String,
    /// What it shows, in a sentence or two.
    pub note: String,
    /// Its tables.
    pub tables: Vec<TextTable>,
    /// Its figures.
    pub figures: Vec<LineFigure>,
}

/// A table.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct TextTable {
    /// Titles of the columns; the first one names the row.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

/// Values over a few points that have a name each.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct LineFigure {
    /// Its title.
    pub title: String,
    /// What it shows, in a sentence.
    pub note: String,
    /// What the points are.
    pub x: String,
    /// What the values are.
    pub y: String,
    /// The points.
    pub points: Vec<String>,
    /// The lines.
    pub series: Vec<Series>,
    /// Values that differ by powers of ten: equal ratios are equally far from each other. What is not above 0 is left out.
    pub logarithmic: bool,
}

/// A line of a figure.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// The value at each point, where there is one.
    pub values: Vec<Option<f64>>,
}

/// The page.
pub fn render_figures(title: &str, note: &str, sections: &[Section]) -> String {
    let mut body = String::new();
    for section in sections {
        let _ = writeln!(body, "<section><h2>{}</h2>", escape(&section.title));
        if !section.note.is_empty() {
            let _ = writeln!(body, "<p class=\"quiet\">{}</p>", escape(&section.note));
        }
        section.tables.iter().for_each(|one| body.push_str(&folded(one)));
        body.push_str("</section>\n");
        if section.figures.is_empty() {
            continue;
        }
        body.push_str("<div class=\"figures\">\n");
        section.figures.iter().for_each(|one| body.push_str(&figure(one)));
        body.push_str("</div>\n");
    }
    still_page(title, note, &body)
}

/// A table, behind its number of rows if it has many.
fn folded(of: &TextTable) -> String {
    if of.rows.len() <= ROWS_OPEN {
        return table(of);
    }
    format!("<details><summary>{}</summary>{}</details>", counted(of.rows.len() as u64, "row"), table(of))
}

fn table(of: &TextTable) -> String {
    let columns: Vec<(&str, &str)> = of.columns.iter().map(|title| (title.as_str(), "")).collect();
    let is_words = |column: usize| {
        let mut values = of.rows.iter().filter_map(|row| row.get(column));
        values.any(|value| value.starts_with(char::is_alphabetic))
    };
    let mut table = Table::with_words(&columns, (1..columns.len()).map(is_words).collect());
    for row in &of.rows {
        let (name, values) = row.split_first().map_or(("", &[][..]), |(name, rest)| (name.as_str(), rest));
        table.row(name, values.iter().cloned());
    }
    table.html()
}

/// A figure with its legend and its numbers.
pub(super) fn figure(of: &LineFigure) -> String {
    let mut html = format!("<section><h3>{}</h3>", escape(&of.title));
    if !of.note.is_empty() {
        let _ = write!(html, "<p class=\"quiet\">{}</p>", escape(&of.note));
    }
    html.push_str(&svg(of));
    html.push_str("<div class=\"legend\">");
    for (at, series) in of.series.iter().enumerate() {
        let colour = lines::colour(at);
        let _ = write!(html, "<span><i style=\"background:{colour}\"></i>{}</span>", escape(&series.name));
    }
    html.push_str("</div><details><summary>Numbers</summary>");
    let numbers = TextTable {
        columns: std::iter::once(of.x.clone()).chain(of.series.iter().map(|one| one.name.clone())).collect(),
        rows: of
            .points
            .iter()
            .enumerate()
            .map(|(at, point)| {
                let values = of
                    .series
                    .iter()
                    .map(|one| one.values.get(at).copied().flatten().map_or("-".to_owned(), lines::number));
                std::iter::once(point.clone()).chain(values).collect()
            })
            .collect(),
    };
    html.push_str(&table(&numbers));
    html.push_str("</details></section>\n");
    html
}
