//! Any text as what squeue prints of all jobs.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| pliant_site::slurm::any_text::queue(text));
