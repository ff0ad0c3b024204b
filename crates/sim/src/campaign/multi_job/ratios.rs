//! Compares policies with a reference, start by start.

use std::collections::BTreeMap;

use super::results::CellPosition;
use crate::multi_job::Outcome;

/// For each start, the mean logarithm of the ratio of a policy's makespan to that of the reference, over the cells that have
/// both. The policy is the last index of a position.
pub(super) fn log_ratios(
    starts: &[Vec<(CellPosition, Outcome)>],
    policy: usize,
    reference: usize,
) -> Vec<f64> {
    starts.iter().filter_map(|trials| of_start(trials, policy, reference)).collect()
}

fn of_start(trials: &[(CellPosition, Outcome)], policy: usize, reference: usize) -> Option<f64> {
    let means = |of: usize| {
        let mut sums: BTreeMap<[usize; 3], (f64, f64)> = BTreeMap::new();
        for ([cell @ .., _], outcome) in trials.iter().filter(|(indices, _)| indices[3] == of) {
            let (sum, draws) = sums.entry(*cell).or_default();
            *sum += outcome.makespan.0.max(1) as f64;
            *draws += 1.0;
        }
        sums.into_iter().map(|(cell, (sum, draws))| (cell, sum / draws)).collect::<BTreeMap<_, f64>>()
    };
    let (of, other) = (means(policy), means(reference));
    let ratios: Vec<f64> =
        of.iter().filter_map(|(cell, mean)| Some((mean / other.get(cell)?).ln())).collect();
    (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
}

#[cfg(test)]
mod tests {
    use pliant_model::Span;

    use super::*;

    #[test]
    fn makespans_are_compared_within_a_start_and_a_cell() {
        let trial = |count, policy, makespan| {
            ([0, count, 0, policy], Outcome { makespan: Span(makespan), ..Outcome::default() })
        };
        let long = vec![
            // The mean over draws is three times that of the reference in one cell, and equal in the other.
            trial(0, 0, 100),
            trial(0, 1, 200),
            trial(0, 1, 400),
            trial(1, 0, 50),
            trial(1, 1, 50),
        ];
        // A cell without the reference does not count, and neither does a start without any other policy.
        let short = vec![trial(0, 0, 8), trial(0, 1, 4), trial(1, 1, 1_000)];
        let found = log_ratios(&[long, short, vec![trial(0, 1, 9)]], 1, 0);
        assert_eq!(found.len(), 2);
        assert!((found[0] - 3.0_f64.ln() / 2.0).abs() < 1e-12 && (found[1] + 2.0_f64.ln()).abs() < 1e-12);
    }
}
