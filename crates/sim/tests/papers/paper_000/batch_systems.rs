//! Dedicated and shared platforms under the four local batch systems.

use super::*;

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
