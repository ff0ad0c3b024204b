//! The browser of this machine, for tests that look at pages.

use std::path::PathBuf;

use crate::{Needed, skip};

/// The browser that `PLIANT_CHROMIUM` names, or the first of chromium, chromium-browser, google-chrome on the PATH; says so if there is
/// none.
pub fn find() -> Option<PathBuf> {
    let found = std::env::var_os("PLIANT_CHROMIUM").map(PathBuf::from).or_else(|| {
        let path = std::env::var_os("PATH")?;
        let names = ["chromium", "chromium-browser", "google-chrome"];
        std::env::split_paths(&path)
            .flat_map(|dir| names.map(|name| dir.join(name)))
            .find(|file| file.is_file())
    });
    if found.is_none() {
        skip(Needed::Program, "no chromium (install it, or name it in PLIANT_CHROMIUM)");
    }
    found
}
