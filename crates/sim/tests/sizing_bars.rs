//! Lower bounds of the benefit of bounded slack on a few real months of each kind (docs/research/sizing.md has all measurements,
//! campaigns/sizing makes them).
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "campaigns are files")]

use std::collections::BTreeMap;
use std::path::Path;

use pliant_report::summarize;
use pliant_sim::campaign::{Campaign, Measured, Options, Results, Shard, SimulationCampaign};
use pliant_testing::log;

const POLICIES: &str = r#"
[[policy]]
name = "asked-cbf"
batch = "cbf"
sizes = "asked"

[[policy]]
name = "exact-cbf"
batch = "cbf"
tuner = "exact"

[[policy]]
name = "slack-cbf"
batch = "cbf"

[[policy]]
name = "asked-easy"
batch = "easy"
sizes = "asked"

[[policy]]
name = "exact-easy"
batch = "easy"
tuner = "exact"

[[policy]]
name = "slack-easy"
batch = "easy"
"#;

/// Mean response and mean bounded slowdown of each workload under each policy.
type Means = BTreeMap<(String, String), (f64, f64)>;

fn means(workloads: &str, policies: &str) -> Means {
    let text = format!("name = \"bars\"\nseeds = [1]\nmoldable = [\"paper\"]\n{workloads}{policies}");
    let campaign = SimulationCampaign::parse(&text, Path::new("bars.toml")).unwrap();
    let measure = |measured: Measured<'_>| {
        let Measured::Jobs { run, .. } = measured else { return Err("expected a run of jobs".to_owned()) };
        let summary = summarize(run);
        let means = [("response", summary.mean_response_s), ("slowdown", summary.mean_bounded_slowdown)];
        Ok(means.map(|(name, mean)| (name.to_owned(), mean)).into())
    };
    let out = tempfile::tempdir().unwrap();
    let options = Options { threads: 2, shard: Shard::WHOLE };
    let finished = Campaign::Simulations(campaign).run(out.path(), options, &measure, &()).unwrap();
    let Results::Simulations(results) = finished.contents.results else { panic!("expected simulations") };
    let of = |one: pliant_sim::campaign::Record| {
        ((one.workload, one.policy), (one.metrics["response"], one.metrics["slowdown"]))
    };
    results.runs.into_iter().map(of).collect()
}

/// The geometric mean and the maximum of the ratio of two policies over the workloads.
fn ratio(means: &Means, policy: &str, base: &str, of: fn(&(f64, f64)) -> f64) -> (f64, f64) {
    let mine = means.iter().filter(|((_, name), _)| name == policy);
    let ratios =
        mine.map(|((workload, _), mean)| of(mean) / of(&means[&(workload.clone(), base.to_owned())]));
    let ratios: Vec<f64> = ratios.collect();
    let mean = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64;
    (mean.exp(), ratios.into_iter().fold(0.0, f64::max))
}

fn check(means: &Means, policy: &str, base: &str, mean_response: f64, worst: f64, slowdown: f64) {
    let (found, found_worst) = ratio(means, policy, base, |mean| mean.0);
    let (found_slowdown, _) = ratio(means, policy, base, |mean| mean.1);
    assert!(found <= mean_response, "{policy} / {base}: response {found} above {mean_response}");
    assert!(found_worst <= worst, "{policy} / {base}: worst month {found_worst} above {worst}");
    assert!(found_slowdown <= slowdown, "{policy} / {base}: slowdown {found_slowdown} above {slowdown}");
}

/// Months of a single log at its own load.
fn months(name: &str, file: &str, procs: u32, from: &str, count: u32) -> Option<String> {
    let file = log(file)?;
    Some(format!(
        "[[workload]]\nname = \"{name}\"\nfile = {file:?}\nprocs = {procs}\nmonths = {{ from = \"{from}\", count = {count} }}\n"
    ))
}

#[test]
fn single_logs_respond_sooner_than_in_requested_sizes() {
    let check_log = |file: &str, procs: u32, from: &str| {
        let Some(workloads) = months("log", file, procs, from, 2) else { return };
        let means = means(&workloads, POLICIES);
        for batch in ["cbf", "easy"] {
            let names = ["slack", "exact", "asked"].map(|name| format!("{name}-{batch}"));
            check(&means, &names[0], &names[1], 0.5, 1.05, 0.1);
            check(&means, &names[0], &names[2], 0.85, 1.05, 0.5);
        }
    };
    check_log("KTH-SP2-1996-2.1-cln.swf.gz", 100, "1996-10");
    check_log("SDSC-SP2-1998-4.2-cln.swf.gz", 128, "1998-10");
    check_log("CTC-SP2-1996-3.1-cln.swf.gz", 338, "1996-10");
}

