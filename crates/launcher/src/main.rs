//! `pliant-launcher`: see the library of the same name.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(pliant_launcher::REFUSED)
}
