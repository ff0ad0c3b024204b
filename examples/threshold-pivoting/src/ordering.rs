//! The order of elimination: minimum degree (Rose 1972) on the pattern of A + transpose(A), ties by number. As long as pivots
//! stay on the diagonal it keeps the factors sparse; every pivot off the diagonal breaks it, and that is the price of
//! a high threshold.
//!
//! The elimination graph is kept as it is, so this costs the sum of the squares of the degrees met: little beside
//! the factorisation of systems of some thousand unknowns, and too much for far larger ones.

use std::collections::BTreeSet;

use crate::matrix::Matrix;

/// The columns in the order in which they are eliminated.
pub(crate) fn minimum_degree(matrix: &Matrix) -> Vec<usize> {
    let order = matrix.order();
    let mut neighbours = vec![BTreeSet::new(); order];
    for column in 0..order {
        for (row, _) in matrix.column(column).filter(|(row, _)| *row != column) {
            neighbours[row].insert(column);
            neighbours[column].insert(row);
        }
    }
    let mut left: BTreeSet<(usize, usize)> =
        neighbours.iter().enumerate().map(|(vertex, own)| (own.len(), vertex)).collect();
    let mut eliminated = Vec::with_capacity(order);
    while let Some((_, vertex)) = left.pop_first() {
        eliminated.push(vertex);
        let own = std::mem::take(&mut neighbours[vertex]);
        for one in &own {
            left.remove(&(neighbours[*one].len(), *one));
            neighbours[*one].remove(&vertex);
            neighbours[*one].extend(own.iter().filter(|other| *other != one));
            left.insert((neighbours[*one].len(), *one));
        }
    }
    eliminated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hub_of_a_star_goes_last() {
        let spokes = (1..6).flat_map(|spoke| [(0, spoke, 1.0), (spoke, spoke, 1.0), (spoke, 0, 1.0)]);
        let order = minimum_degree(&Matrix::of(6, spokes.chain([(0, 0, 1.0)]).collect()));
        // With one spoke left both have one neighbour, and the hub has the lower number.
        assert_eq!(order, [1, 2, 3, 4, 0, 5]);
    }
}
