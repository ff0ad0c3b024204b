//! What an exploration found, as two figures: backward error and fill-in against the threshold (paper 004, Figure 1). The axis
//! of thresholds is logarithmic and has no place for 0, no row exchanged unless it must be: `run` says what is left out.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use pliant_report::plot::{Axis, Curve, Plot, Scale};

use crate::Failure;
use crate::solve::Found;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The folder that `pliant explore --out` made.
    #[arg(value_name = "DIR")]
    results: PathBuf,
    /// Where the figures go: backward-error.svg and fill-in.svg.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<String, Failure> {
    let found = read(&arguments.results)?;
    let first = found.first().ok_or_else(|| {
        format!("{}: expected results of `factorise`, found none", arguments.results.display())
    })?;
    let of = format!("{} unknowns, {} entries", first.unknowns, first.entries);
    let zero = found.iter().filter(|one| one.threshold == 0.0).count();
    let without = found.iter().filter(|one| one.backward_error.is_none()).count();
    // An error of nothing at all is shown as the least difference of double-precision numbers.
    let error = |one: &Found| one.backward_error.map(|error| error.max(f64::EPSILON));
    let figures = [
        ("backward-error.svg", figure("Backward error", &of, "|b - Ax| / |b|", &found, error)),
        (
            "fill-in.svg",
            figure("Fill-in", &of, "entries of L and U over those of A", &found, |one| one.fill_in),
        ),
    ];
    fs::create_dir_all(&arguments.out).map_err(|error| at(&arguments.out, &error))?;
    let mut text = format!("{} thresholds, {of}; without a solution: {without}", found.len());
    if zero > 0 {
        text.push_str(&format!("; not drawn, as the axis is logarithmic: {zero} of threshold 0"));
    }
    for (name, plot) in figures {
        let path = arguments.out.join(name);
        fs::write(&path, plot.svg()).map_err(|error| at(&path, &error))?;
        text.push_str(&format!("\n{}", path.display()));
    }
    Ok(text)
}

fn figure(
    title: &str,
    of: &str,
    label: &str,
    found: &[Found],
    value: impl Fn(&Found) -> Option<f64>,
) -> Plot {
    let axis = |label: &str| Axis { label: label.to_owned(), scale: Scale::Logarithmic };
    let shown = found.iter().filter(|one| one.threshold > 0.0);
    let points: Vec<(f64, f64)> = shown.filter_map(|one| Some((one.threshold, value(one)?))).collect();
    let title = format!("{title}: {} thresholds, {of}", points.len());
    let curve = Curve { name: "factorisations".to_owned(), points, is_line: false };
    Plot { title, x: axis("pivot threshold"), y: axis(label), curves: vec![curve] }
}

/// The results that are there, by threshold: also of an exploration that goes on, or was interrupted.
fn read(dir: &Path) -> Result<Vec<Found>, Failure> {
    let results = dir.join("out");
    let mut found = Vec::new();
    for entry in fs::read_dir(&results).map_err(|error| at(&results, &error))? {
        let path = entry.map_err(|error| at(&results, &error))?.path();
        let text = fs::read_to_string(&path).map_err(|error| at(&path, &error))?;
        let one: Found = serde_json::from_str(&text)
            .map_err(|error| format!("{}: expected a result of `factorise`: {error}", path.display()))?;
        found.push(one);
    }
    found.sort_by(|one, other| one.threshold.total_cmp(&other.threshold));
    Ok(found)
}

fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_counts_what_it_shows() {
        let found = |threshold: f64, fill_in: Option<f64>| Found {
            threshold,
            unknowns: 9,
            entries: 33,
            backward_error: None,
            fill_in,
            off_diagonal_pivots: None,
        };
        // One that a logarithmic axis cannot show, and one that had no solution.
        let all = [found(0.0, Some(2.0)), found(1e-3, Some(2.0)), found(0.1, None), found(1.0, Some(3.0))];
        let plot = figure("Fill-in", "9 unknowns", "entries", &all, |one| one.fill_in);
        assert_eq!(plot.title, "Fill-in: 2 thresholds, 9 unknowns");
        assert_eq!(plot.svg().matches("<circle").count(), 2);
    }
}
