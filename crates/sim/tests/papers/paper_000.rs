//! The claims of paper 000 under four local batch systems, on smaller runs of the campaigns whose results are in
//! docs/research/paper-000.md. A test passes each figure to `pliant_testing::claims`.

use std::collections::BTreeMap;
use std::path::Path;

use pliant_report::compare;
use pliant_sim::campaign::{Campaign, Measured, Options, Record, Results, Shard, SimulationCampaign};
use pliant_testing::claims;

/// The local batch systems, in the order of the expected figures.
const BATCHES: [&str; 4] = ["cbf", "cbf-replan", "easy", "fcfs"];
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

    /// The share of the runs under a policy whose metric has that property.
    fn share(&self, policy: &str, metric: &str, has: impl Fn(f64) -> bool) -> f64 {
        let all = self.all(policy, metric);
        all.iter().filter(|value| has(**value)).count() as f64 / all.len() as f64
    }
}

/// A statistic of a setting.
struct Statistic {
    claim: &'static str,
    what: &'static str,
    of: fn(&Setting<'_>) -> f64,
    /// The interval under each of [`BATCHES`].
    expected: [(f64, f64); 4],
}

fn check(runs: &Runs, dedicated: bool, statistics: &[Statistic]) {
    let platforms = if dedicated { "dedicated" } else { "a third through the federation" };
    for Statistic { claim, what, of, expected } in statistics {
        for (batch, (low, high)) in BATCHES.iter().zip(expected) {
            let found = of(&runs.on("grid5000", batch, dedicated));
            claims::figure(claim, &format!("{what}, {platforms}, {batch}"), found, *low..=*high);
        }
    }
}

/// A reduced run of a campaign of paper 000, with these workloads and one seed.
fn run(name: &str, workloads: &[&str], change: impl Fn(&mut SimulationCampaign)) -> Runs {
    let mut campaign = campaign(name);
    campaign.workloads.retain(|workload| workloads.iter().any(|name| workload.name.starts_with(name)));
    campaign.seeds.truncate(1);
    change(&mut campaign);
    Runs::of(campaign)
}

fn late(early_percent: f64) -> bool {
    early_percent < 50.0
}

#[test]
fn c000_5_to_21_and_27_under_four_batch_systems() {
    let runs = run("paper-000-loads.toml", &["february", "june"], |_| ());
    check(&runs, true, DEDICATED);
    check(&runs, false, NOT_DEDICATED);
    for (batch, (low, high)) in BATCHES.iter().zip(LARGER_GAINS) {
        let best = |dedicated: bool| {
            let of = runs.on("grid5000", batch, dedicated);
            POLICIES.map(|policy| of.mean(policy, RESPONSE)).into_iter().fold(f64::INFINITY, f64::min)
        };
        let what =
            format!("how much more the best policy gains in relative mean response if dedicated, {batch}");
        claims::figure("C000-27", &what, best(false) - best(true), low..=high);
    }
}

const LARGER_GAINS: [(f64, f64); 4] = [(0.01, 0.06), (0.06, 0.11), (-0.03, 0.02), (0.08, 0.13)];

const DEDICATED: &[Statistic] = &[
    Statistic {
        claim: "C000-5",
        what: "least impacted %",
        of: |runs| runs.over(POLICIES, IMPACTED, f64::min),
        expected: [(7.0, 10.0), (9.0, 12.0), (9.0, 12.0), (8.0, 11.0)],
    },
    Statistic {
        claim: "C000-5",
        what: "most impacted %",
        of: |runs| runs.over(POLICIES, IMPACTED, f64::max),
        expected: [(60.0, 68.0), (61.0, 68.0), (59.0, 66.0), (74.0, 83.0)],
    },
    Statistic {
        claim: "C000-6",
        what: "mean impacted %, MCT-can minus MCT-reg",
        of: |runs| runs.mean("MCT-can", IMPACTED) - runs.mean("MCT-reg", IMPACTED),
        expected: [(2.9, 4.0), (2.1, 3.2), (2.4, 3.5), (5.5, 6.6)],
    },
    Statistic {
        claim: "C000-6",
        what: "mean impacted %, MinMin-can minus MCT-can",
        of: |runs| runs.mean("MinMin-can", IMPACTED) - runs.mean("MCT-can", IMPACTED),
        expected: [(1.19, 2.2), (1.1, 2.11), (0.44, 1.45), (0.69, 1.7)],
    },
    Statistic {
        claim: "C000-7",
        what: "most moves / jobs %, regular",
        of: |runs| runs.over(["MCT-reg", "MinMin-reg"], MOVES, f64::max),
        expected: [(12.0, 15.0), (16.0, 19.0), (15.0, 18.0), (29.0, 33.0)],
    },
    Statistic {
        claim: "C000-7",
        what: "most moves / jobs %, all-cancellation",
        of: |runs| runs.over(["MCT-can", "MinMin-can"], MOVES, f64::max),
        expected: [(70.0, 79.0), (78.0, 88.0), (56.0, 63.0), (271.0, 301.0)],
    },
    Statistic {
        claim: "C000-8",
        what: "share of runs with more late jobs, MCT-reg",
        of: |runs| runs.share("MCT-reg", EARLY, late),
        expected: [(0.0, 0.17), (0.0, 0.34), (0.16, 0.51), (0.16, 0.51)],
    },
    Statistic {
        claim: "C000-8",
        what: "share of runs with more late jobs, MinMin-reg",
        of: |runs| runs.share("MinMin-reg", EARLY, late),
        expected: [(0.0, 0.17), (0.0, 0.34), (0.32, 0.67), (0.0, 0.34)],
    },
    Statistic {
        claim: "C000-8",
        what: "share of runs with more late jobs, MCT-can",
        of: |runs| runs.share("MCT-can", EARLY, late),
        expected: [(0.0, 0.17), (0.0, 0.17), (0.32, 0.67), (0.0, 0.17)],
    },
    Statistic {
        claim: "C000-8",
        what: "share of runs with more late jobs, MinMin-can",
        of: |runs| runs.share("MinMin-can", EARLY, late),
        expected: [(0.16, 0.51), (0.0, 0.34), (0.0, 0.34), (0.0, 0.17)],
    },
    Statistic {
        claim: "C000-10",
        what: "mean early %, MinMin-reg",
        of: |runs| runs.mean("MinMin-reg", EARLY),
        expected: [(54.0, 61.0), (52.0, 58.0), (47.0, 53.0), (55.0, 61.0)],
    },
    Statistic {
        claim: "C000-10",
        what: "mean early %, MCT-reg",
        of: |runs| runs.mean("MCT-reg", EARLY),
        expected: [(53.0, 60.0), (53.0, 59.0), (50.0, 56.0), (55.0, 61.0)],
    },
    Statistic {
        claim: "C000-10",
        what: "mean early %, MinMin-can",
        of: |runs| runs.mean("MinMin-can", EARLY),
        expected: [(51.0, 57.0), (52.0, 59.0), (49.0, 55.0), (67.0, 75.0)],
    },
    Statistic {
        claim: "C000-10",
        what: "mean early %, MCT-can",
        of: |runs| runs.mean("MCT-can", EARLY),
        expected: [(50.0, 56.0), (51.0, 58.0), (49.0, 55.0), (63.0, 71.0)],
    },
    Statistic {
        claim: "C000-11",
        what: "share of runs that gain 10 to 40 %, MCT-reg",
        of: |runs| runs.share("MCT-reg", RESPONSE, |response| (0.6..=0.9).contains(&response)),
        expected: [(0.16, 0.51), (0.32, 0.67), (0.16, 0.51), (0.16, 0.51)],
    },
    Statistic {
        claim: "C000-11",
        what: "share of runs that gain 10 to 40 %, MCT-can",
        of: |runs| runs.share("MCT-can", RESPONSE, |response| (0.6..=0.9).contains(&response)),
        expected: [(0.32, 0.67), (0.49, 0.84), (0.16, 0.51), (0.32, 0.67)],
    },
    Statistic {
        claim: "C000-11",
        what: "share of runs that gain 10 to 40 %, MinMin-can",
        of: |runs| runs.share("MinMin-can", RESPONSE, |response| (0.6..=0.9).contains(&response)),
        expected: [(0.32, 0.67), (0.49, 0.84), (0.32, 0.67), (0.49, 0.84)],
    },
    Statistic {
        claim: "C000-12",
        what: "mean relative response, MCT-can",
        of: |runs| runs.mean("MCT-can", RESPONSE),
        expected: [(0.9, 0.95), (0.87, 0.92), (0.92, 0.97), (0.81, 0.86)],
    },
    Statistic {
        claim: "C000-12",
        what: "mean relative response, MinMin-can",
        of: |runs| runs.mean("MinMin-can", RESPONSE),
        expected: [(0.87, 0.92), (0.82, 0.87), (0.89, 0.94), (0.75, 0.8)],
    },
    Statistic {
        claim: "C000-12",
        what: "mean relative response, MCT-reg",
        of: |runs| runs.mean("MCT-reg", RESPONSE),
        expected: [(0.88, 0.93), (0.83, 0.88), (0.9, 0.95), (0.91, 0.96)],
    },
    Statistic {
        claim: "C000-12",
        what: "mean relative response, MinMin-reg",
        of: |runs| runs.mean("MinMin-reg", RESPONSE),
        expected: [(0.89, 0.94), (0.87, 0.92), (0.95, 1.0), (0.93, 0.98)],
    },
    Statistic {
        claim: "C000-13",
        what: "worst relative response, MCT-reg",
        of: |runs| runs.over(["MCT-reg"], RESPONSE, f64::max),
        expected: [(0.95, 1.0), (0.97, 1.02), (0.97, 1.02), (0.99, 1.04)],
    },
    Statistic {
        claim: "C000-13",
        what: "share of runs that lose, MCT-reg",
        of: |runs| runs.share("MCT-reg", RESPONSE, |response| response > 1.0),
        expected: [(0.0, 0.17), (0.0, 0.17), (0.0, 0.17), (0.16, 0.51)],
    },
    Statistic {
        claim: "C000-14",
        what: "share of runs in which MCT-can is better than MCT-reg",
        of: |runs| runs.better("MCT-can", "MCT-reg"),
        expected: [(0.0, 0.34), (0.32, 0.67), (0.16, 0.51), (0.66, 1.0)],
    },
    Statistic {
        claim: "C000-14",
        what: "share of runs in which MinMin-can is better than MinMin-reg",
        of: |runs| runs.better("MinMin-can", "MinMin-reg"),
        expected: [(0.49, 0.84), (0.66, 1.0), (0.49, 0.84), (0.83, 1.0)],
    },
    Statistic {
        claim: "C000-15",
        what: "share of runs that gain with more late jobs",
        of: |runs| runs.gain_with_more_late_jobs(),
        expected: [(0.0, 0.22), (0.0, 0.3), (0.0, 0.34), (0.0, 0.17)],
    },
    Statistic {
        claim: "C000-21",
        what: "mean relative response, MCT-can minus MCT-reg",
        of: |runs| runs.mean("MCT-can", RESPONSE) - runs.mean("MCT-reg", RESPONSE),
        expected: [(0.0, 0.05), (0.02, 0.07), (0.0, 0.05), (-0.12, -0.07)],
    },
    Statistic {
        claim: "C000-21",
        what: "mean relative response, MinMin-can minus MinMin-reg",
        of: |runs| runs.mean("MinMin-can", RESPONSE) - runs.mean("MinMin-reg", RESPONSE),
        expected: [(-0.05, 0.0), (-0.07, -0.02), (-0.08, -0.03), (-0.21, -0.16)],
    },
];

const NOT_DEDICATED: &[Statistic] = &[
    Statistic {
        claim: "C000-16",
        what: "mean impacted %, MCT-can minus MCT-reg",
        of: |runs| runs.mean("MCT-can", IMPACTED) - runs.mean("MCT-reg", IMPACTED),
        expected: [(4.45, 5.46), (3.62, 4.63), (3.66, 4.67), (9.34, 10.35)],
    },
    Statistic {
        claim: "C000-18",
        what: "least moves / jobs %, MCT-reg",
        of: |runs| runs.over(["MCT-reg"], MOVES, f64::min),
        expected: [(0.39, 0.8), (0.39, 0.8), (0.29, 0.7), (0.62, 1.03)],
    },
    Statistic {
        claim: "C000-18",
        what: "most moves / jobs %, MCT-reg",
        of: |runs| runs.over(["MCT-reg"], MOVES, f64::max),
        expected: [(4.0, 7.0), (7.0, 10.0), (7.0, 10.0), (19.0, 23.0)],
    },
    Statistic {
        claim: "C000-18",
        what: "most moves / jobs %, all-cancellation",
        of: |runs| runs.over(["MCT-can", "MinMin-can"], MOVES, f64::max),
        expected: [(25.0, 29.0), (31.0, 35.0), (19.0, 22.0), (136.0, 151.0)],
    },
    Statistic {
        claim: "C000-19",
        what: "mean early %, regular",
        of: |runs| 0.5 * (runs.mean("MCT-reg", EARLY) + runs.mean("MinMin-reg", EARLY)),
        expected: [(53.0, 59.0), (53.0, 60.0), (49.0, 55.0), (51.0, 58.0)],
    },
    Statistic {
        claim: "C000-19",
        what: "mean early %, all-cancellation",
        of: |runs| 0.5 * (runs.mean("MCT-can", EARLY) + runs.mean("MinMin-can", EARLY)),
        expected: [(52.0, 58.0), (53.0, 60.0), (51.0, 57.0), (54.0, 61.0)],
    },
    Statistic {
        claim: "C000-20",
        what: "least relative response",
        of: |runs| runs.over(POLICIES, RESPONSE, f64::min),
        expected: [(0.88, 0.93), (0.83, 0.88), (0.84, 0.89), (0.72, 0.77)],
    },
    Statistic {
        claim: "C000-20",
        what: "most relative response",
        of: |runs| runs.over(POLICIES, RESPONSE, f64::max),
        expected: [(1.02, 1.07), (1.01, 1.06), (1.0, 1.05), (1.13, 1.18)],
    },
    Statistic {
        claim: "C000-20",
        what: "worst mean relative response of a policy",
        of: |runs| POLICIES.map(|policy| runs.mean(policy, RESPONSE)).into_iter().fold(0.0, f64::max),
        expected: [(0.95, 1.0), (0.92, 0.97), (0.91, 0.96), (1.02, 1.07)],
    },
    Statistic {
        claim: "C000-21",
        what: "mean relative response, MCT-can minus MCT-reg",
        of: |runs| runs.mean("MCT-can", RESPONSE) - runs.mean("MCT-reg", RESPONSE),
        expected: [(0.01, 0.06), (-0.02, 0.03), (0.0, 0.05), (0.05, 0.1)],
    },
    Statistic {
        claim: "C000-21",
        what: "mean relative response, MinMin-can minus MinMin-reg",
        of: |runs| runs.mean("MinMin-can", RESPONSE) - runs.mean("MinMin-reg", RESPONSE),
        expected: [(0.0, 0.05), (-0.03, 0.02), (-0.02, 0.03), (-0.09, -0.04)],
    },
];

#[test]
fn c000_9_april() {
    let april = |campaign: &mut SimulationCampaign| {
        campaign.dedicated_shares = vec![1.0];
        campaign.policies.truncate(3);
        campaign.workloads[0].platforms.truncate(4);
    };
    let runs = run("paper-000-batch-systems.toml", &["april"], april);
    check(&runs, true, APRIL);
}

const APRIL: &[Statistic] = &[
    Statistic {
        claim: "C000-9",
        what: "early % in April, MCT-reg",
        of: |runs| runs.mean("MCT-reg", EARLY),
        expected: [(49.0, 55.0), (47.0, 53.0), (49.0, 55.0), (58.0, 65.0)],
    },
    Statistic {
        claim: "C000-9",
        what: "early % in April, MinMin-reg",
        of: |runs| runs.mean("MinMin-reg", EARLY),
        expected: [(50.0, 56.0), (50.0, 56.0), (47.0, 53.0), (60.0, 67.0)],
    },
];

#[test]
fn c000_28_spread_of_gains() {
    let mut campaign = campaign("paper-000-batch-systems.toml");
    campaign.workloads.retain(|workload| workload.name == "february");
    campaign.workloads[0].platforms.truncate(4);
    campaign.dedicated_shares = vec![0.3333];
    campaign.seeds.truncate(5);
    check(&Runs::of(campaign), false, SPREADS);
}

const SPREADS: &[Statistic] = &[Statistic {
    claim: "C000-28",
    what: "spread of the relative response, all-cancellation minus regular",
    of: |runs| {
        0.5 * (runs.spread("MCT-can") + runs.spread("MinMin-can")
            - runs.spread("MCT-reg")
            - runs.spread("MinMin-reg"))
    },
    expected: [(0.0, 0.05), (-0.03, 0.02), (-0.02, 0.03), (0.73, 0.78)],
}];

#[test]
fn c000_24_homogeneous_clusters() {
    let dedicated = |campaign: &mut SimulationCampaign| campaign.dedicated_shares = vec![1.0];
    let runs = run("paper-000-batch-systems.toml", &["february", "june"], dedicated);
    for (batch, (low, high)) in BATCHES.iter().zip(HOMOGENEOUS) {
        let mean = |platform: &str| runs.on(platform, batch, true).mean_of_all(RESPONSE);
        let gain = mean("grid5000") - mean("grid5000-homogeneous");
        claims::figure(
            "C000-24",
            &format!("gain of homogeneous clusters in relative response, {batch}"),
            gain,
            low..=high,
        );
    }
}

const HOMOGENEOUS: [(f64, f64); 4] = [(0.01, 0.06), (-0.01, 0.04), (0.04, 0.09), (0.15, 0.2)];

#[test]
fn c000_25_shorter_periods() {
    let june = |campaign: &mut SimulationCampaign| {
        campaign.dedicated_shares = vec![1.0];
        campaign.workloads[0].platforms.truncate(1);
    };
    let runs = run("paper-000-beyond.toml", &["june"], june);
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