/// Writes the scenario of a federation's month to `folder`.
fn federation(folder: &Path, month: &str) -> Option<String> {
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/ctc-kth-sp2");
    let mut text = std::fs::read_to_string(format!("{scenario}/{month}.toml")).unwrap();
    for name in ["CTC-SP2-1996-3.1-cln.swf.gz", "KTH-SP2-1996-2.1-cln.swf.gz", "SDSC-SP2-1998-4.2-cln.swf.gz"]
    {
        text = text.replace(name, log(name)?.to_str().unwrap());
    }
    let file = folder.join(format!("{month}.toml"));
    std::fs::write(&file, text).unwrap();
    Some(format!("[[workload]]\nname = \"{month}\"\nfile = {file:?}\nplatform = \"{scenario}/cbf.toml\"\n"))
}

#[test]
fn a_federation_responds_much_sooner_than_with_greedy_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let months = ["1996-10", "1997-05"].map(|month| federation(folder.path(), month));
    let [Some(first), Some(second)] = months else { return };
    let means = means(&(first + &second), POLICIES);
    check(&means, "slack-cbf", "exact-cbf", 0.25, 1.05, 0.05);
    check(&means, "slack-easy", "exact-easy", 0.45, 1.05, 0.05);
    check(&means, "slack-cbf", "asked-cbf", 0.85, 1.05, 0.5);
    check(&means, "slack-easy", "asked-easy", 0.85, 1.05, 0.5);
}

/// Reallocation reduces the harm of greedy sizes; bounded slack still responds sooner.
#[test]
fn a_federation_that_reallocates_responds_sooner_too() {
    let folder = tempfile::tempdir().unwrap();
    let Some(month) = federation(folder.path(), "1996-10") else { return };
    let policy = |name: &str, batch: &str, tuner: &str| {
        format!(
            "[[policy]]\nname = \"{name}\"\nbatch = \"{batch}\"\nrealloc = \"regular\"\ntuner = \"{tuner}\"\n"
        )
    };
    let policies = [
        policy("exact-cbf", "cbf", "exact"),
        policy("slack-cbf", "cbf", "slack"),
        policy("exact-easy", "easy", "exact"),
        policy("slack-easy", "easy", "slack"),
    ];
    let means = means(&month, &policies.concat());
    check(&means, "slack-cbf", "exact-cbf", 0.35, 1.05, 0.05);
    check(&means, "slack-easy", "exact-easy", 0.55, 1.05, 0.1);
}

/// Workloads that need no logs: the first months of paper 000's Grid'5000, and Lublin's generator.
#[test]
fn generated_workloads_respond_sooner() {
    let grid = "[[workload]]\nname = \"january\"\ngenerate = \"grid5000\"\nmonth = \"january\"\nplatform = \"grid5000\"\n";
    let grid = means(grid, POLICIES);
    check(&grid, "slack-cbf", "exact-cbf", 0.75, 1.05, 0.5);
    check(&grid, "slack-cbf", "asked-cbf", 0.85, 1.05, 0.5);
    let lublin = "[[workload]]\nname = \"lublin\"\ngenerate = \"lublin\"\njobs = 5000\nprocs = 256\n";
    let lublin = means(lublin, POLICIES);
    for batch in ["cbf", "easy"] {
        let names = ["slack", "exact", "asked"].map(|name| format!("{name}-{batch}"));
        check(&lublin, &names[0], &names[1], 0.6, 0.6, 0.1);
        check(&lublin, &names[0], &names[2], 0.3, 0.3, 0.1);
    }
}

/// Better predictions must not increase waiting times, as they do with greedy sizes.
#[test]
fn better_plans_do_not_make_jobs_wait_longer() {
    let Some(workloads) = months("ctc", "CTC-SP2-1996-3.1-cln.swf.gz", 338, "1996-11", 2) else { return };
    let policies = "[[policy]]\nname = \"walltimes\"\nbatch = \"cbf\"\n\
                    [[policy]]\nname = \"runtimes\"\nbatch = \"cbf\"\nplan_by = \"runtimes\"\n";
    check(&means(&workloads, policies), "runtimes", "walltimes", 1.05, 1.1, 1.05);
}

/// On a nearly idle machine there is little to gain.
#[test]
fn an_idle_log_loses_little() {
    let Some(workloads) = months("nasa", "NASA-iPSC-1993-3.1-cln.swf.gz", 128, "1993-10", 3) else { return };
    let means = means(&workloads, POLICIES);
    for batch in ["cbf", "easy"] {
        let names = ["slack", "exact", "asked"].map(|name| format!("{name}-{batch}"));
        check(&means, &names[0], &names[1], 1.05, 1.05, 1.05);
        // No job waits in its requested size: the mean bounded slowdown is 1 there.
        check(&means, &names[0], &names[2], 1.05, 1.05, 2.5);
    }
}
