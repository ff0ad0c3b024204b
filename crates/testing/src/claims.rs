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
    let (low, high) = (*interval.start(), *interval.end());
    let shown = format!("{claim}: {what}: {found} (expected {low} to {high})");
    println!("{shown}");
    note(CLAIMS, &format!("{claim}\t{what}\t{found}\t{low}\t{high}"));
    assert!(interval.contains(&found), "{shown}");
}

/// Notes a ratio of durations. It differs between machines and runs, so it has no interval.
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
