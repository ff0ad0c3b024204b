//! A dense product of square matrices, C = A B, and Freivalds' test that it is right.
//!
//! The test (R. Freivalds, "Probabilistic machines can use less running time", IFIP Congress 1977) compares A (B x)
//! with C x for random vectors x of -1 and 1: a wrong product passes a vector with a probability of at most one half,
//! and with a single wrong element never. It costs n² per vector where the product costs n³.

use std::num::NonZeroUsize;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::in_pieces;

/// Rows of C that one thread computes at a time.
const PANEL_ROWS: usize = 32;
/// Rows of B that are used together, so that they stay in the cache for all rows of a panel.
const BLOCK_ROWS: usize = 64;
/// Columns of B and C that are used together.
const BLOCK_COLUMNS: usize = 512;
/// Vectors of the test: a wrong product passes all with a probability of at most 1 in 256.
const VECTORS: u64 = 8;

/// Streams of random numbers of one seed.
const STREAM_A: u64 = 0;
const STREAM_B: u64 = 1;
const STREAM_VECTORS: u64 = 2;

/// A square matrix, row by row.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Matrix {
    size: usize,
    elements: Vec<f64>,
}

impl Matrix {
    fn zero(size: usize) -> Matrix {
        Matrix { size, elements: vec![0.0; size * size] }
    }

    /// Elements drawn evenly from -1 to 1.
    fn random(size: usize, seed: u64, stream: u64) -> Matrix {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream);
        // The upper 53 bits: all that a double holds exactly.
        let mut draw = || (random.next_u64() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
        Matrix { size, elements: (0..size * size).map(|_| draw()).collect() }
    }

    fn rows(&self) -> std::slice::ChunksExact<'_, f64> {
        self.elements.chunks_exact(self.size)
    }

    fn times_vector(&self, vector: &[f64]) -> Vec<f64> {
        self.rows().map(|row| row.iter().zip(vector).map(|(element, x)| element * x).sum()).collect()
    }

    /// A number that any change of any element changes, most likely: FNV-1a over the bits of all elements.
    pub(crate) fn checksum(&self) -> u64 {
        let bytes = self.elements.iter().flat_map(|element| element.to_bits().to_le_bytes());
        bytes
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }
}

/// The two factors of a seed.
pub(crate) fn factors(size: NonZeroUsize, seed: u64) -> (Matrix, Matrix) {
    (Matrix::random(size.get(), seed, STREAM_A), Matrix::random(size.get(), seed, STREAM_B))
}

/// The product. `progress` gets the number of computed rows.
pub(crate) fn product(
    a: &Matrix,
    b: &Matrix,
    threads: NonZeroUsize,
    mut progress: impl FnMut(usize),
) -> Matrix {
    let size = a.size;
    let mut c = Matrix::zero(size);
    let mut rows_done = 0;
    let panels = c.elements.chunks_mut(PANEL_ROWS * size).zip(a.elements.chunks(PANEL_ROWS * size));
    let compute = |(c_panel, a_panel): (&mut [f64], &[f64])| {
        add_product(c_panel, a_panel, b);
        a_panel.len() / size
    };
    in_pieces(panels, threads, compute, |rows| {
        rows_done += rows;
        progress(rows_done);
    });
    c
}

/// Adds to some rows of C the same rows of A times B, block by block. Each element is summed in the order of B's rows,
/// whatever the blocks are.
fn add_product(c_panel: &mut [f64], a_panel: &[f64], b: &Matrix) {
    let size = b.size;
    for from_row in (0..size).step_by(BLOCK_ROWS) {
        let rows = from_row..size.min(from_row + BLOCK_ROWS);
        for from_column in (0..size).step_by(BLOCK_COLUMNS) {
            let columns = from_column..size.min(from_column + BLOCK_COLUMNS);
            for (c_row, a_row) in c_panel.chunks_exact_mut(size).zip(a_panel.chunks_exact(size)) {
                let c_part = &mut c_row[columns.clone()];
                for row in rows.clone() {
                    let factor = a_row[row];
                    let b_part = &b.elements[row * size..][columns.clone()];
                    for (sum, element) in c_part.iter_mut().zip(b_part) {
                        *sum += factor * element;
                    }
                }
            }
        }
    }
}

/// What Freivalds' test found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Verdict {
    /// The largest difference between an element of A (B x) and one of C x.
    pub(crate) residual: f64,
    /// What rounding alone can make of it.
    pub(crate) tolerance: f64,
}

impl Verdict {
    /// True if rounding explains the residual.
    pub(crate) fn passed(self) -> bool {
        // Written so that a residual that is no number fails.
        self.residual <= self.tolerance
    }
}

