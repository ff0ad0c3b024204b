//! The results of a sweep or an exploration as a table and as a plot: filtered, sorted and paged, whatever their number.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use pliant_client::{ExplorationView, FolderError, InstanceRecord, SweepView, WorkView};

use crate::types::{GroupView, PointsView, WorkRowView, WorkRowsView};

/// The most characters of an output or an error in a row.
const TEXT_CHARS_MAX: usize = 200;
/// The most points of a plot.
const POINTS_MAX: usize = 4_000;

/// What rows are sorted or plotted by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Column {
    /// The number.
    Number,
    /// The state.
    State,
    /// The server.
    Server,
    /// How long an instance took.
    Elapsed,
    /// When a request ended, after the begin.
    Ended,
    /// The number that the output begins with.
    Value,
    /// An argument, by its place among those that vary.
    Argument(usize),
}

impl Column {
    /// The column of that key; none if the work has no such column.
    pub(crate) fn of(key: &str, work: &WorkView) -> Option<Column> {
        let is_sweep = matches!(work, WorkView::Sweep(_));
        match key {
            "number" => Some(Column::Number),
            "state" => Some(Column::State),
            "server" => Some(Column::Server),
            "elapsed" if is_sweep => Some(Column::Elapsed),
            "ended" if !is_sweep => Some(Column::Ended),
            "value" => Some(Column::Value),
            _ => {
                let name = key.strip_prefix("arg:")?;
                let parameters = match work {
                    WorkView::Sweep(sweep) => sweep.parameters(),
                    WorkView::Exploration(exploration) => exploration.parameters(),
                };
                parameters.names().position(|one| one == name).map(Column::Argument)
            }
        }
    }
}

/// Which rows are wanted.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RowFilter {
    /// Only rows with that text in an argument or in the name of the server.
    pub(crate) text: String,
    /// Only rows in these states; in every state if there is none.
    pub(crate) states: Vec<String>,
    /// What they are sorted by.
    pub(crate) sort: Column,
    /// The smallest first.
    pub(crate) ascending: bool,
    /// The number of the page, from 1.
    pub(crate) page: usize,
    /// How many rows a page has.
    pub(crate) per_page: usize,
}

/// A value by which rows are sorted: numbers before texts, and what is not known last.
#[derive(Clone, PartialEq, Debug)]
enum SortValue {
    Number(f64),
    Text(String),
    Unknown,
}

impl SortValue {
    fn number(value: f64) -> SortValue {
        if value.is_nan() { SortValue::Unknown } else { SortValue::Number(value) }
    }

    fn text(text: &str) -> SortValue {
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => SortValue::Number(number),
            _ => SortValue::Text(text.to_lowercase()),
        }
    }

    /// Unknown values are last in either order.
    fn order(&self, other: &SortValue, ascending: bool) -> Ordering {
        let known = match (self, other) {
            (SortValue::Unknown, SortValue::Unknown) => return Ordering::Equal,
            (SortValue::Unknown, _) => return Ordering::Greater,
            (_, SortValue::Unknown) => return Ordering::Less,
            (SortValue::Number(one), SortValue::Number(other)) => one.total_cmp(other),
            (SortValue::Text(one), SortValue::Text(other)) => one.cmp(other),
            (SortValue::Number(_), SortValue::Text(_)) => Ordering::Less,
            (SortValue::Text(_), SortValue::Number(_)) => Ordering::Greater,
        };
        if ascending { known } else { known.reverse() }
    }
}

/// A page of rows.
///
/// # Errors
///
/// If the folder cannot be read.
pub(crate) fn rows(work: &WorkView, filter: &RowFilter) -> Result<WorkRowsView, FolderError> {
    let text = filter.text.to_lowercase();
    let mut states: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut found: Vec<(SortValue, u32)> = Vec::new();
    for number in numbers(work) {
        if !text.is_empty() && !has_text(work, number, &text) {
            continue;
        }
        let state = state(work, number);
        *states.entry(state).or_default() += 1;
        if filter.states.is_empty() || filter.states.iter().any(|wanted| wanted == state) {
            found.push((value(work, number, &filter.sort), number));
        }
    }
    // Stable: rows with equal values stay in the order of their numbers.
    found.sort_by(|(one, _), (other, _)| one.order(other, filter.ascending));
    let first = (filter.page - 1).saturating_mul(filter.per_page);
    let of_page = found.iter().skip(first).take(filter.per_page);
    Ok(WorkRowsView {
        rows: of_page.map(|(_, number)| row(work, *number)).collect::<Result<_, _>>()?,
        matching: found.len(),
        states: states.into_iter().map(|(state, jobs)| GroupView { value: state.to_owned(), jobs }).collect(),
        page: filter.page,
        per_page: filter.per_page,
    })
}

