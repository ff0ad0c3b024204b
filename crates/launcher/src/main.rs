//! `pliant-launcher`: see the library of the same name.

use std::path::Path;
use std::process::ExitCode;

/// The configuration file. A distribution that keeps it elsewhere names the path when it builds the program; a caller cannot name one.
const CONFIG: &str = match option_env!("PLIANT_LAUNCHER_CONFIG") {
    Some(path) => path,
    None => "/etc/pliant/launcher.toml",
};

fn main() -> ExitCode {
    pliant_launcher::launch(Path::new(CONFIG))
}
