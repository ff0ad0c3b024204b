//! `pliant map`, and a campaign of mappings from its file to its page.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use support::{folder, run};

fn campaigns() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../campaigns")
}

/// The rendering application on its testbed.
fn files() -> [String; 2] {
    ["render.toml", "testbed.toml"].map(|name| campaigns().join("paper-003").join(name).display().to_string())
}

#[test]
fn a_mapping_is_printed_and_drawn() {
    let dir = folder();
    let [app, grid] = files();
    let base = ["map", &app, "--platform", &grid, "--clusters", "5", "--mcr", "150"];
    let said = run(&[&base[..], &["--bound"]].concat(), dir.path());
    assert_eq!(said.code, 0, "{}", said.stderr);
    for words in ["render-worker-1", "affinity", "LAN hit ratio", "inter-LAN traffic", "lower bound"] {
        assert!(said.stdout.contains(words), "{words} in {}", said.stdout);
    }
    let said = run(&[&base[..], &["--format", "json", "--report", "map.html"]].concat(), dir.path());
    let value = said.json();
    assert_eq!(value["schema"], "pliant.map/1");
    let tasks = value["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 14);
    assert!(tasks.iter().all(|task| task["affinity"].as_f64().unwrap() >= 1.0));
    assert_eq!(value["clusters"].as_array().unwrap().len(), 5);
    let page = fs::read_to_string(dir.path().join("map.html")).unwrap();
    assert_eq!(page.matches("<circle").count(), 14, "one circle for each task");
    assert_eq!(page.matches("RQoC ").count(), 18, "one line for each edge");
    assert!(!page.contains("<script"), "the picture needs no script");
}

#[test]
fn every_option_of_a_mapping_works() {
    let dir = folder();
    let [app, grid] = files();
    for options in [
        &["--algorithm", "best-fit"][..],
        &["--clustering", "relaxation", "--similarity", "0.4"],
        &["--cluster-max", "3", "--suitability", "packing", "--fit", "best", "--refine"],
        &["--per-hop", "0.2", "--user-lan", "cnit"],
    ] {
        let said = run(&[&["map", &app, "--platform", &grid], options].concat(), dir.path());
        assert_eq!(said.code, 0, "{options:?}: {}", said.stderr);
    }
}

#[test]
fn what_cannot_be_mapped_says_why() {
    let dir = folder();
    let [app, grid] = files();
    let check = |options: &[&str], expected: &str| {
        let said = run(&[&["map", &app, "--platform", &grid], options].concat(), dir.path());
        assert_eq!(said.code, 2, "{options:?}");
        assert!(said.stderr.contains(expected), "{}", said.stderr);
    };
    check(&["--mcr", "100000"], "expected a LAN of suitability 1 for cluster");
    check(&["--algorithm", "best-fit", "--mcr", "100000"], "expected a machine with 450000.0 MFlop/s left");
    check(&["--mcr", "0"], "--mcr: expected an MCR above 0, found 0");
    check(&["--user-lan", "nowhere"], "expected the user's LAN to be one of the grid's (isti, cnit, iet)");
    check(&["--bandwidth"], "expected `bandwidth_mbps` with --bandwidth, found none");
    check(&["--similarity", "1"], "expected a number above 0 and below 1");
}

#[test]
fn a_campaign_of_mappings_goes_from_its_file_to_its_page() {
    let dir = folder();
    let text = fs::read_to_string(campaigns().join("paper-003.toml")).unwrap();
    let text = text
        .replace("tasks = [8, 16, 32, 64, 128]", "tasks = [8, 16]")
        .replace("machines = [32, 64, 128, 256, 512]", "machines = [32]")
        .replace("paper-003/", &format!("{}/", campaigns().join("paper-003").display()));
    fs::write(dir.path().join("small.toml"), text).unwrap();
    let said = run(&["campaign", "run", "small.toml", "--out", "out"], dir.path());
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.contains("96 applications on 3 grids, 288 trials"), "{}", said.stdout);
    let said = run(&["campaign", "show", "out"], dir.path());
    assert!(said.code == 0 && said.stdout.contains("WASE-refined"), "{}{}", said.stdout, said.stderr);
    let said = run(&["campaign", "show", "out", "--format", "json"], dir.path());
    let value = said.json();
    assert_eq!(value["trials"], 288);
    let said = run(&["report", "out"], dir.path());
    assert_eq!(said.code, 0, "{}", said.stderr);
    let page = fs::read_to_string(dir.path().join("out/report.html")).unwrap();
    for title in ["Failures by tasks [3, 5]", "Least affinity by machines [11]", "Use cases [table 2]"] {
        assert!(page.contains(title), "{title}");
    }
    assert!(!page.contains("NaN"));
    support::same_from_shards("small.toml", "out", &["results.json", "trials.csv"], dir.path());
}

#[test]
fn an_unknown_kind_of_campaign_is_an_error() {
    let dir = folder();
    fs::write(dir.path().join("c.toml"), "kind = \"other\"\n").unwrap();
    let said = run(&["campaign", "run", "c.toml", "--out", "out"], dir.path());
    assert_eq!(said.code, 2);
    let expected =
        "c.toml:1:8: `kind`: expected a kind of campaign (simulations, mapping, multi-job), found `other`";
    assert!(said.stderr.contains(expected), "{}", said.stderr);
}
