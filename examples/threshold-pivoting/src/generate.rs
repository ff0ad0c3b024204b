//! Systems made from a seed, of two kinds on whose diagonals one cannot rely.

use clap::ValueEnum;
use pliant_model::rng::Draws;

use crate::matrix::{Entry, Matrix};

/// The kind of a system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Kind {
    /// Convection and diffusion in a square, with more convection than the grid resolves.
    Convection,
    /// An electrical circuit with sources.
    Circuit,
}

impl Kind {
    #[cfg(test)]
    pub(crate) const ALL: [Kind; 2] = [Kind::Convection, Kind::Circuit];

    /// A system of about so many unknowns.
    pub(crate) fn generate(self, unknowns: usize, seed: u64) -> Matrix {
        match self {
            Kind::Convection => convection(unknowns.isqrt().max(2), &mut Draws::new(seed, "convection")),
            Kind::Circuit => circuit(unknowns.max(4), &mut Draws::new(seed, "circuit")),
        }
    }
}

/// A number from 0 to 1.
fn fraction(draws: &mut Draws) -> f64 {
    f64::from(draws.below(u32::MAX)) / f64::from(u32::MAX)
}

/// A number whose logarithm is uniform over so many decades to both sides of 1.
fn spread(draws: &mut Draws, decades: f64) -> f64 {
    10_f64.powf(decades * (2.0 * fraction(draws) - 1.0))
}

/// Central differences of a flow that turns around the middle of a square: its convection is many times what the grid
/// resolves, so the entries beside the diagonal are larger than those on it. Equations are written in units of their
/// own: rows differ by four decades.
fn convection(side: usize, draws: &mut Draws) -> Matrix {
    /// Convection over diffusion in a cell, where it is greatest.
    const PECLET: f64 = 1e5;
    let middle = (side as f64 - 1.0) / 2.0;
    let at = |x: usize, y: usize| y * side + x;
    let mut entries: Vec<Entry> = Vec::with_capacity(5 * side * side);
    for y in 0..side {
        for x in 0..side {
            let unit = spread(draws, 2.0);
            let (east, north) = ((middle - y as f64) / middle, (x as f64 - middle) / middle);
            let row = at(x, y);
            let mut add = |column: usize, value: f64| entries.push((row, column, unit * value));
            add(row, 4.0 + 0.1 * fraction(draws));
            if x > 0 {
                add(at(x - 1, y), -1.0 - PECLET * east / 2.0);
            }
            if x + 1 < side {
                add(at(x + 1, y), -1.0 + PECLET * east / 2.0);
            }
            if y > 0 {
                add(at(x, y - 1), -1.0 - PECLET * north / 2.0);
            }
            if y + 1 < side {
                add(at(x, y + 1), -1.0 + PECLET * north / 2.0);
            }
        }
    }
    Matrix::of(side * side, entries)
}

/// Modified nodal analysis of a random circuit: conductances over eight decades between nodes that are near each other, and for
/// one in ten nodes a voltage source, controlled by another node, whose equation has no diagonal entry.
fn circuit(unknowns: usize, draws: &mut Draws) -> Matrix {
    let sources = unknowns / 11;
    let nodes = unknowns - sources;
    let mut entries: Vec<Entry> = Vec::new();
    let other = |node: usize, draws: &mut Draws| -> usize {
        let reach = 1 + draws.below(12) as usize;
        if node >= reach { node - reach } else { (node + reach) % nodes }
    };
    for node in 0..nodes {
        // To the ground: without it voltages would be known up to a constant only.
        entries.push((node, node, 1e-4 * spread(draws, 1.0)));
        for _ in 0..2 {
            let (to, conductance) = (other(node, draws), spread(draws, 4.0));
            for (row, column, sign) in [(node, node, 1.0), (to, to, 1.0), (node, to, -1.0), (to, node, -1.0)]
            {
                entries.push((row, column, sign * conductance));
            }
        }
        // A transistor: a current that another node controls.
        if draws.below(3) == 0 {
            entries.push((node, other(node, draws), spread(draws, 4.0)));
        }
    }
    for source in 0..sources {
        let (node, row) = (source * nodes / sources.max(1), nodes + source);
        entries.push((node, row, 1.0));
        entries.push((row, node, 1.0));
        entries.push((row, other(node, draws), -0.5 * fraction(draws)));
    }
    Matrix::of(unknowns, entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_system_and_another_one_another() {
        for kind in Kind::ALL {
            let matrix = kind.generate(100, 1);
            assert_eq!(matrix, kind.generate(100, 1));
            assert_ne!(matrix, kind.generate(100, 2));
            assert_eq!(matrix.order(), 100);
        }
    }
}
