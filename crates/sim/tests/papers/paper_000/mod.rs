//! The claims of paper 000 under four local batch systems, on small runs of the campaigns whose results are in
//! docs/research/paper-000.md. A test passes each figure to `pliant_testing::claims`. `cargo xtask claims --campaign` prints the
//! figures of the whole campaigns. Months and seeds are such that a figure here is on the same side of a claim as there,
//! wherever the interval of the whole campaign is on one side.

mod batch_systems;
mod conditions;

use std::collections::BTreeMap;
use std::path::Path;

use pliant_report::compare;
use pliant_sim::campaign::{Campaign, Measured, Options, Record, Results, Shard, SimulationCampaign};
use pliant_testing::claims;

/// The local batch systems, in the order of the expected figures.
const BATCHES: [&str; 4] = ["cbf", "cbf-replan", "easy", "fcfs"];
const CAMPAIGN: &str = "paper-000-batch-systems.toml";
const MONTHS: &[&str] = &["april", "june"];
const REGULAR: [&str; 2] = ["MCT-reg", "MinMin-reg"];
const ALL_CANCELLATION: [&str; 2] = ["MCT-can", "MinMin-can"];
const POLICIES: [&str; 4] = ["MCT-reg", "MinMin-reg", "MCT-can", "MinMin-can"];

fn campaign(name: &str) -> SimulationCampaign {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../campaigns").join(name);
    SimulationCampaign::read(&path).unwrap()
}

/// What is compared with the reference run: percentages of jobs, and the relative mean response.
fn measure(measured: Measured<'_>) -> Result<BTreeMap<String, f64>, String> {
    let Measured::Jobs { run, reference, .. } = measured else {
        return Err("expected a run of jobs".to_owned());
    };
    let Some(reference) = reference else { return Ok(BTreeMap::new()) };
    let compared = compare(run, reference).map_err(|error| error.to_string())?;
    let metrics = [
        (IMPACTED, Some(compared.impacted_percent)),
        (MOVES, Some(compared.reallocations_percent)),
        (EARLY, compared.early_percent),
        (RESPONSE, compared.relative_mean_response),
    ];
    Ok(metrics.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

const IMPACTED: &str = "impacted %";
const MOVES: &str = "moves / jobs %";
const EARLY: &str = "early % of impacted";
const RESPONSE: &str = "relative mean response";

/// The runs of a campaign.
struct Runs(Vec<Record>);

impl Runs {
    fn of(campaign: SimulationCampaign) -> Runs {
        let out = tempfile::tempdir().unwrap();
        let options = Options { threads: 2, shard: Shard::WHOLE };
        let finished = Campaign::Simulations(campaign).run(out.path(), options, &measure, &()).unwrap();
        let Results::Simulations(results) = finished.contents.results else { panic!("expected simulations") };
        Runs(results.runs)
    }

    /// The runs on a platform under a local batch system, dedicated ones or others.
    fn on(&self, platform: &str, batch: &str, dedicated: bool) -> Setting<'_> {
        let platform = format!("{platform}-{batch}");
        let is_of = |run: &&Record| run.platform == platform && (run.dedicated_share == 1.0) == dedicated;
        Setting(self.0.iter().filter(is_of).collect())
    }
}

/// The runs of one local batch system and one share of the federation.
struct Setting<'a>(Vec<&'a Record>);

