//! Any bytes as a program that calls the C functions of GridRPC and DIET.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| pliant_gridrpc::any_calls::as_a_program(bytes));
