//! The browser that looks at the HTML report in its tests: found, or installed, or said to be absent.

use crate::machine;
use crate::step::Step;

/// The names under which distributions install it.
const NAMES: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

/// Makes sure that there is a browser if this machine lets us, and says what will be tested.
pub(crate) fn prepare() {
    if machine::find_program(NAMES).is_none() && machine::can_install_packages() {
        install();
    }
    match machine::find_program(NAMES) {
        Some(program) => eprintln!("browser: {}", program.display()),
        None => eprintln!("skipped: browser tests (no chromium)"),
    }
}

/// A failure is told by its step, and does not end the test run: most tests need no browser.
fn install() {
    let apt = |arguments: &[&str]| {
        Step::new("apt-get", arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .env("APT_LISTCHANGES_FRONTEND", "none")
    };
    let lists = apt(&["-o", "DPkg::Lock::Timeout=120", "update"]);
    let package =
        apt(&["-o", "DPkg::Lock::Timeout=120", "install", "--yes", "--no-install-recommends", "chromium"]);
    if let Err(failure) = lists.run().and_then(|()| package.run()) {
        eprintln!("xtask: {failure}");
    }
}
