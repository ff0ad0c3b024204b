//! The table of the policies of a campaign of mappings.

use pliant_model::campaign::mapping::Cell;

use crate::html::count;

/// The columns of a policy's row: title, measure, factor and decimals.
const COLUMNS: [(&str, &str, f64, usize); 8] = [
    ("affinity", "affinity_mean", 1.0, 2),
    ("least", "affinity_min", 1.0, 2),
    ("LAN hit %", "lan_hit_ratio", 100.0, 1),
    ("distance", "distance_mean", 1.0, 3),
    ("inter-LAN %", "inter_lan_percent", 1.0, 1),
    ("cut %", "cut_percent", 1.0, 1),
    ("LANs", "lans_used", 1.0, 1),
    ("overload %", "overload_percent", 1.0, 2),
];

/// The titles of a table of policies.
pub fn mapping_titles() -> Vec<String> {
    let columns = COLUMNS.iter().map(|(title, ..)| *title);
    ["policy", "trials", "failed %"].into_iter().chain(columns).map(str::to_owned).collect()
}

/// The row of a cell in such a table.
pub fn mapping_row(cell: &Cell) -> Vec<String> {
    let failed = 100.0 * cell.failed as f64 / cell.trials.max(1) as f64;
    let mut row = vec![cell.policy.clone(), count(cell.trials as u64), format!("{failed:.1}")];
    row.extend(COLUMNS.iter().map(|(_, measure, factor, decimals)| {
        cell.means.get(*measure).map_or("-".to_owned(), |mean| format!("{:.decimals$}", mean * factor))
    }));
    row
}
