//! Paper 003's campaign: G003-8, and equal results of a campaign of mappings on any number of threads.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "campaigns are files, and their results are folders"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pliant_sim::campaign::mapping::{Axis, MappingCampaign, Results};
use pliant_sim::campaign::{Campaign, Measured, Options, Results as AnyResults, Shard};
use pliant_trace::tig::{read_graph, read_grid};

fn campaigns() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../campaigns")
}

fn paper() -> MappingCampaign {
    MappingCampaign::read(&campaigns().join("paper-003.toml")).unwrap()
}

/// The paper's campaign on small graphs and grids.
fn small() -> MappingCampaign {
    MappingCampaign {
        seeds: vec![1, 2],
        tasks: vec![8, 16],
        mcr_mflops: vec![25.0, 100.0],
        machines: vec![32, 64],
        lan_hosts: vec![4, 8],
        ..paper()
    }
}

fn run(campaign: &MappingCampaign, dir: &Path, threads: usize) -> Results {
    let options = Options { threads, shard: Shard::WHOLE };
    let measure = |_: Measured<'_>| Err("expected no simulation".to_owned());
    let finished = Campaign::Mapping(Box::new(campaign.clone())).run(dir, options, &measure, &()).unwrap();
    let AnyResults::Mapping(results) = finished.contents.results else { panic!("expected mappings") };
    results
}

#[test]
fn g003_8_counts() {
    let campaign = paper();
    assert_eq!((campaign.applications(), campaign.grids(), campaign.trials()), (240, 15, 3600));
    assert_eq!(campaign.trials() / campaign.tasks.len(), 720);
    let [graph, grid] = ["render.toml", "testbed.toml"].map(|name| campaigns().join("paper-003").join(name));
    assert_eq!(read_graph(&graph).unwrap().tasks().len(), 14);
    let grid = read_grid(&grid).unwrap();
    assert_eq!((grid.machines().len(), grid.lans().count()), (23, 3));
    let power: f64 = grid.machines().iter().map(|machine| machine.power_mflops).sum();
    assert_eq!(power, 23_250.0, "the sum of table 1");
    assert!(grid.machines().iter().all(|machine| machine.load == 0.3));
}

/// G003-8: every row of table 2 places 14 tasks. Its numbers cannot be reproduced because inputs are missing (C003-16).
fn check_use_cases(results: &Results) {
    assert_eq!(results.use_cases.len(), 9);
    for row in &results.use_cases {
        assert_eq!(row.clusters, row.wanted_clusters);
        assert_eq!(row.lans.iter().map(|(_, tasks)| tasks).sum::<usize>(), 14, "{row:?}");
        assert!(row.affinity_min.unwrap() >= 1.0);
    }
    // C003-11: a higher MCR gives a lower affinity. C003-12: more clusters cut more edges.
    for rows in results.use_cases.chunks(3) {
        assert!(rows.is_sorted_by(|one, other| one.affinity_mean > other.affinity_mean));
    }
    let cuts: Vec<f64> = results.use_cases.iter().step_by(3).map(|row| row.cut_percent).collect();
    assert!(cuts.is_sorted_by(|one, other| one < other), "{cuts:?}");
}

#[test]
fn a_campaign_of_mappings_gives_equal_results_on_any_number_of_threads() {
    let campaign = small();
    let [one, three] = [1, 3].map(|threads| {
        let dir = tempfile::tempdir().unwrap();
        let results = run(&campaign, dir.path(), threads);
        let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
        (results, read("results.json"), read("trials.csv"))
    });
    assert!(one.1 == three.1 && one.2 == three.2, "the bytes differ");
    let results = one.0;
    check_use_cases(&results);
    let trials = campaign.trials();
    assert_eq!(String::from_utf8(one.2).unwrap().lines().count(), 1 + trials * campaign.policies.len());
    let all = results.cells.iter().filter(|cell| cell.axis == Axis::All);
    assert!(all.clone().count() == campaign.policies.len() && all.clone().all(|cell| cell.trials == trials));
    assert!(all.clone().all(|cell| cell.failed == trials || cell.means["affinity_min"] >= 1.0));
    assert_eq!(results.clusterings.len(), campaign.applications());
    for row in &results.clusterings {
        let costs = [row.contraction, row.rounding, row.rounding_searched];
        assert!(costs.iter().all(|cost| *cost >= row.bound - 1e-6), "{row:?}");
    }
}

/// G003-8: 240 applications have 240 graphs. Classes of clusters and MCRs are compared over different graphs.
#[test]
fn every_application_has_a_graph_of_its_own() {
    let campaign = MappingCampaign { machines: vec![32], lan_hosts: vec![4], ..small() };
    let dir = tempfile::tempdir().unwrap();
    let rows = run(&campaign, dir.path(), 0).clusterings;
    let mut edges = BTreeMap::new();
    for row in &rows {
        let of: &mut Vec<usize> = edges.entry((row.class, row.mcr_mflops.to_bits())).or_default();
        of.push(row.edges);
    }
    assert_eq!(edges.len(), campaign.cluster_sizes.len() * campaign.mcr_mflops.len());
    let different: BTreeSet<&Vec<usize>> = edges.values().collect();
    assert_eq!(different.len(), edges.len(), "edges of the graphs by class and MCR: {edges:?}");
}

#[test]
fn errors_in_campaigns_of_mappings() {
    let text = std::fs::read_to_string(campaigns().join("paper-003.toml")).unwrap();
    let check = |from: &str, to: &str, expected: &str| {
        assert!(text.contains(from));
        let found = MappingCampaign::parse(&text.replacen(from, to, 1), Path::new("c.toml"));
        let found = found.expect_err("a mistake").to_string();
        let (position, message) = found.split_once(": ").unwrap();
        assert!(position.starts_with("c.toml:"), "{position}");
        assert_eq!(message, expected);
    };
    check(
        "\"WASE\"\n\ntasks",
        "\"other\"\n\ntasks",
        "`reference`: expected the name of a [[policy]], found `other`",
    );
    check("[8, 16", "[0, 16", "`tasks`: expected numbers of 1 to 10000, found 0");
    check("[[1, 3]", "[[4, 3]", "`cluster_sizes`: expected at least 1 and at most 10000 tasks, found [4, 3]");
    check("per_hop = 0.1", "per_hop = -1", "`per_hop`: expected a number of 0 to 1000, found -1");
    check("bandwidth_mbps = 1\n", "", "`bandwidth`: expected `bandwidth_mbps` at the top, found none");
    check("name = \"greedy\"", "name = \"WASE\"", "`name`: expected unique names, found `WASE` twice");
}
