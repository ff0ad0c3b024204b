//! The service: one system, one threshold.

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::generate::Kind;
use crate::lu::factorise;
use crate::matrix::Matrix;
use crate::ordering::minimum_degree;
use crate::{Failure, market, points};

#[derive(Args)]
pub(crate) struct Arguments {
    /// A matrix in Matrix Market's coordinate format; one is generated if there is none.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The kind of a generated matrix.
    #[arg(long, value_enum, default_value_t = Kind::Convection)]
    kind: Kind,
    /// About how many unknowns a generated matrix has.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(4..=100_000))]
    unknowns: u32,
    /// The seed of a generated matrix.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The pivot threshold: from 0, any diagonal entry, to 1, partial pivoting.
    #[arg(long, value_name = "SHARE", required_unless_present = "point", value_parser = share)]
    threshold: Option<f64>,
    /// The threshold of that number, from 0: 1, 1e-5, 3e-3, 3e-8, and so on between them.
    #[arg(long, value_name = "N", conflicts_with = "threshold")]
    point: Option<u32>,
}

fn share(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    found.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

/// What is found with one threshold.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Found {
    /// The threshold.
    pub(crate) threshold: f64,
    /// Unknowns of the system.
    pub(crate) unknowns: usize,
    /// Entries of its matrix.
    pub(crate) entries: usize,
    /// The backward error of the solution; none if no pivot was left, or numbers grew beyond all bounds.
    pub(crate) backward_error: Option<f64>,
    /// Entries of the factors over those of the matrix.
    pub(crate) fill_in: Option<f64>,
    /// Pivots that are not on the diagonal.
    pub(crate) off_diagonal_pivots: Option<usize>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<String, Failure> {
    let Arguments { file, kind, unknowns, seed, threshold, point } = arguments;
    let matrix = match file {
        Some(path) => market::read(path)?,
        None => kind.generate(*unknowns as usize, *seed),
    };
    let threshold = threshold.unwrap_or_else(|| points::threshold(point.unwrap_or_default()));
    Ok(serde_json::to_string(&solve(&matrix, threshold))?)
}

/// Solves a system whose solution is all ones.
fn solve(matrix: &Matrix, threshold: f64) -> Found {
    let factors = factorise(matrix, minimum_degree(matrix), threshold).ok();
    let right = matrix.times(&vec![1.0; matrix.order()]);
    let error = factors.as_ref().map(|factors| backward_error(matrix, &factors.solve(&right), &right));
    Found {
        threshold,
        unknowns: matrix.order(),
        entries: matrix.entries(),
        backward_error: error.filter(|error| error.is_finite()),
        fill_in: factors.as_ref().map(|factors| factors.entries() as f64 / matrix.entries() as f64),
        off_diagonal_pivots: factors.as_ref().map(|factors| factors.off_diagonal()),
    }
}

/// The paper's measure of a solution: the norm of b - A x over that of b.
pub(crate) fn backward_error(matrix: &Matrix, solution: &[f64], right: &[f64]) -> f64 {
    let norm = |vector: &[f64]| vector.iter().map(|value| value * value).sum::<f64>().sqrt();
    let product = matrix.times(solution);
    let rest: Vec<f64> = right.iter().zip(&product).map(|(right, product)| right - product).collect();
    norm(&rest) / norm(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the whole is about: low thresholds spoil the solution, high ones fill the factors.
    #[test]
    fn accuracy_is_paid_for_with_fill_in() {
        for kind in Kind::ALL {
            let matrix = kind.generate(900, 1);
            let [low, high] = [0.0, 1.0].map(|threshold| solve(&matrix, threshold));
            let error = |found: Found| found.backward_error.unwrap_or(f64::INFINITY);
            assert!(error(high) < 1e-12 && error(low) > 1e2 * error(high), "{kind:?}: {low:?}, {high:?}");
            assert!(low.fill_in.unwrap() < high.fill_in.unwrap(), "{kind:?}: {low:?}, {high:?}");
        }
    }
}
