//! Ranks by hand, and names.

use super::*;

/// A job of 16 processors and 1,000 s that was submitted at 10,000 s and has waited 500 s, on 64 processors, of a
/// user with a quarter of what five users have used.
fn job() -> Candidate {
    Candidate {
        procs: Procs(16),
        walltime: Span(1_000),
        waited: Span(500),
        since: Span(10_000),
        capacity: Procs(64),
        user: of_a_quarter(1.0),
        weights: Weights::EQUAL,
        age_max: Span(604_800),
    }
}

/// A user with a quarter of all usage, and with these of five shares.
fn of_a_quarter(shares: f64) -> Entitlement {
    Entitlement { used: 250.0, used_by_all: 1_000.0, shares, shares_of_all: 5.0, bonus: 0 }
}

#[test]
fn ranks_are_those_of_the_formulas() {
    let check = |name: &str, job: Candidate, expected: f64| {
        let found = Order::by_name(name).unwrap().rank(&job);
        assert!(
            (found - expected).abs() <= 1e-9 * expected.abs().max(1.0),
            "{name}: {found}, not {expected}"
        );
    };
    check("first-come", job(), 0.0);
    check("shortest", job(), 1_000.0);
    check("smallest-area", job(), 16_000.0);
    // 3 x 16 + 870 x 4.
    check("f1", job(), 3_528.0);
    // 31.622... x 16 + 25,600 x 4.
    check("f2", job(), 102_905.964_425_626_94);
    check("f3", job(), 16_000.0 + 27_440_000.0);
    check("f4", job(), 4_000.0 + 2_120_000.0);
    // Half of the walltime, cubed, times 16.
    check("wfp3", job(), -2.0);
    check("wfp3", Candidate { waited: Span(3_000), procs: Procs(1), ..job() }, -27.0);
    // 500 / (4 x 1,000).
    check("unicep", job(), -0.125);
    // Serial jobs go first, by wait over walltime.
    check("unicep", Candidate { procs: Procs(1), ..job() }, -0.5 * (1_u64 << 50) as f64);
    // 500 of 604,800 s, 16 of 64 processors, 1 / (1 + 0.25 x 5).
    check("multifactor", job(), -(500.0 / 604_800.0 + 0.25 + 1.0 / 2.25));
    check("multifactor", Candidate { waited: Span(1_000_000), user: Entitlement::UNUSED, ..job() }, -2.25);
    check("multifactor", Candidate { waited: Span(0), user: Entitlement::UNUSED, ..job() }, -1.25);
    check("fair-share", job(), 250.0);
    // Two of the five shares; weights, a shorter maximal age and a class.
    let heavier = Candidate {
        user: Entitlement { bonus: 700, ..of_a_quarter(2.0) },
        weights: Weights { age: 10, size: 100, fair_share: 1_000 },
        age_max: Span(1_000),
        ..job()
    };
    check("multifactor", heavier, -(5.0 + 25.0 + 1_000.0 / 1.625 + 700.0));
    check("fair-share", heavier, 125.0);
    // What was submitted in the first second has no logarithm that could order it.
    check("f1", Candidate { since: Span(0), ..job() }, 48.0);
}

#[test]
fn every_order_has_a_name_of_its_own() {
    let names: std::collections::BTreeSet<&str> = ORDERS.iter().map(|order| order.name).collect();
    assert_eq!(names.len(), ORDERS.len());
    assert!(names.iter().all(|name| Order::by_name(name).unwrap().name == *name));
    let error = Order::by_name("lifo").unwrap_err().to_string();
    assert!(
        error.starts_with("expected a queue order (first-come, shortest, ")
            && error.ends_with("found `lifo`")
    );
}

