//! Whether the machines of a LAN hold a cluster: bin packing instead of a mean and a deviation.
//!
//! Beyond the paper. Eqs. 7 to 9 are neither necessary nor sufficient; this is both, as long as the
//! search ends. It first tries the chosen fit, then the other, then branches over all assignments, largest task
//! first, with machines of equal power taken once and dead ends cut by the sum of what is left. The search is
//! given up after 20,000 steps, and the LAN counted as not holding: clusters have few tasks, and those
//! that nearly fill a LAN of many machines are the hard ones.

use super::Fit;

/// Assignments that are tried before a LAN is given up: a few milliseconds.
const STEPS_MAX: usize = 20_000;

/// For each demand (which come in decreasing order) the position of its machine, if all fit.
pub fn pack(demands: &[f64], powers: &[f64], fit: Fit) -> Option<Vec<usize>> {
    if demands.iter().sum::<f64>() > powers.iter().sum::<f64>() * (1.0 + 1e-12) {
        return None;
    }
    let other = match fit {
        Fit::Worst => Fit::Best,
        Fit::Best => Fit::Worst,
    };
    pack_by(fit, demands, powers).or_else(|| pack_by(other, demands, powers)).or_else(|| {
        let mut search = Packer { demands, left: powers.to_vec(), chosen: Vec::new(), steps: 0 };
        let rest: f64 = demands.iter().sum();
        search.place(rest).then_some(search.chosen)
    })
}

fn pack_by(fit: Fit, demands: &[f64], powers: &[f64]) -> Option<Vec<usize>> {
    let mut left = powers.to_vec();
    let place = |demand: &f64| {
        let at = fit.choose(*demand, left.iter().copied())?;
        left[at] -= demand;
        Some(at)
    };
    demands.iter().map(place).collect()
}

struct Packer<'a> {
    demands: &'a [f64],
    left: Vec<f64>,
    chosen: Vec<usize>,
    steps: usize,
}

impl Packer<'_> {
    /// Places the next demand and all after it, which sum up to `rest`.
    fn place(&mut self, rest: f64) -> bool {
        let Some(&demand) = self.demands.get(self.chosen.len()) else { return true };
        let least = self.demands[self.demands.len() - 1];
        // What is too small for the least demand is of no use to any.
        let usable: f64 = self.left.iter().filter(|left| **left >= least).sum();
        if usable * (1.0 + 1e-12) < rest {
            return false;
        }
        let mut tried: Vec<f64> = Vec::new();
        for at in 0..self.left.len() {
            let before = self.left[at];
            if before < demand || tried.contains(&before) {
                continue;
            }
            tried.push(before);
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return false;
            }
            self.left[at] = before - demand;
            self.chosen.push(at);
            if self.place(rest - demand) {
                return true;
            }
            self.chosen.pop();
            self.left[at] = before;
        }
        false
    }
}
