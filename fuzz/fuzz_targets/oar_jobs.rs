//! Any text as what oarstat prints of all jobs.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| pliant_site::oar::any_text::jobs(text));
