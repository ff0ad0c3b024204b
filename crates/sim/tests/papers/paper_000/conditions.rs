//! What other loads, months, platforms and periods change.

use super::*;

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
