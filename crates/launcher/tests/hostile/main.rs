//! The launcher as root installs it, called by a hostile server: it does nothing that its file does not allow.
//!
//! As root, with accounts that the test makes and removes. Every call that is refused also leaves each file as it was.

mod callers;
mod requests;
mod site;
mod states;
mod swaps;
mod works;

use pliant_launcher::{REFUSED, Request};
use site::{Site, outcome, snapshot};

/// A call that must be refused.
struct Case<'a> {
    name: &'a str,
    /// Shell of the caller before, in the same process.
    prelude: &'a str,
    input: Vec<u8>,
    /// A part of the refusal.
    expected: &'a str,
}

impl Case<'_> {
    fn check(&self, site: &Site) {
        let before = snapshot();
        let (code, stdout, stderr) = outcome(&site.call(self.prelude, &self.input));
        let name = self.name;
        assert_eq!(code, Some(REFUSED.into()), "{name}: {stdout}{stderr}");
        assert_eq!(stdout, "", "{name}");
        assert!(
            stderr.starts_with("pliant-launcher: ") && stderr.contains(self.expected),
            "{name}: {stderr}"
        );
        assert_eq!(stderr.lines().count(), 1, "{name}: {stderr}");
        assert_eq!(before, snapshot(), "{name}");
    }
}

/// A request that must be refused.
fn refused(site: &Site, name: &str, request: &Request, expected: &str) {
    Case { name, prelude: "", input: request.encode(), expected }.check(site);
}

#[test]
fn a_hostile_server_gets_nothing_that_the_file_does_not_allow() {
    let Some(site) = Site::new() else { return };
    let counts = [requests::check(&site), states::check(&site), callers::check(&site)];
    let calls: usize = counts.iter().sum();
    assert!(calls >= 60, "{calls}");
    println!("{calls} hostile calls: {counts:?} (requests, states of the machine, states of the caller)");
}

#[test]
fn nothing_is_followed_that_is_swapped_while_it_works() {
    let Some(site) = Site::new() else { return };
    swaps::check(&site);
}

#[test]
fn what_the_file_allows_is_done() {
    let Some(site) = Site::new() else { return };
    works::check(&site);
}