#[test]
fn aging_reads_back_as_it_is_shown() {
    let check = |text: &str, bound: Option<i64>, shown: &str| {
        let aging: Aging = text.parse().unwrap();
        assert_eq!((aging, aging.to_string().as_str()), (Aging(bound.map(Span)), shown), "{text}");
        assert_eq!(shown.parse::<Aging>().unwrap(), aging);
    };
    check("none", None, "none");
    check("0", Some(0), "0s");
    check("59", Some(59), "59s");
    check("90m", Some(5_400), "90m");
    check("24h", Some(86_400), "1d");
    check("7d", Some(604_800), "7d");
    check("3601s", Some(3_601), "3601s");
    for bad in ["", "h", "-1", "+1", "1.5h", "1 h", "1w", "99999999999999999999", "9223372036854775807d"] {
        let error = bad.parse::<Aging>().unwrap_err().to_string();
        assert!(error.contains("none, 24h, 7d"), "{error}");
    }
}

#[test]
fn a_local_policy_is_called_by_what_differs_from_the_usual() {
    let check = |text: &str, shown: &str| {
        assert_eq!(
            text.parse::<LocalPolicy>().map(|local| local.to_string()),
            Ok(shown.to_owned()),
            "{text}"
        );
    };
    check("cbf", "cbf");
    check("easy/first-come", "easy");
    check("easy/f1", "easy/f1");
    check("easy/f1/168h", "easy/f1");
    check("easy/f1/24h", "easy/f1/1d");
    check("fcfs/wfp3/none", "fcfs/wfp3/none");
    check("easy/f1/3600", "easy/f1/1h");
    let refused = |text: &str, expected: &str| {
        let error = text.parse::<LocalPolicy>().map(|local| local.to_string()).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    };
    refused("lifo", "expected a batch policy (fcfs, ");
    refused("easy/lifo", "expected a queue order (first-come, ");
    refused("easy/f1/soon", "expected a bound of aging (none, ");
    refused("easy/f1/24h/x", "expected a bound of aging (none, ");
    refused(
        "h2/f1",
        "expected a queue order that its batch policy can serve (first-come), found `f1 under h2`",
    );
}

#[test]
fn given_settings_change_and_the_others_stay() {
    let check = |present: &str, batch: &str, expected: Result<&str, &str>| {
        let change = LocalPolicyChange { batch: Some(batch.to_owned()), ..LocalPolicyChange::default() };
        match (change.changed(present), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (found, _) => panic!("{present} with {batch}: {found:?}"),
        }
    };
    check("cbf", "easy", Ok("easy"));
    check("easy/f1/none", "fcfs", Ok("fcfs/f1/none"));
    check("easy/f1/none", "fcfs/first-come", Ok("fcfs"));
    check("easy/f1/none", "fcfs/wfp3", Ok("fcfs/wfp3"));
    check("easy/f1/none", "cbf", Err("found `f1 under cbf`"));
    check("easy/f1/none", "cbf/first-come", Ok("cbf"));
}

#[test]
fn what_files_say_makes_a_local_policy_or_names_the_key_that_is_wrong() {
    let check = |batch, order, aging, expected: Result<&str, (&str, &str)>| {
        let found = local_policy(batch, order, aging);
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err((key, problem)), Err((expected_key, expected))) => {
                assert!(key == expected_key && problem.contains(expected), "{key}: {problem}");
            }
            (found, _) => panic!("{batch} {order:?} {aging:?}: {found:?}"),
        }
    };
    check("cbf", None, None, Ok("cbf"));
    check("easy", Some("f1"), Some("none"), Ok("easy/f1/none"));
    check("easy", Some("first-come"), None, Ok("easy"));
    check("lifo", None, None, Err(("batch", "found `lifo`")));
    check("easy/f1", None, None, Err(("batch", "found `easy/f1`")));
    check("easy", Some("f5"), None, Err(("order", "found `f5`")));
    check("h1", Some("f1"), None, Err(("order", "found `f1 under h1`")));
    check("easy", Some("f1"), Some("soon"), Err(("aging", "found `soon`")));
    check("easy", None, Some("24h"), Err(("aging", "found `first-come with aging 1d`")));
}
