//! A sparse square matrix by columns.

/// A square matrix: the entries of each column, one after the other.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Matrix {
    starts: Vec<usize>,
    rows: Vec<usize>,
    values: Vec<f64>,
}

/// An entry: row, column, value.
pub(crate) type Entry = (usize, usize, f64);

impl Matrix {
    /// The matrix of `order` rows with these entries; those at the same position are added.
    pub(crate) fn of(order: usize, mut entries: Vec<Entry>) -> Matrix {
        entries.sort_unstable_by_key(|(row, column, _)| (*column, *row));
        entries.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            if same {
                kept.2 += next.2;
            }
            same
        });
        let mut starts = vec![0; order + 1];
        entries.iter().for_each(|(_, column, _)| starts[column + 1] += 1);
        for column in 0..order {
            starts[column + 1] += starts[column];
        }
        let (rows, values) = entries.into_iter().map(|(row, _, value)| (row, value)).unzip();
        Matrix { starts, rows, values }
    }

    /// Rows, and columns.
    pub(crate) fn order(&self) -> usize {
        self.starts.len() - 1
    }

    /// Entries.
    pub(crate) fn entries(&self) -> usize {
        self.rows.len()
    }

    /// The entries of a column: row and value.
    pub(crate) fn column(&self, column: usize) -> impl Iterator<Item = (usize, f64)> {
        let range = self.starts[column]..self.starts[column + 1];
        self.rows[range.clone()].iter().copied().zip(self.values[range].iter().copied())
    }

    /// The product with a vector.
    pub(crate) fn times(&self, vector: &[f64]) -> Vec<f64> {
        let mut product = vec![0.0; self.order()];
        for (column, factor) in vector.iter().enumerate() {
            self.column(column).for_each(|(row, value)| product[row] += value * factor);
        }
        product
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_at_one_position_are_added() {
        let matrix = Matrix::of(2, vec![(1, 0, 2.0), (0, 0, 1.0), (1, 1, 4.0), (1, 0, 1.0)]);
        assert_eq!((matrix.order(), matrix.entries()), (2, 3));
        assert_eq!(matrix.column(0).collect::<Vec<_>>(), [(0, 1.0), (1, 3.0)]);
        assert_eq!(matrix.times(&[1.0, 10.0]), [1.0, 43.0]);
    }
}
