//! Debian's packages: installed where this machine lets us.

use crate::machine;
use crate::step::Step;

/// Installs a package if this process may. The step reports a failure, which does not end the test run: most tests
/// do without.
pub(crate) fn install(package: &str) {
    if !machine::can_install_packages() {
        return;
    }
    let apt = |arguments: &[&str]| {
        Step::new("apt-get", arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .env("APT_LISTCHANGES_FRONTEND", "none")
            // Tests need the programs; services that come with them (Prometheus, PostgreSQL) are not started.
            .env("SYSTEMD_OFFLINE", "1")
    };
    let lists = apt(&["-o", "DPkg::Lock::Timeout=120", "update"]);
    let package =
        apt(&["-o", "DPkg::Lock::Timeout=120", "install", "--yes", "--no-install-recommends", package]);
    if let Err(failure) = lists.run().and_then(|()| package.run()) {
        eprintln!("xtask: {failure}");
    }
}
