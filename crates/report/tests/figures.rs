//! The figures of scale in docs/img are drawn from the tables beside them, so that both say the same.
//! `PLIANT_FIGURES=write cargo test -p pliant-report --test figures` draws them again.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

use std::fs;
use std::path::{Path, PathBuf};

use pliant_report::plot::{Axis, Curve, Plot, Scale};

/// A figure, and the columns of the first table behind it on the page: for each curve its name, x and y.
struct Figure {
    file: &'static str,
    title: &'static str,
    axes: [&'static str; 2],
    curves: &'static [(&'static str, usize, usize)],
}

const FIGURES: [Figure; 2] = [
    Figure {
        file: "clusters.svg",
        title: "Cost of a job against the size of the federation",
        axes: ["clusters", "microseconds per job"],
        curves: &[("mapping only", 0, 1), ("with hourly reallocation", 0, 2)],
    },
    Figure {
        file: "queue.svg",
        title: "Cost of an event against the queue length (CBF, 130 % load)",
        axes: ["mean queue length (jobs)", "microseconds per event"],
        curves: &[("mixed, rigid", 1, 2), ("mixed, moldable", 3, 4), ("all similar", 5, 6)],
    },
];

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

/// The rows of the first table behind a figure: a number for each cell that begins with one.
fn table(page: &str, file: &str) -> Vec<Vec<Option<f64>>> {
    let behind = page.split(file).nth(1).unwrap_or_else(|| panic!("{file} is not on the page"));
    let rows =
        behind.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let number = |cell: &str| cell.split_whitespace().next()?.replace(',', "").parse().ok();
    rows.skip(2).map(|row| row.trim_matches('|').split('|').map(number).collect()).collect()
}

fn drawn(figure: &Figure, rows: &[Vec<Option<f64>>]) -> String {
    let axis = |label: &str| Axis { label: label.to_owned(), scale: Scale::Logarithmic };
    let curve = |(name, x, y): &(&str, usize, usize)| {
        let points: Vec<(f64, f64)> = rows.iter().filter_map(|row| Some((row[*x]?, row[*y]?))).collect();
        assert!(points.len() >= 5, "{name} of {}: {points:?}", figure.file);
        Curve { name: (*name).to_owned(), points, is_line: true }
    };
    let [x, y] = figure.axes.map(axis);
    let curves = figure.curves.iter().map(curve).collect();
    Plot { title: figure.title.to_owned(), x, y, curves }.svg()
}

#[test]
fn figures_of_scale_are_those_of_their_tables() {
    let page = fs::read_to_string(docs("research/performance.md")).unwrap();
    for figure in &FIGURES {
        let (path, svg) = (docs("img").join(figure.file), drawn(figure, &table(&page, figure.file)));
        if std::env::var_os("PLIANT_FIGURES").is_some_and(|value| value == "write") {
            fs::write(&path, &svg).unwrap();
        }
        assert!(
            fs::read_to_string(&path).unwrap() == svg,
            "{}: draw it again, see tests/figures.rs",
            figure.file
        );
    }
}
