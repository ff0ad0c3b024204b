//! Any bytes as a message of the protocol, which the first byte chooses.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| pliant_wire::any_bytes::as_one_message(bytes));