/// Tests whether `c` is the product of `a` and `b`, with vectors of the same seed.
pub(crate) fn freivalds(a: &Matrix, b: &Matrix, c: &Matrix, seed: u64) -> Verdict {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(STREAM_VECTORS);
    let mut residual = 0.0_f64;
    for _ in 0..VECTORS {
        let signs = (0..a.size).map(|_| if random.next_u32() & 1 == 0 { -1.0 } else { 1.0 });
        let x: Vec<f64> = signs.collect();
        let expected = a.times_vector(&b.times_vector(&x));
        let found = c.times_vector(&x);
        let differences = expected.iter().zip(&found).map(|(expected, found)| (expected - found).abs());
        residual = differences.fold(residual, larger);
    }
    // No element of A, B or x exceeds 1, so a sum of n products is off by at most n u times the sum of their sizes, u
    // being half of epsilon: n³ u for each of B x, A (B x), C and C x.
    let size = a.size as f64;
    Verdict { residual, tolerance: 2.0 * size.powi(3) * f64::EPSILON }
}

/// The larger number; none if one of them is none, which `f64::max` would hide.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(size: usize) -> NonZeroUsize {
        NonZeroUsize::new(size).unwrap()
    }

    fn of(rows: &[&[f64]]) -> Matrix {
        Matrix { size: rows.len(), elements: rows.concat() }
    }

    /// The definition.
    fn slow_product(a: &Matrix, b: &Matrix) -> Matrix {
        let n = a.size;
        let element =
            |at: usize| (0..n).map(|k| a.elements[at / n * n + k] * b.elements[k * n + at % n]).sum();
        Matrix { size: n, elements: (0..n * n).map(element).collect() }
    }

    #[test]
    fn known_products() {
        let (a, b) = (of(&[&[1.0, 2.0], &[3.0, 4.0]]), of(&[&[5.0, 6.0], &[7.0, 8.0]]));
        assert_eq!(product(&a, &b, size(1), |_| {}), of(&[&[19.0, 22.0], &[43.0, 50.0]]));
        let unit = of(&[&[1.0, 0.0], &[0.0, 1.0]]);
        assert_eq!(product(&a, &unit, size(2), |_| {}), a);
        assert_eq!(product(&of(&[&[3.0]]), &of(&[&[-2.0]]), size(4), |_| {}), of(&[&[-6.0]]));
    }

    #[test]
    fn blocks_and_threads_change_no_bit() {
        // Around the borders of panels and blocks.
        for n in [1, 2, PANEL_ROWS - 1, PANEL_ROWS + 1, BLOCK_ROWS, BLOCK_ROWS + 3, BLOCK_COLUMNS / 4 + 1] {
            let (a, b) = factors(size(n), 7);
            let expected = slow_product(&a, &b);
            for threads in [1, 2, 5] {
                let found = product(&a, &b, size(threads), |_| {});
                assert_eq!(found.checksum(), expected.checksum(), "size {n}, {threads} threads");
            }
        }
    }

    #[test]
    fn more_columns_than_a_block_holds() {
        let (a, b) = factors(size(BLOCK_COLUMNS + 1), 3);
        let c = product(&a, &b, size(2), |_| {});
        assert!(freivalds(&a, &b, &c, 3).passed());
        assert_eq!(c.checksum(), product(&a, &b, size(1), |_| {}).checksum());
    }

    #[test]
    fn the_test_passes_right_products_and_catches_wrong_elements() {
        let n = 100;
        let (a, b) = factors(size(n), 11);
        let right = product(&a, &b, size(2), |_| {});
        let verdict = freivalds(&a, &b, &right, 11);
        assert!(verdict.passed(), "{verdict:?}");
        for (at, change) in
            [(0, 1e-6), (n * n - 1, -1e-6), (n * 50 + 50, 1.0), (17, f64::NAN), (99, f64::INFINITY)]
        {
            let mut wrong = right.clone();
            wrong.elements[at] += change;
            let verdict = freivalds(&a, &b, &wrong, 11);
            assert!(!verdict.passed(), "element {at} changed by {change}: {verdict:?}");
        }
        assert!(!freivalds(&a, &b, &product(&b, &a, size(1), |_| {}), 11).passed(), "the factors swapped");
    }

    #[test]
    fn seeds_give_different_matrices_with_different_checksums() {
        let (a, b) = factors(size(8), 1);
        assert_ne!(a, b);
        assert_ne!(a, factors(size(8), 2).0);
        assert_eq!((a.clone(), b.clone()), factors(size(8), 1));
        assert_ne!(a.checksum(), b.checksum());
        assert!(a.elements.iter().all(|element| (-1.0..1.0).contains(element)));
        assert!(
            a.elements.iter().any(|element| *element < 0.0)
                && a.elements.iter().any(|element| *element > 0.0)
        );
    }

    #[test]
    fn progress_counts_all_rows() {
        let (a, b) = factors(size(2 * PANEL_ROWS + 1), 1);
        let mut reported = Vec::new();
        product(&a, &b, NonZeroUsize::MIN, |rows| reported.push(rows));
        assert_eq!(reported, [PANEL_ROWS, 2 * PANEL_ROWS, 2 * PANEL_ROWS + 1]);
    }
}
