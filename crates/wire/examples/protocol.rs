//! Prints the protocol as the lines of `tests/fixtures/protocol-v1.txt`.

#[path = "../tests/protocol/descriptor.rs"]
mod descriptor;

#[allow(clippy::disallowed_macros, reason = "a command for developers")]
fn main() {
    print!("{}", descriptor::current());
}
