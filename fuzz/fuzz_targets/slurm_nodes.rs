//! Any text as what sinfo and scontrol print.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| pliant_site::slurm::any_text::nodes(text));
