//! Pages without a browser: nothing from outside, no markup from names, bounded size, errors.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use pliant_model::{Procs, RefusalCause, Run};
use pliant_report::html::{CampaignTable, NamedRun, render_campaign, render_runs};
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
fn the_same_run_makes_the_same_page() {
    let run = drawn_run(grid5000(), 500, 1, 1);
    assert_eq!(page(&[("a", &run)]).unwrap(), page(&[("a", &run)]).unwrap());
}
