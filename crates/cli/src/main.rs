//! The pliant command.
fn main() {}
