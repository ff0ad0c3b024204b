//! Figures of the papers' claims. A test that settles a claim passes each of its figures to [`figure`], or calls [`holds`] if
//! the claim is exact. `cargo xtask claims` runs these tests and prints the figures beside the claims of `docs/research`.
//!
//! The name of such a test contains `c00` and the digit of the paper (`c000_5_...`), or `g00` for a golden test.

use std::ops::RangeInclusive;

use super::note;

/// The variable that names the file to which each figure is added; `cargo xtask claims` sets and reads it.
const CLAIMS: &str = "PLIANT_CLAIMS";

/// Checks a figure of a claim such as `C000-5`, and notes it.
///
/// # Panics
///
/// If the figure is outside of its interval, or the note cannot be written.
pub fn figure(claim: &str, what: &str, found: f64, interval: RangeInclusive<f64>) {
    check(claim, what, found, interval, "");
}

/// Checks a figure of a claim as [`figure`] does, and notes whether it is for or against the claim. `cargo xtask claims` fails
/// if the verdict on the page contradicts such figures.
///
/// # Panics
///
/// As [`figure`].
pub fn judged(claim: &str, what: &str, found: f64, interval: RangeInclusive<f64>, is_for_the_claim: bool) {
    let judgement = if is_for_the_claim { "for" } else { "against" };
    check(claim, what, found, interval, &format!("\t{judgement}"));
}

/// Notes a duration or a ratio of durations. It differs between machines and runs, so it has no interval.
///
/// # Panics
///
/// If the note cannot be written.
pub fn timed(claim: &str, what: &str, found: f64) {
    holds(claim, &format!("{what}: {found:.1} (durations, not checked)"));
}

/// Notes that a claim holds exactly, at the end of the test that shows it.
///
/// # Panics
///
/// If the note cannot be written.
pub fn holds(claim: &str, what: &str) {
    println!("{claim}: {what}");
    note(CLAIMS, &format!("{claim}\t{what}"));
}

fn check(claim: &str, what: &str, found: f64, interval: RangeInclusive<f64>, judgement: &str) {
    let (low, high) = (*interval.start(), *interval.end());
    let shown = format!("{claim}: {what}: {found} (expected {low} to {high})");
    println!("{shown}");
    note(CLAIMS, &format!("{claim}\t{what}\t{found}\t{low}\t{high}{judgement}"));
    assert!(interval.contains(&found), "{shown}");
}
