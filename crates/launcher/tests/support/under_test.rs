//! The launcher as it ships, except for the path of its configuration file.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    pliant_launcher::launch(Path::new("/var/lib/pliant-launcher-under-test/etc/launcher.toml"))
}
