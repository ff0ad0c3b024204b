//! The claims of paper 000 under four local batch systems, on small runs of the campaigns whose results are in
//! docs/research/paper-000.md. A test passes each figure to `pliant_testing::claims`. `cargo xtask claims --campaign` prints the
//! figures of the whole campaigns. Months and seeds are such that a figure here is on the same side of a claim as there,
//! wherever the interval of the whole campaign is on one side.

use std::collections::BTreeMap;
use std::path::Path;

use pliant_report::compare;
use pliant_sim::campaign::{Campaign, Measured, Options, Record, Results, Shard, SimulationCampaign};
use pliant_testing::claims;

/// The local batch systems, in the order of the expected figures.
const BATCHES: [&str; 4] = ["cbf", "cbf-replan", "easy", "fcfs"];
const REGULAR: [&str; 2] = ["MCT-reg", "MinMin-reg"];
const ALL_CANCELLATION: [&str; 2] = ["MCT-can", "MinMin-can"];
const POLICIES: [&str; 4] = ["MCT-reg", "MinMin-reg", "MCT-can", "MinMin-can"];

fn campaign(name: &str) -> SimulationCampaign {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../campaigns").join(name);
    SimulationCampaign::read(&path).unwrap()
}

/// What is compared with the reference run: percentages of jobs, and the relative mean response.
fn measure(measured: Measured<'_>) -> Result<BTreeMap<String, f64>, String> {
    let Measured::Jobs { run, reference } = measured else { return Err("expected a run of jobs".to_owned()) };
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

const CAMPAIGN: &str = "paper-000-batch-systems.toml";
const MONTHS: &[&str] = &["april", "june"];
const SEEDS: &[u64] = &[5, 6];

#[test]
fn c000_5_to_8_10_to_16_19_to_21_and_27_under_four_batch_systems() {
    let runs = run(CAMPAIGN, MONTHS, SEEDS, heterogeneous);
    check(&runs, true, DEDICATED);
    check(&runs, false, NOT_DEDICATED);
    for (index, batch) in BATCHES.iter().enumerate() {
        let (own, other) = (runs.on("grid5000", batch, true), runs.on("grid5000", batch, false));
        let best = other.least_response(POLICIES) - own.least_response(POLICIES);
        let minmin = other.mean("MinMin-reg", RESPONSE) - own.mean("MinMin-reg", RESPONSE);
        for (policy, found, expected) in [
            ("the best policy", best, LARGER_GAINS[index]),
            ("MinMin-reg", minmin, LARGER_GAINS_MINMIN[index]),
        ] {
            let what =
                format!("how much more {policy} gains in relative mean response if dedicated, {batch}");
            note("C000-27", &what, found, Some(|found| found > 0.0), (expected, 0.02));
        }
    }
}

const LARGER_GAINS: [f64; 4] = [0.0, 0.11, 0.07, 0.406];
const LARGER_GAINS_MINMIN: [f64; 4] = [-0.018, -0.066, -0.001, 0.103];

const DEDICATED: &[Statistic] = &[
    Statistic {
        claim: "C000-5",
        what: "least impacted %",
        of: |runs| runs.over(POLICIES, IMPACTED, f64::min),
        is_for_the_claim: None,
        expected: [45.9, 46.0, 43.1, 40.6],
        within: 1.0,
    },
    Statistic {
        claim: "C000-5",
        what: "most impacted %, nearly all in the paper",
        of: |runs| runs.over(POLICIES, IMPACTED, f64::max),
        is_for_the_claim: Some(|found| found >= 90.0),
        expected: [61.1, 59.1, 58.9, 81.4],
        within: 1.0,
    },
    Statistic {
        claim: "C000-5",
        what: "share of the runs with 25 to 95 % impacted",
        of: |runs| runs.share(POLICIES, IMPACTED, |percent| (25.0..=95.0).contains(&percent)),
        is_for_the_claim: Some(|found| found > 0.9),
        expected: [1.0, 1.0, 1.0, 1.0],
        within: 0.05,
    },
    Statistic {
        claim: "C000-6",
        what: "points of impacted %, MCT-can over MCT-reg",
        of: |runs| runs.more("MCT-can", "MCT-reg", IMPACTED),
        is_for_the_claim: Some(|found| found > 0.0),
        expected: [3.3, 2.9, 1.9, 3.4],
        within: 0.5,
    },
    Statistic {
        claim: "C000-6",
        what: "points of impacted %, MinMin-can over MCT-can",
        of: |runs| runs.more("MinMin-can", "MCT-can", IMPACTED),
        is_for_the_claim: Some(|found| found > 0.0),
        expected: [1.8, 1.8, 1.9, 0.5],
        within: 0.5,
    },
    Statistic {
        claim: "C000-7",
        what: "most moves / jobs %, regular",
        of: |runs| runs.over(REGULAR, MOVES, f64::max),
        is_for_the_claim: Some(|found| found <= 15.0),
        expected: [10.6, 14.7, 12.8, 46.5],
        within: 1.0,
    },
    Statistic {
        claim: "C000-7",
        what: "most moves / jobs %, all-cancellation",
        of: |runs| runs.over(ALL_CANCELLATION, MOVES, f64::max),
        is_for_the_claim: Some(|found| found <= 50.0),
        expected: [54.5, 55.4, 49.7, 371.3],
        within: 5.0,
    },
    Statistic {
        claim: "C000-7",
        what: "points of moves / jobs %, MCT-can over MCT-reg",
        of: |runs| runs.more("MCT-can", "MCT-reg", MOVES),
        is_for_the_claim: Some(|found| found > 0.0),
        expected: [40.8, 40.6, 26.3, 244.5],
        within: 5.0,
    },
    Statistic {
        claim: "C000-8",
        what: "share of the runs with more late jobs, 0.01 in the paper",
        of: |runs| runs.share(POLICIES, EARLY, late),
        is_for_the_claim: Some(|found| found < 0.05),
        expected: [0.31, 0.25, 0.12, 0.19],
        within: 0.1,
    },
    Statistic {
        claim: "C000-10",
        what: "points of early %, MCT-reg over MinMin-reg",
        of: |runs| runs.more("MCT-reg", "MinMin-reg", EARLY),
        is_for_the_claim: Some(|found| found > 0.0),
        expected: [0.2, 2.0, 0.5, -2.9],
        within: 0.5,
    },
    Statistic {
        claim: "C000-10",
        what: "points of early %, MinMin-can over MCT-reg",
        of: |runs| runs.more("MinMin-can", "MCT-reg", EARLY),
        is_for_the_claim: Some(|found| found > 0.0),
        expected: [-3.2, 2.8, 0.4, 25.3],
        within: 0.5,
    },
    Statistic {
        claim: "C000-10",
        what: "points of early %, MCT-can over MinMin-can",
        of: |runs| runs.more("MCT-can", "MinMin-can", EARLY),
        is_for_the_claim: Some(|found| found > 0.0),
        expected: [-3.5, -2.8, -1.8, -3.2],
        within: 0.5,
    },
    Statistic {
        claim: "C000-11",
        what: "share of the runs that gain 10 to 40 %, without MinMin-reg",
        of: |runs| {
            runs.share(["MCT-reg", "MCT-can", "MinMin-can"], RESPONSE, |response| {
                (0.6..=0.9).contains(&response)
            })
        },
        is_for_the_claim: Some(|found| found > 0.5),
        expected: [0.25, 0.58, 0.83, 0.58],
        within: 0.1,
    },
    Statistic {
        claim: "C000-12",
        what: "mean relative response, MCT-can minus the best other policy",
        of: |runs| {
            runs.mean("MCT-can", RESPONSE) - runs.least_response(["MCT-reg", "MinMin-reg", "MinMin-can"])
        },
        is_for_the_claim: Some(|found| found < 0.0),
        expected: [0.134, 0.122, 0.076, 0.082],
        within: 0.02,
    },
    Statistic {
        claim: "C000-12",
        what: "mean relative response, MCT-reg minus the best other policy",
        of: |runs| {
            runs.mean("MCT-reg", RESPONSE) - runs.least_response(["MinMin-reg", "MCT-can", "MinMin-can"])
        },
        is_for_the_claim: None,
        expected: [-0.003, 0.127, 0.064, 0.373],
        within: 0.02,
    },
    Statistic {
        claim: "C000-13",
        what: "worst relative response, MCT-reg",
        of: |runs| runs.over(["MCT-reg"], RESPONSE, f64::max),
        is_for_the_claim: Some(|found| found < 1.05),
        expected: [0.916, 1.003, 0.914, 1.077],
        within: 0.02,
    },
    Statistic {
        claim: "C000-13",
        what: "share of the runs that lose, MCT-reg",
        of: |runs| runs.share(["MCT-reg"], RESPONSE, |response| response > 1.0),
        is_for_the_claim: None,
        expected: [0.0, 0.25, 0.0, 0.5],
        within: 0.1,
    },
    Statistic {
        claim: "C000-14",
        what: "share of the draws in which MCT-can is better than MCT-reg",
        of: |runs| runs.better("MCT-can", "MCT-reg"),
        is_for_the_claim: Some(|found| found > 0.5),
        expected: [0.0, 0.5, 0.5, 1.0],
        within: 0.1,
    },
    Statistic {
        claim: "C000-14",
        what: "share of the draws in which MinMin-can is better than MinMin-reg",
        of: |runs| runs.better("MinMin-can", "MinMin-reg"),
        is_for_the_claim: Some(|found| found > 0.5),
        expected: [0.75, 1.0, 1.0, 1.0],
        within: 0.1,
    },
    Statistic {
        claim: "C000-15",
        what: "share of the runs that gain with more late jobs",
        of: |runs| runs.gain_with_more_late_jobs(),
        is_for_the_claim: None,
        expected: [0.12, 0.12, 0.12, 0.0],
        within: 0.1,
    },
    Statistic {
        claim: "C000-21",
        what: "mean relative response, MCT-can minus MCT-reg",
        of: |runs| runs.more("MCT-can", "MCT-reg", RESPONSE),
        is_for_the_claim: Some(|found| found < 0.0),
        expected: [0.134, -0.005, 0.012, -0.291],
        within: 0.02,
    },
    Statistic {
        claim: "C000-21",
        what: "mean relative response, MinMin-can minus MinMin-reg",
        of: |runs| runs.more("MinMin-can", "MinMin-reg", RESPONSE),
        is_for_the_claim: Some(|found| found < 0.0),
        expected: [-0.057, -0.176, -0.102, -0.321],
        within: 0.02,
    },
];

const NOT_DEDICATED: &[Statistic] = &[
    Statistic {
        claim: "C000-16",
        what: "points of impacted %, MCT-can over MCT-reg",
        of: |runs| runs.more("MCT-can", "MCT-reg", IMPACTED),
        is_for_the_claim: Some(|found| found > 0.0),
        expected: [6.9, 7.0, 4.4, 12.3],
        within: 0.5,
    },
    Statistic {
        claim: "C000-19",
        what: "share of the runs with more early jobs, regular minus all-cancellation",
        of: |runs| {
            runs.share(REGULAR, EARLY, |early| early > 50.0)
                - runs.share(ALL_CANCELLATION, EARLY, |early| early > 50.0)
        },
        is_for_the_claim: Some(|found| found > 0.0),
        expected: [0.38, 0.12, -0.12, 0.12],
        within: 0.1,
    },
    Statistic {
        claim: "C000-19",
        what: "mean early %, regular, 70 in the paper",
        of: |runs| 0.5 * (runs.mean("MCT-reg", EARLY) + runs.mean("MinMin-reg", EARLY)),
        is_for_the_claim: Some(|found| found > 65.0),
        expected: [51.8, 52.1, 54.3, 49.3],
        within: 0.5,
    },
    Statistic {
        claim: "C000-20",
        what: "least relative response",
        of: |runs| runs.over(POLICIES, RESPONSE, f64::min),
        is_for_the_claim: None,
        expected: [0.768, 0.834, 0.624, 0.741],
        within: 0.02,
    },
    Statistic {
        claim: "C000-20",
        what: "most relative response",
        of: |runs| runs.over(POLICIES, RESPONSE, f64::max),
        is_for_the_claim: Some(|found| found <= 1.4),
        expected: [1.154, 1.09, 1.047, 1.755],
        within: 0.02,
    },
    Statistic {
        claim: "C000-20",
        what: "worst mean relative response of a policy",
        of: |runs| POLICIES.map(|policy| runs.mean(policy, RESPONSE)).into_iter().fold(0.0, f64::max),
        is_for_the_claim: Some(|found| found < 1.0),
        expected: [1.031, 0.987, 0.933, 1.375],
        within: 0.02,
    },
    Statistic {
        claim: "C000-21",
        what: "mean relative response, MCT-can minus MCT-reg",
        of: |runs| runs.more("MCT-can", "MCT-reg", RESPONSE),
        is_for_the_claim: Some(|found| found > 0.0),
        expected: [0.139, 0.071, 0.092, 0.388],
        within: 0.02,
    },
    Statistic {
        claim: "C000-21",
        what: "mean relative response, MinMin-can minus MinMin-reg",
        of: |runs| runs.more("MinMin-can", "MinMin-reg", RESPONSE),
        is_for_the_claim: Some(|found| found > 0.0),
        expected: [0.104, 0.065, -0.02, 0.173],
        within: 0.02,
    },
];

#[test]
fn c000_18_moves_at_low_load() {
    let runs = run("paper-000-loads.toml", MONTHS, SEEDS_OF_LOADS, |campaign| {
        campaign.workloads.retain(|workload| workload.name.ends_with("0.2"));
        campaign.dedicated_shares = vec![0.3333];
    });
    check(&runs, false, LOW_LOAD);
}

const SEEDS_OF_LOADS: &[u64] = &[1, 2];

const LOW_LOAD: &[Statistic] = &[Statistic {
    claim: "C000-18",
    what: "share of the regular runs with moves under 1 % of the jobs, load 0.2",
    of: |runs| runs.share(REGULAR, MOVES, |moves| moves < 1.0),
    is_for_the_claim: Some(|found| found > 0.5),
    expected: [1.0, 1.0, 1.0, 0.75],
    within: 0.1,
}];

#[test]
fn c000_9_april() {
    let runs = run(CAMPAIGN, &["april"], &[1, 2, 3, 4, 5], |campaign| {
        campaign.dedicated_shares = vec![1.0];
        campaign.policies.truncate(3);
        heterogeneous(campaign);
    });
    check(&runs, true, APRIL);
}

const APRIL: &[Statistic] = &[
    Statistic {
        claim: "C000-9",
        what: "mean early % in April, MCT-reg",
        of: |runs| runs.mean("MCT-reg", EARLY),
        is_for_the_claim: Some(late),
        expected: [52.8, 52.0, 51.8, 62.1],
        within: 0.5,
    },
    Statistic {
        claim: "C000-9",
        what: "mean early % in April, MinMin-reg",
        of: |runs| runs.mean("MinMin-reg", EARLY),
        is_for_the_claim: Some(late),
        expected: [50.8, 50.7, 50.8, 60.6],
        within: 0.5,
    },
];

#[test]
fn c000_28_spread_of_gains() {
    let runs = run(CAMPAIGN, &["april"], &[1, 2, 3], |campaign| {
        campaign.dedicated_shares = vec![0.3333];
        heterogeneous(campaign);
    });
    check(&runs, false, SPREADS);
}

const SPREADS: &[Statistic] = &[Statistic {
    claim: "C000-28",
    what: "spread of the relative response in April, all-cancellation minus regular",
    of: |runs| {
        let of = |policies: [&str; 2]| policies.map(|policy| runs.spread(policy)).iter().sum::<f64>();
        0.5 * (of(ALL_CANCELLATION) - of(REGULAR))
    },
    is_for_the_claim: Some(|found| found < 0.0),
    expected: [0.145, 0.684, 0.298, 0.823],
    within: 0.02,
}];

#[test]
fn c000_24_homogeneous_clusters() {
    let runs = run(CAMPAIGN, &["march", "april"], &[6], |campaign| campaign.dedicated_shares = vec![1.0]);
    for (batch, expected) in BATCHES.iter().zip(HOMOGENEOUS) {
        let mean = |platform: &str| runs.on(platform, batch, true).mean_of_all(RESPONSE);
        let gain = mean("grid5000") - mean("grid5000-homogeneous");
        let what = format!("gain of homogeneous clusters in relative response, {batch}");
        note("C000-24", &what, gain, None, (expected, 0.01));
    }
}

const HOMOGENEOUS: [f64; 4] = [0.018, 0.005, 0.02, 0.017];

#[test]
fn c000_25_shorter_periods() {
    let runs = run("paper-000-beyond.toml", &["june"], &[1], |campaign| {
        campaign.dedicated_shares = vec![1.0];
        campaign.workloads[0].platforms.truncate(1);
    });
    let of = Setting(runs.0.iter().collect());
    for (policy, response, moves) in PERIODS {
        claims::figure(
            "C000-25",
            &format!("relative mean response, {policy}"),
            of.mean(policy, RESPONSE),
            response.0..=response.1,
        );
        claims::figure(
            "C000-25",
            &format!("moves / jobs %, {policy}"),
            of.mean(policy, MOVES),
            moves.0..=moves.1,
        );
    }
}

type Interval = (f64, f64);

/// Policies with their period in seconds (without it, an hour): the relative mean response, and the moves.
const PERIODS: [(&str, Interval, Interval); 4] = [
    ("MCT-reg-600", (0.78, 0.83), (23.0, 26.0)),
    ("MCT-reg", (0.83, 0.88), (12.0, 15.0)),
    ("MCT-can-600", (0.9, 0.95), (168.0, 187.0)),
    ("MCT-can", (1.04, 1.09), (84.0, 94.0)),
];
