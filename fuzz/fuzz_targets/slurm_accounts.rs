//! Any text as what sacct and squeue print of jobs that ended.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| pliant_site::slurm::any_text::accounts(text));
