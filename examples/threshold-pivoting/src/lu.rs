//! Sparse LU factorisation with threshold partial pivoting: left-looking, column by column, in time proportional to the
//! arithmetic (Gilbert and Peierls, "Sparse partial pivoting in time proportional to arithmetic operations", SIAM J.
//! Sci. Stat. Comput. 9(5), 1988).
//!
//! In each column the diagonal entry is the pivot if its size is at least `threshold` times that of the largest entry
//! that could be one; otherwise the largest is. 1 is partial pivoting, 0 takes any diagonal entry but zero.

use std::fmt;

use crate::matrix::Matrix;

/// A row that is no pivot's yet.
const NONE: usize = usize::MAX;

/// The factors of a matrix whose rows and columns are permuted: L has a diagonal of ones, which is not kept.
#[derive(Debug)]
pub(crate) struct Factors {
    /// The column of A that is the n-th.
    columns: Vec<usize>,
    /// The row of A that is the n-th.
    pivot_rows: Vec<usize>,
    /// Entries of L below the diagonal, by column: row of A, value.
    lower: Vec<Vec<(usize, f64)>>,
    /// Entries of U above the diagonal, by column: row of U, value.
    upper: Vec<Vec<(usize, f64)>>,
    diagonal: Vec<f64>,
    off_diagonal: usize,
}

/// No pivot is left: the matrix is singular, or numbers have grown beyond all bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoPivot {
    /// After so many columns.
    pub(crate) after: usize,
}

impl fmt::Display for NoPivot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected a pivot in every column, found none after {} columns", self.after)
    }
}

impl std::error::Error for NoPivot {}

/// Factorises, eliminating columns in this order.
pub(crate) fn factorise(matrix: &Matrix, columns: Vec<usize>, threshold: f64) -> Result<Factors, NoPivot> {
    let order = matrix.order();
    let mut work = Work::new(order);
    let mut factors = Factors {
        columns,
        pivot_rows: Vec::with_capacity(order),
        lower: Vec::with_capacity(order),
        upper: Vec::with_capacity(order),
        diagonal: Vec::with_capacity(order),
        off_diagonal: 0,
    };
    for step in 0..order {
        let column = factors.columns[step];
        work.solve(matrix, column, &factors.lower);
        let pivot = work.pivot(column, threshold).ok_or(NoPivot { after: step })?;
        factors.off_diagonal += usize::from(pivot != column);
        let value = work.values[pivot];
        work.step_of[pivot] = step;
        let (mut below, mut above) = (Vec::new(), Vec::new());
        for row in work.pattern.drain(..) {
            let entry = std::mem::take(&mut work.values[row]);
            match work.step_of[row] {
                _ if row == pivot => {}
                NONE => below.push((row, entry / value)),
                earlier => above.push((earlier, entry)),
            }
        }
        factors.pivot_rows.push(pivot);
        factors.diagonal.push(value);
        factors.lower.push(below);
        factors.upper.push(above);
    }
    Ok(factors)
}

/// One column at a time.
struct Work {
    /// The column, by rows of A.
    values: Vec<f64>,
    /// Where it may be other than zero, in an order in which the columns of L can be applied.
    pattern: Vec<usize>,
    /// The step in which a row was the pivot's.
    step_of: Vec<usize>,
    /// The column in which a row was last met, plus one.
    met: Vec<usize>,
    round: usize,
    /// Rows to go on with, and how many of their column's entries are done.
    stack: Vec<(usize, usize)>,
}

impl Work {
    fn new(order: usize) -> Work {
        Work {
            values: vec![0.0; order],
            pattern: Vec::new(),
            step_of: vec![NONE; order],
            met: vec![0; order],
            round: 0,
            stack: Vec::new(),
        }
    }

    /// Solves L x = a column of A.
    fn solve(&mut self, matrix: &Matrix, column: usize, lower: &[Vec<(usize, f64)>]) {
        self.round += 1;
        for (row, value) in matrix.column(column) {
            self.reach(row, lower);
            self.values[row] = value;
        }
        // What is met last depends on nothing that was met before.
        self.pattern.reverse();
        for row in &self.pattern {
            let Some(entries) = lower.get(self.step_of[*row]) else { continue };
            let factor = self.values[*row];
            entries.iter().for_each(|(below, value)| self.values[*below] -= value * factor);
        }
    }

    /// Adds to the pattern, in postorder, what can be reached from a row through the columns of L.
    fn reach(&mut self, row: usize, lower: &[Vec<(usize, f64)>]) {
        if self.met[row] == self.round {
            return;
        }
        self.met[row] = self.round;
        self.stack.push((row, 0));
        while let Some((row, done)) = self.stack.last_mut() {
            let entries = lower.get(self.step_of[*row]).map_or(&[][..], Vec::as_slice);
            match entries.get(*done) {
                Some((next, _)) => {
                    *done += 1;
                    if self.met[*next] != self.round {
                        self.met[*next] = self.round;
                        self.stack.push((*next, 0));
                    }
                }
                None => {
                    self.pattern.push(*row);
                    self.stack.pop();
                }
            }
        }
    }

