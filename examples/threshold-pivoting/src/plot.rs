//! What an exploration found, as two figures: backward error and fill-in against the threshold (paper 004, Figure 1).

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
    let of = format!("{} thresholds, {} unknowns, {} entries", found.len(), first.unknowns, first.entries);
    let without = found.iter().filter(|one| one.backward_error.is_none()).count();
    // An error of nothing at all is shown as the least that numbers of double precision tell apart.
    let error = |one: &Found| one.backward_error.map(|error| error.max(f64::EPSILON));
    let figures = [
        ("backward-error.svg", figure(&format!("Backward error: {of}"), "|b - Ax| / |b|", &found, error)),
        (
            "fill-in.svg",
            figure(&format!("Fill-in: {of}"), "entries of L and U over those of A", &found, |one| {
                one.fill_in
            }),
        ),
    ];
    fs::create_dir_all(&arguments.out).map_err(|error| at(&arguments.out, &error))?;
    let mut text = format!("{of}; without a solution: {without}");
    for (name, plot) in figures {
        let path = arguments.out.join(name);
        fs::write(&path, plot.svg()).map_err(|error| at(&path, &error))?;
        text.push_str(&format!("\n{}", path.display()));
    }
    Ok(text)
}

fn figure(title: &str, label: &str, found: &[Found], value: impl Fn(&Found) -> Option<f64>) -> Plot {
    let axis = |label: &str| Axis { label: label.to_owned(), scale: Scale::Logarithmic };
    let points = found.iter().filter_map(|one| Some((one.threshold, value(one)?))).collect();
    let curve = Curve { name: "factorisations".to_owned(), points, is_line: false };
    Plot { title: title.to_owned(), x: axis("pivot threshold"), y: axis(label), curves: vec![curve] }
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
