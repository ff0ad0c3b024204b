//! axe-core, which checks pages for what keeps people from using them, in tests with a browser.

use std::path::PathBuf;

use crate::{Needed, skip};

/// The variable that names the script; `cargo xtask test` sets it where it could get one.
const AXE: &str = "PLIANT_AXE";

/// The text of the script that `PLIANT_AXE` names; says so if there is none.
pub fn script() -> Option<String> {
    let found = std::env::var_os(AXE).map(PathBuf::from).and_then(|path| std::fs::read_to_string(path).ok());
    if found.is_none() {
        skip(
            Needed::Program,
            "no axe-core (PLIANT_AXE names its axe.min.js): the checks written here remain",
        );
    }
    found
}
