//! The claims of docs/research/resources.md on one sequence of jobs of each of its logs; campaigns/resources.toml makes all measurements.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "campaigns are files")]

use std::collections::BTreeMap;
use std::path::Path;

use pliant_report::{compare_with_plans, summarize};
use pliant_sim::campaign::{Campaign, Measured, Options, Results, Shard, SimulationCampaign};
use pliant_testing::{log, logs};

/// The share of late starts in percent and the mean response of each workload under each policy.
type Runs = BTreeMap<(String, String), (f64, f64)>;

/// Runs the campaign with these workloads and policies only; none if the log is absent.
fn run(file: &str, workloads: &[&str], policies: &[&str]) -> Option<Runs> {
    log(file)?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../campaigns/resources.toml");
    let mut campaign = SimulationCampaign::read(&path).unwrap();
    campaign.log_dirs = vec![logs()];
    campaign.workloads.retain(|one| workloads.contains(&one.name.as_str()));
    campaign.policies.retain(|one| policies.contains(&one.name.as_str()));
    assert_eq!((campaign.workloads.len(), campaign.policies.len()), (workloads.len(), policies.len()));
    campaign.seeds.truncate(1);
    campaign.moldable.truncate(1);
    campaign.reference = 0;
    let measure = |measured: Measured<'_>| {
        let Measured::Jobs { run, plans, .. } = measured else { return Err("expected jobs".to_owned()) };
        let planned = compare_with_plans(run, plans.unwrap_or_default());
        assert_eq!(planned.planned_jobs, run.jobs.len() as u64, "every job has a plan");
        let metrics = [("late", planned.late_start_percent), ("response", summarize(run).mean_response_s)];
        Ok(metrics.map(|(name, value)| (name.to_owned(), value)).into())
    };
    let out = tempfile::tempdir().unwrap();
    let options = Options { threads: 2, shard: Shard::WHOLE };
    let finished = Campaign::Simulations(campaign).run(out.path(), options, &measure, &()).unwrap();
    let Results::Simulations(results) = finished.contents.results else { panic!("expected simulations") };
    let of = |one: pliant_sim::campaign::Record| {
        ((one.workload, one.policy), (one.metrics["late"], one.metrics["response"]))
    };
    Some(results.runs.into_iter().map(of).collect())
}

/// With exact runtimes a plan that counts memory is kept, and one that ignores it is not, where memory is scarce.
fn check(file: &str, pool: &str, scarce: &str) {
    let policies = ["rigid", "total", "unaware-rigid", "runtimes", "unaware-runtimes"];
    let Some(runs) = run(file, &[pool, scarce], &policies) else { return };
    let at = |workload: &str, policy: &str| runs[&(workload.to_owned(), policy.to_owned())];
    assert_eq!(
        at(pool, "runtimes"),
        at(pool, "unaware-runtimes"),
        "{pool}: without nodes both count the same"
    );
    assert_eq!(at(pool, "rigid"), at(pool, "unaware-rigid"), "{pool}");
    assert_eq!(at(scarce, "runtimes").0, 0.0, "{scarce}: late starts of plans that count memory");
    assert_eq!(at(scarce, "rigid").0, 0.0, "{scarce}: conservative backfilling delays no job");
    assert!(at(scarce, "unaware-runtimes").0 > 1.0, "{scarce}: {:?}", at(scarce, "unaware-runtimes"));
    assert!(at(scarce, "unaware-rigid").0 > 1.0, "{scarce}: {:?}", at(scarce, "unaware-rigid"));
    assert!(at(scarce, "total").1 < at(scarce, "rigid").1, "{scarce}: moldable jobs respond sooner");
}

#[test]
fn lanl_cm5() {
    check("LANL-CM5-1994-4.1-cln.swf.gz", "lanl-pool", "lanl-75");
}

#[test]
fn hpc2n() {
    check("HPC2N-2002-2.2-cln.swf.gz", "hpc2n-pool", "hpc2n-75");
}
