//! Pages without a browser: nothing from outside, no markup from names, bounded size, errors.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use pliant_model::{Procs, RefusalCause, Run};
use pliant_report::html::{NamedRun, render_campaign, render_runs};
use pliant_report::{CampaignRow, CampaignTable};
use pliant_report::{ComparisonError, summarize};
use support::{drawn_run, grid5000, job, platform, run_of};

fn page(runs: &[(&str, &Run)]) -> Result<String, ComparisonError> {
    let summaries: Vec<_> = runs.iter().map(|(_, run)| summarize(run)).collect();
    let named: Vec<NamedRun<'_>> =
        runs.iter().zip(&summaries).map(|((name, run), summary)| NamedRun { name, run, summary }).collect();
    render_runs("Title", "Note", &named)
}

#[test]
fn nothing_comes_from_outside() {
    let run = drawn_run(grid5000(), 50, 1, 1);
    let pages = [page(&[("a", &run)]).unwrap(), render_campaign("Title", "", &CampaignTable::default())];
    for page in pages {
        for outside in ["http:", "https:", "src=", "@import", "url(", "fetch(", "XMLHttpRequest"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("default-src 'none'"));
    }
}

#[test]
fn names_are_text() {
    let hostile = "</script><script>alert(1)</script>";
    let run = run_of(platform(&[(hostile, 4, 1.0)]), vec![job(1, 0, 0, 5, 1)]);
    let page = page(&[(hostile, &run), ("<b>", &run)]).unwrap();
    assert!(!page.contains("alert(1)</script>"));
    assert!(!page.contains("<b>"));
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script").count(), 2);
}

#[test]
fn runs_of_different_workloads_are_refused() {
    let (one, other) = (drawn_run(grid5000(), 50, 1, 1), drawn_run(grid5000(), 50, 2, 1));
    assert!(matches!(page(&[("one", &one), ("other", &other)]), Err(ComparisonError::DifferentJob { .. })));
}

#[test]
fn empty_and_refused_runs_make_a_page() {
    let mut run = run_of(grid5000(), Vec::new());
    assert!(page(&[("empty", &run)]).unwrap().contains("No job ran."));
    let (requested, available) = (Procs(900), Procs(640));
    run.refused.push((1, RefusalCause::LargerThanAll { requested, available }));
    assert!(page(&[("refused", &run)]).unwrap().contains("1 refused"));
    assert!(page(&[]).unwrap().contains("There is no run to show."));
}

#[test]
fn large_runs_are_drawn_in_part_and_say_so() {
    let run = drawn_run(grid5000(), 120_000, 1, 1);
    let found = page(&[("large", &run)]).unwrap();
    assert!(found.contains("Drawn are the 100,000 largest of 120,000 jobs, "));
    assert!(found.len() < 5_000_000, "{} bytes", found.len());
}

#[test]
fn overbooked_runs_say_so() {
    let run = run_of(platform(&[("a", 4, 1.0)]), vec![job(1, 0, 0, 9, 3), job(2, 0, 5, 9, 3)]);
    assert!(page(&[("bad", &run)]).unwrap().contains("fewer processors were free than they had: 1."));
}

#[test]
fn a_comparison_opens_on_the_variant_with_the_least_mean_response() {
    let at = |end| run_of(platform(&[("a", 4, 1.0)]), vec![job(1, 0, 0, end, 1), job(2, 0, 0, 50, 1)]);
    let (reference, slow, fast, equal) = (at(10), at(30), at(20), at(20));
    let found = page(&[("none", &reference), ("slow", &slow), ("fast", &fast), ("equal", &equal)]).unwrap();
    assert!(found.contains("data-select=\"2\" aria-pressed=\"true\""), "{found}");
    assert_eq!(found.matches("\" aria-pressed=\"true\">").count(), 1);
    assert!(found.contains("<div data-run=\"2\">") && found.contains("<div data-run=\"0\" hidden>"));
    assert!(found.contains("\"first\":2"));
}

#[test]
fn columns_that_say_nothing_are_left_out() {
    let at = |ends: [i64; 2]| {
        let jobs = vec![job(1, 0, 0, ends[0], 1), job(2, 0, 0, ends[1], 1)];
        run_of(platform(&[("a", 4, 1.0)]), jobs)
    };
    let (reference, same_end, later) = (at([10, 50]), at([20, 50]), at([10, 60]));
    let found = page(&[("none", &reference), ("variant", &same_end)]).unwrap();
    assert!(!found.contains(">Makespan gain<") && !found.contains(">Refused<"));
    let found = page(&[("none", &reference), ("variant", &later)]).unwrap();
    assert!(found.contains(">Makespan gain<"));
    let mut refusing = later;
    let (requested, available) = (Procs(9), Procs(4));
    refusing.refused.push((1, RefusalCause::LargerThanAll { requested, available }));
    refusing.jobs.remove(0);
    assert!(page(&[("none", &reference), ("refusing", &refusing)]).unwrap().contains(">Refused<"));
}

#[test]
fn one_is_singular() {
    let mut run = run_of(platform(&[("a", 4, 1.0), ("b", 4, 1.0)]), vec![job(1, 0, 0, 5, 1)]);
    (run.jobs[0].moves, run.reallocations) = (1, 1);
    assert!(page(&[("one", &run)]).unwrap().contains("<strong>1</strong><small>of 1 job</small>"));
    let metrics = [("mean_wait_s".to_owned(), 5.0)].into();
    let (workload, policy) = ("w".to_owned(), "p".to_owned());
    let rows = vec![CampaignRow { workload, dedicated: true, policy, seed: 1, metrics }];
    assert!(render_campaign("one", "", &CampaignTable { rows }).contains("1 run, 1 seed."));
}

#[test]
fn a_campaign_page_opens_with_its_summary_and_folds_the_details() {
    let rows = ["none", "reg"].map(|policy| CampaignRow {
        workload: "june".to_owned(),
        dedicated: true,
        policy: policy.to_owned(),
        seed: 1,
        metrics: ["mean_wait_s", "p99_wait_s"].map(|metric| (metric.to_owned(), policy.len() as f64)).into(),
    });
    let found = render_campaign("Campaign", "", &CampaignTable { rows: rows.into() });
    let position = |text: &str| found.find(text).unwrap_or_else(|| panic!("no `{text}` in {found}"));
    let order = [
        "<h2>Summary</h2>",
        "class=\"best\">3.00 s<",
        "Spread over the seeds",
        "<h3>Mean wait",
        "1 more metric, dedicated platform",
        "<h3>Wait, 99th percentile",
    ];
    assert!(order.map(position).is_sorted(), "{found}");
}

#[test]
fn the_same_run_makes_the_same_page() {
    let run = drawn_run(grid5000(), 500, 1, 1);
    assert_eq!(page(&[("a", &run)]).unwrap(), page(&[("a", &run)]).unwrap());
}
