//! Any text as what oarnodes prints of all resources.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| pliant_site::oar::any_text::resources(text));
