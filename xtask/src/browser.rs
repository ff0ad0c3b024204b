//! The browser that looks at the HTML report in its tests: found, or installed, or said to be absent.

use crate::{machine, packages};

/// The names under which distributions install it.
const NAMES: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

/// Makes sure that there is a browser if this machine lets us, and says what will be tested.
pub(crate) fn prepare() {
    if machine::find_program(NAMES).is_none() {
        packages::install("chromium");
    }
    match machine::find_program(NAMES) {
        Some(program) => eprintln!("browser: {}", program.display()),
        None => eprintln!("skipped: browser tests (no chromium)"),
    }
}