/// Two numbers of each result against each other.
pub(crate) fn points(work: &WorkView, x: &Column, y: &Column) -> PointsView {
    let number = |number: u32, column: &Column| match value(work, number, column) {
        SortValue::Number(value) => Some(value),
        SortValue::Text(_) | SortValue::Unknown => None,
    };
    let (mut points, mut all) = (Vec::new(), 0);
    for of in numbers(work) {
        all += 1;
        if let Some((x, y)) = number(of, x).zip(number(of, y)) {
            points.push((x, y, of));
        }
    }
    let (without, count) = (all - points.len(), points.len());
    if count > POINTS_MAX {
        let kept = (0..POINTS_MAX).map(|index| points[index * count / POINTS_MAX]);
        points = kept.collect();
    }
    PointsView { left_out: count - points.len(), points, without }
}

fn numbers(work: &WorkView) -> Box<dyn Iterator<Item = u32> + '_> {
    match work {
        WorkView::Sweep(sweep) => Box::new(0..sweep.plan().instances),
        WorkView::Exploration(exploration) => Box::new(exploration.numbers()),
    }
}

fn state(work: &WorkView, number: u32) -> &'static str {
    match work {
        WorkView::Sweep(sweep) => sweep.state(number).word(),
        WorkView::Exploration(exploration) => exploration.request(number).state.word(),
    }
}

fn values(work: &WorkView, number: u32) -> Vec<String> {
    match work {
        WorkView::Sweep(sweep) => sweep.parameters().values(number),
        WorkView::Exploration(exploration) => exploration.parameters().values(number),
    }
}

fn server(work: &WorkView, number: u32) -> Option<String> {
    match work {
        WorkView::Sweep(sweep) => sweep.server(number).map(ToString::to_string),
        WorkView::Exploration(exploration) => {
            exploration.request(number).server.map(|server| server.to_string())
        }
    }
}

fn has_text(work: &WorkView, number: u32, text: &str) -> bool {
    values(work, number).iter().any(|value| value.to_lowercase().contains(text))
        || server(work, number).is_some_and(|server| server.contains(text))
}

fn value(work: &WorkView, number: u32, column: &Column) -> SortValue {
    match (column, work) {
        (Column::Number, _) => SortValue::Number(number.into()),
        (Column::State, _) => SortValue::Text(state(work, number).to_owned()),
        (Column::Server, _) => server(work, number).map_or(SortValue::Unknown, SortValue::Text),
        (Column::Argument(at), _) => {
            values(work, number).get(*at).map_or(SortValue::Unknown, |value| SortValue::text(value))
        }
        (Column::Elapsed, WorkView::Sweep(sweep)) => {
            let elapsed = sweep.facts(number).elapsed_ms;
            elapsed.map_or(SortValue::Unknown, |ms| SortValue::Number(f64::from(ms) / 1e3))
        }
        (Column::Value, WorkView::Sweep(sweep)) => SortValue::number(sweep.facts(number).value),
        (Column::Ended, WorkView::Exploration(exploration)) => {
            ended(exploration, number).map_or(SortValue::Unknown, SortValue::Number)
        }
        (Column::Value, WorkView::Exploration(exploration)) => {
            SortValue::number(exploration.request(number).value)
        }
        (Column::Elapsed, WorkView::Exploration(_)) | (Column::Ended, WorkView::Sweep(_)) => {
            SortValue::Unknown
        }
    }
}

/// When a request ended, in seconds after the begin of the exploration.
fn ended(exploration: &ExplorationView, number: u32) -> Option<f64> {
    exploration.request(number).ended.map(|at| (at - exploration.began()).0 as f64 / 1e3)
}

fn row(work: &WorkView, number: u32) -> Result<WorkRowView, FolderError> {
    match work {
        WorkView::Sweep(sweep) => instance(sweep, number),
        WorkView::Exploration(exploration) => Ok(request(exploration, number)),
    }
}

fn instance(sweep: &SweepView, number: u32) -> Result<WorkRowView, FolderError> {
    let InstanceRecord { instance, values, state, how, server, job, elapsed_ms, output, error, .. } =
        sweep.row(number)?;
    Ok(WorkRowView {
        number: instance,
        values,
        optional: None,
        state: state.word(),
        server: server.map(|server| server.to_string()),
        job_id: job.map(|job| job.to_string()),
        elapsed_s: elapsed_ms.map(|ms| ms as f64 / 1e3),
        ended_s: None,
        how,
        output: shortened(&output.to_string()),
        error: shortened(&error.to_string()),
    })
}

fn request(exploration: &ExplorationView, number: u32) -> WorkRowView {
    let request = exploration.request(number);
    let output = shortened(&String::from_utf8_lossy(&exploration.output(number)));
    let is_failed = request.state == pliant_client::RequestProgress::Failed;
    WorkRowView {
        number,
        values: exploration.parameters().values(number),
        optional: Some(number >= exploration.plan().mandatory),
        state: request.state.word(),
        server: request.server.map(|server| server.to_string()),
        job_id: None,
        elapsed_s: None,
        ended_s: ended(exploration, number),
        how: String::new(),
        output: if is_failed { String::new() } else { output.clone() },
        error: if is_failed { output } else { String::new() },
    }
}

fn shortened(text: &str) -> String {
    let mut short: String = text.trim_end().chars().take(TEXT_CHARS_MAX).collect();
    if short.len() < text.trim_end().len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests;