impl Setting<'_> {
    /// A metric of the runs under a policy.
    fn all(&self, policy: &str, metric: &str) -> Vec<f64> {
        let runs = self.0.iter().filter(|run| run.policy == policy);
        runs.filter_map(|run| run.metrics.get(metric).copied()).collect()
    }

    fn mean(&self, policy: &str, metric: &str) -> f64 {
        let all = self.all(policy, metric);
        all.iter().sum::<f64>() / all.len() as f64
    }

    /// The mean of a metric under one policy minus that under another one.
    fn more(&self, policy: &str, other: &str, metric: &str) -> f64 {
        self.mean(policy, metric) - self.mean(other, metric)
    }

    /// The least mean relative response of some policies.
    fn least_response<const N: usize>(&self, policies: [&str; N]) -> f64 {
        policies.map(|policy| self.mean(policy, RESPONSE)).into_iter().fold(f64::INFINITY, f64::min)
    }

    /// The mean over all policies.
    fn mean_of_all(&self, metric: &str) -> f64 {
        POLICIES.map(|policy| self.mean(policy, metric)).iter().sum::<f64>() / POLICIES.len() as f64
    }

    /// The least or the largest value of a metric in the runs under some policies.
    fn over<const N: usize>(&self, policies: [&str; N], metric: &str, choose: fn(f64, f64) -> f64) -> f64 {
        policies.iter().flat_map(|policy| self.all(policy, metric)).reduce(choose).unwrap()
    }

    /// The largest relative mean response minus the least.
    fn spread(&self, policy: &str) -> f64 {
        self.over([policy], RESPONSE, f64::max) - self.over([policy], RESPONSE, f64::min)
    }

    /// The share of the runs in which one policy has a lower response than another.
    fn better(&self, policy: &str, other: &str) -> f64 {
        let (ours, theirs) = (self.all(policy, RESPONSE), self.all(other, RESPONSE));
        let better = ours.iter().zip(&theirs).filter(|(ours, theirs)| ours < theirs);
        better.count() as f64 / ours.len() as f64
    }

    /// The share of the runs with a lower mean response of the impacted jobs, though more of them are late than early.
    fn gain_with_more_late_jobs(&self) -> f64 {
        let compared = self.0.iter().filter(|run| run.metrics.contains_key(EARLY));
        let gain = |run: &&&Record| late(run.metrics[EARLY]) && run.metrics[RESPONSE] < 1.0;
        compared.clone().filter(gain).count() as f64 / compared.count() as f64
    }

    /// The share of the runs under some policies whose metric has that property.
    fn share<const N: usize>(&self, policies: [&str; N], metric: &str, has: impl Fn(f64) -> bool) -> f64 {
        let all: Vec<f64> = policies.iter().flat_map(|policy| self.all(policy, metric)).collect();
        all.iter().filter(|value| has(**value)).count() as f64 / all.len() as f64
    }
}

/// A statistic of a setting.
struct Statistic {
    claim: &'static str,
    what: &'static str,
    of: fn(&Setting<'_>) -> f64,
    /// Whether a value is for the claim; none if it decides nothing.
    is_for_the_claim: Option<fn(f64) -> bool>,
    /// The value under each of [`BATCHES`].
    expected: [f64; 4],
    /// How far a value may be from it.
    within: f64,
}

fn check(runs: &Runs, dedicated: bool, statistics: &[Statistic]) {
    let platforms = if dedicated { "dedicated" } else { "a third through the federation" };
    for Statistic { claim, what, of, is_for_the_claim, expected, within } in statistics {
        for (batch, expected) in BATCHES.iter().zip(expected) {
            let found = of(&runs.on("grid5000", batch, dedicated));
            note(
                claim,
                &format!("{what}, {platforms}, {batch}"),
                found,
                *is_for_the_claim,
                (*expected, *within),
            );
        }
    }
}

fn note(
    claim: &str,
    what: &str,
    found: f64,
    is_for_the_claim: Option<fn(f64) -> bool>,
    (expected, within): (f64, f64),
) {
    let interval = expected - within..=expected + within;
    match is_for_the_claim {
        Some(is_for) => claims::judged(claim, what, found, interval, is_for(found)),
        None => claims::figure(claim, what, found, interval),
    }
}

/// A small run of a campaign of paper 000, with the workloads whose names begin so, and these seeds.
fn run(name: &str, workloads: &[&str], seeds: &[u64], change: impl Fn(&mut SimulationCampaign)) -> Runs {
    let mut campaign = campaign(name);
    campaign.workloads.retain(|workload| workloads.iter().any(|name| workload.name.starts_with(name)));
    campaign.seeds = seeds.to_vec();
    change(&mut campaign);
    Runs::of(campaign)
}

fn late(early_percent: f64) -> bool {
    early_percent < 50.0
}

/// Leaves out the homogeneous platforms.
fn heterogeneous(campaign: &mut SimulationCampaign) {
    for workload in &mut campaign.workloads {
        workload.platforms.truncate(BATCHES.len());
    }
}
