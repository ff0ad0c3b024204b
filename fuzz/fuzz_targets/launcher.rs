//! Any bytes as a request to the set-user-id launcher, and as its configuration file.
#![no_main]

#[path = "../../crates/launcher/tests/support/invariants.rs"]
mod invariants;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| invariants::hold(bytes));
