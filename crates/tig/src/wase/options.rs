//! Options of WASE: the defaults are the paper's, the others go beyond it.

/// The options of a mapping.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Options {
    /// The criterion for LANs that may take a cluster.
    pub suitability: Suitability,
    /// The choice among suitable LANs.
    pub search: Search,
    /// The choice of a machine for a task.
    pub fit: Fit,
    /// True if links must have bandwidth for the traffic: the authors' second soft requirement (section 6). Requires an
    /// application that states its bandwidth.
    pub bandwidth: bool,
}

/// The criterion for LANs that may take a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Suitability {
    /// Mean and deviation (eqs. 7 to 9), neither necessary nor sufficient.
    #[default]
    Mean,
    /// Those that hold all its tasks; if none does, the one that holds most of them.
    Packing,
}

/// The choice of a LAN among suitable ones.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Search {
    /// The first in closest-first order (section 4).
    #[default]
    Closest,
    /// The one with the largest suitability over `(1 + per_hop)^hops`, hops as of [`crate::Grid::hops`] from the
    /// user's LAN: power against distance.
    Weighed {
        /// By how much a LAN one hop further must be more suitable; 0 is blind to distance.
        per_hop: f64,
    },
}

/// The choice of a machine for a task among those with enough power.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fit {
    /// The one with the highest affinity, that is with most power left (Algorithm 2).
    #[default]
    Worst,
    /// The one with least power left.
    Best,
}

impl Fit {
    /// The position of the machine that takes a task, ties to the first.
    pub fn choose(self, demand: f64, powers: impl IntoIterator<Item = f64>) -> Option<usize> {
        let mut chosen: Option<(usize, f64)> = None;
        for (at, power) in powers.into_iter().enumerate().filter(|(_, power)| *power >= demand) {
            let better = match (chosen, self) {
                (None, _) => true,
                (Some((_, best)), Fit::Worst) => power > best,
                (Some((_, best)), Fit::Best) => power < best,
            };
            if better {
                chosen = Some((at, power));
            }
        }
        chosen.map(|(at, _)| at)
    }
}
