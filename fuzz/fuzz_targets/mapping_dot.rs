//! Any text as an application and as a grid in DOT.
#![no_main]

#[path = "../../crates/trace/tests/support/mapping.rs"]
mod mapping;

use libfuzzer_sys::fuzz_target;
use pliant_trace::tig::TigFormat;

fuzz_target!(|text: &str| mapping::hold(text, TigFormat::Dot));