    /// The row of the pivot.
    fn pivot(&self, diagonal: usize, threshold: f64) -> Option<usize> {
        let candidates = self.pattern.iter().copied().filter(|row| self.step_of[*row] == NONE);
        let size = |row: usize| self.values[row].abs();
        let largest = candidates.clone().max_by(|one, other| size(*one).total_cmp(&size(*other)))?;
        let most = size(largest);
        if most == 0.0 || !most.is_finite() {
            return None;
        }
        let is_fit = |row: &usize| *row == diagonal && size(*row) > 0.0 && size(*row) >= threshold * most;
        candidates.clone().find(is_fit).or(Some(largest))
    }
}

impl Factors {
    /// The solution of A x = b.
    pub(crate) fn solve(&self, right: &[f64]) -> Vec<f64> {
        let mut rest = right.to_vec();
        for (pivot, entries) in self.pivot_rows.iter().zip(&self.lower) {
            let factor = rest[*pivot];
            entries.iter().for_each(|(row, value)| rest[*row] -= value * factor);
        }
        let mut steps: Vec<f64> = self.pivot_rows.iter().map(|row| rest[*row]).collect();
        let mut solution = vec![0.0; steps.len()];
        for step in (0..steps.len()).rev() {
            let value = steps[step] / self.diagonal[step];
            solution[self.columns[step]] = value;
            self.upper[step].iter().for_each(|(row, entry)| steps[*row] -= entry * value);
        }
        solution
    }

    /// Entries of both factors.
    pub(crate) fn entries(&self) -> usize {
        let of = |side: &[Vec<(usize, f64)>]| side.iter().map(Vec::len).sum::<usize>();
        of(&self.lower) + of(&self.upper) + self.diagonal.len()
    }

    /// Pivots that are not on the diagonal of A.
    pub(crate) fn off_diagonal(&self) -> usize {
        self.off_diagonal
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Kind;
    use crate::ordering::minimum_degree;
    use crate::solve::backward_error;

    /// Partial pivoting is backward stable in practice, whatever the matrix.
    #[test]
    fn partial_pivoting_solves_every_kind_of_system() {
        for kind in Kind::ALL {
            for seed in 1..4 {
                let matrix = kind.generate(150, seed);
                let factors = factorise(&matrix, minimum_degree(&matrix), 1.0).unwrap();
                let right = matrix.times(&vec![1.0; matrix.order()]);
                let error = backward_error(&matrix, &factors.solve(&right), &right);
                assert!(error < 1e-11, "{kind:?}, seed {seed}: {error:e}");
                assert!(factors.entries() >= matrix.order(), "{kind:?}");
            }
        }
    }

    /// A diagonal entry of 1e-20 is far below the other one of its column.
    #[test]
    fn the_threshold_decides_on_the_diagonal_entry() {
        let matrix = Matrix::of(2, vec![(0, 0, 1e-20), (0, 1, 1.0), (1, 0, 1.0), (1, 1, 1.0)]);
        let check = |threshold: f64, off_diagonal: usize, expected: [f64; 2]| {
            let factors = factorise(&matrix, vec![0, 1], threshold).unwrap();
            assert_eq!(factors.off_diagonal(), off_diagonal, "{threshold}");
            assert_eq!(factors.solve(&[1.0, 2.0]), expected, "{threshold}");
        };
        check(1e-3, 2, [1.0, 1.0]);
        // What elimination without pivoting makes of it in double precision.
        check(0.0, 0, [0.0, 1.0]);
    }

    #[test]
    fn a_zero_on_the_diagonal_is_never_taken() {
        let matrix = Matrix::of(2, vec![(0, 1, 2.0), (1, 0, 4.0), (1, 1, 1.0)]);
        let factors = factorise(&matrix, vec![0, 1], 0.0).unwrap();
        assert_eq!(factors.solve(&[2.0, 5.0]), [1.0, 1.0]);
    }

    #[test]
    fn a_singular_matrix_is_refused() {
        let matrix = Matrix::of(2, vec![(0, 0, 1.0), (0, 1, 1.0), (1, 0, 1.0), (1, 1, 1.0)]);
        assert_eq!(factorise(&matrix, vec![0, 1], 1.0).unwrap_err(), NoPivot { after: 1 });
    }

    /// The factors are those of the permuted matrix, entry by entry.
    #[test]
    fn the_product_of_the_factors_is_the_matrix() {
        let matrix = Kind::Circuit.generate(40, 7);
        let factors = factorise(&matrix, minimum_degree(&matrix), 0.1).unwrap();
        let order = matrix.order();
        let mut product = vec![vec![0.0; order]; order];
        for step in 0..order {
            let column = factors.columns[step];
            let upper = factors.upper[step].iter().copied().chain([(step, factors.diagonal[step])]);
            for (row, value) in upper {
                product[factors.pivot_rows[row]][column] += value;
                factors.lower[row]
                    .iter()
                    .for_each(|(below, factor)| product[*below][column] += factor * value);
            }
        }
        for column in 0..order {
            let mut wanted = vec![0.0; order];
            matrix.column(column).for_each(|(row, value)| wanted[row] = value);
            let size = wanted.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
            for (row, (made, wanted)) in product.iter().zip(wanted).enumerate() {
                let off = (made[column] - wanted).abs();
                assert!(off <= 1e-9 * size, "{row}, {column}: off by {off:e} of {size:e}");
            }
        }
    }
}
