//! Suitability of a LAN for a cluster (paper 003, eqs. 7 to 9).

/// Mean power of the `min(tasks, machines)` most powerful machines over the mean demand plus its (population)
/// standard deviation. Machines without power left have left the grid (Algorithm 2, line 9); a LAN of none is
/// of suitability 0. O(m log m).
pub fn suitability(demands: &[f64], powers: &[f64]) -> f64 {
    let mut there: Vec<f64> = powers.iter().copied().filter(|power| *power > 0.0).collect();
    there.sort_by(|one, other| other.total_cmp(one));
    there.truncate(demands.len());
    if there.is_empty() {
        return 0.0;
    }
    let tasks = demands.len() as f64;
    let mean = demands.iter().sum::<f64>() / tasks;
    let variance = demands.iter().map(|demand| (demand - mean).powi(2)).sum::<f64>() / tasks;
    there.iter().sum::<f64>() / there.len() as f64 / (mean + variance.sqrt())
}
