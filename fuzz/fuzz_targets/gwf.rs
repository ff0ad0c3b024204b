//! Any bytes as a log in GWF.
#![no_main]

#[path = "../../crates/trace/tests/support/invariants.rs"]
mod invariants;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| invariants::hold("fuzz.gwf", bytes));
